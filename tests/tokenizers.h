/* SPDX-License-Identifier: MIT */
/*
 * Small tokenizers for tests, in the two shapes that published ones have. JSON stands in C with '
 * for its quotation marks; `edited` gives the real ones.
 */
#ifndef KMF_TEST_TOKENIZERS_H
#define KMF_TEST_TOKENIZERS_H

#include "kmerformer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define ADDED(id, content)                                                              \
    "{'id':" id ",'content':'" content "','single_word':false,'lstrip':false,"           \
    "'rstrip':false,'normalized':false,'special':true}"
#define FIVE                                                                            \
    ADDED("0", "[UNK]") "," ADDED("1", "[CLS]") "," ADDED("2", "[SEP]") ","              \
    ADDED("3", "[PAD]") "," ADDED("4", "[MASK]")

/* Like DNABERT-2's: A C G T = 5 .. 8, AC 9, GT 10, ACGT 11, TT 12, TTA 13. */
static const char bert_json[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':[" FIVE "],"
    "'normalizer':null,"
    "'pre_tokenizer':{'type':'Whitespace'},"
    "'post_processor':{'type':'TemplateProcessing',"
        "'single':[{'SpecialToken':{'id':'[CLS]','type_id':0}},"
                  "{'Sequence':{'id':'A','type_id':0}},"
                  "{'SpecialToken':{'id':'[SEP]','type_id':0}}],"
        "'pair':[],"
        "'special_tokens':{'[CLS]':{'id':'[CLS]','ids':[1],'tokens':['[CLS]']},"
                          "'[SEP]':{'id':'[SEP]','ids':[2],'tokens':['[SEP]']}}},"
    "'decoder':null,"
    "'model':{'type':'BPE','dropout':null,'unk_token':'[UNK]',"
        "'continuing_subword_prefix':null,'end_of_word_suffix':null,'fuse_unk':false,"
        "'vocab':{'[UNK]':0,'[CLS]':1,'[SEP]':2,'[PAD]':3,'[MASK]':4,'A':5,'C':6,'G':7,'T':8,"
                 "'AC':9,'GT':10,'ACGT':11,'TT':12,'TTA':13},"
        "'merges':['A C','G T','AC GT','T T','TT A']}}";

/* Like GENA-LM's: - 5, A C G N T = 6 .. 10, AC 11, NN 12, ACN 13. */
static const char gena_json[] =
    "{'version':'1.0','truncation':null,'padding':null,"
    "'added_tokens':[" FIVE "," ADDED("5", "-") "],"
    "'normalizer':{'type':'Sequence','normalizers':["
        "{'type':'Strip','strip_left':true,'strip_right':true},"
        "{'type':'Replace','pattern':{'Regex':'N{10,}'},'content':'-'}]},"
    "'pre_tokenizer':{'type':'Split','pattern':{'String':'-'},'behavior':'Isolated',"
        "'invert':false},"
    "'post_processor':{'type':'BertProcessing','sep':['[SEP]',2],'cls':['[CLS]',1]},"
    "'decoder':{'type':'BPEDecoder','suffix':' '},"
    "'model':{'type':'BPE','dropout':null,'unk_token':'[UNK]',"
        "'continuing_subword_prefix':null,'end_of_word_suffix':null,'fuse_unk':false,"
        "'byte_fallback':false,'ignore_merges':false,"
        "'vocab':{'[UNK]':0,'[CLS]':1,'[SEP]':2,'[PAD]':3,'[MASK]':4,'-':5,'A':6,'C':7,'G':8,"
                 "'N':9,'T':10,'AC':11,'NN':12,'ACN':13},"
        "'merges':[['A','C'],['N','N'],['AC','N']]}}";
/* clang-format on */

/*
 * Like the Nucleotide Transformer's with k = 2: <unk> <pad> <mask> <cls> <eos> = 0 .. 4, AA 5 AC 6
 * AG 7 AT 8 CA 9 CC 10 CG 11 CT 12 GA 13 GC 14 GT 15 TA 16 TC 17 TG 18, without GG and TT,
 * A 19 T 20 C 21 G 22 N 23.
 */
static const char greedy_txt[] = "<unk>\n<pad>\n<mask>\n<cls>\n<eos>\nAA\nAC\nAG\nAT\nCA\nCC\n"
                                 "CG\nCT\nGA\nGC\nGT\nTA\nTC\nTG\nA\nT\nC\nG\nN";

/* text with the first `from` in it replaced, and " for every '; freed by free. */
static inline char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "no %s in it", from);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    ck_assert_ptr_nonnull(out);
    memcpy(out, text, (size_t)(at - text));
    strcpy(out + (at - text), to);
    strcat(out, at + strlen(from));
    for (char *c = out; *c; c++)
        if (*c == '\'')
            *c = '"';
    return out;
}

static inline kmf_vocab *vocab_of(const char *text)
{
    kmf_err err = {0};
    char *real = edited(text, "", "");
    kmf_vocab *v = kmf_vocab_parse(real, strlen(real), "t", &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    free(real);
    return v;
}

#endif
