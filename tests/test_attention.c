/* SPDX-License-Identifier: MIT */
/*
 * The encoder's attention against loops in double, at every processor level, in bfloat16 and in
 * integers of 16 and of 8 bits.
 */
#include "base/half.h"
#include "checked.h"
#include "elements.h"
#include "kmerformer.h"
#include "nn/attention.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_T = CHECKED ? 650 : 1200, MAX_K = 300, GUARD = 64 };

/*
 * What an encoder may ask for: f32; bytes; the first layer's without bf16, the same with nothing
 * rounded but the scores, and with bf16; bf16; the first layer's where there are tiles, and the
 * same with nothing else that is rounded; f32 there.
 */
static const kmf_attention_precision kinds[] = {
    {KMF_OPERAND_F32, KMF_OPERAND_F32},      {KMF_OPERAND_INT8, KMF_OPERAND_INT8},
    {KMF_OPERAND_INT16, KMF_OPERAND_INT16},  {KMF_OPERAND_INT16, KMF_OPERAND_F32},
    {KMF_OPERAND_INT16, KMF_OPERAND_BF16},   {KMF_OPERAND_BF16, KMF_OPERAND_BF16},
    {KMF_OPERAND_SPLIT, KMF_OPERAND_BF16},   {KMF_OPERAND_SPLIT, KMF_OPERAND_F32},
    {KMF_OPERAND_THIRDS, KMF_OPERAND_THIRDS}};
static const char *const operand_names[] = {"f32", "bf16", "int8", "int16", "split", "thirds"};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* How many of them there are here: who has bfloat16 has products of bytes, who has tiles both. */
static size_t n_kinds(void)
{
    size_t n = 0;
    while (n < N_KINDS && kmf_kernel_of(kinds[n].scores) && kmf_kernel_of(kinds[n].values))
        n++;
    if (n < N_KINDS)
        printf("skip: %zu of %d kinds of attention are not here\n", N_KINDS - n, (int)N_KINDS);
    return n;
}

/* ---------------------------------------------------------------- one head --------------- */

/* q, k, v side by side in rows that begin at no round address; out apart. */
typedef struct head {
    size_t T, K, ld, ld_out, bytes;
    float slope; /* ALiBi's; 0: none */
    float *qkv, *out;
    unsigned char *scratch; /* with GUARD bytes behind it */
    kmf_attention_precision precision;
} head;

/* A part cannot use check's assertions. */
static void *must(void *room)
{
    if (!room)
        exit(EXIT_FAILURE);
    return room;
}

static head make_head(size_t T, size_t K, kmf_attention_precision precision)
{
    static const float slopes[] = {0, 0.5f, 0x1p-8f};
    head h = {.T = T, .K = K, .ld = 3 * K + 5, .ld_out = K + 3, .precision = precision};
    h.slope = slopes[(T + K) % 3];
    h.bytes = kmf_attention_scratch(T, K, precision);
    h.qkv = must(malloc(T * h.ld * sizeof *h.qkv));
    h.out = must(malloc(T * h.ld_out * sizeof *h.out));
    h.scratch = must(aligned_alloc(64, h.bytes + GUARD));
    memset(h.scratch, 0xff, h.bytes + GUARD); /* NaN, if it were read */
    fill(h.qkv, T * h.ld, 2.0f);
    fill(h.out, T * h.ld_out, 1.0f);
    return h;
}

static void free_head(head *h)
{
    free(h->qkv);
    free(h->out);
    free(h->scratch);
}

static float *row_q(const head *h, size_t t)
{
    return h->qkv + t * h->ld;
}

static float *row_k(const head *h, size_t t)
{
    return h->qkv + t * h->ld + h->K;
}

static float *row_v(const head *h, size_t t)
{
    return h->qkv + t * h->ld + 2 * h->K;
}

static void attend_rows(const head *h, float *out, size_t ld_out, size_t t0, size_t t1)
{
    kmf_attention(out, ld_out,
                  &(kmf_attention_head){row_q(h, 0), row_k(h, 0), row_v(h, 0), h->ld, h->T,
                                        h->K, h->slope, h->precision},
                  h->scratch, t0, t1);
}

static void attend(const head *h)
{
    attend_rows(h, h->out, h->ld_out, 0, h->T);
}

static bool guard_stands(const head *h)
{
    for (size_t i = 0; i < GUARD; i++)
        if (h->scratch[h->bytes + i] != 0xff)
            return false;
    return true;
}

/* ---------------------------------------------------------------- the definition --------- */

static double rounded(float x)
{
    return (double)kmf_bf16_to_f32(kmf_bf16_from_f32(x));
}

/* x [K] as 256 levels from the smallest to the largest hold it (nn/panels.h). */
static void to_levels(double *out, const float *x, size_t K)
{
    float least = x[0];
    float most = x[0];
    for (size_t i = 1; i < K; i++) {
        least = fminf(least, x[i]);
        most = fmaxf(most, x[i]);
    }
    float range = most - least;
    for (size_t i = 0; i < K; i++) {
        double level = range > 0 ? rint((double)((x[i] - least) * (255.0f / range))) : 0.0;
        out[i] = (double)least + level * (double)range / 255.0;
    }
}

/* x [K] as so many levels to either side of 0 hold it. */
static void to_signed_levels(double *out, const float *x, size_t K, float levels)
{
    float most = 0.0f;
    for (size_t i = 0; i < K; i++)
        most = fmaxf(most, fabsf(x[i]));
    float scale = most / levels;
    for (size_t i = 0; i < K; i++)
        out[i] = most > 0 ? rint((double)(x[i] * (1.0f / scale))) * (double)scale : 0.0;
}

/* x [K] in units of a 32000th of its norm. */
static void to_norm_levels(double *out, const float *x, size_t K)
{
    double squares = 0.0;
    for (size_t i = 0; i < K; i++)
        squares += (double)x[i] * (double)x[i];
    double unit = sqrt(squares) / 32000;
    for (size_t i = 0; i < K; i++)
        out[i] = unit > 0 ? rint((double)x[i] / unit) * unit : 0.0;
}

/* A query, in the unit of the scores, or a key, as a product in this precision sees it. */
static void seen_as(double *out, const float *x, size_t K, float factor, bool query,
                    kmf_operand operand)
{
    float scaled[MAX_K];
    for (size_t i = 0; i < K; i++) {
        scaled[i] = x[i] * factor;
        out[i] = operand == KMF_OPERAND_BF16 ? rounded(scaled[i]) : (double)scaled[i];
    }
    if (operand == KMF_OPERAND_INT16)
        to_norm_levels(out, scaled, K);
    else if (operand == KMF_OPERAND_INT8 && query)
        to_levels(out, scaled, K);
    else if (operand == KMF_OPERAND_INT8)
        to_signed_levels(out, scaled, K, 127);
}

/* Column i of the values, as the product with weights sees it. */
static void values_seen(double *out, const head *h, size_t i, kmf_operand operand)
{
    static float column[MAX_T];
    for (size_t u = 0; u < h->T; u++) {
        column[u] = row_v(h, u)[i];
        out[u] = operand == KMF_OPERAND_BF16 ? rounded(column[u]) : (double)column[u];
    }
    if (operand == KMF_OPERAND_INT8)
        to_signed_levels(out, column, h->T, 127);
    else if (operand == KMF_OPERAND_INT16)
        to_signed_levels(out, column, h->T, 1820);
}

/* The six lowest bits of u, turned round, as a number between -1/2 and 1/2. */
static double threshold(size_t u)
{
    size_t turned = 0;
    for (size_t bit = 0; bit < 6; bit++)
        turned |= (u >> bit & 1) << (5 - bit);
    return ((double)turned + 0.5) / 64 - 0.5;
}

/*
 * Scores [T] become weights: 2^score over the largest; as integers, 254 or 2048 times that over the
 * largest of the keys up to the end of a piece, with a key's threshold, rounded. Their sum. unsure
 * [T]: an integer's unit where powers good to 1e-4, and scores of int16 (INT16_LIMIT), may be
 * rounded the other way, else 0.
 */
static double weights_of(double *p, double *unsure, size_t T, kmf_operand operand)
{
    enum { PIECE = 576 };
    double top[MAX_T / PIECE + 1];
    double max = -HUGE_VAL;
    double total = 0.0;
    for (size_t u = 0; u < T; u++) {
        max = p[u] > max ? p[u] : max;
        top[u / PIECE] = max;
    }
    for (size_t u = 0; u < T; u++) {
        bool integers = operand == KMF_OPERAND_INT8 || operand == KMF_OPERAND_INT16;
        double of = integers ? top[u / PIECE] : max;
        p[u] = exp2(p[u] - of);
        unsure[u] = 0.0;
        if (integers) {
            double exact = (operand == KMF_OPERAND_INT8 ? 254 : 2048) * p[u];
            double level = exact + threshold(u);
            double slack = operand == KMF_OPERAND_INT8 ? 0.03 : 0.03 + 2e-4 * exact;
            p[u] = rint(level) * exp2(of - max);
            unsure[u] = fabs(level - rint(level)) > 0.5 - slack ? exp2(of - max) : 0.0;
        }
        total += p[u];
    }
    return total;
}

/*
 * Row t in double: out [K], and the mean of |v| under the same weights, size [K]. as: what q, k, v
 * and weights are rounded to before; but weights in bf16 are not. open [K]: how far out is off if
 * every weight that may be rounded the other way is.
 */
static void right_row(double *out, double *size, double *open, const head *h, size_t t,
                      kmf_attention_precision as)
{
    static double p[MAX_T], v[MAX_T], unsure[MAX_T];
    double q[MAX_K], k[MAX_K];
    bool rough = as.scores != KMF_OPERAND_F32;
    double log2_e = 1 / log(2.0);
    float factor = (float)(1.0 / sqrt((double)h->K)) * 1.44269504f;
    seen_as(q, row_q(h, t), h->K, rough ? factor : 1.0f, true, as.scores);
    for (size_t i = 0; i < h->K && !rough; i++)
        q[i] *= log2_e / sqrt((double)h->K);
    for (size_t u = 0; u < h->T; u++) {
        p[u] = 0.0;
        seen_as(k, row_k(h, u), h->K, 1.0f, false, as.scores);
        for (size_t i = 0; i < h->K; i++)
            p[u] += q[i] * k[i];
        p[u] -= log2_e * (double)h->slope * fabs((double)u - (double)t);
    }
    double total = weights_of(p, unsure, h->T, as.values);
    for (size_t i = 0; i < h->K; i++) {
        out[i] = 0.0;
        size[i] = 0.0;
        open[i] = 0.0;
        values_seen(v, h, i, as.values);
        for (size_t u = 0; u < h->T; u++) {
            out[i] += p[u] / total * v[u];
            size[i] += p[u] / total * fabs(v[u]);
        }
        for (size_t u = 0; u < h->T; u++)
            open[i] += unsure[u] / total * fabs(v[u] - out[i]);
    }
}

static const size_t sizes[][2] = {{1, 2},    {2, 8},       {15, 32},  {33, 7},
                                  {64, 64},  {65, 80},     {577, 64}, {MAX_T, 8},
                                  {578, 30}, {MAX_T, 128}, {35, 300}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* Some rows of each: all of them, in double, would take longer than the rest of the test. */
static size_t next_row(const head *h, size_t t)
{
    return t + 1 + (h->T > 100 ? h->T / 40 : 0);
}

/* ramp: how much larger the last key is than the first one; the maximum moves with it. */
static const char *f32_case(kmf_attention_precision as, size_t T, size_t K, float ramp,
                            double *worst)
{
    head h = make_head(T, K, as);
    double want[MAX_K], size[MAX_K], open[MAX_K];
    const char *wrong = NULL;
    for (size_t u = 0; u < T; u++)
        for (size_t i = 0; i < K; i++)
            row_k(&h, u)[i] *= 1.0f + ramp * (float)u / (float)T;
    float behind[3];
    memcpy(behind, h.out + (T - 1) * h.ld_out + K, sizeof behind);
    attend(&h);
    if (memcmp(behind, h.out + (T - 1) * h.ld_out + K, sizeof behind) != 0)
        wrong = "attention wrote behind a row";
    if (!guard_stands(&h))
        wrong = "attention wrote behind its scratch";
    for (size_t t = 0; t < T; t = next_row(&h, t)) {
        right_row(want, size, open, &h, t, kinds[0]);
        for (size_t i = 0; i < K; i++) {
            double error = fabs((double)h.out[t * h.ld_out + i] - want[i]);
            *worst = error <= *worst ? *worst : error;
        }
    }
    free_head(&h);
    return wrong;
}

static const char *f32_is_right(void)
{
    kmf_operand here = kmf_operand_of(KMF_PRECISION_F32);
    kmf_operand operands[] = {KMF_OPERAND_F32, here};
    for (int i = 0; i < (here == KMF_OPERAND_F32 ? 1 : 2); i++) {
        kmf_attention_precision as = {operands[i], operands[i]};
        double worst = 0.0;
        for (size_t s = 0; s < N_SIZES; s++)
            for (int ramp = -1; ramp <= 1; ramp++) {
                const char *wrong =
                    f32_case(as, sizes[s][0], sizes[s][1], 0.9f * (float)ramp, &worst);
                if (wrong)
                    return wrong;
            }
        printf("attention in %s: largest error %.2e\n", operand_names[operands[i]], worst);
        if (!(worst <= 4e-6))
            return "attention differs from its definition";
    }
    return NULL;
}

/*
 * From the definition with rounded q, k and v there remain: the weights rounded to bfloat16, 2^-8
 * each at most, in the sum of values but not in that of weights; powers of 2 good to 1e-4, in both
 * and in the factor at each of two more blocks of keys; float sums. All are relative to a weight.
 */
#define ROUGH_LIMIT (0x1p-8 + 6e-4)
/* Bytes are summed exactly; what weights are open to is not in it. */
#define BYTES_LIMIT 1e-5
/*
 * Scores of int16 with values in float32 or int16: powers of 2 good to 2e-7, float sums, and
 * numbers half way between two integers, 1 of 300, that a norm in float32 rounds the other way.
 */
#define INT16_LIMIT 1e-4
static const double limits[] = {[KMF_OPERAND_F32] = INT16_LIMIT,
                                [KMF_OPERAND_BF16] = ROUGH_LIMIT,
                                [KMF_OPERAND_INT8] = BYTES_LIMIT,
                                [KMF_OPERAND_INT16] = INT16_LIMIT,
                                [KMF_OPERAND_THIRDS] = 1e-5};

static const char *rough_case(kmf_attention_precision as, size_t T, size_t K, bool leans,
                              double *worst, double *cosine)
{
    head h = make_head(T, K, as);
    h.slope = leans ? h.slope : 0;
    double want[MAX_K], plain[MAX_K], size[MAX_K], open[MAX_K], unused[2][MAX_K];
    double dot = 0.0, ours = 0.0, theirs = 0.0;
    attend(&h);
    const char *wrong = guard_stands(&h) ? NULL : "attention wrote behind its scratch";
    for (size_t t = 0; t < T; t = next_row(&h, t)) {
        right_row(want, size, open, &h, t, as);
        right_row(plain, unused[0], unused[1], &h, t, kinds[0]);
        for (size_t i = 0; i < K; i++) {
            double x = (double)h.out[t * h.ld_out + i];
            double error = fmax(fabs(x - want[i]) - open[i], 0.0) / size[i];
            *worst = error <= *worst ? *worst : error;
            dot += x * plain[i];
            ours += x * x;
            theirs += plain[i] * plain[i];
        }
    }
    double c = dot / sqrt(ours * theirs);
    *cosine = c >= *cosine ? *cosine : c;
    free_head(&h);
    return wrong;
}

static const char *rough_is_right(void)
{
    size_t n = n_kinds();
    for (size_t kind = 1; kind < n; kind++) {
        double worst = 0.0;
        double cosine = 1.0;
        for (size_t s = 0; s < 2 * N_SIZES; s++) {
            const char *wrong = rough_case(kinds[kind], sizes[s / 2][0], sizes[s / 2][1],
                                           s % 2 > 0, &worst, &cosine);
            if (wrong)
                return wrong;
        }
        printf("attention, scores in %s, values in %s: largest error %.2e of the mean |v|, "
               "smallest cosine to f32 %.7f\n",
               operand_names[kinds[kind].scores], operand_names[kinds[kind].values], worst,
               cosine);
        if (!(worst <= limits[kinds[kind].values]))
            return "attention of rounded numbers differs from its definition";
        /* what embed promises of each precision */
        if (!(cosine >= (kinds[kind].values == KMF_OPERAND_INT8 ? 0.999 : 0.9999)))
            return "attention of rounded numbers is not that of f32";
    }
    return NULL;
}

/* ---------------------------------------------------------------- bits ------------------- */

/* Rows in parts, and in place of q, have the bits of all at once. */
static const char *parts_of(kmf_attention_precision precision, size_t T, size_t K)
{
    head h = make_head(T, K, precision);
    const size_t cuts[] = {0, 1, 13, 14, T / 2, T - 1, T};
    enum { N_CUTS = sizeof cuts / sizeof cuts[0] };
    float *again = must(malloc(T * h.ld_out * sizeof *again));
    const char *wrong = NULL;
    attend(&h);
    memcpy(again, h.out, T * h.ld_out * sizeof *again);
    for (size_t t = 0; t < T; t++)
        fill(again + t * h.ld_out, K, 1.0f);
    for (size_t c = N_CUTS - 1; c-- > 0;)
        attend_rows(&h, again, h.ld_out, cuts[c], cuts[c + 1]);
    if (memcmp(again, h.out, T * h.ld_out * sizeof *again) != 0)
        wrong = "rows in parts differ";
    for (size_t c = 0; c + 1 < N_CUTS; c++)
        attend_rows(&h, row_q(&h, 0), h.ld, cuts[c], cuts[c + 1]);
    for (size_t t = 0; t < T; t++)
        if (memcmp(row_q(&h, t), h.out + t * h.ld_out, K * sizeof *again) != 0)
            wrong = "attention in place of q differs";
    free(again);
    free_head(&h);
    return wrong;
}

static const char *parts_have_the_bits(void)
{
    /* the last: so many keys that more queries are worked on at a time */
    static const size_t shapes[][2] = {
        {29, 10}, {65, 64}, {577, 80}, {641, 32}, {CHECKED ? 33 : 4300, 8}};
    const char *wrong = NULL;
    size_t n = n_kinds();
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t kind = 0; kind < n && !wrong; kind++)
            wrong = parts_of(kinds[kind], shapes[s][0], shapes[s][1]);
    return wrong;
}

/* ---------------------------------------------------------------- unusual numbers -------- */

static float nan_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Whether the NaN of out are those of row `row` (SIZE_MAX: of any) and column `col` (the same). */
static bool nan_at(const head *h, size_t row, size_t col)
{
    for (size_t t = 0; t < h->T; t++)
        for (size_t i = 0; i < h->K; i++) {
            bool want = (row == SIZE_MAX || row == t) && (col == SIZE_MAX || col == i);
            if (want != (bool)isnan(h->out[t * h->ld_out + i]))
                return false;
        }
    return true;
}

/* One NaN of these bits in a query, a key, a value; an infinite key, which one query points to. */
static const char *nan_case(kmf_attention_precision precision, size_t T, size_t at, bool leans,
                            uint32_t bits)
{
    enum { K = 10 };
    head h = make_head(T, K, precision);
    h.slope = leans ? h.slope : 0;
    const kmf_kernel *scores = kmf_kernel_of(precision.scores);
    bool of_parts = scores->parts > 1 || precision.scores == KMF_OPERAND_INT8 ||
                    precision.scores == KMF_OPERAND_INT16;
    const char *wrong = NULL;
    float sound = row_q(&h, at)[1];
    row_q(&h, at)[1] = nan_of(bits);
    attend(&h);
    if (!nan_at(&h, at, SIZE_MAX))
        wrong = "NaN of a query is not where it belongs";
    row_q(&h, at)[1] = sound;
    sound = row_v(&h, at)[K - 1];
    row_v(&h, at)[K - 1] = nan_of(bits);
    attend(&h);
    if (!nan_at(&h, SIZE_MAX, K - 1))
        wrong = "NaN of a value is not where it belongs";
    row_v(&h, at)[K - 1] = sound;
    row_k(&h, at)[0] = nan_of(bits);
    attend(&h);
    if (!nan_at(&h, SIZE_MAX, SIZE_MAX))
        wrong = "NaN of a key was lost";
    row_k(&h, at)[0] = HUGE_VALF;
    for (size_t t = 0; t < T; t++)
        row_q(&h, t)[0] = t == at ? 1.0f : -1.0f;
    attend(&h);
    if (!nan_at(&h, of_parts ? SIZE_MAX : at, SIZE_MAX))
        wrong = "a score of infinity is not where it belongs";
    free_head(&h);
    return wrong;
}

static const char *nan_is_kept(void)
{
    static const uint32_t bits[] = {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xff800001u};
    static const size_t places[][2] = {{5, 4}, {70, 66}, {600, 0}, {600, 580}};
    const char *wrong = NULL;
    size_t n = n_kinds();
    for (size_t i = 0; i < 4; i++)
        for (size_t p = 0; p < 8; p++)
            for (size_t kind = 0; kind < n && !wrong; kind++)
                wrong = nan_case(kinds[kind], places[p / 2][0], places[p / 2][1], p % 2 > 0,
                                 bits[i]);
    return wrong;
}

/*
 * Scores of 1e4 and more, whose powers would overflow without the maximum taken off: one key that
 * outweighs all others, in each block of keys; and keys alike, whose values are averaged.
 */
static const char *large_case(kmf_attention_precision precision, size_t T, size_t winner,
                              float sign)
{
    enum { K = 4 };
    head h = make_head(T, K, precision);
    double mean[K] = {0};
    /* of values up to 2: float sums; words of 8 bits; levels of 2 / 127, halves of them off, .. */
    double limit = precision.values == KMF_OPERAND_BF16    ? 0x1p-8
                   : precision.values == KMF_OPERAND_INT8  ? 1.0 / 127
                   : precision.values == KMF_OPERAND_INT16 ? 1.0 / 1820
                                                           : 1e-6;
    const char *wrong = NULL;
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < K; i++) {
            row_q(&h, t)[i] = 100.0f;
            row_k(&h, t)[i] = t == winner ? 100.0f : 1.0f;
            mean[i] += (double)row_v(&h, t)[i] / (double)T;
        }
    attend(&h);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < K; i++)
            if (!(fabs((double)(h.out[t * h.ld_out + i] - row_v(&h, winner)[i])) <= 2 * limit))
                wrong = "a large score is not all there is";
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < K; i++)
            row_k(&h, t)[i] = sign * 100.0f;
    attend(&h);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < K; i++)
            if (!(fabs((double)h.out[t * h.ld_out + i] - mean[i]) <= limit))
                wrong = "equal scores are not equal weights";
    free_head(&h);
    return wrong;
}

static const char *large_scores_are_stood(void)
{
    static const size_t cases[][2] = {
        {5, 3}, {1100, 0}, {1100, 575}, {1100, 576}, {1100, 1099}};
    const char *wrong = NULL;
    size_t n = n_kinds();
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (size_t kind = 0; kind < n && !wrong; kind++)
            wrong = large_case(kinds[kind], cases[c][0], cases[c][1], c % 2 ? -1.0f : 1.0f);
    return wrong;
}

/* ---------------------------------------------------------------- the tests -------------- */

/*
 * Each weight by itself. The keys are u / 16 less from one to the next, which bfloat16 holds, so
 * the scores are known to the last bit; v tells which weight the output is.
 */
static const char *powers_are_right(void)
{
    enum { T = 256, K = 2 };
    kmf_attention_precision bf16 = {KMF_OPERAND_BF16, KMF_OPERAND_BF16};
    if (kmf_precision_here(KMF_PRECISION_BF16) != KMF_PRECISION_BF16) {
        puts("skip: no bfloat16 here");
        return NULL;
    }
    head h = make_head(T, K, bf16);
    h.slope = 0;
    double step = rounded(1.44269504f / sqrtf(2)) / 16;
    double bias = 0, worst = 0, largest = 0;
    for (size_t u = 0; u < T; u++) {
        row_q(&h, u)[0] = 1;
        row_q(&h, u)[1] = 0;
        row_k(&h, u)[0] = -(float)u / 16;
        row_k(&h, u)[1] = 0;
    }
    for (size_t u = 0; u < T; u++) {
        for (size_t t = 0; t < T; t++) {
            row_v(&h, t)[0] = t == u;
            row_v(&h, t)[1] = 0;
        }
        attend_rows(&h, h.out, h.ld_out, 0, 1);
        largest = u == 0 ? (double)h.out[0] : largest;
        double error = (double)h.out[0] / largest / exp2(-step * (double)u) - 1;
        bias += error / T;
        worst = fabs(error) <= worst ? worst : fabs(error);
    }
    free_head(&h);
    printf("weights in bf16: largest relative error %.3g, on average %.3g\n", worst, bias);
    return worst <= 0x1p-8 + 1e-4 && fabs(bias) <= 4e-4 ? NULL : "a power of 2 is wrong";
}

/*
 * One key that outweighs 1100 others, each of whose weights is less than half a unit: all of them
 * together still have their share. The sum of 64 neighbours is right to half a unit, 1 / units of
 * the large one, and one unit is for those beyond the last 64.
 */
static const char *small_weights_are_kept(void)
{
    enum { T = 1101, K = 2 };
    static const struct {
        double below, units;
        int kind;
    } cases[] = {{9.0, 254, 1},   {10.5, 254, 1},  {12.0, 254, 1}, {13.5, 254, 1},
                 {12.0, 2048, 2}, {13.5, 2048, 2}, {15.0, 2048, 2}};
    if (kmf_precision_here(KMF_PRECISION_INT8) != KMF_PRECISION_INT8) {
        puts("skip: no products of bytes here");
        return NULL;
    }
    const char *wrong = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double below = cases[i].below;
        head h = make_head(T, K, kinds[cases[i].kind]);
        h.slope = 0;
        for (size_t u = 0; u < T; u++) {
            row_q(&h, u)[0] = 1;
            row_q(&h, u)[1] = 0;
            row_k(&h, u)[0] = u == T / 2 ? 0 : -(float)(below * sqrt(2) * log(2.0));
            row_k(&h, u)[1] = 0;
            row_v(&h, u)[0] = u == T / 2 ? 0 : 1;
            row_v(&h, u)[1] = 0;
        }
        attend_rows(&h, h.out, h.ld_out, 0, 1);
        double others = (T - 1) * exp2(-below);
        double error = (double)h.out[0] - others / (1 + others);
        printf("1100 weights of 2^-%.1f: %.4f, off by %.5f\n", below, (double)h.out[0], error);
        if (!(fabs(error) <= ((double)T / 64 / 2 + 1) / cases[i].units / (1 + others)))
            wrong = "small weights were lost";
        free_head(&h);
    }
    return wrong;
}

static const levels_part parts[] = {
    {"f32", f32_is_right},
    {"rough", rough_is_right},
    {"powers", powers_are_right},
    {"parts", parts_have_the_bits},
    {"small", small_weights_are_kept},
    {"nan", nan_is_kept},
    {"large", large_scores_are_stood},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

LEVELS_TEST(attention_equals_its_definition_in_double, "f32", levels_each[_i])

START_TEST(attention_in_bf16_and_bytes_rounds_and_does_no_more)
{
    for (int i = 0; i < N_DIGITS; i++)
        levels_run("rough", levels_digits[i], NULL);
}
END_TEST

START_TEST(weights_in_bf16_are_powers_of_2)
{
    levels_run("powers", "", NULL);
    levels_run("powers", "KMERFORMER_CPU=bf16", NULL);
}
END_TEST

START_TEST(many_small_weights_in_bytes_keep_their_sum)
{
    levels_run("small", "", NULL);
    levels_run("small", "KMERFORMER_CPU=bf16", NULL);
    levels_run("small", "KMERFORMER_CPU=avxvnni", NULL);
    levels_run("small", "KMERFORMER_CPU=avx2", NULL);
}
END_TEST

LEVELS_TEST(rows_in_parts_and_in_place_of_q_have_the_same_bits, "parts", levels_each[_i])
LEVELS_TEST(attention_keeps_nan_where_it_belongs, "nan", levels_each[_i])
LEVELS_TEST(attention_stands_large_scores, "large", levels_each[_i])

START_TEST(attention_scratch_that_does_not_fit_is_0)
{
    ck_assert_uint_eq(kmf_attention_scratch(SIZE_MAX / 8, 64, kinds[0]), 0);
    ck_assert_uint_eq(kmf_attention_scratch(SIZE_MAX - 1, 64, kinds[0]), 0);
    ck_assert_uint_eq(kmf_attention_scratch(100, SIZE_MAX / 8, kinds[0]), 0);
    /* Linear in T: keys and values, and what does not grow. */
    size_t one = kmf_attention_scratch(5760, 64, kinds[0]);
    size_t two = kmf_attention_scratch(2 * 5760, 64, kinds[0]);
    ck_assert_uint_ge(two - one, 5760 * 2 * 64 * sizeof(float));
    size_t most = 5760 * (64 + 72) * sizeof(float); /* 72: whole panels of 24 */
    ck_assert_uint_le(two - one, most);
    size_t n = n_kinds();
    for (size_t kind = 1; kind < n; kind++)
        ck_assert_uint_eq(kmf_attention_scratch(SIZE_MAX / 8, 64, kinds[kind]), 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, attention_equals_its_definition_in_double, 0, N_EACH);
    tcase_add_test(tcase, attention_in_bf16_and_bytes_rounds_and_does_no_more);
    tcase_add_test(tcase, weights_in_bf16_are_powers_of_2);
    tcase_add_test(tcase, many_small_weights_in_bytes_keep_their_sum);
    tcase_add_loop_test(tcase, rows_in_parts_and_in_place_of_q_have_the_same_bits, 0, N_EACH);
    tcase_add_loop_test(tcase, attention_keeps_nan_where_it_belongs, 0, N_EACH);
    tcase_add_loop_test(tcase, attention_stands_large_scores, 0, N_EACH);
    tcase_add_test(tcase, attention_scratch_that_does_not_fit_is_0);
    return run_case("attention", tcase);
}
