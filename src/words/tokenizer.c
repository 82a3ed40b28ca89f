/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json, the file of Hugging Face's tokenizers, as far as models of DNA use it:
 *
 *   added_tokens     special tokens; written out in a text they stand for themselves
 *   normalizer       null, or Strip (white space at the ends) and Replace of N{10,} by "-"
 *   pre_tokenizer    null, or Whitespace, that is \w+|[^\w\s]+, and Split at one letter, isolated
 *   model            BPE: vocab, merges as "left right" or [left, right], unk_token; its extras off
 *   post_processor   null, or [CLS] $A [SEP] as TemplateProcessing or BertProcessing
 *
 * each of the first two stages also as a Sequence of its parts. truncation, padding and decoder
 * change no id of a sequence and are not looked at. Anything else is refused by its name, since
 * a tokenizer that is nearly right gives vectors that are entirely wrong.
 *
 * Every id from 0 on has one token, and a merge's result is a token of the vocabulary, so ids
 * and lengths need no check later.
 */
#include "words/vocab.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <string.h>

#define BYTES_MAX ((size_t)1 << 28)
#define TOKENS_MAX ((size_t)1 << 25)

typedef struct reading {
    kmf_vocab *v;     /* borrowed */
    const char *name; /* borrowed */
    json_t *added;    /* borrowed from the file: added_tokens, or NULL */
    json_t *vocab;    /* borrowed: model.vocab */
    size_t longest;   /* bytes of the longest token */
    kmf_err *err;
} reading;

/* ---- what is understood -------------------------------------------------------------------- */

static int refuse(const reading *r, const char *part, const char *why)
{
    return kmf_fail(r->err, KMF_EMODEL, "%s: %s: %s", r->name, part, why);
}

static int refuse_word(const reading *r, const char *part, const char *word, const char *why)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(r->err, KMF_EMODEL, "%s: %s: '%s' %s", r->name, part,
                    kmf_err_show(shown, word), why);
}

/* Is it an object that has none but these keys? The list ends with NULL. */
static int check_keys(const reading *r, json_t *json, const char *part, const char *const *keys)
{
    if (!json_is_object(json))
        return refuse(r, part, "must be an object");
    for (void *it = json_object_iter(json); it; it = json_object_iter_next(json, it)) {
        const char *key = json_object_iter_key(it);
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return refuse_word(r, part, key, "is not known here");
    }
    return 0;
}

static bool absent(const json_t *json)
{
    return !json || json_is_null(json);
}

/* null, false, "" or 0. */
static bool is_off(const json_t *json)
{
    return absent(json) || json_is_false(json) ||
           (json_is_string(json) && json_string_length(json) == 0) ||
           (json_is_number(json) && !(json_number_value(json) != 0));
}

static bool is_word(const json_t *json, const char *word)
{
    return json_is_string(json) && strcmp(json_string_value(json), word) == 0;
}

/* Those of `keys`, up to NULL, must be off. */
static int check_off(const reading *r, json_t *object, const char *part,
                     const char *const *keys)
{
    for (; *keys; keys++)
        if (!is_off(json_object_get(object, *keys)))
            return refuse_word(r, part, *keys, "is on, which is not supported");
    return 0;
}

static int unknown_type(const reading *r, json_t *json, const char *part)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type)
        return refuse(r, part, "has no type");
    return refuse_word(r, part, type, "is not a type that is supported");
}

/* The id of a token that the vocabulary or the added tokens have, or -1. */
static int32_t id_of(const reading *r, const char *token)
{
    for (size_t id = 0; id < r->v->size; id++)
        if (strcmp(kmf_token_text(r->v, id), token) == 0)
            return (int32_t)id;
    return -1;
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* seen: those before it, by their texts. */
static int check_added(const reading *r, json_t *token, json_t *seen)
{
    static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                       "rstrip", "normalized", "special",     NULL};
    static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized", NULL};
    const char *content = json_string_value(json_object_get(token, "content"));
    int rc = check_keys(r, token, "added_tokens", keys);
    if (rc == 0 && !content)
        rc = refuse(r, "added_tokens", "content must be a text");
    if (rc == 0)
        rc = check_off(r, token, "added_tokens", off);
    if (rc < 0)
        return rc;
    json_t *known = json_object_get(r->vocab, content);
    if (known && !json_equal(known, json_object_get(token, "id")))
        return refuse_word(r, "added_tokens", content, "has another id in the vocabulary");
    if (json_object_get(seen, content))
        return refuse_word(r, "added_tokens", content, "is listed twice");
    return json_object_set(seen, content, token) == 0
               ? 0
               : kmf_fail(r->err, KMF_ENOMEM, "out of memory: %s", r->name);
}

static int check_all_added(const reading *r)
{
    json_t *seen = json_object();
    json_t *token;
    size_t i;
    int rc = seen ? 0 : kmf_fail(r->err, KMF_ENOMEM, "out of memory: %s", r->name);
    json_array_foreach(r->added, i, token) {
        if (rc == 0)
            rc = check_added(r, token, seen);
    }
    json_decref(seen);
    return rc;
}

/* The token that is called text gets its id; *used bytes of v->tokens are taken. */
static int place(const reading *r, const char *text, const json_t *id, size_t *used)
{
    kmf_vocab *v = r->v;
    size_t n = strlen(text);
    if (n == 0)
        return refuse(r, "vocab", "a token without a letter");
    if (!json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= (json_int_t)v->size)
        return kmf_fail(r->err, KMF_EMODEL,
                        "%s: vocab: %zu tokens must have the ids from 0 to %zu", r->name,
                        v->size, v->size - 1);
    size_t i = (size_t)json_integer_value(id);
    if (v->off[i] != SIZE_MAX)
        return kmf_fail(r->err, KMF_EMODEL, "%s: vocab: two tokens have the id %zu", r->name,
                        i);
    memcpy(v->tokens + *used, text, n + 1);
    v->off[i] = *used;
    *used += n + 1;
    return 0;
}

/* How many tokens there are, and their bytes with a NUL each. */
static size_t measure(reading *r, size_t *bytes)
{
    size_t n = 0;
    size_t sum = 0;
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(r->vocab, key, value) {
        size_t len = strlen(key);
        r->longest = kmf_max(r->longest, len);
        sum += len + 1;
        n++;
    }
    json_array_foreach(r->added, i, value) {
        const char *content = json_string_value(json_object_get(value, "content"));
        if (!json_object_get(r->vocab, content)) {
            sum += strlen(content) + 1;
            n++;
        }
    }
    *bytes = sum;
    return n;
}

static int read_tokens(reading *r)
{
    kmf_vocab *v = r->v;
    size_t bytes;
    size_t used = 0;
    const char *key;
    json_t *value;
    size_t i;
    if (!json_is_object(r->vocab))
        return refuse(r, "model: vocab", "must be an object");
    int rc = check_all_added(r);
    if (rc < 0)
        return rc;
    v->size = measure(r, &bytes);
    if (v->size > TOKENS_MAX)
        return refuse(r, "vocab", "more than 2^25 tokens");
    v->tokens = kmf_malloc(bytes, 1, r->err);
    v->off = kmf_malloc(v->size, sizeof *v->off, r->err);
    v->written = kmf_malloc(json_array_size(r->added), sizeof *v->written, r->err);
    if (!v->tokens || !v->off || !v->written)
        return KMF_ENOMEM;
    memset(v->off, 0xff, v->size * sizeof *v->off);
    json_object_foreach(r->vocab, key, value) {
        unsigned char letter = (unsigned char)key[0];
        rc = place(r, key, value, &used);
        if (rc < 0)
            return rc;
        if (key[1] == '\0' && letter < 0x80)
            v->letter[letter] = (int32_t)json_integer_value(value);
    }
    json_array_foreach(r->added, i, value) {
        json_t *id = json_object_get(value, "id");
        const char *content = json_string_value(json_object_get(value, "content"));
        if (!json_object_get(r->vocab, content)) {
            rc = place(r, content, id, &used);
            if (rc < 0)
                return rc;
        }
        v->written[v->n_written++] = (int32_t)json_integer_value(id);
    }
    return 0;
}

/* ---- merges -------------------------------------------------------------------------------- */

/* "left right" or ["left", "right"] as left followed by right in `text`, *n letters of left. */
static bool split_pair(char *text, size_t *n, size_t room, const json_t *merge)
{
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    if (json_is_string(merge)) {
        left = json_string_value(merge);
        right = strchr(left, ' ');
        if (!right || strchr(right + 1, ' '))
            return false;
        *n = (size_t)(right++ - left);
    } else if (left && right && json_array_size(merge) == 2) {
        *n = strlen(left);
    } else {
        return false;
    }
    size_t right_n = strlen(right);
    if (*n >= room || right_n >= room - *n)
        return false;
    memcpy(text, left, *n);
    memcpy(text + *n, right, right_n + 1);
    return true;
}

static int bad_merge(const reading *r, size_t rank, const char *why)
{
    return kmf_fail(r->err, KMF_EMODEL, "%s: model: merge %zu %s", r->name, rank + 1, why);
}

static int32_t in_vocab(const reading *r, const char *token)
{
    json_t *id = json_object_get(r->vocab, token);
    return id ? (int32_t)json_integer_value(id) : -1;
}

/* text has room for the longest token and a NUL twice over. */
static int add_merge(const reading *r, size_t rank, json_t *json, char *text)
{
    size_t n;
    size_t room = r->longest + 1;
    if (!split_pair(text, &n, room, json))
        return bad_merge(r, rank, "is not two tokens whose letters make a third");
    char *left = text + room;
    memcpy(left, text, n);
    left[n] = '\0';
    kmf_pair pair = {
        .left = in_vocab(r, left), .right = in_vocab(r, text + n), .result = in_vocab(r, text)};
    if (pair.left < 0 || pair.right < 0 || pair.result < 0)
        return bad_merge(r, rank, "has a part or a result that is not in the vocabulary");
    if (!kmf_pairs_add(r->v->pairs, &pair))
        return bad_merge(r, rank, "is listed twice");
    return 0;
}

static int read_merges(const reading *r, json_t *merges)
{
    kmf_vocab *v = r->v;
    size_t n = json_array_size(merges);
    int rc = 0;
    if (!json_is_array(merges))
        return refuse(r, "model: merges", "must be a list");
    v->pairs = kmf_pairs_new(n, v->size, r->err);
    char *text = kmf_malloc(2, r->longest + 1, r->err);
    if (!v->pairs || !text)
        rc = KMF_ENOMEM;
    for (size_t id = 0; id < v->size && rc == 0; id++)
        v->pairs->letters[id] = (uint32_t)strlen(kmf_token_text(v, id));
    for (size_t rank = 0; rank < n && rc == 0; rank++)
        rc = add_merge(r, rank, json_array_get(merges, rank), text);
    kmf_free(text);
    return rc;
}

static int read_model(reading *r, json_t *model)
{
    static const char *const keys[] = {"type",
                                       "dropout",
                                       "unk_token",
                                       "continuing_subword_prefix",
                                       "end_of_word_suffix",
                                       "fuse_unk",
                                       "byte_fallback",
                                       "ignore_merges",
                                       "vocab",
                                       "merges",
                                       NULL};
    static const char *const off[] = {"dropout",
                                      "continuing_subword_prefix",
                                      "end_of_word_suffix",
                                      "fuse_unk",
                                      "byte_fallback",
                                      "ignore_merges",
                                      NULL};
    if (!is_word(json_object_get(model, "type"), "BPE"))
        return unknown_type(r, model, "model");
    int rc = check_keys(r, model, "model", keys);
    if (rc == 0)
        rc = check_off(r, model, "model", off);
    if (rc < 0)
        return rc;
    const char *unk = json_string_value(json_object_get(model, "unk_token"));
    r->vocab = json_object_get(model, "vocab");
    if (!unk || !json_object_get(r->vocab, unk))
        return refuse(r, "model", "unk_token must be a token of the vocabulary");
    rc = read_tokens(r);
    if (rc < 0)
        return rc;
    r->v->special[KMF_UNK] = in_vocab(r, unk);
    return read_merges(r, json_object_get(model, "merges"));
}

/* ---- stages before and after --------------------------------------------------------------- */

typedef int read_stage(reading *r, json_t *stage);

/* Each stage of a Sequence, which holds them under `key`. */
static int read_sequence(reading *r, json_t *json, const char *part, const char *key,
                         read_stage *read)
{
    const char *const keys[] = {"type", key, NULL};
    json_t *stages = json_object_get(json, key);
    int rc = check_keys(r, json, part, keys);
    if (rc == 0 && !json_is_array(stages))
        rc = refuse_word(r, part, key, "must be a list");
    for (size_t i = 0; i < json_array_size(stages) && rc == 0; i++)
        rc = read(r, json_array_get(stages, i));
    return rc;
}

static int read_strip(reading *r, json_t *json)
{
    static const char *const keys[] = {"type", "strip_left", "strip_right", NULL};
    json_t *left = json_object_get(json, "strip_left");
    json_t *right = json_object_get(json, "strip_right");
    int rc = check_keys(r, json, "normalizer: Strip", keys);
    if (rc < 0)
        return rc;
    if (!json_is_boolean(left) || !json_is_boolean(right))
        return refuse(r, "normalizer: Strip", "strip_left and strip_right are true or false");
    r->v->strip_left |= json_is_true(left);
    r->v->strip_right |= json_is_true(right);
    return 0;
}

static int read_replace(reading *r, json_t *json)
{
    static const char *const keys[] = {"type", "pattern", "content", NULL};
    static const char *const regex[] = {"Regex", NULL};
    json_t *pattern = json_object_get(json, "pattern");
    int rc = check_keys(r, json, "normalizer: Replace", keys);
    if (rc == 0)
        rc = check_keys(r, pattern, "normalizer: Replace: pattern", regex);
    if (rc < 0)
        return rc;
    if (!is_word(json_object_get(pattern, "Regex"), "N{10,}") ||
        !is_word(json_object_get(json, "content"), "-"))
        return refuse(r, "normalizer: Replace", "only N{10,} by - is supported");
    r->v->gaps = true;
    return 0;
}

static int read_normalizer(reading *r, json_t *json)
{
    json_t *type = json_object_get(json, "type");
    if (is_word(type, "Sequence"))
        return read_sequence(r, json, "normalizer", "normalizers", read_normalizer);
    if (is_word(type, "Strip"))
        return read_strip(r, json);
    if (is_word(type, "Replace"))
        return read_replace(r, json);
    return unknown_type(r, json, "normalizer");
}

static int read_whitespace(reading *r, json_t *json)
{
    static const char *const keys[] = {"type", NULL};
    uint8_t *class_of = r->v->class_of;
    for (int c = 0; c < 256; c++) {
        bool letter = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c >= 0x80;
        bool word = letter || (c >= '0' && c <= '9') || c == '_';
        if (kmf_is_space((unsigned char)c))
            class_of[c] = KMF_LETTER_DROPPED;
        else if (class_of[c] != KMF_LETTER_ALONE)
            class_of[c] = word ? KMF_LETTER_WORD : KMF_LETTER_OTHER;
    }
    return check_keys(r, json, "pre_tokenizer: Whitespace", keys);
}

static int read_split(reading *r, json_t *json)
{
    static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
    static const char *const string[] = {"String", NULL};
    const char *part = "pre_tokenizer: Split";
    json_t *pattern = json_object_get(json, "pattern");
    int rc = check_keys(r, json, part, keys);
    if (rc == 0)
        rc = check_keys(r, pattern, "pre_tokenizer: Split: pattern", string);
    if (rc < 0)
        return rc;
    const char *at = json_string_value(json_object_get(pattern, "String"));
    if (!at || strlen(at) != 1 || !is_word(json_object_get(json, "behavior"), "Isolated") ||
        !is_off(json_object_get(json, "invert")))
        return refuse(r, part, "only at one letter, Isolated, not inverted, is supported");
    uint8_t *class = &r->v->class_of[(unsigned char)*at];
    if (*class != KMF_LETTER_DROPPED)
        *class = KMF_LETTER_ALONE;
    return 0;
}

static int read_pre_tokenizer(reading *r, json_t *json)
{
    json_t *type = json_object_get(json, "type");
    if (is_word(type, "Sequence"))
        return read_sequence(r, json, "pre_tokenizer", "pretokenizers", read_pre_tokenizer);
    if (is_word(type, "Whitespace"))
        return read_whitespace(r, json);
    if (is_word(type, "Split"))
        return read_split(r, json);
    return unknown_type(r, json, "pre_tokenizer");
}

/* One end of the frame: the token that is called `name`, with the id given for it. */
static int read_end(reading *r, kmf_special special, const char *name, const json_t *id)
{
    int32_t known = name ? id_of(r, name) : -1;
    if (known < 0 || !json_is_integer(id) || json_integer_value(id) != known)
        return refuse(r, "post_processor", "a token or id that the vocabulary has not");
    r->v->special[special] = known;
    return 0;
}

/* ["[CLS]", 1] */
static int read_bert_end(reading *r, kmf_special special, json_t *end)
{
    return read_end(r, special, json_string_value(json_array_get(end, 0)),
                    json_array_size(end) == 2 ? json_array_get(end, 1) : NULL);
}

static int read_bert(reading *r, json_t *json)
{
    static const char *const keys[] = {"type", "sep", "cls", NULL};
    int rc = check_keys(r, json, "post_processor", keys);
    if (rc == 0)
        rc = read_bert_end(r, KMF_CLS, json_object_get(json, "cls"));
    if (rc == 0)
        rc = read_bert_end(r, KMF_SEP, json_object_get(json, "sep"));
    return rc;
}

/* The id in {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, or NULL; so for Sequence. */
static const char *piece_of(json_t *piece, const char *kind)
{
    json_t *inner = json_object_get(piece, kind);
    json_t *type_id = json_object_get(inner, "type_id");
    if (json_object_size(piece) != 1 || json_object_size(inner) != 2 ||
        !json_is_integer(type_id) || json_integer_value(type_id) != 0)
        return NULL;
    return json_string_value(json_object_get(inner, "id"));
}

/* {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}} */
static int read_template_end(reading *r, kmf_special special, json_t *json, const char *name)
{
    json_t *meant = json_object_get(json_object_get(json, "special_tokens"), name);
    json_t *ids = json_object_get(meant, "ids");
    return read_end(r, special, name,
                    json_array_size(ids) == 1 ? json_array_get(ids, 0) : NULL);
}

static int read_template(reading *r, json_t *json)
{
    static const char *const keys[] = {"type", "single", "pair", "special_tokens", NULL};
    json_t *single = json_object_get(json, "single");
    const char *cls = piece_of(json_array_get(single, 0), "SpecialToken");
    const char *text = piece_of(json_array_get(single, 1), "Sequence");
    const char *sep = piece_of(json_array_get(single, 2), "SpecialToken");
    int rc = check_keys(r, json, "post_processor", keys);
    if (rc < 0)
        return rc;
    if (json_array_size(single) != 3 || !cls || !sep || !text || strcmp(text, "A") != 0)
        return refuse(r, "post_processor", "only [CLS] $A [SEP], of type 0, is supported");
    rc = read_template_end(r, KMF_CLS, json, cls);
    return rc < 0 ? rc : read_template_end(r, KMF_SEP, json, sep);
}

static int read_post_processor(reading *r, json_t *json)
{
    json_t *type = json_object_get(json, "type");
    r->v->frame = 2;
    if (is_word(type, "TemplateProcessing"))
        return read_template(r, json);
    if (is_word(type, "BertProcessing"))
        return read_bert(r, json);
    return unknown_type(r, json, "post_processor");
}

/* ---- the file ------------------------------------------------------------------------------ */

static int read_file(reading *r, json_t *root)
{
    static const char *const keys[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    json_t *version = json_object_get(root, "version");
    json_t *normalizer = json_object_get(root, "normalizer");
    json_t *pre_tokenizer = json_object_get(root, "pre_tokenizer");
    json_t *post_processor = json_object_get(root, "post_processor");
    kmf_vocab *v = r->v;
    int rc = check_keys(r, root, "the file", keys);
    if (rc == 0 && !is_word(version, "1.0"))
        rc = refuse(r, "version", "must be 1.0");
    r->added = json_object_get(root, "added_tokens");
    if (rc == 0 && !absent(r->added) && !json_is_array(r->added))
        rc = refuse(r, "added_tokens", "must be a list");
    if (rc == 0)
        rc = read_model(r, json_object_get(root, "model"));
    if (rc == 0 && !absent(normalizer))
        rc = read_normalizer(r, normalizer);
    if (rc == 0 && !absent(pre_tokenizer))
        rc = read_pre_tokenizer(r, pre_tokenizer);
    if (rc == 0 && v->gaps && v->class_of[KMF_GAP_TOKEN] != KMF_LETTER_ALONE)
        rc = refuse(r, "normalizer: Replace", "only if the pre_tokenizer splits at its -");
    v->special[KMF_PAD] = rc == 0 ? id_of(r, "[PAD]") : -1;
    v->special[KMF_MASK] = rc == 0 ? id_of(r, "[MASK]") : -1;
    if (rc == 0 && !absent(post_processor))
        rc = read_post_processor(r, post_processor);
    return rc;
}

int kmf_tokenizer_read(kmf_vocab *vocab, const char *name, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    reading r = {.v = vocab, .name = name, .err = err};
    if (vocab->len > BYTES_MAX)
        return kmf_fail(err, KMF_EMODEL, "%s: more than %zu bytes", name, BYTES_MAX);
    json_t *root = kmf_json_parse(vocab->text, vocab->len, name, err);
    if (!root)
        return (int)err->code;
    vocab->kind = KMF_VOCAB_BPE;
    memset(vocab->class_of, KMF_LETTER_WORD, sizeof vocab->class_of);
    int rc = read_file(&r, root);
    json_decref(root);
    return rc < 0 ? rc : kmf_vocab_finish(vocab, err);
}
