/* SPDX-License-Identifier: MIT */
#include "learn/lexicon.h"

#include "base/mem.h"
#include "words/kmer.h"

#include <assert.h>

#define DNA_K_MAX 12    /* 16.8 million words */
#define PROTEIN_K_MAX 5 /* 3.2 million */

int kmf_lexicon_k_max(kmf_alphabet alphabet)
{
    return alphabet == KMF_DNA ? DNA_K_MAX : PROTEIN_K_MAX;
}

/* Numbers the words of length k from lexicon->n on. */
static int number_words(kmf_lexicon *lexicon, int k, kmf_err *err)
{
    uint64_t end = UINT64_C(1) << lexicon->alphabet->bits * k;
    uint32_t *table = kmf_large((size_t)end, sizeof *table, err);
    if (!table)
        return KMF_ENOMEM;
    lexicon->of_code[k] = table;
    for (uint64_t code = 0; code < end; code++)
        table[code] = KMF_LEXICON_NONE;
    for (uint64_t code = kmf_alphabet_round_up(lexicon->name, k, 0); code < end;
         code = kmf_alphabet_round_up(lexicon->name, k, code + 1)) {
        uint64_t other = lexicon->canonical ? kmf_revcomp_of(code, k) : code;
        table[code] = other < code ? table[other] : lexicon->n++;
    }
    return 0;
}

int kmf_lexicon_make(kmf_lexicon *lexicon, kmf_alphabet alphabet, int k_min, int k_max,
                     bool canonical, kmf_err *err)
{
    assert(k_min >= 1 && k_min <= k_max && k_max <= kmf_lexicon_k_max(alphabet));
    *lexicon = (kmf_lexicon){.alphabet = kmf_alphabet_of(alphabet),
                             .name = alphabet,
                             .k_min = k_min,
                             .k_max = k_max,
                             .canonical = canonical};
    bool plain = alphabet == KMF_DNA && !canonical; /* every code is a word */
    for (int k = k_min; k <= k_max; k++) {
        lexicon->first[k] = lexicon->n;
        if (plain)
            lexicon->n += UINT32_C(1) << 2 * k;
        else if (number_words(lexicon, k, err) < 0)
            return KMF_ENOMEM;
    }
    lexicon->first[k_max + 1] = lexicon->n;
    return 0;
}

uint64_t kmf_lexicon_bytes(const kmf_lexicon *lexicon)
{
    uint64_t bytes = 0;
    for (int k = lexicon->k_min; k <= lexicon->k_max; k++)
        if (lexicon->of_code[k])
            bytes += sizeof **lexicon->of_code << lexicon->alphabet->bits * k;
    return bytes;
}

void kmf_lexicon_clear(kmf_lexicon *lexicon)
{
    for (int k = 0; k <= KMF_K_MAX; k++)
        kmf_free(lexicon->of_code[k]);
    *lexicon = (kmf_lexicon){0};
}
