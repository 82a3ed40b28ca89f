/* SPDX-License-Identifier: MIT */
/*
 * kmerformer: sequences to vectors, in C.
 *
 *   file -> records -> k-mers -> ids -> chunks -> encoder -> pooling -> one vector per record
 *                         +----> counts -> vocabulary
 *
 * This is the header that programs include. What it declares stands in kmerformer/, in parts
 * that are read in the order of the includes below, which is that of the picture. Every object
 * is opaque, comes from a _new, _load or _open and goes by _free or _close, which accept NULL.
 * Strings are UTF-8 and NUL-terminated unless a length stands beside them.
 *
 * Errors. A function that can be failed by the outside world takes a kmf_err as its last
 * argument (NULL if the reason is not wanted). One that makes something returns NULL on
 * failure; the others return 0, or a count, or a negative kmf_code. Unless more is said, an
 * argument or option out of range is KMF_EINVAL, a file that is not there or cannot be read or
 * written KMF_EIO, and what does not fit the memory KMF_ENOMEM. Pointers may be NULL where that is
 * said, and nowhere else.
 *
 * Threads. An object may be used by one thread at a time, different objects by different threads
 * at once. kmf_model, kmf_vocab, kmf_vectors, kmf_counts and kmf_probe are read-only once made and
 * may be shared, as may a kmf_pool. A thread that calls the library wants 1 MB of stack.
 *
 * Fork. A child has none of the threads that its parent's objects work with: of what may be shared
 * it can use kmf_vocab, kmf_vectors, kmf_counts and kmf_probe, all else it makes anew. It frees
 * none of the objects with threads, which would wait for them forever.
 *
 * Process. What the library changes beyond its objects: htslib's log is off; OpenBLAS, where it is
 * called, works with one thread; Linux is asked for the use of AMX where the processor has it; and
 * the first CRAM sets REF_PATH where that is unset or names a network address, so that nothing is
 * downloaded (setenv: set it yourself in a program whose threads read the environment). It installs
 * no signal handler. It reads KMERFORMER_MODEL, KMERFORMER_CPU, KMERFORMER_GEMM, TMPDIR, REF_PATH
 * and SLURM_CPUS_PER_TASK.
 *
 * Locale. Numbers in files and messages have a decimal point, whatever locale the program sets.
 *
 * Floats. A thread that calls the library rounds to nearest and lets no floating-point exception
 * end it, as every C program begins: the library computes with NaN and infinities. With another
 * rounding, last digits are others.
 *
 * A complete program, compiled and run by the tests:
 *
 *   #include <kmerformer.h>
 *   #include <stdio.h>
 *   #include <stdlib.h>
 *
 *   int main(int argc, char **argv)
 *   {
 *       const char *seq = argc > 1 ? argv[1] : "ACGTACGTTGCAACGTTAGCATTA";
 *       kmf_err err = {KMF_OK, ""};
 *       kmf_embed_options opts;
 *       kmf_embed_options_default(&opts);
 *       kmf_embedder *embedder = kmf_embedder_new(NULL, &opts, &err);
 *       if (!embedder) {
 *           fprintf(stderr, "%s\n", err.msg);
 *           return 1;
 *       }
 *       size_t dim = kmf_embedder_dim(embedder);
 *       float *vector = (float *)malloc(dim * sizeof *vector);
 *       int status = 1;
 *       if (vector && kmf_embed_sequence(embedder, vector, seq, &err) == 0) {
 *           for (size_t i = 0; i < dim; i++)
 *               printf("%.8g%c", (double)vector[i], i + 1 < dim ? '\t' : '\n');
 *           status = 0;
 *       }
 *       free(vector);
 *       kmf_embedder_free(embedder);
 *       return status;
 *   }
 */
#ifndef KMERFORMER_H
#define KMERFORMER_H

#include "kmerformer/base.h"
#include "kmerformer/reader.h"
#include "kmerformer/labelled.h"
#include "kmerformer/kmer.h"
#include "kmerformer/counts.h"
#include "kmerformer/tokens.h"
#include "kmerformer/vectors.h"
#include "kmerformer/word2vec.h"
#include "kmerformer/model.h"
#include "kmerformer/pretrain.h"
#include "kmerformer/embed.h"
#include "kmerformer/logits.h"
#include "kmerformer/output.h"
#include "kmerformer/checkpoint.h"
#include "kmerformer/rowfile.h"
#include "kmerformer/rownearest.h"
#include "kmerformer/probe.h"
#include "kmerformer/eval.h"
#include "kmerformer/bench.h"
#include "kmerformer/plot.h"

#endif
