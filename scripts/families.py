# SPDX-License-Identifier: MIT
"""Published model directories as their families have them, for the scripts that make such.

Vocabularies are lists of words, or what tokenizer.json has. A family is a function from sizes
to its config.json and the layout of its model.safetensors, [(name, dtype, shape)]: the published
keys and tensor names, with what is stored and never used (position_ids, contact heads, position
tables beside rotary positions), and without what is left out (layer_norm_eps in DNABERT,
model_type in the Nucleotide Transformer v2).
"""
import dataclasses
import itertools

LETTERS = "ATCG"  # in the order of the published vocabularies
IUPAC = "ABCGKMNRSTWY"  # those that GENA-LM has met
BERT_SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]


@dataclasses.dataclass(frozen=True)
class Size:
    vocab: int
    hidden: int
    heads: int
    layers: int
    inner: int  # of the feed-forward; of each half of it where it is gated
    positions: int


# ---------------------------------------------------------------- parts ----------------------


def kmers(k):
    return ["".join(letters) for letters in itertools.product(LETTERS, repeat=k)]


def dnabert_vocabulary(k):
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *kmers(k)]


def nucleotide_vocabulary(k, ends):
    """ends: the two entries for the ends of a sequence, which v2 has and does not use."""
    special = ["<unk>", "<pad>", "<mask>", "<cls>"] + (["<eos>", "<bos>"] if ends else [])
    return [*special, *kmers(k), *LETTERS, "N"]


def dense(name, out, into, bias=True):
    weight = [(f"{name}.weight", "F32", (out, into))]
    return weight + [(f"{name}.bias", "F32", (out,))] * bias


def norm(name, width):
    return [(f"{name}.weight", "F32", (width,)), (f"{name}.bias", "F32", (width,))]


def table(name, rows, width):
    return [(f"{name}.weight", "F32", (rows, width))]


def embeddings(prefix, size, positions=True):
    name = f"{prefix}embeddings"
    return [
        *table(f"{name}.word_embeddings", size.vocab, size.hidden),
        *(table(f"{name}.position_embeddings", size.positions, size.hidden) * positions),
        *table(f"{name}.token_type_embeddings", 2, size.hidden),
        *norm(f"{name}.LayerNorm", size.hidden),
    ]


def attention(layer, hidden):
    return [
        *dense(f"{layer}.attention.self.query", hidden, hidden),
        *dense(f"{layer}.attention.self.key", hidden, hidden),
        *dense(f"{layer}.attention.self.value", hidden, hidden),
        *dense(f"{layer}.attention.output.dense", hidden, hidden),
    ]


def head(size, bias="cls.predictions.bias", decoder=False):
    """decoder: it is stored, a copy of the word embeddings and of the bias."""
    return [
        (bias, "F32", (size.vocab,)),
        *dense("cls.predictions.transform.dense", size.hidden, size.hidden),
        *norm("cls.predictions.transform.LayerNorm", size.hidden),
        *(dense("cls.predictions.decoder", size.vocab, size.hidden) * decoder),
    ]


def bert_config(size, architecture):
    """What all that come from BERT have in common."""
    return {
        "architectures": [architecture],
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": size.hidden,
        "initializer_range": 0.02,
        "intermediate_size": size.inner,
        "max_position_embeddings": size.positions,
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "type_vocab_size": 2,
        "vocab_size": size.vocab,
    }


# ---------------------------------------------------------------- byte pairs -----------------


def byte_pairs(special, letters, merges, normalizer, pre_tokenizer, post_processor):
    tokens = [*special, *letters, *("".join(pair) for pair in merges)]
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": token, **added, "special": True}
            for i, token in enumerate(special)
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "[UNK]",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [" ".join(pair) for pair in merges],
        },
    }


def template():
    """[CLS] and [SEP] around one text, as the post-processor of DNABERT-2 puts it."""
    cls, sep = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    first = [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep]
    second = [
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
    ]
    ids = {"[CLS]": 1, "[SEP]": 2}
    special = {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in ids.items()}
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": first + second,
        "special_tokens": special,
    }


def dnabert2_tokenizer(merges, tuned=False):
    """tuned: as saved after fine-tuning, with limits and paddings that do not count."""
    whitespace = {"type": "Whitespace"}
    tokenizer = byte_pairs(BERT_SPECIAL, "ACGT", merges, None, whitespace, template())
    if tuned:
        tokenizer["truncation"] = {
            "direction": "Right",
            "max_length": 16,
            "strategy": "LongestFirst",
            "stride": 0,
        }
        tokenizer["padding"] = {
            "strategy": {"Fixed": 20},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 3,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        }
    return tokenizer


BERT_ENDS = {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}


def gena_tokenizer(merges, new=False):
    """new: as newer libraries write it, merges as pairs."""
    normalizer = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": "N{10,}"}, "content": "-"},
        ],
    }
    isolated = {
        "type": "Split",
        "pattern": {"String": "-"},
        "behavior": "Isolated",
        "invert": False,
    }
    special = [*BERT_SPECIAL, "-"]
    tokenizer = byte_pairs(special, IUPAC, merges, normalizer, isolated, BERT_ENDS)
    tokenizer["decoder"] = {"type": "BPEDecoder", "suffix": " "}
    if new:
        tokenizer["model"]["byte_fallback"] = False
        tokenizer["model"]["ignore_merges"] = False
        tokenizer["model"]["merges"] = [list(pair) for pair in merges]
    return tokenizer


def first_gena_tokenizer(merges):
    """Of the first models: nothing is normalised or split, and there is no N."""
    return byte_pairs(BERT_SPECIAL, "\nACGT", merges, None, None, BERT_ENDS)


# ---------------------------------------------------------------- families -------------------


def dnabert(size):
    layout = embeddings("bert.", size)
    for n in range(size.layers):
        layer = f"bert.encoder.layer.{n}"
        layout += [
            *attention(layer, size.hidden),
            *norm(f"{layer}.attention.output.LayerNorm", size.hidden),
            *dense(f"{layer}.intermediate.dense", size.inner, size.hidden),
            *dense(f"{layer}.output.dense", size.hidden, size.inner),
            *norm(f"{layer}.output.LayerNorm", size.hidden),
        ]
    layout += dense("bert.pooler.dense", size.hidden, size.hidden)
    return bert_config(size, "BertForMaskedLM"), layout + head(size)


def nucleotide(size, version, norm_before=False):
    gated = version == 2
    config = {
        "architectures": ["EsmForMaskedLM"],
        "attention_probs_dropout_prob": 0.0,
        "emb_layer_norm_before": norm_before,
        "esmfold_config": None,
        "hidden_dropout_prob": 0.0,
        "hidden_size": size.hidden,
        "initializer_range": 0.02,
        "intermediate_size": size.inner,
        "is_folding_model": False,
        "layer_norm_eps": 1e-12,
        "mask_token_id": 2,
        "max_position_embeddings": size.positions,
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "pad_token_id": 1,
        "position_embedding_type": "rotary" if gated else "absolute",
        "tie_word_embeddings": False,
        "token_dropout": not gated,
        "torch_dtype": "float32",
        "use_cache": False,
        "vocab_list": None,
        "vocab_size": size.vocab,
    }
    if gated:
        config["add_bias_fnn"] = False
        config["auto_map"] = {
            "AutoConfig": "esm_config.EsmConfig",
            "AutoModelForMaskedLM": "modeling_esm.EsmForMaskedLM",
        }
    else:
        config["model_type"] = "esm"
    layout = [
        *table("esm.embeddings.word_embeddings", size.vocab, size.hidden),
        *table("esm.embeddings.position_embeddings", size.positions, size.hidden),
    ]
    if norm_before:
        layout += norm("esm.embeddings.layer_norm", size.hidden)
    if not gated:
        layout.append(("esm.embeddings.position_ids", "I64", (1, size.positions)))
    enter = 2 * size.inner if gated else size.inner
    for n in range(size.layers):
        layer = f"esm.encoder.layer.{n}"
        layout += [
            *attention(layer, size.hidden),
            *norm(f"{layer}.attention.LayerNorm", size.hidden),
            *dense(f"{layer}.intermediate.dense", enter, size.hidden, not gated),
            *dense(f"{layer}.output.dense", size.hidden, size.inner, not gated),
            *norm(f"{layer}.LayerNorm", size.hidden),
        ]
        if gated:
            frequencies = f"{layer}.attention.self.rotary_embeddings.inv_freq"
            layout.append((frequencies, "F32", (size.hidden // size.heads // 2,)))
    layout += [
        *norm("esm.encoder.emb_layer_norm_after", size.hidden),
        *dense("esm.contact_head.regression", 1, size.layers * size.heads),
        *dense("lm_head.dense", size.hidden, size.hidden),
        *norm("lm_head.layer_norm", size.hidden),
        *table("lm_head.decoder", size.vocab, size.hidden),
        ("lm_head.bias", "F32", (size.vocab,)),
    ]
    return config, layout


def dnabert2(size, pooler=False):
    """With a pooler: DNABERT-S, whose names have no prefix and which has no other head."""
    prefix = "" if pooler else "bert."
    config = {
        **bert_config(size, "BertModel" if pooler else "BertForMaskedLM"),
        "alibi_starting_size": 512,
        "attention_probs_dropout_prob": 0.0,
        "auto_map": {
            "AutoConfig": "configuration_bert.BertConfig",
            "AutoModel": "bert_layers.BertModel",
            "AutoModelForMaskedLM": "bert_layers.BertForMaskedLM",
            "AutoModelForSequenceClassification": "bert_layers.BertForSequenceClassification",
        },
        "classifier_dropout": None,
        "gradient_checkpointing": False,
        "layer_norm_eps": 1e-12,
        "model_type": "bert",
        "pad_token_id": 0,  # not so: it is 3
        "position_embedding_type": "absolute",  # there are none
        "torch_dtype": "float32",
        "use_cache": True,
    }
    layout = embeddings(prefix, size, positions=False)
    for n in range(size.layers):
        layer = f"{prefix}encoder.layer.{n}"
        layout += [
            *dense(f"{layer}.attention.self.Wqkv", 3 * size.hidden, size.hidden),
            *dense(f"{layer}.attention.output.dense", size.hidden, size.hidden),
            *norm(f"{layer}.attention.output.LayerNorm", size.hidden),
            *dense(f"{layer}.mlp.gated_layers", 2 * size.inner, size.hidden, bias=False),
            *dense(f"{layer}.mlp.wo", size.hidden, size.inner),
            *norm(f"{layer}.mlp.layernorm", size.hidden),
        ]
    if pooler:
        return config, layout + dense("pooler.dense", size.hidden, size.hidden)
    return config, layout + head(size, bias="cls.predictions.decoder.bias")


def gena(size, closing=False, decoder=False, pretraining=False, rotary=None):
    """closing: a norm after the last layer, which config.json then does not mention; decoder:
    stored; pretraining: the heads of the first models; rotary: (base, columns turned)."""
    config = {
        **bert_config(size, "BertForPreTraining" if pretraining else "BertForMaskedLM"),
        "gradient_checkpointing": False,
        "layer_norm_eps": 1e-12,
        "model_type": "bert",
        "pad_token_id": 3,
        "pre_layer_norm": True,
        "position_embedding_type": "rotary" if rotary else "absolute",
        "transformers_version": "4.6.0.dev0",
        "use_cache": True,
    }
    if not closing:
        config["last_layer_norm"] = False
    if rotary:
        config["rotary_base"], config["rotary_dim"] = rotary
    layout = embeddings("bert.", size, positions=not rotary)
    layout.append(("bert.embeddings.position_ids", "I64", (1, size.positions)))
    for n in range(size.layers):
        layer = f"bert.encoder.layer.{n}"
        layout += [
            *norm(f"{layer}.pre_attention_ln", size.hidden),
            *attention(layer, size.hidden),
            *norm(f"{layer}.post_attention_ln", size.hidden),
            *dense(f"{layer}.intermediate.dense", size.inner, size.hidden),
            *dense(f"{layer}.output.dense", size.hidden, size.inner),
        ]
        if rotary:
            frequencies = f"{layer}.attention.self.rotary_emb.inv_freq"
            layout.append((frequencies, "F32", (rotary[1] // 2,)))
    if closing:
        layout += norm("bert.encoder.last_layer_ln", size.hidden)
    if pretraining:
        layout += [
            *dense("bert.pooler.dense", size.hidden, size.hidden),
            *dense("cls.seq_relationship", 2, size.hidden),
        ]
    return config, layout + head(size, decoder=decoder)
