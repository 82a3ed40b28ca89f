/* SPDX-License-Identifier: MIT */
/* What this build is made of, for `version`. */
#include "base/cpu.h"
#include "nn/gemm.h"
#include "seq/inflate.h"
#include "seq/par.h"

#include <jansson.h>
#include <stdio.h>
#include <zlib.h>

const char *kmf_version(void)
{
    return KMF_VERSION;
}

void kmf_build_info(char *text, size_t cap)
{
    snprintf(text, cap,
             "compiler\t%s\nhtslib\t%s\nblas\t%s\njansson\t%s\nzlib\t%s\n"
             "gunzip\t%s\nproducts\t%s\nkernels\t%s\n",
#if defined(__clang__)
             "clang " __clang_version__,
#else
             "gcc " __VERSION__,
#endif
             kmf_htslib_version(), kmf_gemm_library(), jansson_version_str(), zlibVersion(),
             kmf_inflate_library(), kmf_gemm_name(), kmf_cpu_name(kmf_cpu_level()));
}
