/* SPDX-License-Identifier: MIT */
/*
 * Heaps of any type. KMF_HEAP(name, type, comes_before), where that is a macro of two of the type
 * that is false of equal ones, makes
 *
 *   name_sink(list, n, i)  lets number i sink to its place, where those below it lie in order
 *   name_heap(list, n)     the last of them to list[0], and the others to where sink wants them
 *
 * and KMF_HEAP_SORT(name, type) besides
 *
 *   name_sort(list, n)     a heap into their order
 *
 * (ksort.h of htslib has these, too, beside seven more functions for each type.)
 */
#ifndef KMF_HEAP_H
#define KMF_HEAP_H

#include <stddef.h>

#define KMF_HEAP(name, type, comes_before)                                   \
    static inline void name##_sink(type *list, size_t n, size_t i)           \
    {                                                                        \
        type sinking = list[i];                                              \
        for (size_t child; (child = 2 * i + 1) < n; i = child) {             \
            if (child + 1 < n && comes_before(list[child], list[child + 1])) \
                child++;                                                     \
            if (!comes_before(sinking, list[child]))                         \
                break;                                                       \
            list[i] = list[child];                                           \
        }                                                                    \
        list[i] = sinking;                                                   \
    }                                                                        \
                                                                             \
    static inline void name##_heap(type *list, size_t n)                     \
    {                                                                        \
        for (size_t i = n / 2; i-- > 0;)                                     \
            name##_sink(list, n, i);                                         \
    }

#define KMF_HEAP_SORT(name, type)                        \
    static inline void name##_sort(type *list, size_t n) \
    {                                                    \
        for (; n > 1; n--) {                             \
            type last = list[0];                         \
            list[0] = list[n - 1];                       \
            list[n - 1] = last;                          \
            name##_sink(list, n - 1, 0);                 \
        }                                                \
    }

#endif
