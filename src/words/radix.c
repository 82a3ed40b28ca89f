/* SPDX-License-Identifier: MIT */
/*
 * Few passes over many keys.
 *
 * By digits: one pass counts all digits; then each digit, from the least significant on, moves
 * the keys to where the counts say, in stable order. A digit that all keys share is passed
 * over. Digits have 11 bits, 2048 places: few enough that the places written to stay in the
 * cache, many enough that 22 bits take two passes. Few keys take digits of 8 bits, so that
 * clearing the counts does not cost more than sorting.
 *
 * Keys of more than 22 bits are sorted by their first 22 only. Of some 100,000 keys, as many as
 * the counting has in a part, hardly two different ones then share a place, and one more pass
 * puts these right: neighbours that share their first bits are a group, small groups are sorted
 * by insertion, larger ones, which real sequences have as well, by their other digits.
 */
#include "words/radix.h"

#include <string.h>

#define WIDTH 11
#define DIGITS_MAX 8
#define PLACES_MAX (1 << WIDTH)
#define FEW 4096
#define FIRST_BITS (2 * WIDTH)
#define GROUP_MAX 32 /* keys sorted by insertion at most */

#define KEY uint32_t
#define BITS 32
#include "words/radix_keys.h"
#undef KEY
#undef BITS

#define KEY uint64_t
#define BITS 64
#include "words/radix_keys.h"
#undef KEY
#undef BITS
