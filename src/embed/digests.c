/* SPDX-License-Identifier: MIT */
#include "embed/digests.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

struct kmf_digests {
    const kmf_method *method; /* borrowed */
    kmf_queue *queue;         /* owned */
    bool under_way;           /* a job was sent and not waited for */
    atomic_bool stop;
    char md5[KMF_METHOD_FILES][KMF_MD5_TEXT];
    int status;
    kmf_err err;
};

static void *work(void *arg)
{
    kmf_digests *d = arg;
    for (size_t i = 0; i < KMF_METHOD_FILES && d->method->files[i].key && d->status == 0; i++)
        d->status = kmf_md5_files(d->md5[i], d->method->files[i].maps, d->method->files[i].n,
                                  d->method->files[i].keep, &d->stop, &d->err);
    return d;
}

kmf_digests *kmf_digests_begin(const kmf_method *method, kmf_pool *pool, kmf_err *err)
{
    kmf_digests *d = kmf_calloc(1, sizeof *d, err);
    if (!d)
        return NULL;
    d->method = method;
    d->queue = kmf_queue_new(pool, 1, err);
    if (!d->queue || kmf_queue_send(d->queue, work, d, err) < 0) {
        kmf_digests_free(d);
        return NULL;
    }
    d->under_way = true;
    return d;
}

void kmf_digests_free(kmf_digests *digests)
{
    if (!digests)
        return;
    atomic_store(&digests->stop, true);
    kmf_queue_free(digests->queue);
    kmf_free(digests);
}

int kmf_digests_wait(kmf_digests *digests, size_t i, char md5[KMF_MD5_TEXT], kmf_err *err)
{
    if (digests->under_way)
        (void)kmf_queue_wait(digests->queue);
    digests->under_way = false;
    if (digests->status < 0)
        return kmf_fail(err, digests->err.code, "%s", digests->err.msg);
    memcpy(md5, digests->md5[i], KMF_MD5_TEXT);
    return 0;
}
