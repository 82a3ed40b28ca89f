/* SPDX-License-Identifier: MIT */
/*
 * Values are numbered as they are made and never freed before the end; the stack and the memo hold
 * their numbers. Nothing here walks from value to value, so a value may well be inside itself,
 * however deep: what uses the pickle asks for a few values at known places.
 *
 *   values   16 bytes each: 5, 'a', dict ...           at most one for each byte of the pickle
 *   items    the tuples' values, one after another    at most one for each value pushed
 *   cells    key, value, next: a list for each dict    likewise
 *   stack    of values and marks                       likewise
 *   memo     number -> value                           numbers up to the pickle's length so far
 *
 * So whatever the pickle says, memory is at most some 50 times its length, which is bounded.
 *
 * The operations are those that Python's picklers write in protocol 2 for dicts of texts, numbers
 * and tensors: protocol 2 is the one that torch.save has always used. BUILD, which would set
 * attributes, is for the "_metadata" that PyTorch hangs on a state dict, and does nothing.
 */
#include "model/pickle.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define PROTOCOL 2
#define NO_VALUE UINT32_MAX /* in the memo */
#define MARK UINT32_MAX     /* on the stack */
#define LINE_MAX_BYTES 128  /* of a module's or a class's name */

enum {
    OP_MARK = '(',
    OP_EMPTY_TUPLE = ')',
    OP_STOP = '.',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINPERSID = 'Q',
    OP_REDUCE = 'R',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_BUILD = 'b',
    OP_GLOBAL = 'c',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_PROTO = 0x80,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a
};

/* In the order of kmf_pickled_name. */
static const struct name {
    const char *module;
    const char *name;
    const char *dtype; /* of a storage */
} names[] = {
    {"collections", "OrderedDict", NULL},
    {"torch._utils", "_rebuild_tensor_v2", NULL},
    {"torch._utils", "_rebuild_parameter", NULL},
    {"torch", "FloatStorage", "F32"},
    {"torch", "HalfStorage", "F16"},
    {"torch", "BFloat16Storage", "BF16"},
    {"torch", "DoubleStorage", "F64"},
    {"torch", "LongStorage", "I64"},
    {"torch", "IntStorage", "I32"},
    {"torch", "ShortStorage", "I16"},
    {"torch", "CharStorage", "I8"},
    {"torch", "ByteStorage", "U8"},
    {"torch", "BoolStorage", "BOOL"},
};
#define N_NAMES (sizeof names / sizeof names[0])

/* The machine. */
struct reader {
    kmf_pickle *pickle;
    const unsigned char *bytes;
    size_t beg;
    size_t end;
    size_t at;        /* of the next byte */
    size_t op;        /* of the operation's byte */
    bool cut;         /* end is the longest pickle's, not the file's */
    kmf_value *stack; /* owned [depth]; MARK among them */
    size_t depth;
    size_t cap_stack;
    kmf_value *memo; /* owned [n_memo]; NO_VALUE: not set */
    size_t n_memo;
    size_t cap_memo;
    const char *name;
    kmf_err *err;
};

static int wrong(const struct reader *r, const char *what)
{
    kmf_fail(r->err, KMF_EMODEL, "%s: byte %zu: damaged pickle: %s", r->name, r->op, what);
    return KMF_EMODEL;
}

/* ---- reading bytes ----------------------------------------------------------------------- */

/* The next n bytes, NULL after an error. */
static const unsigned char *take(struct reader *r, size_t n)
{
    const unsigned char *p = r->bytes + r->at;
    if (n <= r->end - r->at) {
        r->at += n;
        return p;
    }
    if (r->cut)
        kmf_fail(r->err, KMF_EMODEL, "%s: byte %zu: a pickle longer than %zu bytes", r->name,
                 r->beg, KMF_PICKLE_BYTES_MAX);
    else
        kmf_fail(r->err, KMF_EMODEL, "%s: cut off in the pickle that begins at byte %zu",
                 r->name, r->beg);
    return NULL;
}

/* A little-endian number of n <= 4 bytes. */
static int take_number(struct reader *r, uint32_t *number, size_t n)
{
    const unsigned char *p = take(r, n);
    if (!p)
        return KMF_EMODEL;
    *number = 0;
    for (size_t i = n; i-- > 0;)
        *number = *number << 8 | p[i];
    return 0;
}

/* A text that ends in a newline. */
static int take_line(struct reader *r, char line[LINE_MAX_BYTES])
{
    for (size_t n = 0; n < LINE_MAX_BYTES; n++) {
        const unsigned char *p = take(r, 1);
        if (!p)
            return KMF_EMODEL;
        line[n] = *p == '\n' ? '\0' : (char)*p;
        if (*p == '\n')
            return 0;
    }
    return wrong(r, "a name that is too long");
}

/* ---- values and the stack ---------------------------------------------------------------- */

static int push(struct reader *r, kmf_value value)
{
    if (kmf_grow(&r->stack, &r->cap_stack, r->depth + 1, sizeof *r->stack, r->err) < 0)
        return KMF_ENOMEM;
    r->stack[r->depth++] = value;
    return 0;
}

static int push_new(struct reader *r, kmf_pickled value)
{
    kmf_pickle *p = r->pickle;
    if (kmf_grow(&p->values, &p->cap_values, p->n_values + 1, sizeof *p->values, r->err) < 0)
        return KMF_ENOMEM;
    p->values[p->n_values] = value;
    return push(r, (kmf_value)p->n_values++);
}

static int push_kind(struct reader *r, kmf_pickled_kind kind, int64_t number)
{
    return push_new(r, (kmf_pickled){.kind = kind, .as.number = number});
}

static int pop(struct reader *r, kmf_value *value)
{
    if (r->depth == 0 || r->stack[r->depth - 1] == MARK)
        return wrong(r, "more is taken from its stack than is there");
    *value = r->stack[--r->depth];
    return 0;
}

/* The place of the topmost mark. */
static int find_mark(const struct reader *r, size_t *mark)
{
    for (size_t i = r->depth; i-- > 0;)
        if (r->stack[i] == MARK) {
            *mark = i;
            return 0;
        }
    return wrong(r, "no mark on its stack");
}

static int push_int(struct reader *r, size_t n)
{
    uint32_t bits = 0;
    if (take_number(r, &bits, n) < 0)
        return KMF_EMODEL;
    bool negative = n == 4 && bits >> 31; /* the shorter ones have no sign */
    return push_kind(r, KMF_PICKLED_INT, (int64_t)bits - (negative ? INT64_C(1) << 32 : 0));
}

static int push_long(struct reader *r)
{
    uint32_t n = 0;
    uint64_t bits = 0;
    if (take_number(r, &n, 1) < 0)
        return KMF_EMODEL;
    const unsigned char *p = take(r, n);
    if (!p)
        return KMF_EMODEL;
    if (n > sizeof bits)
        return push_new(
            r, (kmf_pickled){.kind = KMF_PICKLED_LONG, .n = n, .as.text = (const char *)p});
    for (size_t i = n; i-- > 0;)
        bits = bits << 8 | p[i];
    if (n > 0 && n < sizeof bits && p[n - 1] & 0x80)
        bits |= UINT64_MAX << 8 * n;
    int64_t number;
    memcpy(&number, &bits, sizeof number);
    return push_kind(r, KMF_PICKLED_INT, number);
}

static int push_text(struct reader *r)
{
    uint32_t n = 0;
    if (take_number(r, &n, 4) < 0)
        return KMF_EMODEL;
    const unsigned char *p = take(r, n);
    if (!p)
        return KMF_EMODEL;
    return push_new(
        r, (kmf_pickled){.kind = KMF_PICKLED_TEXT, .n = n, .as.text = (const char *)p});
}

static int push_float(struct reader *r)
{
    return take(r, 8) ? push_kind(r, KMF_PICKLED_FLOAT, 0) : KMF_EMODEL;
}

static int push_name(struct reader *r)
{
    char module[LINE_MAX_BYTES];
    char name[LINE_MAX_BYTES];
    char shown[2][KMF_ERR_SHOW];
    if (take_line(r, module) < 0 || take_line(r, name) < 0)
        return KMF_EMODEL;
    for (size_t i = 0; i < N_NAMES; i++)
        if (strcmp(module, names[i].module) == 0 && strcmp(name, names[i].name) == 0)
            return push_kind(r, KMF_PICKLED_NAME, (int64_t)i);
    return kmf_fail(r->err, KMF_EMODEL,
                    "%s: byte %zu: its pickle uses %s.%s; only plain tensors by name are read: "
                    "save the state_dict alone",
                    r->name, r->op, kmf_err_show(shown[0], module),
                    kmf_err_show(shown[1], name));
}

/* ---- the memo ---------------------------------------------------------------------------- */

/* Picklers count from 0, so no number is beyond the number of bytes read. */
static int put(struct reader *r, size_t n_bytes)
{
    uint32_t number = 0;
    if (take_number(r, &number, n_bytes) < 0)
        return KMF_EMODEL;
    if (r->depth == 0 || r->stack[r->depth - 1] == MARK)
        return wrong(r, "nothing on its stack to remember");
    if (number > r->at - r->beg)
        return wrong(r, "a number that its memo cannot have reached");
    if (kmf_grow(&r->memo, &r->cap_memo, (size_t)number + 1, sizeof *r->memo, r->err) < 0)
        return KMF_ENOMEM;
    while (r->n_memo <= number)
        r->memo[r->n_memo++] = NO_VALUE;
    r->memo[number] = r->stack[r->depth - 1];
    return 0;
}

static int get(struct reader *r, size_t n_bytes)
{
    uint32_t number = 0;
    if (take_number(r, &number, n_bytes) < 0)
        return KMF_EMODEL;
    if (number >= r->n_memo || r->memo[number] == NO_VALUE)
        return wrong(r, "a number that its memo does not have");
    return push(r, r->memo[number]);
}

/* ---- tuples, lists, dicts ---------------------------------------------------------------- */

/* A tuple of the topmost n values, which it replaces. */
static int make_tuple(struct reader *r, size_t n)
{
    kmf_pickle *p = r->pickle;
    kmf_pickled tuple = {.kind = KMF_PICKLED_TUPLE, .n = (uint32_t)n};
    if (n > r->depth)
        return wrong(r, "more is taken from its stack than is there");
    if (kmf_grow(&p->items, &p->cap_items, p->n_items + n, sizeof *p->items, r->err) < 0)
        return KMF_ENOMEM;
    tuple.as.list.first = (uint32_t)p->n_items;
    for (size_t i = 0; i < n; i++) {
        kmf_value item = r->stack[r->depth - n + i];
        if (item == MARK)
            return wrong(r, "a mark in a tuple");
        p->items[p->n_items++] = item;
    }
    r->depth -= n;
    return push_new(r, tuple);
}

static int make_marked_tuple(struct reader *r)
{
    size_t mark = 0;
    if (find_mark(r, &mark) < 0)
        return KMF_EMODEL;
    size_t n = r->depth - mark - 1;
    memmove(r->stack + mark, r->stack + mark + 1, n * sizeof *r->stack);
    r->depth--;
    return make_tuple(r, n);
}

static int add_cell(struct reader *r, kmf_pickled *list, kmf_value key, kmf_value value)
{
    kmf_pickle *p = r->pickle;
    if (kmf_grow(&p->cells, &p->cap_cells, p->n_cells + 1, sizeof *p->cells, r->err) < 0)
        return KMF_ENOMEM;
    uint32_t cell = (uint32_t)p->n_cells++;
    p->cells[cell] = (kmf_pickled_cell){.key = key, .value = value};
    if (list->n == 0)
        list->as.list.first = cell;
    else
        p->cells[list->as.list.last].next = cell;
    list->as.list.last = cell;
    list->n++;
    return 0;
}

/*
 * Moves the values from stack[first] on into the list or dict below stack[base], which is where
 * they, or the mark before them, begin.
 */
static int fill(struct reader *r, size_t base, size_t first, kmf_pickled_kind kind)
{
    size_t n = r->depth - first;
    size_t step = kind == KMF_PICKLED_DICT ? 2 : 1;
    if (base == 0 || r->stack[base - 1] == MARK)
        return wrong(r, "more is taken from its stack than is there");
    kmf_pickled *list = &r->pickle->values[r->stack[base - 1]];
    if (list->kind != kind || n % step != 0)
        return wrong(r, kind == KMF_PICKLED_DICT ? "pairs that go into no dict"
                                                 : "values that go into no list");
    for (size_t i = first; i < r->depth; i += step) {
        kmf_value value = r->stack[i + step - 1];
        if (r->stack[i] == MARK || value == MARK)
            return wrong(r, "a mark among values");
        if (add_cell(r, list, r->stack[i], value) < 0)
            return KMF_ENOMEM;
    }
    r->depth = base;
    return 0;
}

static int fill_top(struct reader *r, size_t n, kmf_pickled_kind kind)
{
    if (r->depth < n)
        return wrong(r, "more is taken from its stack than is there");
    return fill(r, r->depth - n, r->depth - n, kind);
}

static int fill_marked(struct reader *r, kmf_pickled_kind kind)
{
    size_t mark = 0;
    return find_mark(r, &mark) < 0 ? KMF_EMODEL : fill(r, mark, mark + 1, kind);
}

/* ---- what would be calls ----------------------------------------------------------------- */

static int reduce(struct reader *r)
{
    kmf_value arguments = 0;
    kmf_value callee = 0;
    if (pop(r, &arguments) < 0 || pop(r, &callee) < 0)
        return KMF_EMODEL;
    const kmf_pickled *tuple = kmf_pickle_get(r->pickle, arguments, KMF_PICKLED_TUPLE);
    const kmf_pickled *name = kmf_pickle_get(r->pickle, callee, KMF_PICKLED_NAME);
    if (!tuple || !name || name->as.number >= KMF_NAME_STORAGES)
        return wrong(r, "a call of what is no function");
    if (name->as.number == KMF_NAME_ORDERED_DICT && tuple->n == 0)
        return push_kind(r, KMF_PICKLED_DICT, 0);
    if (name->as.number == KMF_NAME_ORDERED_DICT)
        return wrong(r, "an OrderedDict made of something");
    kmf_pickled call = {.kind = KMF_PICKLED_CALL,
                        .as.call = {(uint32_t)name->as.number, arguments}};
    return push_new(r, call);
}

static int persistent(struct reader *r)
{
    kmf_value id = 0;
    if (pop(r, &id) < 0)
        return KMF_EMODEL;
    if (!kmf_pickle_get(r->pickle, id, KMF_PICKLED_TUPLE))
        return wrong(r, "a persistent id that is no tuple");
    return push_new(r, (kmf_pickled){.kind = KMF_PICKLED_PERSISTENT, .as.call.arguments = id});
}

static int build(struct reader *r)
{
    kmf_value state = 0;
    kmf_value object = 0;
    if (pop(r, &state) < 0 || pop(r, &object) < 0)
        return KMF_EMODEL;
    if (!kmf_pickle_get(r->pickle, object, KMF_PICKLED_DICT))
        return wrong(r, "attributes for what is no OrderedDict");
    return push(r, object);
}

/* ---- the machine ------------------------------------------------------------------------- */

static int unknown(const struct reader *r, unsigned op)
{
    char shown[16];
    snprintf(shown, sizeof shown, op > ' ' && op <= '~' ? "'%c'" : "0x%02x", op);
    return kmf_fail(r->err, KMF_EMODEL,
                    "%s: byte %zu: its pickle has the operation %s, which no state_dict of "
                    "PyTorch has",
                    r->name, r->op, shown);
}

static int step(struct reader *r, unsigned op)
{
    switch (op) {
    case OP_MARK:
        return push(r, MARK);
    case OP_NONE:
        return push_kind(r, KMF_PICKLED_NONE, 0);
    case OP_NEWTRUE:
        return push_kind(r, KMF_PICKLED_BOOL, 1);
    case OP_NEWFALSE:
        return push_kind(r, KMF_PICKLED_BOOL, 0);
    case OP_BININT:
        return push_int(r, 4);
    case OP_BININT1:
        return push_int(r, 1);
    case OP_BININT2:
        return push_int(r, 2);
    case OP_LONG1:
        return push_long(r);
    case OP_BINFLOAT:
        return push_float(r);
    case OP_BINUNICODE:
        return push_text(r);
    case OP_GLOBAL:
        return push_name(r);
    case OP_BINPUT:
        return put(r, 1);
    case OP_LONG_BINPUT:
        return put(r, 4);
    case OP_BINGET:
        return get(r, 1);
    case OP_LONG_BINGET:
        return get(r, 4);
    case OP_EMPTY_TUPLE:
        return make_tuple(r, 0);
    case OP_TUPLE1:
        return make_tuple(r, 1);
    case OP_TUPLE2:
        return make_tuple(r, 2);
    case OP_TUPLE3:
        return make_tuple(r, 3);
    case OP_TUPLE:
        return make_marked_tuple(r);
    case OP_EMPTY_LIST:
        return push_kind(r, KMF_PICKLED_LIST, 0);
    case OP_EMPTY_DICT:
        return push_kind(r, KMF_PICKLED_DICT, 0);
    case OP_APPEND:
        return fill_top(r, 1, KMF_PICKLED_LIST);
    case OP_APPENDS:
        return fill_marked(r, KMF_PICKLED_LIST);
    case OP_SETITEM:
        return fill_top(r, 2, KMF_PICKLED_DICT);
    case OP_SETITEMS:
        return fill_marked(r, KMF_PICKLED_DICT);
    case OP_REDUCE:
        return reduce(r);
    case OP_BINPERSID:
        return persistent(r);
    case OP_BUILD:
        return build(r);
    default:
        return unknown(r, op);
    }
}

static int read_protocol(struct reader *r)
{
    const unsigned char *p = take(r, 2);
    if (!p)
        return KMF_EMODEL;
    if (p[0] != OP_PROTO)
        return wrong(r, "it does not begin as one");
    if (p[1] != PROTOCOL)
        return kmf_fail(r->err, KMF_EMODEL,
                        "%s: byte %zu: a pickle of protocol %d; PyTorch's are of protocol %d",
                        r->name, r->op, p[1], PROTOCOL);
    return 0;
}

static int run(struct reader *r)
{
    uint32_t op = 0;
    int rc = read_protocol(r);
    while (rc == 0 && op != OP_STOP) {
        r->op = r->at;
        rc = take_number(r, &op, 1);
        if (rc == 0 && op != OP_STOP)
            rc = step(r, op);
    }
    if (rc < 0)
        return rc;
    if (r->depth != 1 || r->stack[0] == MARK)
        return wrong(r, "it does not end with one value");
    r->pickle->top = r->stack[0];
    r->pickle->end = r->at;
    return 0;
}

int kmf_pickle_read(kmf_pickle *pickle, const unsigned char *bytes, size_t beg, size_t end,
                    const char *name, kmf_err *err)
{
    bool cut = end - beg > KMF_PICKLE_BYTES_MAX;
    struct reader r = {.pickle = pickle,
                       .bytes = bytes,
                       .beg = beg,
                       .end = cut ? beg + KMF_PICKLE_BYTES_MAX : end,
                       .at = beg,
                       .op = beg,
                       .cut = cut,
                       .name = name,
                       .err = err};
    *pickle = (kmf_pickle){0};
    int rc = run(&r);
    kmf_free(r.stack);
    kmf_free(r.memo);
    if (rc < 0)
        kmf_pickle_free(pickle);
    return rc;
}

void kmf_pickle_free(kmf_pickle *pickle)
{
    kmf_free(pickle->values);
    kmf_free(pickle->items);
    kmf_free(pickle->cells);
    *pickle = (kmf_pickle){0};
}

/* ---- questions --------------------------------------------------------------------------- */

const kmf_pickled *kmf_pickle_get(const kmf_pickle *pickle, kmf_value value,
                                  kmf_pickled_kind kind)
{
    const kmf_pickled *v = &pickle->values[value];
    return v->kind == kind ? v : NULL;
}

kmf_value kmf_pickle_item(const kmf_pickle *pickle, const kmf_pickled *tuple, size_t i)
{
    return pickle->items[tuple->as.list.first + i];
}

bool kmf_pickle_is_text(const kmf_pickle *pickle, kmf_value value, const char *text)
{
    const kmf_pickled *v = kmf_pickle_get(pickle, value, KMF_PICKLED_TEXT);
    return v && v->n == strlen(text) && memcmp(v->as.text, text, v->n) == 0;
}

const kmf_pickled *kmf_pickle_find(const kmf_pickle *pickle, const kmf_pickled *dict,
                                   const char *key)
{
    const kmf_pickled *found = NULL;
    uint32_t at = dict->as.list.first;
    for (uint32_t i = 0; i < dict->n; i++) {
        const kmf_pickled_cell *cell = &pickle->cells[at];
        if (kmf_pickle_is_text(pickle, cell->key, key))
            found = &pickle->values[cell->value];
        at = cell->next;
    }
    return found;
}

const char *kmf_pickle_storage(const kmf_pickle *pickle, kmf_value value)
{
    const kmf_pickled *name = kmf_pickle_get(pickle, value, KMF_PICKLED_NAME);
    return name ? names[name->as.number].dtype : NULL;
}
