/* SPDX-License-Identifier: MIT */
#include "cli/embedding.h"

#include <math.h>

int cli_embedding_open(cli_embedding *e, cli_resumable *resumable, kmf_embedder *embedder,
                       const kmf_output_form *form, kmf_err *err)
{
    const kmf_run work = kmf_embedder_run(embedder);
    *e = (cli_embedding){
        .resumable = resumable, .embedder = embedder, .started = resumable->run->started};
    int status = cli_resumable_open(resumable, &work, form, err);
    kmf_embedder_statistics(embedder, &e->before);
    if (status == 0)
        kmf_output_take(resumable->output, embedder);
    return status;
}

/*
 * The letters that are done: those of records whose rows are out, and of those under way as many as
 * their tokens stand for, at the stride, or where tokens have no common length, at the mean length
 * so far. Of a shard, those of the other shards as well.
 */
static double letters_done(const cli_embedding *e, uint64_t tokens, const kmf_embed_stats *now)
{
    kmf_embed_options o;
    kmf_embedder_options(e->embedder, &o);
    double all = (double)e->before.tokens + (double)tokens;
    double mean = now->tokens > 0 ? (double)now->bases / (double)now->tokens : 0;
    double each = o.stride > 0 ? (double)o.stride : mean;
    double under_way = fmax(all - (double)now->tokens, 0) * each;
    double shards = o.n_shards > 1 ? (double)o.n_shards : 1;
    return ((double)now->bases + under_way) * shards;
}

double cli_embedding_step(cli_embedding *e, uint64_t tokens, cli_inputs *in,
                          kmf_embed_stats *now)
{
    cli_resumable_save(e->resumable);
    kmf_embedder_statistics(e->embedder, now);
    cli_inputs_work(in, letters_done(e, tokens, now));
    if (e->before.records > 0 && now->records == e->before.records) {
        cli_inputs_pass(in);
        e->started = cli_now();
    }
    return cli_now() - e->started;
}

int cli_embedding_read(const cli_embedding *e, const char *path, cli_inputs *in, kmf_err *err)
{
    const cli_resumable *k = e->resumable;
    kmf_embed_options used;
    kmf_embedder_options(e->embedder, &used);
    kmf_embedder_source(e->embedder, cli_input_name(path));
    cli_inputs_open(in, path, NULL);
    int status = kmf_embedder_read(e->embedder, path, k->reader, &in->now, err);
    if (status == 0 && used.strict && in->now.records == 0)
        status = cli_raise(err, KMF_EFORMAT, "%s: no records, and strict was asked for",
                           cli_input_name(path));
    if (status == 0)
        cli_warn_of_reading(k->run, path, k->reader, &in->now);
    cli_inputs_close(in);
    return status;
}
