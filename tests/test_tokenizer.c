/* SPDX-License-Identifier: MIT */
/* tokenizer.json: what is understood, and that nothing else is. */
#include "failing.h"
#include "kmerformer.h"
#include "run.h"
#include "tokenizers.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(tokens_and_parts_are_found)
{
    static const char *const tokens[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]",
                                         "A",     "C",     "G",     "T",     "AC",
                                         "GT",    "ACGT",  "TT",    "TTA"};
    size_t len;
    kmf_vocab *v = vocab_of(bert_json);
    ck_assert_int_eq(kmf_vocab_kind_of(v), KMF_VOCAB_BPE);
    ck_assert_int_eq(kmf_vocab_k(v), 0);
    ck_assert_uint_eq(kmf_vocab_size(v), 14);
    for (int32_t id = 0; id < 14; id++)
        ck_assert_str_eq(kmf_vocab_token(v, id), tokens[id]);
    ck_assert_ptr_null(kmf_vocab_token(v, 14));
    ck_assert_int_eq(kmf_vocab_special(v, KMF_UNK), 0);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_CLS), 1);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_SEP), 2);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_PAD), 3);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_MASK), 4);
    ck_assert_uint_eq(kmf_vocab_frame(v), 2);
    ck_assert_int_eq(kmf_vocab_kmer(v, 0), -1);
    char *text = edited(bert_json, "", "");
    ck_assert_str_eq(kmf_vocab_text(v, &len), text);
    ck_assert_uint_eq(len, strlen(text));
    free(text);
    ck_assert_str_eq(kmf_vocab_file(v), "tokenizer.json");
    kmf_vocab_free(v);
}
END_TEST

START_TEST(other_ways_to_say_the_same_are_understood)
{
    static const struct {
        const char *json, *from, *to;
    } cases[] = {
        {bert_json, "'truncation':null", "'truncation':{'direction':'Right','max_length':8}"},
        {bert_json, "'padding':null", "'padding':{'strategy':{'Fixed':2000}}"},
        {bert_json, "'dropout':null", "'dropout':0.0"},
        {bert_json, "'dropout':null,", ""},
        {bert_json, "'end_of_word_suffix':null", "'end_of_word_suffix':''"},
        {bert_json, "['A C','G T',", "[['A','C'],'G T',"},
        {bert_json, "{'type':'Whitespace'}",
         "{'type':'Sequence','pretokenizers':[{'type':'Whitespace'}]}"},
        {bert_json, "'[MASK]':4,", ""}, /* an added token that the model need not know */
        {gena_json, "{'type':'Strip','strip_left':true,'strip_right':true},", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = edited(cases[i].json, cases[i].from, cases[i].to);
        kmf_err err = {0};
        kmf_vocab *v = kmf_vocab_parse(text, strlen(text), "t", &err);
        ck_assert_msg(v != NULL, "%s", err.msg);
        ck_assert_uint_eq(kmf_vocab_size(v), 14);
        ck_assert_str_eq(kmf_vocab_token(v, 4), "[MASK]");
        kmf_vocab_free(v);
        free(text);
    }
}
END_TEST

START_TEST(without_a_post_processor_there_is_no_frame)
{
    char *text = edited(
        gena_json, "{'type':'BertProcessing','sep':['[SEP]',2],'cls':['[CLS]',1]}", "null");
    kmf_vocab *v = kmf_vocab_parse(text, strlen(text), "t", NULL);
    ck_assert_ptr_nonnull(v);
    kmf_err err = {0};
    kmf_cut_options o = {.stride = 1, .window = 10, .specials = 1};
    ck_assert_uint_eq(kmf_vocab_frame(v), 0);
    ck_assert_ptr_null(kmf_cutter_new(v, &o, &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    kmf_vocab_free(v);
    free(text);
}
END_TEST

START_TEST(what_is_not_understood_is_named)
{
    static const struct {
        const char *json, *from, *to, *says;
    } cases[] = {
        {bert_json, "{'version'", "{", "not the JSON expected"},
        {bert_json, "'version':'1.0'", "'version':'2.0'", "version: must be 1.0"},
        {bert_json, "'decoder'", "'dekoder'", "'dekoder' is not known here"},
        {bert_json, "'added_tokens':[", "'added_tokens':[7,", "added_tokens: must be"},
        {bert_json, "'added_tokens':[" FIVE "]", "'added_tokens':7",
         "added_tokens: must be a list"},
        {bert_json, "'lstrip':false", "'lstrip':true", "'lstrip' is on"},
        {bert_json, "'normalized':false", "'normalized':true", "'normalized' is on"},
        {bert_json, "'special':true", "'shiny':true", "'shiny' is not known here"},
        {bert_json, "'id':0", "'id':3", "'[UNK]' has another id"},
        {bert_json, "'content':'[UNK]'", "'content':9", "content must be a text"},
        {bert_json, "'added_tokens':[",
         "'added_tokens':[{'id':14,'content':'<x>'},{'id':15,'content':'<x>'},",
         "added_tokens: '<x>' is listed twice"},
        {bert_json, "'normalizer':null", "'normalizer':{'type':'NFC'}",
         "normalizer: 'NFC' is not a type"},
        {bert_json, "'normalizer':null", "'normalizer':3", "normalizer: has no type"},
        {bert_json, "Whitespace", "WhitespaceSplit", "pre_tokenizer: 'WhitespaceSplit'"},
        {gena_json, "{'Regex':'N{10,}'}", "{'Regex':'N{10,}','flags':1}",
         "normalizer: Replace: pattern: 'flags' is not known here"},
        {gena_json, "{'String':'-'}", "{'String':'-','flags':1}",
         "pre_tokenizer: Split: pattern: 'flags' is not known here"},
        {bert_json, "'BPE'", "'WordPiece'", "model: 'WordPiece' is not a type"},
        {bert_json, "'dropout':null", "'dropout':0.1", "model: 'dropout' is on"},
        {bert_json, "'fuse_unk':false", "'fuse_unk':true", "model: 'fuse_unk' is on"},
        {bert_json, "'fuse_unk':false", "'fuse':false", "'fuse' is not known here"},
        {bert_json, "'end_of_word_suffix':null", "'end_of_word_suffix':'_'",
         "'end_of_word_suffix' is on"},
        {bert_json, "'unk_token':'[UNK]'", "'unk_token':null", "unk_token must be"},
        {bert_json, "'unk_token':'[UNK]'", "'unk_token':'x'", "unk_token must be"},
        {bert_json, "'A':5", "'A':15", "14 tokens must have the ids from 0 to 13"},
        {bert_json, "'A':5", "'A':14", "14 tokens must have the ids from 0 to 13"},
        {bert_json, "'A':5", "'A':-5", "ids from 0 to 13"},
        {bert_json, "'A':5", "'A':5.0", "ids from 0 to 13"},
        {bert_json, "'A':5", "'A':99999999999999999999", "not the JSON expected"},
        {bert_json, "'A':5", "'A':6", "two tokens have the id 6"},
        {bert_json, "'A':5", "'A':5,'A':5", "not the JSON expected"},
        {bert_json, "'TTA':13", "'':13", "a token without a letter"},
        {bert_json, "'A C',", "'A C','A  C',", "merge 2 is not two tokens"},
        {bert_json, "'A C',", "'AC',", "merge 1 is not two tokens"},
        {bert_json, "'A C',", "['A','C','G'],", "merge 1 is not two tokens"},
        {bert_json, "'A C',", "['A',7],", "merge 1 is not two tokens"},
        {bert_json, "'A C',", "5,", "merge 1 is not two tokens"},
        {bert_json, "'A C',", "'A ACGTACGT',", "merge 1 is not two tokens"},
        {bert_json, "'A C',", "'A ACGTAC',", "merge 1 is not two tokens"}, /* [MASK] has 6 */
        {bert_json, "'A C',", "'A ACGTA',", "merge 1 has a part or a result"},
        {bert_json, "'A C',", "'ACGTACG ',", "merge 1 is not two tokens"},
        {bert_json, "'A C',", "'A G',", "merge 1 has a part or a result"},
        {bert_json, "'A C',", "'N C',", "merge 1 has a part or a result"},
        {bert_json, "'A C',", "'A C','A C',", "merge 2 is listed twice"},
        {bert_json, "'id':'[SEP]','type_id':0}}]",
         "'id':'[SEP]','type_id':0}},{'SpecialToken':{'id':'[SEP]','type_id':0}}]",
         "only [CLS] $A [SEP]"},
        {bert_json, "'merges':[", "'merges':7,'x':[", "'x' is not known here"},
        {bert_json, "TemplateProcessing", "RobertaProcessing", "'RobertaProcessing' is not"},
        {bert_json, "'ids':[1]", "'ids':[2]", "a token or id that the vocabulary has not"},
        {bert_json, "'ids':[1]", "'ids':[1,1]", "a token or id"},
        {bert_json, "{'Sequence':{'id':'A'", "{'Sequence':{'id':'B'", "only [CLS] $A [SEP]"},
        {bert_json, "{'SpecialToken':{'id':'[SEP]','type_id':0}}",
         "{'SpecialToken':{'id':'[SEP]','type_id':1}}", "only [CLS] $A [SEP]"},
        {gena_json, "'sep':['[SEP]',2]", "'sep':['[SEP]',3]", "a token or id"},
        {gena_json, "'sep':['[SEP]',2]", "'sep':['SEP',2]", "a token or id"},
        {gena_json, "N{10,}", "N{9,}", "only N{10,} by -"},
        {gena_json, "'content':'-'}]}", "'content':'+'}]}", "only N{10,} by -"},
        {gena_json, "'Regex':'N", "'String':'N", "'String' is not known here"},
        {gena_json, "'strip_left':true", "'strip_left':1", "Strip: strip_left and"},
        {gena_json, "'normalizers':[", "'normalizers':{},'x':[", "'x' is not known"},
        {gena_json, "'behavior':'Isolated'", "'behavior':'Removed'",
         "Split: only at one letter"},
        {gena_json, "'invert':false", "'invert':true", "Split: only at one letter"},
        {gena_json, "{'String':'-'}", "{'String':'--'}", "Split: only at one letter"},
        {gena_json, "{'String':'-'}", "{'String':'+'}", "Replace: only if the"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kmf_err err = {0};
        char *text = edited(cases[i].json, cases[i].from, cases[i].to);
        ck_assert_msg(!kmf_vocab_parse(text, strlen(text), "t.json", &err),
                      "accepted, should say '%s'", cases[i].says);
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, cases[i].says) && strncmp(err.msg, "t.json: ", 8) == 0,
                      "'%s' does not say '%s'", err.msg, cases[i].says);
        free(text);
    }
}
END_TEST

START_TEST(hostile_text_is_refused)
{
    static char deep[3000];
    kmf_err err = {0};
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{'model':", 9);
    ck_assert_ptr_null(kmf_vocab_parse(deep, sizeof deep, "t", &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    char *text = edited(bert_json, "", "");
    for (size_t len = 1; len < strlen(text); len++) {
        err = (kmf_err){0};
        ck_assert_ptr_null(kmf_vocab_parse(text, len, "t", &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
    }
    free(text);
    ck_assert_ptr_null(kmf_vocab_parse("{}", 2, "t", NULL));
}
END_TEST

START_TEST(any_failing_allocation_is_reported)
{
    char *text = edited(bert_json, "", "");
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        kmf_vocab *v = kmf_vocab_parse(text, strlen(text), "t", &err);
        reached = failed_at(n);
        ck_assert(reached == !v);
        ck_assert_int_eq(err.code, reached ? KMF_ENOMEM : KMF_OK);
        kmf_vocab_free(v);
    }
    free(text);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("tokenizer");
    tcase_add_test(tcase, tokens_and_parts_are_found);
    tcase_add_test(tcase, other_ways_to_say_the_same_are_understood);
    tcase_add_test(tcase, without_a_post_processor_there_is_no_frame);
    tcase_add_test(tcase, what_is_not_understood_is_named);
    tcase_add_test(tcase, hostile_text_is_refused);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("tokenizer", tcase);
}
