/* SPDX-License-Identifier: MIT */
/*
 * Runs of an encoder that end after some checkpoint, and go on: the files against those of a run
 * that was never stopped. Processes that are killed are in tests/cli/embed_resume.reg.
 */
#include "base/rng.h"
#include "kmerformer.h"
#include "models.h"
#include "run.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS 40
#define NAME_CAP 512

/* A run as it is asked for: the same again makes the same files. */
typedef struct scene {
    const char *name; /* of the output */
    const char *model;
    int f16, pooling, strand;
    uint64_t shard, n_shards;
    size_t n_records; /* that are given */
    size_t other;     /* of these, one of other letters; RECORDS: none */
    const kmf_row_format *format;
} scene;

/* Rows that are text: a record's first number, or that it has none. */
static size_t put_first(const void *user, void *scratch_here, char *to, const float *vector,
                        size_t dim)
{
    const char *before = user;
    (void)scratch_here;
    (void)dim;
    return (size_t)sprintf(to, "\t%s%.9g\n", before, (double)vector[0]);
}

static const kmf_row_format first_numbers = {.put = put_first,
                                             .user = "first ",
                                             .room = 64,
                                             .header = "#name\tnumber\n",
                                             .name = "first number"};

static scene usual(const char *name)
{
    return (scene){.name = name,
                   .model = GOLDEN,
                   .pooling = KMF_POOL_MEAN,
                   .strand = KMF_STRAND_FWD,
                   .n_shards = 1,
                   .n_records = RECORDS,
                   .other = RECORDS};
}

static kmf_embedder *embedder_of(const scene *s)
{
    kmf_embed_options o;
    kmf_embed_options_default(&o);
    o.threads = 2;
    o.batch_tokens = 64;
    o.pooling = strcmp(s->model, "tnf") == 0 ? -1 : s->pooling;
    o.strand = s->strand;
    o.shard = s->shard;
    o.n_shards = s->n_shards;
    kmf_embedder *e = kmf_embedder_new(s->model, &o, NULL);
    ck_assert_ptr_nonnull(e);
    return e;
}

static kmf_output_form form_of(const scene *s, const kmf_embedder *e)
{
    return (kmf_output_form){.dim = kmf_embedder_dim(e),
                             .f16 = s->f16,
                             .per_token = s->pooling == KMF_POOL_NONE,
                             .format = s->format};
}

static kmf_output *output_of(const scene *s, const kmf_embedder *e)
{
    kmf_row_format own = s->format ? *s->format : (kmf_row_format){0};
    kmf_output_form form = form_of(s, e);
    if (form.format)
        form.format = &own;
    kmf_output *o = kmf_output_new(in_dir(s->name), &form, NULL);
    ck_assert_ptr_nonnull(o);
    memset(&own, 0, sizeof own); /* it was copied */
    return o;
}

/* Many short ones, some without a k-mer, a long one in the middle. */
static int give_records(const scene *s, kmf_embedder *e, kmf_err *err)
{
    static char seq[900];
    char name[32];
    kmf_rng rng = kmf_rng_stream(29, 0);
    int status = 0;
    for (size_t i = 0; i < s->n_records && status == 0; i++) {
        size_t len = i == RECORDS / 2 ? sizeof seq : kmf_rng_below(&rng, 120);
        for (size_t j = 0; j < len; j++)
            seq[j] = "ACGTN"[kmf_rng_below(&rng, i % 7 == 0 ? 5 : 4)];
        if (i == s->other && len > 0)
            seq[len / 2] = seq[len / 2] == 'A' ? 'C' : 'A';
        snprintf(name, sizeof name, "r%zu", i);
        status = kmf_embedder_add(e, name, seq, len, err);
    }
    return status == 0 ? kmf_embedder_finish(e, err) : status;
}

static const char *const inputs[] = {"r.fa"};

/* Writes a checkpoint when it is told of progress, once. */
typedef struct keeper {
    kmf_embedder *embedder;
    kmf_output *output;
    int n_told;
    int when;  /* how often it has been told then */
    bool ends; /* it ends the run then */
    int saved; /* what kmf_output_save said */
} keeper;

static void keep(void *user, uint64_t tokens)
{
    keeper *k = user;
    (void)tokens;
    if (++k->n_told != k->when)
        return;
    const kmf_run run = kmf_embedder_run(k->embedder);
    k->saved = kmf_output_save(k->output, &run, in_dir("checkpoint"), inputs, 1, NULL, NULL);
    if (k->ends)
        kmf_embedder_stop(k->embedder);
}

/* A run with its checkpoint, all of whose rows are out. */
static void run_all(keeper *k, const scene *s, int when)
{
    kmf_embedder *e = embedder_of(s);
    *k = (keeper){.embedder = e, .output = output_of(s, e), .when = when};
    kmf_output_take(k->output, e);
    kmf_embedder_progress(e, keep, k);
    ck_assert_int_eq(give_records(s, e, NULL), 0);
}

static void end_run(keeper *k)
{
    kmf_embedder_free(k->embedder);
    kmf_output_free(k->output);
}

/* A run that ends without its result; returns what the checkpoint said. */
static int run_until(const scene *s, int when)
{
    keeper k;
    run_all(&k, s, when);
    end_run(&k);
    return k.saved;
}

static kmf_output *resumed_output(const scene *s, kmf_embedder *e, kmf_err *err)
{
    const kmf_output_form form = form_of(s, e);
    const kmf_run run = kmf_embedder_run(e);
    kmf_output *o = kmf_output_resume(in_dir(s->name), &form, &run, in_dir("checkpoint"),
                                      inputs, 1, NULL, err);
    if (o)
        kmf_output_take(o, e);
    return o;
}

/* Goes on where there is a checkpoint, to the end. */
static int run_to_end(const scene *s, bool resumed, kmf_embed_stats *stats, kmf_err *err)
{
    kmf_embedder *e = embedder_of(s);
    int status = 0;
    kmf_output *o = resumed ? resumed_output(s, e, err) : output_of(s, e);
    if (o && !resumed)
        kmf_output_take(o, e);
    if (o) {
        status = give_records(s, e, err);
        kmf_embedder_statistics(e, stats);
    }
    if (o && status == 0)
        status = kmf_output_commit(o, "{}", err);
    kmf_embedder_free(e);
    kmf_output_free(o);
    return o ? status : (int)err->code;
}

static char *take_file(const char *name, size_t *len)
{
    char *bytes = get(in_dir(name), len);
    ck_assert_int_eq(unlink(in_dir(name)), 0);
    return bytes;
}

static void check_same(const char *name, const char *wanted, size_t n_wanted)
{
    size_t n;
    char *bytes = take_file(name, &n);
    ck_assert_uint_eq(n, n_wanted);
    ck_assert_int_eq(memcmp(bytes, wanted, n), 0);
    kmf_free(bytes);
}

/* What was written behind the checkpoint, into all of the files. */
static void add_junk(void)
{
    char command[sizeof dir + 128];
    snprintf(command, sizeof command, "for f in '%s'/*.tmp.*; do seq 50000 >>$f || exit; done",
             dir);
    ck_assert_int_eq(system(command), 0);
}

static void check_scene(const scene *s)
{
    const char *const names[] = {s->name, "x.ids.tsv"};
    int n_names = s->format ? 1 : 2; /* x.json, too, where there is x.ids.tsv */
    size_t len[2];
    char *wanted[2];
    kmf_err err = {0};
    kmf_embed_stats whole;
    kmf_embed_stats stats;
    ck_assert_int_eq(run_to_end(s, false, &whole, &err), 0);
    for (int i = 0; i < n_names; i++)
        wanted[i] = take_file(names[i], &len[i]);
    int n_kept = 0;
    for (int when = 1; when < 30; when += 4) {
        int saved = run_until(s, when);
        ck_assert_int_ge(saved, 0);
        if (saved == 0)
            continue;
        n_kept++;
        add_junk();
        ck_assert_int_eq(run_to_end(s, true, &stats, &err), 0);
        ck_assert_int_eq(memcmp(&stats, &whole, sizeof stats), 0);
        for (int i = 0; i < n_names; i++)
            check_same(names[i], wanted[i], len[i]);
        ck_assert_int_eq(unlink(in_dir("checkpoint")), 0);
        ck_assert_int_eq(unlink(in_dir("x.json")), s->format ? -1 : 0);
        ck_assert_int_eq(n_entries(dir), 0);
    }
    ck_assert_int_gt(n_kept, 3);
    for (int i = 0; i < n_names; i++)
        kmf_free(wanted[i]);
}

START_TEST(a_run_that_goes_on_makes_the_same_files)
{
    static const char *const names[] = {"x.npy", "x.tsv"};
    for (int i = 0; i < 2; i++) {
        scene s = usual(names[i]);
        check_scene(&s);
        s.strand = KMF_STRAND_BOTH;
        check_scene(&s);
        s.pooling = KMF_POOL_MAX;
        check_scene(&s);
    }
    scene half = usual("x.npy");
    half.f16 = 1;
    check_scene(&half);
}
END_TEST

START_TEST(rows_of_text_go_on_with_nothing_beside_them)
{
    scene s = usual("x.tsv");
    s.format = &first_numbers;
    check_scene(&s);
    s.strand = KMF_STRAND_BOTH;
    check_scene(&s);
}
END_TEST

/* A record may be out in part when the checkpoint is written. */
START_TEST(rows_of_tokens_go_on_with_the_record)
{
    static const char *const names[] = {"x.npy", "x.tsv"};
    for (int i = 0; i < 2; i++) {
        scene s = usual(names[i]);
        s.pooling = KMF_POOL_NONE;
        check_scene(&s);
    }
}
END_TEST

START_TEST(shards_go_on)
{
    for (uint64_t i = 0; i < 3; i++) {
        scene s = usual("x.npy");
        s.shard = i;
        s.n_shards = 3;
        s.strand = KMF_STRAND_BOTH;
        check_scene(&s);
    }
}
END_TEST

/* Of a run that is not stopped. */
static char *whole_table(const scene *s, size_t *n)
{
    kmf_embed_stats stats;
    ck_assert_int_eq(run_to_end(s, false, &stats, NULL), 0);
    return take_file(s->name, n);
}

/* Several checkpoints of several runs, each a little further. */
START_TEST(it_may_be_stopped_again)
{
    size_t n;
    kmf_err err = {0};
    kmf_embed_stats stats;
    scene s = usual("x.npy");
    char *table = whole_table(&s, &n);
    ck_assert_int_eq(run_until(&s, 3), 1);
    for (int i = 0; i < 4; i++) {
        kmf_embedder *e = embedder_of(&s);
        keeper k = {.embedder = e, .when = 5};
        k.output = resumed_output(&s, e, &err);
        ck_assert_ptr_nonnull(k.output);
        kmf_output_take(k.output, e);
        kmf_embedder_progress(e, keep, &k);
        ck_assert_int_eq(give_records(&s, e, &err), 0);
        ck_assert_int_eq(k.saved, 1);
        kmf_embedder_free(e);
        kmf_output_free(k.output);
    }
    ck_assert_int_eq(run_to_end(&s, true, &stats, &err), 0);
    check_same(s.name, table, n);
    kmf_free(table);
}
END_TEST

/* A single sequence is no part of a run: none comes between, and one after it changes nothing. */
START_TEST(a_sequence_alone_leaves_a_run_as_it_is)
{
    scene s = usual("x.npy");
    kmf_err err = {0};
    kmf_embed_stats stats;
    float vector[512];
    keeper k;
    ck_assert_int_eq(run_to_end(&s, false, &stats, &err), 0);
    size_t n;
    char *wanted = take_file("x.npy", &n);
    run_all(&k, &s, 0);
    ck_assert_uint_le(kmf_embedder_dim(k.embedder), 512);
    k.when = k.n_told + 1; /* a checkpoint of the sequence would be one of another run */
    ck_assert_int_eq(kmf_embed_sequence(k.embedder, vector, "ACGTACGTACGT", &err), 0);
    ck_assert_int_eq(k.saved, 0);
    const kmf_run run = kmf_embedder_run(k.embedder);
    ck_assert_int_eq(
        kmf_output_save(k.output, &run, in_dir("checkpoint"), inputs, 1, NULL, &err), 1);
    end_run(&k);
    kmf_embedder *e = embedder_of(&s);
    kmf_output *o = resumed_output(&s, e, &err);
    ck_assert_msg(o != NULL, "%s", err.msg);
    ck_assert_int_eq(kmf_embed_sequence(e, vector, "ACGT", &err), KMF_EINVAL);
    ck_assert_int_eq(give_records(&s, e, &err), 0);
    ck_assert_int_eq(kmf_embed_sequence(e, vector, "ACGTACGTACGT", NULL), 0);
    ck_assert_int_eq(kmf_output_commit(o, "{}", NULL), 0);
    kmf_embedder_free(e);
    kmf_output_free(o);
    check_same("x.npy", wanted, n);
    kmf_free(wanted);
}
END_TEST

/* Nothing more is told, and the same embedder goes on from the checkpoint. */
START_TEST(it_may_stop_itself)
{
    size_t n;
    kmf_err err = {0};
    scene s = usual("x.npy");
    char *table = whole_table(&s, &n);
    kmf_embedder *e = embedder_of(&s);
    keeper k = {.embedder = e, .output = output_of(&s, e), .when = 5, .ends = true};
    kmf_output_take(k.output, e);
    kmf_embedder_progress(e, keep, &k);
    ck_assert_int_eq(give_records(&s, e, &err), KMF_ESTOPPED);
    ck_assert_int_eq(err.code, KMF_ESTOPPED);
    ck_assert_int_eq(k.saved, 1);
    ck_assert_int_eq(k.n_told, 5);
    kmf_output_free(k.output);
    kmf_embedder_progress(e, NULL, NULL);
    k.output = resumed_output(&s, e, NULL);
    ck_assert_ptr_nonnull(k.output);
    ck_assert_int_eq(give_records(&s, e, NULL), 0);
    ck_assert_int_eq(kmf_output_commit(k.output, "{}", NULL), 0);
    end_run(&k);
    check_same(s.name, table, n);
    kmf_free(table);
}
END_TEST

/* ---------------------------------------------------------------- refusals -------------- */

static void expect(const scene *s, int code, const char *what)
{
    kmf_err err = {0};
    kmf_embed_stats stats;
    ck_assert_int_eq(run_to_end(s, true, &stats, &err), code);
    ck_assert_msg(strstr(err.msg, what), "'%s' and not '%s'", err.msg, what);
}

START_TEST(another_run_does_not_go_on)
{
    scene s = usual("x.npy");
    ck_assert_int_eq(run_until(&s, 9), 1);
    scene other = s;
    other.strand = KMF_STRAND_RC;
    expect(&other, KMF_EMODEL,
           "checkpoint: it is of another run: strand was \"fwd\", now it is \"rc\"");
    other = s;
    other.model = GOLDEN_VALUE;
    expect(&other, KMF_EMODEL, "checkpoint: it is of another run: the model's name");
    other = s;
    other.f16 = 1;
    expect(&other, KMF_EMODEL, "float16 was false, now it is true");
    other = s;
    other.n_shards = 2;
    expect(&other, KMF_EMODEL, "shard changed");
    other = s;
    other.other = 1;
    expect(&other, KMF_EMODEL, "records are not those whose vectors were made before");
    other = s;
    other.format = &first_numbers;
    other.name = "x.tsv";
    expect(&other, KMF_EMODEL, "checkpoint: it is of another run: rows changed");
    other = s;
    other.n_records = 3;
    expect(&other, KMF_EMODEL, "3 records, and the vectors of ");
    kmf_err err = {0};
    kmf_embed_stats stats;
    other = s; /* what comes later may be other than it was */
    other.other = RECORDS - 1;
    ck_assert_int_eq(run_to_end(&other, true, &stats, &err), 0);
}
END_TEST

/* The checkpoint with `to` in the place of `from`. */
static void edit(const char *text, const char *from, const char *to)
{
    char changed[8192];
    const char *at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
             at + strlen(from));
    ck_assert_int_eq(kmf_file_save(in_dir("checkpoint"), changed, strlen(changed), NULL), 0);
}

START_TEST(a_checkpoint_that_lies_is_refused)
{
    size_t n;
    scene s = usual("x.npy");
    ck_assert_int_eq(run_until(&s, 9), 1);
    char *text = take_file("checkpoint", &n);
    expect(&s, KMF_EIO, "checkpoint: No such file");
    ck_assert_int_eq(kmf_output_is_checkpoint(in_dir("x.npy"), in_dir("checkpoint")), 0);
    static const struct {
        const char *from, *to, *what;
        int code;
        int is_one; /* of an output at this path, and may be discarded */
    } rows[] = {
        {"\"embed\"", "\"word2vec\"", "it is no checkpoint of such an output", KMF_EMODEL, 1},
        {".tmp.", "/../y", "files: there is no suffix", KMF_EMODEL, 0},
        {".tmp.", ".tmp.x", "files: there is no suffix", KMF_EMODEL, 0},
        {".tmp.", ".tmp.0", "x.npy.tmp.0", KMF_EIO, 1},
        {"\"bytes\": ", "\"bytes\": -", "bytes: must be from 0", KMF_EMODEL, 0},
        {"\"bytes\": ", "\"bytes\": 9", "rows are not in 9", KMF_EMODEL, 1},
        {"\"bytes\": ", "\"bytes\": 0, \"b\": ", "rows are not in 0 bytes", KMF_EMODEL, 1},
        {"\"bytes\": ", "\"bytes\": 129, \"b\": ", "rows are not in 129 bytes", KMF_EMODEL, 1},
        {"\"rows\": ", "\"rows\": 1", "its checkpoint is damaged: 1", KMF_EMODEL, 1},
        {"\"rows\": ", "\"rows\": 4611686018427387904, \"r\": ",
         "its checkpoint is damaged: 4611686018427387904 rows", KMF_EMODEL, 1},
        {"\"bytes\": 0", "\"bytes\": 1", "its checkpoint is damaged", KMF_EMODEL, 1},
        {"\"kmerformer\"", "\"other\"", "it is no checkpoint of such an output", KMF_EMODEL, 0},
        {"\"program\"", "\"p\"", "it is no checkpoint of such an output", KMF_EMODEL, 0},
        {"\"rows\"", "\"rose\"", "rows is missing", KMF_EMODEL, 1},
        {"\"records\": ", "\"records\": 0, \"r\": ", "its mark tells of no records", KMF_EMODEL,
         1},
        {"\"mark\"", "\"m\"", "mark is missing", KMF_EMODEL, 1},
        {"\"chunked\"", "\"chunky\"", "chunked is missing", KMF_EMODEL, 1},
        {"\"records_checksum\": ", "\"records_checksum\": 7, \"r\": ", "records are not those",
         KMF_EMODEL, 1},
        {"\"files\": [", "\"files\": 3, \"f\": [", "it tells of 0 files", KMF_EMODEL, 0},
        {"\"files\": [", "\"files\": [0, 0, 0, 0], \"f\": [", "it tells of 4 files", KMF_EMODEL,
         0},
        {"\"files\": [", "\"files\": [{\"suffix\": \".tmp.1\", \"bytes\": 0}], \"f\": [",
         "it tells of 1 files, and the output has 3", KMF_EMODEL, 1},
        {"{", "", "checkpoint", KMF_EMODEL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        edit(text, rows[i].from, rows[i].to);
        expect(&s, rows[i].code, rows[i].what);
        ck_assert_int_eq(kmf_output_is_checkpoint(in_dir("x.npy"), in_dir("checkpoint")),
                         rows[i].is_one);
    }
    /* all that is there is still there */
    edit(text, "{", "{");
    kmf_err err = {0};
    kmf_embed_stats stats;
    ck_assert_int_eq(run_to_end(&s, true, &stats, &err), 0);
    kmf_free(text);
}
END_TEST

/* The temporary names of the outputs of x.npy, in the order in which they get their own. */
static void temporary_names(char names[3][NAME_CAP], const char *checkpoint)
{
    static const char *const own[] = {"x.npy", "x.ids.tsv", "x.json"};
    static const char key[] = "\"suffix\": \"";
    for (int i = 0; i < 3; i++) {
        checkpoint = strstr(checkpoint, key);
        ck_assert_ptr_nonnull(checkpoint);
        checkpoint += strlen(key);
        snprintf(names[2 - i], NAME_CAP, "%s%.*s", in_dir(own[i]),
                 (int)strcspn(checkpoint, "\""), checkpoint);
    }
}

/* A process is killed while the outputs get their names, and keep the others. */
START_TEST(names_that_were_given_are_taken_back)
{
    static const char *const own[] = {"x.json", "x.ids.tsv", "x.npy"};
    char temporary[3][NAME_CAP];
    kmf_err err = {0};
    kmf_embed_stats stats;
    size_t n, len;
    scene s = usual("x.npy");
    ck_assert_int_eq(run_to_end(&s, false, &stats, &err), 0);
    char *table = take_file("x.npy", &n);
    for (int given = 1; given <= 3; given++) {
        ck_assert_int_eq(unlink(in_dir(own[0])), 0);
        ck_assert_int_eq(unlink(in_dir(own[1])), 0);
        ck_assert_int_eq(run_until(&s, 9), 1);
        char *text = take_file("checkpoint", &len);
        edit(text, "{", "{");
        temporary_names(temporary, text);
        kmf_free(text);
        for (int i = 0; i < given; i++)
            ck_assert_int_eq(link(temporary[i], in_dir(own[i])), 0);
        /* nothing has changed when it is refused */
        scene other = s;
        other.f16 = true;
        expect(&other, KMF_EMODEL, "float16 was false, now it is true");
        ck_assert_int_eq(n_entries(dir), 4 + given);
        ck_assert_int_eq(run_to_end(&s, true, &stats, &err), 0);
        ck_assert_int_eq(n_entries(dir), 4);
        check_same("x.npy", table, n);
    }
    kmf_free(table);
}
END_TEST

/* Of a name so long that no file beside it can have a second one. */
static const char *long_name(const char *ending)
{
    static char name[3][NAME_MAX + 1];
    static int turn;
    turn = (turn + 1) % 3;
    snprintf(name[turn], sizeof name[turn], "%0*d%s", NAME_MAX - 21, 0, ending);
    return name[turn];
}

/* A run that has written all of its outputs, the last of which cannot get its name. */
static void check_name_given_later(const char *npy, const char *json, const char *ids)
{
    kmf_err err = {0};
    kmf_embed_stats stats;
    size_t n;
    scene s = usual(npy);
    ck_assert_int_eq(run_to_end(&s, false, &stats, &err), 0);
    char *table = take_file(npy, &n);
    ck_assert_int_eq(kmf_file_save(in_dir(json), "older", 5, NULL), 0);
    ck_assert_int_eq(unlink(in_dir(ids)), 0);
    keeper k;
    run_all(&k, &s, 9);
    ck_assert_int_eq(mkdir(in_dir(npy), 0777), 0);
    ck_assert_int_eq(kmf_output_commit(k.output, "{}", &err), KMF_EIO);
    end_run(&k);
    check_same(json, "older", 5);
    ck_assert_int_ne(access(in_dir(ids), F_OK), 0);
    ck_assert_int_eq(rmdir(in_dir(npy)), 0);
    ck_assert_int_eq(n_entries(dir), 4); /* three of them kept, and the checkpoint */
    err = (kmf_err){0};
    ck_assert_int_eq(run_to_end(&s, true, &stats, &err), 0);
    check_same(npy, table, n);
    kmf_free(table);
}

START_TEST(a_name_that_is_not_to_be_had_can_be_given_later)
{
    check_name_given_later("x.npy", "x.json", "x.ids.tsv");
}
END_TEST

START_TEST(the_same_where_a_file_has_one_name)
{
    check_name_given_later(long_name(".npy"), long_name(".json"), long_name(".ids.tsv"));
}
END_TEST

/* Killed while the outputs got their names, and not resumed: nothing of it stays. */
START_TEST(what_is_given_up_loses_both_names)
{
    char temporary[3][NAME_CAP];
    size_t len;
    scene s = usual("x.npy");
    ck_assert_int_eq(run_until(&s, 9), 1);
    char *text = take_file("checkpoint", &len);
    edit(text, "{", "{");
    temporary_names(temporary, text);
    ck_assert_int_eq(link(temporary[0], in_dir("x.json")), 0);
    ck_assert_int_eq(link(temporary[1], in_dir("x.ids.tsv")), 0);
    ck_assert_int_eq(kmf_file_save(in_dir("x.npy"), "older", 5, NULL), 0);
    ck_assert_int_eq(kmf_output_discard(in_dir("x.npy"), in_dir("checkpoint"), NULL), 0);
    ck_assert_int_eq(n_entries(dir), 1);
    check_same("x.npy", "older", 5);
    kmf_free(text);
}
END_TEST

/* Whatever is left of the other names: the process may have been killed while it removed them. */
START_TEST(what_is_published_stays)
{
    char temporary[3][NAME_CAP];
    kmf_err err = {0};
    kmf_embed_stats stats;
    size_t n, len;
    scene s = usual("x.npy");
    ck_assert_int_eq(run_to_end(&s, false, &stats, &err), 0);
    char *table = take_file("x.npy", &n);
    for (int gone = 0; gone <= 3; gone++) {
        keeper k;
        run_all(&k, &s, 9);
        ck_assert_int_eq(kmf_output_commit(k.output, "{}", &err), 0);
        ck_assert_int_eq(n_entries(dir), 7);
        char *text = take_file("checkpoint", &len);
        edit(text, "{", "{");
        temporary_names(temporary, text);
        kmf_free(text);
        for (int i = 0; i < gone; i++)
            ck_assert_int_eq(unlink(temporary[2 - i]), 0);
        ck_assert_int_eq(kmf_output_discard(in_dir("x.npy"), in_dir("checkpoint"), &err), 0);
        ck_assert_int_eq(n_entries(dir), 3);
        end_run(&k);
        ck_assert_int_eq(n_entries(dir), 3);
        check_same("x.npy", table, n);
        ck_assert_int_eq(access(in_dir("x.json"), F_OK), 0);
        ck_assert_int_eq(access(in_dir("x.ids.tsv"), F_OK), 0);
    }
    kmf_free(table);
}
END_TEST

/* To the end, when the files have their names already and the checkpoint is still there. */
START_TEST(no_other_process_gets_at_a_run)
{
    scene s = usual("x.npy");
    keeper k;
    run_all(&k, &s, 9);
    for (int named = 0; named < 2; named++) {
        if (named)
            ck_assert_int_eq(kmf_output_commit(k.output, "{}", NULL), 0);
        pid_t other = fork();
        if (other == 0) {
            kmf_err err = {0};
            kmf_embedder *own = embedder_of(&s);
            kmf_output *o = resumed_output(&s, own, &err);
            _exit(!o && err.code == KMF_EIO &&
                          strstr(err.msg, "x.npy: another run is at work there: process ")
                      ? 0
                      : 1);
        }
        int status;
        ck_assert_int_eq(waitpid(other, &status, 0), other);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(access(in_dir("x.npy"), F_OK), named ? 0 : -1);
    }
    end_run(&k);
}
END_TEST

START_TEST(an_older_output_stays_until_the_new_one_is_whole)
{
    kmf_err err = {0};
    scene s = usual("x.npy");
    ck_assert_int_eq(run_until(&s, 9), 1);
    ck_assert_int_eq(kmf_file_save(in_dir("x.npy"), "older", 5, NULL), 0);
    kmf_embedder *e = embedder_of(&s);
    kmf_output *o = resumed_output(&s, e, &err);
    ck_assert_ptr_nonnull(o);
    kmf_embedder_free(e);
    kmf_output_free(o);
    check_same("x.npy", "older", 5);
}
END_TEST

/* One that has lost its last byte before the checkpoint, and one that ends there. */
START_TEST(a_kept_file_is_as_long_as_its_checkpoint_says)
{
    char temporary[3][NAME_CAP];
    kmf_err err = {0};
    kmf_embed_stats stats;
    size_t len;
    scene s = usual("x.npy");
    ck_assert_int_eq(run_until(&s, 9), 1);
    char *text = take_file("checkpoint", &len);
    edit(text, "{", "{");
    temporary_names(temporary, text);
    const char *bytes = strstr(text, "\"bytes\": ");
    ck_assert_ptr_nonnull(bytes);
    long n = strtol(bytes + strlen("\"bytes\": "), NULL, 10);
    ck_assert_int_gt(n, 1000);
    ck_assert_int_eq(truncate(temporary[2], n), 0);
    char *kept = kmf_file_read(temporary[2], (size_t)1 << 30, &len, NULL);
    ck_assert_int_eq(truncate(temporary[2], n - 1), 0);
    expect(&s, KMF_EIO, "it has fewer than");
    put(temporary[2], kept, len);
    ck_assert_int_eq(run_to_end(&s, true, &stats, &err), 0);
    kmf_free(kept);
    kmf_free(text);
}
END_TEST

START_TEST(some_runs_have_no_checkpoint)
{
    scene counts = usual("x.npy");
    counts.model = "tnf";
    ck_assert_int_eq(run_until(&counts, 1), 0);
    scene packed = usual("x.tsv.gz");
    ck_assert_int_eq(run_until(&packed, 9), 0);
    ck_assert_int_eq(n_entries(dir), 0);
}
END_TEST

/* A folder of its name, or a pipe, which would wait for a reader. */
START_TEST(a_checkpoint_that_cannot_be_written_takes_nothing_away)
{
    kmf_err err = {0};
    kmf_embed_stats stats;
    scene s = usual("x.npy");
    ck_assert_int_eq(
        _i ? mkfifo(in_dir("checkpoint"), 0666) : mkdir(in_dir("checkpoint"), 0777), 0);
    keeper k;
    run_all(&k, &s, 9);
    ck_assert_int_eq(k.saved, KMF_EIO);
    const kmf_run run = kmf_embedder_run(k.embedder);
    ck_assert_int_eq(kmf_output_saves(k.output, &run), 1);
    ck_assert_int_eq(kmf_output_commit(k.output, "{}", &err), 0);
    end_run(&k);
    ck_assert_int_eq(remove(in_dir("checkpoint")), 0);
    size_t n;
    char *table = take_file("x.npy", &n);
    ck_assert_int_eq(run_to_end(&s, false, &stats, &err), 0);
    check_same("x.npy", table, n);
    kmf_free(table);
}
END_TEST

/* Neither is there a checkpoint, nor is anything kept: as if none had been asked for. */
START_TEST(without_a_checkpoint_nothing_is_left)
{
    scene s = usual("x.npy");
    ck_assert_int_eq(mkdir(in_dir("checkpoint"), 0777), 0);
    ck_assert_int_eq(run_until(&s, 9), KMF_EIO);
    ck_assert_int_eq(n_entries(dir), 1);
    keeper k;
    run_all(&k, &s, 9);
    ck_assert_int_eq(k.saved, KMF_EIO);
    ck_assert_int_eq(n_entries(dir), 4);
    kmf_remove_temporaries(); /* as a signal would */
    ck_assert_int_eq(n_entries(dir), 1);
    end_run(&k);
}
END_TEST

/* Of an earlier build, too, which told otherwise how far it was. */
START_TEST(what_is_given_up_is_gone)
{
    kmf_err err = {0};
    scene s = usual("x.npy");
    ck_assert_int_eq(run_until(&s, 9), 1);
    if (_i > 0) {
        size_t n;
        char *text = take_file("checkpoint", &n);
        edit(text, "\"mark\"", "\"m\"");
        kmf_free(text);
    }
    ck_assert_int_eq(n_entries(dir), 4);
    ck_assert_int_eq(kmf_output_discard(in_dir("x.npy"), in_dir("checkpoint"), &err), 0);
    ck_assert_int_eq(n_entries(dir), 0);
    ck_assert_int_eq(kmf_output_discard(in_dir("x.npy"), in_dir("checkpoint"), &err), KMF_EIO);
    ck_assert_int_eq(kmf_file_save(in_dir("checkpoint"), "{}", 2, NULL), 0);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_output_discard(in_dir("x.npy"), in_dir("checkpoint"), &err),
                     KMF_EMODEL);
    ck_assert_int_eq(n_entries(dir), 1);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_test(tcase, a_run_that_goes_on_makes_the_same_files);
    tcase_add_test(tcase, rows_of_text_go_on_with_nothing_beside_them);
    tcase_add_test(tcase, rows_of_tokens_go_on_with_the_record);
    tcase_add_test(tcase, shards_go_on);
    tcase_add_test(tcase, it_may_be_stopped_again);
    tcase_add_test(tcase, a_sequence_alone_leaves_a_run_as_it_is);
    tcase_add_test(tcase, it_may_stop_itself);
    tcase_add_test(tcase, another_run_does_not_go_on);
    tcase_add_test(tcase, a_checkpoint_that_lies_is_refused);
    tcase_add_test(tcase, names_that_were_given_are_taken_back);
    tcase_add_test(tcase, a_name_that_is_not_to_be_had_can_be_given_later);
    tcase_add_test(tcase, the_same_where_a_file_has_one_name);
    tcase_add_test(tcase, what_is_given_up_loses_both_names);
    tcase_add_test(tcase, what_is_published_stays);
    tcase_add_test(tcase, no_other_process_gets_at_a_run);
    tcase_add_test(tcase, an_older_output_stays_until_the_new_one_is_whole);
    tcase_add_test(tcase, a_kept_file_is_as_long_as_its_checkpoint_says);
    tcase_add_test(tcase, some_runs_have_no_checkpoint);
    tcase_add_loop_test(tcase, a_checkpoint_that_cannot_be_written_takes_nothing_away, 0, 2);
    tcase_add_test(tcase, without_a_checkpoint_nothing_is_left);
    tcase_add_loop_test(tcase, what_is_given_up_is_gone, 0, 2);
    return run_case("resume", tcase);
}
