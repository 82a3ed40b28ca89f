/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS */
#include "base/mem.h"

#include "base/err.h"
#include "base/point.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CACHE_LINE 64
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FROM ((size_t)4 << 20)

static atomic_size_t n_allocations;
static atomic_size_t fail_at;

void kmf_mem_fail_at(size_t n)
{
    atomic_store(&n_allocations, 0);
    atomic_store(&fail_at, n);
}

size_t kmf_mem_count(void)
{
    return atomic_load(&n_allocations);
}

static bool may_allocate(void)
{
    size_t n = atomic_fetch_add_explicit(&n_allocations, 1, memory_order_relaxed) + 1;
    return n != atomic_load_explicit(&fail_at, memory_order_relaxed);
}

bool kmf_mul(size_t a, size_t b, size_t *out)
{
    if (a != 0 && b > SIZE_MAX / a)
        return false;
    *out = a * b;
    return true;
}

bool kmf_add(size_t a, size_t b, size_t *out)
{
    if (b > SIZE_MAX - a)
        return false;
    *out = a + b;
    return true;
}

bool kmf_place(size_t *at, size_t *total, size_t n, size_t size)
{
    *at = *total;
    return kmf_mul(n, size, &n) && kmf_add(n, 63, &n) && kmf_add(*total, n / 64 * 64, total);
}

static void *no_memory(size_t n, size_t size, kmf_err *err)
{
    kmf_fail(err, KMF_ENOMEM, "out of memory: %zu x %zu bytes are not to be had", n, size);
    return NULL;
}

void *kmf_malloc(size_t n, size_t size, kmf_err *err)
{
    size_t bytes;
    void *p = NULL;
    if (kmf_mul(n, size, &bytes) && bytes <= PTRDIFF_MAX && may_allocate())
        p = malloc(bytes ? bytes : 1);
    return p ? p : no_memory(n, size, err);
}

void *kmf_calloc(size_t n, size_t size, kmf_err *err)
{
    void *p = may_allocate() ? calloc(n ? n : 1, size ? size : 1) : NULL;
    return p ? p : no_memory(n, size, err);
}

void *kmf_realloc(void *p, size_t n, size_t size, kmf_err *err)
{
    size_t bytes;
    void *q = NULL;
    if (kmf_mul(n, size, &bytes) && bytes <= PTRDIFF_MAX && may_allocate())
        q = realloc(p, bytes ? bytes : 1);
    return q ? q : no_memory(n, size, err);
}

char *kmf_strdup(const char *s, kmf_err *err)
{
    size_t n = strlen(s) + 1;
    char *copy = kmf_malloc(n, 1, err);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

char *kmf_strprintf(kmf_err *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = kmf_vprint(NULL, 0, format, args);
    va_end(args);
    size_t room = n < 0 ? SIZE_MAX : (size_t)n + 1;
    char *text = kmf_malloc(room, 1, err);
    if (text) {
        va_start(args, format);
        kmf_vprint(text, room, format, args);
        va_end(args);
    }
    return text;
}

void kmf_free(void *p)
{
    free(p);
}

static void ask_for_huge_pages(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t beg = ((uintptr_t)p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t end = ((uintptr_t)p + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (bytes >= HUGE_FROM && beg < end)
        (void)madvise((void *)beg, end - beg, MADV_HUGEPAGE);
#else
    (void)p;
    (void)bytes;
#endif
}

void *kmf_large(size_t n, size_t size, kmf_err *err)
{
    size_t bytes;
    if (!kmf_mul(n, size, &bytes) || bytes > PTRDIFF_MAX - HUGE_PAGE || !may_allocate())
        return no_memory(n, size, err);
    size_t align = bytes >= HUGE_FROM ? HUGE_PAGE : CACHE_LINE;
    bytes = kmf_round_up(bytes, align);
    void *p = aligned_alloc(align, bytes ? bytes : align);
    if (!p)
        return no_memory(n, size, err);
    ask_for_huge_pages(p, bytes);
    return p;
}

void *kmf_large_zeroed(size_t n, size_t size, kmf_err *err)
{
    void *p = kmf_calloc(n, size, err);
    if (p)
        ask_for_huge_pages(p, n * size);
    return p;
}

float *kmf_floats(size_t n, kmf_err *err)
{
    return kmf_large(n, sizeof(float), err);
}

static size_t whole_pages(size_t bytes)
{
    return bytes ? kmf_round_up(bytes, KMF_PAGE) : KMF_PAGE;
}

void *kmf_reserve(size_t bytes, kmf_err *err)
{
    void *p = MAP_FAILED;
    if (bytes <= PTRDIFF_MAX - KMF_PAGE && may_allocate())
        p = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED ? p : no_memory(bytes, 1, err);
}

void kmf_unreserve(void *p, size_t bytes)
{
    if (p)
        (void)munmap(p, whole_pages(bytes));
}

void kmf_discard(void *p, size_t bytes)
{
#ifdef MADV_DONTNEED
    uintptr_t beg = ((uintptr_t)p + KMF_PAGE - 1) / KMF_PAGE * KMF_PAGE;
    uintptr_t end = ((uintptr_t)p + bytes) / KMF_PAGE * KMF_PAGE;
    if (beg < end)
        (void)madvise((void *)beg, end - beg, MADV_DONTNEED);
#else
    (void)p;
    (void)bytes;
#endif
}

int kmf_grow(void *p, size_t *cap, size_t need, size_t size, kmf_err *err)
{
    if (need <= *cap)
        return 0;
    size_t new_cap = *cap < SIZE_MAX / 2 ? *cap + *cap / 2 : need;
    if (new_cap < need)
        new_cap = need;
    void *old;
    memcpy(&old, p, sizeof old);
    void *q = kmf_realloc(old, new_cap, size, err);
    if (!q)
        return KMF_ENOMEM;
    memcpy(p, &q, sizeof q);
    *cap = new_cap;
    return 0;
}

void kmf_text_free(char *text)
{
    kmf_free(text);
}
