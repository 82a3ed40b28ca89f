/* SPDX-License-Identifier: MIT */
/*
 * Kernels (nn/kernels.h) that work in the tile registers of AMX: 16 rows of 64 bytes each, and one
 * instruction for the product of two of them (Intel's Software Developer's Manual, vol. 1, ch. 18).
 * A tile of a holds 16 rows of 16 words, one of b 16 rows of a panel for 16 of its columns, one of
 * sums 16 x 16. So sums are taken in units of 16 words, and whatever is behind the last word of a
 * row of a, and behind the last row of a panel, up to the next 16th must be 0.
 *
 * Rows are read in units of 16: those of a up to a whole unit must be there, whatever they hold.
 * What is written is c's rows alone.
 */
#ifndef KMF_AMX_H
#define KMF_AMX_H

#include "base/cpu.h"
#include "nn/kernels.h"

#if KMF_X86_LEVELS
/* Only at the level amx, and between kmf_amx_open and kmf_amx_close on the same thread. */
kmf_panel_fn kmf_amx_panel_thirds;
kmf_panel_fn kmf_amx_panel_bf16;
kmf_panel_fn kmf_amx_panel_split;
kmf_panel_fn kmf_amx_panel_int8;
kmf_gather_fn kmf_amx_gather;

/*
 * The unit that multiplies tiles leaves the vector units idle: while it works on a block, they end
 * the one before.
 */
kmf_fused_fn kmf_amx_fused_thirds;
kmf_fused_fn kmf_amx_fused_bf16;
kmf_fused_fn kmf_amx_fused_int8;

/* Takes the tile registers, and gives them back empty: 50 ns. */
void kmf_amx_open(void);
void kmf_amx_close(void);
#endif

#endif
