/* SPDX-License-Identifier: MIT */
/*
 * jansson already bounds integers to 64 bits, refuses invalid UTF-8 and NUL, and with
 * JSON_REJECT_DUPLICATES the ambiguity of a key given twice. What is added here: a nesting
 * limit far below its own of 2048, since parsing, comparing, printing and releasing all
 * recurse; and reals printed short. %.17g keeps every double but shows 1e-12 as
 * 9.9999999999999998e-13, so the text is made with 1, 2, .. 17 digits until it reads back
 * equal; numbers in our files have few digits, and the files are small.
 */
#include "base/json.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/point.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 64
#define MAX_CONTAINERS \
    200000 /* some 66,000 tensors; jansson takes 80 times the text for "{}," */
#define MAX_DIGITS 17

/*
 * Counts brackets outside strings before anything is allocated; text that is not JSON may be
 * counted as it likes.
 */
static int check_brackets(const char *text, size_t len, const char *where, kmf_err *err)
{
    size_t depth = 0;
    size_t containers = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '[')) {
            depth++;
            containers++;
        } else if (!quoted && (c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > MAX_DEPTH)
            return kmf_fail(err, KMF_EMODEL, "%s: JSON nested deeper than %d levels", where,
                            MAX_DEPTH);
        if (containers > MAX_CONTAINERS)
            return kmf_fail(err, KMF_EMODEL, "%s: JSON of more than %d objects and lists",
                            where, MAX_CONTAINERS);
    }
    return 0;
}

/* jansson leaves the error empty where it did not foresee that memory runs out. */
static bool out_of_memory(const json_error_t *error)
{
    return error->text[0] == '\0' || json_error_code(error) == json_error_out_of_memory;
}

json_t *kmf_json_parse(const char *text, size_t len, const char *where, kmf_err *err)
{
    if (check_brackets(text, len, where, err) < 0)
        return NULL;
    json_error_t error;
    locale_t before = kmf_point_begin();
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    kmf_point_end(before);
    if (!root) {
        char shown[KMF_ERR_SHOW];
        if (out_of_memory(&error))
            kmf_fail(err, KMF_ENOMEM, "%s: out of memory", where);
        else
            kmf_fail(err, KMF_EMODEL, "%s: line %d: not the JSON expected: %s", where,
                     error.line, kmf_err_show(shown, error.text));
        return NULL;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        kmf_fail(err, KMF_EMODEL, "%s: must be a JSON object", where);
        return NULL;
    }
    return root;
}

int kmf_json_check(const char *provenance, kmf_err *err)
{
    kmf_err why = {0};
    json_t *json =
        provenance ? kmf_json_parse(provenance, strlen(provenance), "provenance", &why) : NULL;
    bool good = json != NULL;
    json_decref(json);
    if (why.code == KMF_ENOMEM)
        return kmf_fail(err, KMF_ENOMEM, "%s", why.msg);
    return good ? 0
                : kmf_fail(err, KMF_EINVAL, "%s",
                           provenance ? why.msg : "provenance: there is none");
}

static char *dump(const json_t *json, size_t flags, kmf_err *err)
{
    size_t len = json_dumpb(json, NULL, 0, flags);
    char *text = kmf_malloc(len + 1, 1, err);
    if (!text)
        return NULL;
    if (len == 0 || json_dumpb(json, text, len, flags) != len) {
        kmf_free(text);
        kmf_fail(err, KMF_ENOMEM, "out of memory");
        return NULL;
    }
    text[len] = '\0';
    return text;
}

static char *short_text(const json_t *json, size_t flags, kmf_err *err)
{
    for (size_t digits = 1; digits < MAX_DIGITS; digits++) {
        char *text = dump(json, flags | JSON_REAL_PRECISION(digits), err);
        if (!text)
            return NULL;
        json_error_t error;
        json_t *again = json_loads(text, JSON_DECODE_ANY, &error);
        bool same = again && json_equal(json, again);
        bool starved = !again && out_of_memory(&error);
        json_decref(again);
        if (same)
            return text;
        kmf_free(text);
        if (starved) {
            kmf_fail(err, KMF_ENOMEM, "out of memory");
            return NULL;
        }
    }
    return dump(json, flags | JSON_REAL_PRECISION(MAX_DIGITS), err);
}

/* jansson knows of points other than ".", but of one byte alone. */
char *kmf_json_text(const json_t *json, size_t flags, kmf_err *err)
{
    locale_t before = kmf_point_begin();
    char *text = short_text(json, flags, err);
    kmf_point_end(before);
    return text;
}

json_t *kmf_json_of_text(const char *text)
{
    json_t *json = json_string(text);
    if (json)
        return json;
    char *copy = kmf_strdup(text, NULL);
    for (char *p = copy; p && *p; p++)
        if ((unsigned char)*p > 126)
            *p = '?';
    json = copy ? json_string(copy) : NULL;
    kmf_free(copy);
    return json;
}

char *kmf_json_fit(const char *text, kmf_err *err)
{
    json_t *json = kmf_json_of_text(text);
    char *fit = json ? kmf_strdup(json_string_value(json), err) : NULL;
    if (!fit)
        kmf_fail(err, KMF_ENOMEM, "out of memory");
    json_decref(json);
    return fit;
}

/* What is at key; NULL if absent or null. */
static const json_t *value_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

int kmf_json_int(int64_t *out, const json_t *object, const char *key, int64_t min, int64_t max,
                 const char *where, kmf_err *err)
{
    const json_t *value = value_of(object, key);
    if (!value)
        return 0;
    if (!json_is_integer(value))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: %s: must be a whole number from %" PRId64 " to %" PRId64, where,
                        key, min, max);
    int64_t number = json_integer_value(value);
    if (number < min || number > max)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: %s: must be from %" PRId64 " to %" PRId64 ", got %" PRId64, where,
                        key, min, max, number);
    *out = number;
    return 1;
}

int kmf_json_count(uint64_t *out, const json_t *object, const char *key, uint64_t max,
                   const char *where, kmf_err *err)
{
    int64_t number = 0;
    int got = kmf_json_int(&number, object, key, 0, (int64_t)max, where, err);
    if (got == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: %s is missing", where, key);
    if (got < 0)
        return got;
    *out = (uint64_t)number;
    return 0;
}

int kmf_json_size(size_t *out, const json_t *object, const char *key, size_t min, size_t max,
                  const char *where, kmf_err *err)
{
    int64_t number = 0;
    int rc = kmf_json_int(&number, object, key, (int64_t)min, (int64_t)max, where, err);
    if (rc == 1)
        *out = (size_t)number;
    return rc;
}

int kmf_json_double(double *out, const json_t *object, const char *key, double min, double max,
                    const char *where, kmf_err *err)
{
    const json_t *value = value_of(object, key);
    if (!value)
        return 0;
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number > min && number <= max))
        return kmf_fail(err, KMF_EMODEL, "%s: %s: must be a number above %g, at most %g", where,
                        key, min, max);
    *out = number;
    return 1;
}

int kmf_json_bool(int *out, const json_t *object, const char *key, const char *where,
                  kmf_err *err)
{
    const json_t *value = value_of(object, key);
    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return kmf_fail(err, KMF_EMODEL, "%s: %s: must be true or false", where, key);
    *out = json_is_true(value);
    return 1;
}

int kmf_json_choice(int *out, const json_t *object, const char *key, const char *const *words,
                    const char *where, kmf_err *err)
{
    const json_t *value = value_of(object, key);
    if (!value)
        return 0;
    const char *word = json_string_value(value);
    for (size_t i = 0; word && words[i]; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (int)i;
            return 1;
        }
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; words[i] && used < sizeof list; i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, KMF_EMODEL, "%s: %s: must be one of %s, got %s", where, key, list,
                    word ? kmf_err_show(shown, word) : "something that is not a text");
}

char *kmf_json_string(const char *text, kmf_err *err)
{
    json_t *json = kmf_json_of_text(text);
    if (!json) {
        kmf_fail(err, KMF_ENOMEM, "out of memory");
        return NULL;
    }
    char *string = kmf_json_text(json, JSON_ENCODE_ANY, err);
    json_decref(json);
    return string;
}

int kmf_json_give(json_t *json, char **text, kmf_err *err)
{
    if (!json)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: no JSON could be made");
    *text = kmf_json_text(json, JSON_COMPACT, err);
    json_decref(json);
    return *text ? 0 : KMF_ENOMEM;
}

json_t *kmf_json_with(json_t *json, const char *key, json_t *value)
{
    if (json_object_set_new(json, key, value) == 0)
        return json;
    json_decref(json);
    return NULL;
}

char *kmf_json_pairs(const char *const *pairs, size_t n, kmf_err *err)
{
    json_t *json = json_object();
    char *text = NULL;
    for (size_t i = 0; json && i < n; i++) {
        json_t *key = kmf_json_of_text(pairs[2 * i]);
        json = kmf_json_with(json, json_string_value(key), kmf_json_of_text(pairs[2 * i + 1]));
        json_decref(key);
    }
    if (json)
        text = kmf_json_text(json, JSON_COMPACT, err);
    else
        kmf_fail(err, KMF_ENOMEM, "out of memory: no provenance could be made");
    json_decref(json);
    return text;
}

/* The list `key` of an object, made if need be: around what else is there. NULL: no memory. */
static json_t *list_in(json_t *json, const char *key)
{
    json_t *there = json_object_get(json, key);
    if (json_is_array(there))
        return there;
    json_t *list = json_array();
    if (there && json_array_append(list, there) < 0) {
        json_decref(list);
        return NULL;
    }
    return json_object_set_new(json, key, list) < 0 ? NULL : list;
}

char *kmf_json_append(const char *text, const char *key, const char *object, kmf_err *err)
{
    char *whole = NULL;
    json_t *json =
        kmf_json_parse(text[0] ? text : "{}", text[0] ? strlen(text) : 2, "provenance", err);
    if (!json)
        return NULL;
    json_t *item = kmf_json_parse(object, strlen(object), key, err);
    json_t *list = item ? list_in(json, key) : NULL;
    if (list && json_array_append(list, item) == 0)
        whole = kmf_json_text(json, JSON_COMPACT, err);
    else if (item)
        kmf_fail(err, KMF_ENOMEM, "out of memory: no provenance could be made");
    json_decref(item);
    json_decref(json);
    return whole;
}

char *kmf_json_before(const char *text, const char *before, kmf_err *err)
{
    char *whole = NULL;
    json_t *json = kmf_json_parse(text, strlen(text), "provenance", err);
    json_t *last = json ? kmf_json_parse(before, strlen(before), "before", err) : NULL;
    json_t *line = last ? list_in(last, "before") : NULL;
    if (line && json_object_set(json, "before", line) == 0 &&
        json_object_del(last, "before") == 0 && json_array_append(line, last) == 0)
        whole = kmf_json_text(json, JSON_COMPACT, err);
    else if (last)
        kmf_fail(err, KMF_ENOMEM, "out of memory: no provenance could be made");
    json_decref(last);
    json_decref(json);
    return whole;
}
