/* SPDX-License-Identifier: MIT */
#include "base/gzip.h"

#include <errno.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <htslib/bgzf.h>
#include <htslib/hfile.h>
#include <htslib/hts_log.h>

/* Of libdeflate, which htslib has on most systems: files as small as those of gzip -6. */
#define MODE "w5"
#define BLOCKS_A_THREAD 4 /* that wait to be compressed or written */

static void silence(void)
{
    hts_set_log_level(HTS_LOG_OFF);
}

void kmf_silence_htslib(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, silence);
}

kmf_gzip *kmf_gzip_new(int fd)
{
    kmf_silence_htslib();
    hFILE *file = hdopen(fd, "w");
    if (!file) {
        int reason = errno;
        close(fd);
        errno = reason;
        return NULL;
    }
    kmf_gzip *gzip = bgzf_hopen(file, MODE);
    if (!gzip) {
        hclose_abruptly(file);
        errno = ENOMEM;
    }
    return gzip;
}

void kmf_gzip_share(kmf_gzip *gzip, struct hts_tpool *pool, int threads)
{
    (void)bgzf_thread_pool(gzip, pool, BLOCKS_A_THREAD * threads);
}

/* Another thread may have met the failure, so that errno is the file's. */
static int failed(kmf_gzip *gzip)
{
    if (herrno(gzip->fp) != 0)
        errno = herrno(gzip->fp);
    return -1;
}

int kmf_gzip_write(kmf_gzip *gzip, const void *data, size_t n)
{
    return bgzf_write(gzip, data, n) == (ssize_t)n ? 0 : failed(gzip);
}

int kmf_gzip_close(kmf_gzip *gzip)
{
    int status = bgzf_flush(gzip) == 0 ? 0 : failed(gzip);
    int reason = errno;
    if (bgzf_close(gzip) != 0 && status == 0)
        return -1;
    errno = reason;
    return status;
}
