/* SPDX-License-Identifier: MIT */
/*
 * CHECKED: 1 in a build with the address or thread sanitizer, whose arithmetic is up to a hundred
 * times slower, so that tests may take smaller inputs; else 0.
 */
#ifndef KMF_TEST_CHECKED_H
#define KMF_TEST_CHECKED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECKED 1
#endif
#endif
#ifndef CHECKED
#define CHECKED 0
#endif

#endif
