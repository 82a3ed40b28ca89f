/* SPDX-License-Identifier: MIT */
/*
 * Little-endian numbers in bytes of any alignment: one instruction where the machine is
 * little-endian itself.
 */
#ifndef KMF_LE_H
#define KMF_LE_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__)
#define KMF_LITTLE_ENDIAN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#else
#define KMF_LITTLE_ENDIAN 0
#endif

static inline uint64_t kmf_le_load64(const unsigned char *p)
{
    uint64_t value = 0;
#if KMF_LITTLE_ENDIAN
    memcpy(&value, p, sizeof value);
#else
    for (int i = 7; i >= 0; i--)
        value = value << 8 | p[i];
#endif
    return value;
}

static inline void kmf_le_store64(unsigned char *p, uint64_t value)
{
#if KMF_LITTLE_ENDIAN
    memcpy(p, &value, sizeof value);
#else
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(value >> 8 * i);
#endif
}

static inline uint16_t kmf_le_load16(const unsigned char *p)
{
    uint16_t value = 0;
#if KMF_LITTLE_ENDIAN
    memcpy(&value, p, sizeof value);
#else
    value = (uint16_t)(p[0] | p[1] << 8);
#endif
    return value;
}

static inline uint32_t kmf_le_load32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void kmf_le_store32(unsigned char *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(value >> 8 * i);
}

#endif
