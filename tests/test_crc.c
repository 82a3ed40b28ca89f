/* SPDX-License-Identifier: MIT */
/* CRC-32 beside its definition, bit by bit, and zlib's, whichever library computes it. */
#include "base/crc.h"

#include "base/rng.h"
#include "run.h"

#include <check.h>
#include <zlib.h>

#define REFLECTED 0xedb88320u /* the polynomial of RFC 1952, 8 */

static uint32_t by_bits(uint32_t crc, const unsigned char *bytes, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? REFLECTED : 0);
    }
    return ~crc;
}

static unsigned char bytes[100000];

static void fill(void)
{
    kmf_rng rng = kmf_rng_stream(1, 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)kmf_rng_next(&rng);
}

START_TEST(of_any_length_and_alignment)
{
    fill();
    ck_assert_uint_eq(kmf_crc32(0, "123456789", 9), 0xcbf43926u);
    for (size_t n = 0; n < 700; n++)
        for (size_t at = 0; at < 17; at += 1 + n / 100)
            ck_assert_uint_eq(kmf_crc32(0, bytes + at, n), by_bits(0, bytes + at, n));
    ck_assert_uint_eq(kmf_crc32(0, bytes, sizeof bytes),
                      (uint32_t)crc32_z(0, bytes, sizeof bytes));
}
END_TEST

START_TEST(in_pieces_it_is_that_of_the_whole)
{
    fill();
    uint32_t whole = kmf_crc32(0, bytes, sizeof bytes), crc = 0;
    for (size_t at = 0, n = 0; at < sizeof bytes; at += n, n = (n * 5 + 3) % 4099) {
        n = n < sizeof bytes - at ? n : sizeof bytes - at;
        crc = kmf_crc32(crc, bytes + at, n);
    }
    ck_assert_uint_eq(crc, whole);
    ck_assert_uint_eq(kmf_crc32(crc, NULL, 0), whole);
    ck_assert_uint_eq(kmf_crc32(0, NULL, 0), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("crc");
    tcase_add_test(tc, of_any_length_and_alignment);
    tcase_add_test(tc, in_pieces_it_is_that_of_the_whole);
    return run_case("crc", tc);
}
