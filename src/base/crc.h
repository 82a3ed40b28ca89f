/* SPDX-License-Identifier: MIT */
/* CRC-32 of gzip and zip (RFC 1952, 8), by ISA-L where the build has it, else by zlib. */
#ifndef KMF_CRC_H
#define KMF_CRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * That of the n bytes behind those of which it is `crc`; 0: they are the first. bytes may be NULL
 * if n is 0.
 */
uint32_t kmf_crc32(uint32_t crc, const void *bytes, size_t n);

#endif
