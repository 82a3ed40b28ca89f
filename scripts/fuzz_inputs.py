#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The saved inputs of the fuzz targets, tests/fuzz/corpus/TARGET/CASE.

    scripts/fuzz_inputs.py [DIR]             DIR: in place of tests/fuzz/corpus

Each is built from the description of its format, a faulty one from a sound one; what the program
writes is written a second time here, without it. What is drawn is drawn with a fixed seed.
Compressed data are put together bit by bit, so that no version of a compressor has a say in them.
What a fuzzer found is here by what was odd about it. tests/cli/fuzz_inputs.reg compares what is
made with what is there. Needs: python3.
"""
import argparse
import collections
import io
import itertools
import json
import math
import pathlib
import pickle
import random
import struct
import sys
import types
import zlib

import families
from count_naively import LETTERS, OTHER_STRAND

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "tests/fuzz/corpus"

# ---------------------------------------------------------------- deflate, gzip, BGZF --------

END = 256      # of a block
LONGEST = 285  # a copy of 258 bytes
FIXED = dict(enumerate([8] * 144 + [9] * 112 + [7] * 24 + [8] * 8))
# Lengths of the codes for texts of fuzz_blocks, and of the codes for such lengths.
DNA = {**dict.fromkeys(b"ACGT", 3), **dict.fromkeys(b"0123", 6), **dict.fromkeys(b">c", 5),
       ord("\n"): 4, END: 4, LONGEST: 2}
LENGTHS = {0: 1, **dict.fromkeys(range(1, 9), 4)}
LENGTHS_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)


def coded(symbols, lengths):
    """In the canonical code of {symbol: length}, as text of 0 and 1 (RFC 1951, 3.2.2)."""
    codes, code, before = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items()):
        code <<= length - before
        codes[symbol] = f"{code:0{length}b}"
        code, before = code + 1, length
    return "".join(codes[symbol] for symbol in symbols)


def packed(bits):
    return int(bits[::-1], 2).to_bytes(math.ceil(len(bits) / 8), "little")


def stored(text):
    return struct.pack("<BHH", 1, len(text), len(text) ^ 0xffff) + text


def fixed(text):
    return packed("110" + coded([*text, END], FIXED))


def dynamic(text, copies=0, distance=1, length=1):
    """With codes of its own: the text, then so many copies from a distance of 1 to 4, the only one
    that there is, whose code has this length."""
    bits = "101" + f"{LONGEST - 256:05b}"[::-1] + f"{distance - 1:05b}"[::-1]
    bits += "1111"  # all 19 of LENGTHS_ORDER
    bits += "".join(f"{LENGTHS.get(n, 0):03b}"[::-1] for n in LENGTHS_ORDER)
    bits += coded([DNA.get(symbol, 0) for symbol in range(LONGEST + 1)], LENGTHS)
    bits += coded([0] * (distance - 1) + [length], LENGTHS)
    copy = coded([LONGEST], DNA) + "0" * length
    return packed(bits + coded(text, DNA) + copy * copies + coded([END], DNA))


def gzip_member(text, pack=fixed, bgzf=False):
    data = pack(text)
    header = bytes(6) + b"\3"
    if bgzf:
        header = b"\4" + bytes(5) + b"\xff\6\0BC\2\0" + struct.pack("<H", 18 + len(data) + 7)
    return b"\x1f\x8b\x08" + header + data + struct.pack("<II", zlib.crc32(text), len(text))


def block(text, pack=fixed):
    return gzip_member(text, pack, bgzf=True)


def repeated(unit, copies, length=1):
    """A block that is a unit of up to four letters and then nothing but copies."""
    text = (unit * 258 * (copies + 1))[:len(unit) + 258 * copies]
    return block(text, lambda _: dynamic(unit, copies, len(unit), length))


def flip(data, at, bits):
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1:]


MARKER = block(b"")


def fuzz_blocks():
    rng = random.Random(1)
    texts = [f">c{i}\n{''.join(rng.choices('ACGT', k=200))}\n".encode() for i in range(4)]
    a, b, c, d = (block(text, dynamic) for text in texts)
    sound = a + b + c + d + MARKER
    yield "sound", sound
    yield "stored", b"".join(block(text, stored) for text in texts) + MARKER
    yield "two_files", sound * 2
    yield "no_marker", a + b + c + d
    yield "marker_alone", MARKER
    yield "empty_blocks", a + MARKER * 3 + b + MARKER
    yield "more_than_64", block(b"A") * 70 + MARKER
    yield "other_member", a + gzip_member(texts[1], dynamic) + c + MARKER
    yield "cut", sound[:-40]
    yield "garbage", sound + b"ACGT"
    yield "padding", sound + bytes(30)
    yield "checksum", flip(sound, len(a) - 8, 1)
    yield "length_lies", flip(sound, len(a) - 4, 1)
    yield "size_lies", flip(sound, 16, 1)
    yield "longer_extra", flip(sound, len(a) + 10, 6 ^ 8)
    yield "damaged", flip(sound, len(a) + 18 + 4, 0x55)  # among the lengths of codes
    # More than is inflated at once: the target does so where the size of the file is even.
    yield "large", b"".join([repeated(b"ACGT", 248), repeated(b"TTTA", 248), repeated(b"G", 253),
                             repeated(b"C", 195), MARKER])
    # A set of distances that is not complete: zlib refuses it, ISA-L does not.
    yield "odd_distances", repeated(b"G", 253, length=2) + MARKER


# ---------------------------------------------------------------- sequences ------------------


def bam(flags):
    header = b"@HD\tVN:1.6\n@SQ\tSN:c\tLN:9\n"
    text = b"BAM\1" + struct.pack("<i", len(header)) + header
    text += struct.pack("<ii2si", 1, 2, b"c\0", 9)
    records = b""
    for flag in flags:
        record = struct.pack("<iiBBHHHiiii", 0, 0, 2, 0, 4681, 1, flag, 4, -1, -1, 0) + b"r\0"
        record += struct.pack("<I", 4 << 4) + b"\x12\x41" + b"\xff" * 4  # 4M, ACGA, no qualities
        records += struct.pack("<i", len(record)) + record
    return block(text) + block(records) + MARKER


def fuzz_seqio():
    two, line = b">a\nACGT\n>b\nGG\n", b"r1\t4\t*\t0\t0\t*\t*\t0\t0\tAC=T\tIIII\n"
    yield "empty", b""
    yield "fasta", b">a desc\nACGT\nNNRY-*.\n\n>b\n>\nacgu\n"
    yield "fasta_crlf", b">a x\r\nAC GT\t\r\nAC\r\n"
    yield "fasta_mac", b">a\rACGT\r"
    yield "fasta_bad_byte", b"\n\xef\xbb\xbf>a\nA\x07"
    yield "fastq", b"@r1 x\nACGT\n+\nIIII\n@r2\n\n+\n\n@r3\nAC\nGT\n+r3\n@I\n+I"
    yield "fastq_cut", b"@r\nAC"
    yield "fastq_short", b"@r\nACGT\n+\nIII\n"
    yield "mixture", b"@r\nA\n+\nI\n>x\nA\n"
    yield "gz", gzip_member(two)
    yield "gz_members", gzip_member(b">a\nAC\n") + gzip_member(b"GT\n>b\n")
    yield "gz_cut", gzip_member(b">a\nACGT\n")[:-3]
    yield "bgzf", block(two, stored) + MARKER
    yield "bgzf_cut", block(b">a\nACGT\n", stored)
    yield "sam", b"@HD\tVN:1.6\n@SQ\tSN:c\tLN:9\n" + b"".join(
        b"r\t%d\tc\t1\t0\t4M\t*\t0\t0\tACGA\t*\n" % flag for flag in (16, 256))
    yield "bam", bam((16, 256))
    yield "sam_headerless", line
    yield "fasta_with_tabs_of_sam", b">" + line * 2  # htslib takes it for SAM
    yield "table", b"name\tsequence\nr 1\tACGTACGT\nr2\t\n"
    yield "table_quoted", (b'\xef\xbb\xbf\n"Sequence",label,id\r\nACGTn,"a,b",x\r\n\r\n'
                           b'"AC""",b,y\n')


# ---------------------------------------------------------------- words and their counts -----


def lines(words, end="\n"):
    return "".join(word + end for word in words).encode()


def fuzz_vocab():
    special = families.dnabert_vocabulary(1)[:-4]
    yield "empty.txt", b""
    yield "k1.txt", lines([*special, *"ACGT"])
    yield "k2_crlf.txt", lines(families.dnabert_vocabulary(2), "\r\n")
    yield "specials_only.txt", lines(special)
    yield "other.txt", lines(["[unused1]", "[x y]", "ACG"])
    yield "greedy.txt", b"<unk>\n<pad>\n<mask>\n<cls>\nAA\nAC\nA\nC\nN"
    yield "no_newline.txt", b"A\nC"
    yield "blank_line.txt", b"A\n\nC\n"
    yield "control.txt", b"A\n\x1b[2J\n"
    yield "nul.txt", b"A\n\0\n"
    yield "lower.txt", b"a\n"
    yield "twice.txt", b"A\nA\n"
    yield "mixed.txt", b"A\nCC\n"
    yield "long.txt", b"A" * 13 + b"\n"


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def fuzz_tokenizer():
    merges = [("A", "C"), ("G", "T"), ("AC", "GT"), ("T", "T"), ("TT", "A")]
    bert = families.dnabert2_tokenizer(merges)
    gena = families.gena_tokenizer([("A", "C"), ("N", "N"), ("AC", "N")], new=True)
    vocab, pairs = bert["model"]["vocab"], bert["model"]["merges"]
    text = (b"\n#text\nACGTTTAACGTTTAACGTTTTTTTTTTTACACACACACACGTGTGTGTACGTACGTACGT"
            b"TATTATTATTA")

    def changed(**changes):
        return compact({**bert, "model": {**bert["model"], **changes}})

    yield "bert.json", compact(bert)
    yield "bert_text", compact(bert) + text + b"[MASK][CLS]x y"
    yield "gena.json", compact(gena)
    yield "gena_text", compact(gena) + (b"\n#text\nACNACNNNNNNNNNNNACNNNACNNNN  AC-ACNNNNNNNNNNAC"
                                        b"[MASK] ACNNGTacnnnnnnnnnnnnnnnnac ")
    yield "no_frame.json", compact({**gena, "post_processor": None})
    yield "nfc.json", compact({**bert, "normalizer": {"type": "NFC"}})
    yield "lower_ranks_later", changed(merges=pairs[::-1]) + text
    yield "twice.json", changed(merges=[pairs[0], *pairs])
    yield "missing.json", changed(merges=["A G", *pairs[1:]])
    yield "odd_id.json", changed(vocab={**vocab, "A": 99})
    yield "empty.json", b"{}"
    yield "cut.json", b'{"version":"1.0","model":{"type":"BPE",'
    yield "vocab.json", (b'{"version":"1.0","model":{"type":"BPE","unk_token":"U",'
                         b'"vocab":{"U":0,"A":1,"AA":2},"merges":["A A"]}}\n#text\nAAAAAUAAAA')


MAGIC = b"\x8bKMF\r\n\x1a\n"
BITS = {"dna": 2, "protein": 5}  # of a letter


def information(alphabet, k, counts, canonical=0, min_count=1, max_size=0):
    """As both formats have it. What a selection left out was counted as well."""
    total = sum(counts.values()) + max_size
    return {"alphabet": alphabet, "k": k, "canonical": canonical, "stride": 1, "inputs": 1,
            "records": 3, "letters": 1000, "kmers": total, "ambiguous": 7, "distinct": len(counts),
            "min_count": min_count, "max_size": max_size}


def text_table(alphabet, k, counts, full=0, **how):
    head = {"kmerformer_vocab": 1, **information(alphabet, k, counts, **how), "full": full}
    kmers = map("".join, itertools.product(LETTERS[alphabet], repeat=k)) if full else sorted(counts)
    return lines([f"#{name}\t{value}" for name, value in head.items()] + ["#kmer\tcount"] +
                 [f"{kmer}\t{counts.get(kmer, 0)}" for kmer in kmers])


def table_block(part, suffix_bits):
    """The bytes of {suffix: count} as in src/words/block.h; n, suffix_width, count_width."""
    if not part:
        return b"", (0, 0, 0)
    n, suffix_width, suffixes = len(part), math.ceil(suffix_bits / 8), sorted(part)
    count_width = next(w for w in (1, 2, 4, 8) if max(part.values()) < 1 << 8 * w)
    if count_width << suffix_bits <= n * (suffix_width + count_width):
        n, suffix_width, suffixes = 1 << suffix_bits, 0, range(1 << suffix_bits)
    data = b"".join(suffix.to_bytes(suffix_width, "little") for suffix in suffixes if suffix_width)
    data += b"".join(part.get(suffix, 0).to_bytes(count_width, "little") for suffix in suffixes)
    return data + bytes(8), (n, suffix_width, count_width)


def binary_table(alphabet, k, counts, **how):
    """The file that src/words/countfile.c describes."""
    prefix_bits = min(max(BITS[alphabet] * k - 16, 0), 10)
    suffix_bits = BITS[alphabet] * k - prefix_bits
    parts = [{} for _ in range(1 << prefix_bits)]
    for kmer, count in counts.items():
        code = 0
        for letter in kmer:
            code = code << BITS[alphabet] | LETTERS[alphabet].index(letter)
        parts[code >> suffix_bits][code % (1 << suffix_bits)] = count
    data, index, begin = b"", b"", 192
    for part in parts:
        packed_part, shape = table_block(part, suffix_bits)
        index += struct.pack("<QQ4I", begin + len(data), *shape, zlib.crc32(packed_part), 0)
        data += packed_part + bytes(-len(packed_part) % 8)
    info = information(list(BITS).index(alphabet), k, counts, **how)
    ends = begin + len(data), begin + len(data) + len(index) + 16
    header = MAGIC + struct.pack("<II16Q", 1, 0, *info.values(), prefix_bits, suffix_bits, *ends)
    header += bytes(44)
    header += struct.pack("<I", zlib.crc32(header))
    return header + data + index + struct.pack("<II", zlib.crc32(index), 0) + MAGIC


def drawn(rng, table, alphabet, k, n, bits, **how):
    """A table of n k-mers. The first count has so many bits, the others that many at most."""
    counts = {}
    while len(counts) < n:
        kmer = "".join(rng.choices(LETTERS[alphabet], k=k))
        if "canonical" in how:
            kmer = min(kmer, kmer[::-1].translate(OTHER_STRAND))
        n_bits = rng.randint(1, bits) if counts else bits
        counts[kmer] = max(how.get("min_count", 1), rng.randrange(1 << n_bits - 1, 1 << n_bits))
    return table(alphabet, k, counts, **how)


def fuzz_counts():
    rng = random.Random(2)
    selected = {"min_count": 2, "max_size": 20}
    nine = drawn(rng, binary_table, "dna", 9, 9, 30)
    two = text_table("dna", 2, {"AG": 8, "CA": 1, "GA": 1}, canonical=1)
    protein = text_table("protein", 3, {"GYM": 8, "HFG": 10, "KGQ": 1, "VMF": 4, "YSC": 114})
    yield "empty", b""
    yield "empty.bin", binary_table("dna", 5, {})
    yield "dna3_dense.bin", drawn(rng, binary_table, "dna", 3, 64, 3)
    yield "dna8_sparse.bin", drawn(rng, binary_table, "dna", 8, 7, 17, canonical=1)
    yield "dna9.bin", nine
    yield "cut.bin", nine[:300]
    yield "dna10_selected.bin", drawn(rng, binary_table, "dna", 10, 20, 4, **selected)
    yield "dna21_selected.tsv", drawn(rng, text_table, "dna", 21, 15, 4, canonical=1, **selected)
    yield "dna32.tsv", drawn(rng, text_table, "dna", 32, 5, 34)
    yield "dna1_full.tsv", text_table("dna", 1, {"C": 1, "T": 1}, full=1)
    yield "dna2_canonical.tsv", two
    yield "crlf.tsv", two.replace(b"\n", b"\r\n")
    yield "protein2.bin", drawn(rng, binary_table, "protein", 2, 9, 8)
    yield "protein4.bin", drawn(rng, binary_table, "protein", 4, 30, 3)
    yield "protein3.tsv", protein
    yield "cut.tsv", protein[:protein.index(b"VMF\t") + 4]


# ---------------------------------------------------------------- models and vectors ---------


def fuzz_config():
    plain = {
        "architectures": ["RoFormerForMaskedLM"], "embedding_size": None, "hidden_act": "gelu",
        "hidden_size": 8, "intermediate_size": 16, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 64, "model_type": "roformer", "num_attention_heads": 2,
        "num_hidden_layers": 2, "pad_token_id": 0, "rotary_value": False, "type_vocab_size": 2,
        "vocab_size": 9,
    }
    provenance = {"loss": 0.1234567890123, "tiny": 5e-324, "big": sys.float_info.max,
                  "zero": -0.0, "text": "\u00e9\n", "deep": {"a": [1, [2, [3]]]}}
    use = {"k": 1, "stride": 2, "window": 32, "overlap": 4, "specials": True, "pooling": "cls",
           "layer": -2, "strand": "both", "norm": "l2", "ambiguous": "unk",
           "provenance": provenance}
    parts = {**use, "pooling": "mean", "composition": 12, "parts": "states+composition"}
    projected = {"embedding_size": 4, "hidden_act": "gelu_pytorch_tanh", "rotary_value": True}

    def changed(**changes):
        return json.dumps({**plain, **changes}, indent=1).encode()

    yield "plain.json", changed()
    yield "projected.json", changed(**projected)
    yield "use.json", changed(kmerformer=use)
    yield "parts.json", changed(kmerformer=parts)
    yield "newer.json", changed(kmerformer={"colour": 1})
    yield "bert.json", changed(model_type="bert")
    yield "absurd.json", changed(hidden_size=1 << 16, vocab_size=1 << 25)
    yield "deep.json", b'{"a":' * 100 + b"1" + b"}" * 100
    yield "duplicate.json", b'{"model_type":"roformer","model_type":"roformer"}'


def floats(*values, kind="f"):
    return struct.pack(f"<{len(values)}{kind}", *values)


def safetensors(tensors, metadata=None, align=1, blanks=0):
    """tensors: [(name, dtype, shape, bytes)]; the header is filled up with blanks."""
    header = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for name, dtype, shape, values in tensors:
        ends = [len(data), len(data) + len(values)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": ends}
        data += values
    text = compact(header)
    text += b" " * (-(8 + len(text)) % align + blanks)
    return struct.pack("<Q", len(text)) + text + data


def values_of(shape):
    """From -1 to 1, exact in every type."""
    return [(3 * i % 17 - 8) / 8 for i in range(math.prod(shape))]


def filled(layout):
    return [(name, dtype, shape, floats(*values_of(shape))) for name, dtype, shape in layout]


def rounded(layout):
    """The weights of the layers and before them in 8 bits, each with the scales of its rows."""
    for name, dtype, shape, data in filled(layout):
        if len(shape) < 2 or not ("project" in name or ".layer." in name):
            yield name, dtype, shape, data
            continue
        scales, whole = b"", b""
        for i in range(shape[0]):
            row = values_of(shape)[i * shape[1]:(i + 1) * shape[1]]
            scales += floats(max(map(abs, row)) / 127)
            (scale,) = struct.unpack("<f", scales[-4:])
            whole += floats(*(round(value / scale) for value in row), kind="b")
        yield name, "I8", shape, whole
        yield f"{name}.scale", "F32", shape[:1], scales


def encoder(prefix="roformer."):
    """[(name, dtype, shape)] of the model that the target binds to."""
    layer = f"{prefix}encoder.layer.0"
    return [
        *families.table(f"{prefix}embeddings.word_embeddings", 6, 2),
        *families.table(f"{prefix}embeddings.token_type_embeddings", 1, 2),
        *families.norm(f"{prefix}embeddings.LayerNorm", 2),
        *families.dense(f"{prefix}embeddings_project", 4, 2),
        *families.attention(layer, 4),
        *families.norm(f"{layer}.attention.output.LayerNorm", 4),
        *families.dense(f"{layer}.intermediate.dense", 3, 4),
        *families.dense(f"{layer}.output.dense", 4, 3),
        *families.norm(f"{layer}.output.LayerNorm", 4),
    ]


FORMAT = {"format": "pt"}
TWO = safetensors([*filled([("a", "F32", (2, 3))]), ("b", "BF16", (), bytes(2)),
                   ("empty", "U8", (0, 7), b"")], FORMAT)


def fuzz_safetensors():
    nested = b'{"a":' + b"[" * 2000
    yield "none", safetensors([])
    yield "two", TWO
    yield "cut", TWO[:-3]
    yield "duplicate", TWO.replace(b'"b"', b'"a"')
    yield "overlap", TWO.replace(b"[24,26]", b"[20,22]")
    yield "long_header", struct.pack("<Q", 1 << 62) + TWO[8:]
    yield "nested", struct.pack("<Q", len(nested)) + nested
    head = [*families.dense("cls.predictions.transform.dense", 2, 4),
            *families.norm("cls.predictions.transform.LayerNorm", 2),
            ("cls.predictions.bias", "F32", (6,))]
    positions = families.table("roformer.encoder.embed_positions", 3, 2)
    decoder = families.table("cls.predictions.decoder", 6, 2)
    unused = ("roformer.embeddings.position_ids", "I64", (1, 2), bytes(16))
    yield "whole", safetensors(filled(encoder() + head + positions), FORMAT)
    yield "tied", safetensors([*filled(encoder() + head + decoder), unused], FORMAT)
    yield "no_head", safetensors(filled(encoder()), FORMAT)
    yield "odd_address", safetensors(filled(encoder() + head), FORMAT, blanks=1)
    yield "f16_bare", safetensors([(name, "F16", shape, floats(1, kind="e") * math.prod(shape))
                                   for name, _, shape in encoder("")])
    whole = list(rounded(encoder() + head))
    (at,) = (i for i, tensor in enumerate(whole) if "intermediate.dense.weight.s" in tensor[0])
    *scale, scales = whole[at]
    nan = [(*scale, floats(math.nan) + scales[4:])]
    yield "int8", safetensors(whole, FORMAT, align=64)
    yield "int8_no_scale", safetensors(whole[:at] + whole[at + 1:], FORMAT, align=64)
    yield "int8_nan_scale", safetensors(whole[:at] + nan + whole[at + 1:], FORMAT, align=64)


def two_vectors(dtype, vectors, words, metadata=None, counts=()):
    dim = len(vectors) // 2 * 8 // int(dtype.lstrip("BF"))
    return safetensors([*counts, ("vectors", dtype, (2, dim), vectors),
                        ("words", "U8", (2, len(words) // 2), words)], metadata)


def fuzz_vectors():
    acg, ttt, four = floats(0.1, -0.2), floats(3, 4), (1, 2, -3, 0.5)
    gensim = b"2 2\nACG " + acg + b"TTT " + ttt
    all_said = {**FORMAT, "kmerformer_vectors": "1", "alphabet": "dna", "canonical": "0",
                "kmerformer": '{"a":1}'}
    yield "empty", b""
    yield "two.txt", b"2 3\nACG 1 -2.5 0.001\nTTT 0 1e-05 3\n"
    yield "counted.txt", (b"3 1\nACG 1\nTTT 2\nGG 0\n\n#counts\n"
                          b"GG 3\nACG 18446744073709551615\nTTT 0\n")
    yield "canonical.txt", b"2 1\nA 1\nC 2\n\n#counts\nA 5\nC 0\n</s> 7\n"
    yield "crlf.txt", b"2 2\r\nacg 1 2\r\nuu 3 4\r\n"
    yield "protein.txt", b"3 2\nMKL 1 2\nAAA 3 4\nWF -1 -1\n"
    yield "long.txt", b"2 1\n" + b"ACGT" * 8 + b" 1\n" + b"T" * 32 + b" 2\n"
    yield "numbers.txt", (b"2 4\nA 1e-45 3.4e38 123456789012345678901234567890 "
                          b"0.1000000000000000055\nC 16777217 -0 .5 1e-400\n")
    yield "dna2vec.txt", b"4 2\nAAA 1 2\nGGGGGGGG 3 4\nACGTAC 5 6\nTTTTT 7 8"
    yield "fasttext.vec", b"4 2 \n</s> 0.5 0.5 \nACG 0.1 0.2 \nNNN 1 1 \nTTT -0.25 4e-3 \n"
    yield "twice.txt", b"2 1\nACG 1\nacg 2\n"
    yield "nan.txt", b"1 2\nACG nan inf\n"
    yield "short.txt", b"3 2\nACG 1 2\nTTT 3\n"
    yield "cut.txt", b"2 3\nACG 1 -2.5 0.0"
    yield "absurd.txt", b"18446744073709551615 18446744073709551615\nA 1\n"
    yield "word2vec.bin", b"3 2\n</s> %b\nACG %b\nT %b\n" % (floats(0.5, 1), acg, ttt)
    yield "gensim.bin", gensim
    yield "cut.bin", gensim[:-3]
    yield "textlike.bin", b"2 1\nACG " + b"1 2\n" + b"T " + b"\x01\n30"  # floats as text
    yield "plain.safetensors", two_vectors("F32", floats(*four), b"ACGT\0\0", all_said,
                                           [("counts", "U64", (2,), floats(9, 0, kind="Q"))])
    yield "bare_f16.safetensors", two_vectors("F16", floats(*four, kind="e"), b"ACGT\0\0")
    yield "canonical.safetensors", two_vectors("BF16", floats(1)[2:] + floats(2)[2:], b"AACA",
                                               {"canonical": "1", "alphabet": "dna"})
    yield "canonical_f64.safetensors", two_vectors("F64", floats(1, 1e300, kind="d"), b"AACA",
                                                   {"canonical": "1"})
    yield "protein.safetensors", two_vectors("F32", floats(1, 2), b"ACMK", {"alphabet": "protein"})
    yield "padding.safetensors", two_vectors("F32", floats(1, 2), b"A\0\0C", {})


# ---------------------------------------------------------------- PyTorch's files ------------

# Pickles put together by hand: without a memo, and with every number in eight bytes.
PROTOCOL = b"\x80\2"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
ORDERED = b"ccollections\nOrderedDict\n)R"
# Name; type, key and length of the storage; where the tensor begins in it, shape, strides.
A = ("a", b"Float", "0", 6, 0, (2, 3), (3, 1))
A_TURNED = ("a.t", b"Float", "0", 6, 0, (3, 2), (1, 3))
N = ("n", b"Long", "1", 1, 0, (), ())
FIRST, SECOND = bytes(range(16)) + bytes(8), bytes(range(8))  # of storages 0 and 1


def string(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def wide(*numbers):
    return b"".join(b"\x8a\x08" + struct.pack("<q", n) for n in numbers)


def storage(kind, key, n, view=b""):
    """view: the storages of the legacy layout have one."""
    names = string("storage") + b"ctorch\n%bStorage\n" % kind + string(key) + string("cpu")
    return b"(" + names + n + view + b"tQ"


def state_dict(*tensors, view=b""):
    state = PROTOCOL + ORDERED + b"("
    for name, kind, key, n, begin, shape, strides in tensors:
        state += string(name) + REBUILD + b"(" + storage(kind, key, wide(n), view) + wide(begin)
        state += b"(" + wide(*shape) + b"t(" + wide(*strides) + b"t\x89" + ORDERED + b"tR"
    return state + b"u."


def nested():
    """A state dict in another one, with a parameter and with numbers of one byte."""
    before = b"}" + string("epoch") + b"K\3s" + string("state_dict") + b"}" + string("a")
    tensor = storage(b"BFloat16", "0", b"K\4", b"N") + b"K\0K\2K\2\x86K\2K\1\x86\x89}N"
    parameter = b"ctorch._utils\n_rebuild_parameter\n(" + REBUILD + b"(" + tensor + b"tR\x88}tR"
    return PROTOCOL + before + parameter + b"ss."


def stand_in(module, name):
    """A type that pickles take for what PyTorch calls so; a list of it is a call with arguments."""
    it = type(name, (list,), {"__module__": module, "__reduce__": lambda self: (it, tuple(self))})
    setattr(sys.modules.setdefault(module, types.ModuleType(module)), name, it)
    return it


STORAGE = stand_in("torch", "FloatStorage")
TENSOR = stand_in("torch._utils", "_rebuild_tensor_v2")


class Pickler(pickle.Pickler):
    def persistent_id(self, it):
        return it if isinstance(it, tuple) and it[:1] == ("storage",) else None


def pickled(it):
    file = io.BytesIO()
    Pickler(file, 2).dump(it)
    return file.getvalue()


def torch_tensor(shape, strides, key, *view):
    place = ("storage", STORAGE, key, "cpu", math.prod(shape), *view)
    return TENSOR([place, 0, tuple(shape), tuple(strides), False, collections.OrderedDict()])


def legacy(system, state, keys, storages):
    """What torch.save wrote before PyTorch 1.6; storages: [(n, bytes)]."""
    begin = pickled(0x1950a86a20f9469cfc6c) + pickled(1001) + system + state + keys
    return begin + b"".join(struct.pack("<Q", n) + data for n, data in storages)


def torch_legacy():
    keys = ["867020672", "867022176"]
    state = collections.OrderedDict(weight=torch_tensor([1, 1], [1, 1], keys[0], None),
                                    bias=torch_tensor([1], [1], keys[1], None))
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    system = {"protocol_version": 1001, "little_endian": True,
              "type_sizes": {"short": 2, "int": 4, "long": 4}}
    return legacy(pickled(system), pickled(state), pickled(keys),
                  [(1, floats(0.5)), (1, floats(-0.25))])


WIDE = 0xffffffff  # the number stands in a ZIP64 field


def archive(entries, zip64=False, torch=False, compressed=()):
    """entries: {name: bytes}; with an extra field and a comment each, without checksums. torch: as
    PyTorch writes it, data at multiples of 64 bytes, their length and checksum behind them.
    compressed: names of those that are said to be."""
    version, comment, last = (0, b"", b"") if torch else (45, b"hi", b"end")
    file = directory = b""
    for name, data in entries.items():
        path, at, n = name.encode(), len(file), len(data)
        how = (0x808 if torch else 0, 8 if name in compressed else 0, 0, 0)
        sums = (zlib.crc32(data) if torch else 0, *((WIDE, WIDE) if zip64 else (n, n)))
        fill = -(at + 30 + len(path) + 4) % 64 if torch else 1
        file += struct.pack("<4s5H3I2H", b"PK\3\4", version, *how, *((0, 0, 0) if torch else sums),
                            len(path), 4 + fill)
        file += path + b"FB" + struct.pack("<H", fill) + b"Z" * fill + data
        file += struct.pack("<4s3I", b"PK\7\x08", *sums) if torch else b""
        extra = b"\7\7\3\0abc" + struct.pack("<2H3Q", 1, 24, n, n, at) if zip64 else b""
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", version, version, *how, *sums, len(path),
                                 len(extra), len(comment), 0, 0, 0, WIDE if zip64 else at)
        directory += path + extra + comment
    n, begin, size = len(entries), len(file), len(directory)
    if zip64 or torch:
        directory += struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 0x31e if torch else 45, 45, 0, 0, n,
                                 n, size, begin)
        directory += struct.pack("<4sIQI", b"PK\6\7", 0, begin + size, 1)
    ends = (0xffff, 0xffff, WIDE, WIDE) if zip64 else (n, n, size, begin)
    return file + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, *ends, len(last)) + last


def fuzz_pickle():
    state = state_dict(A, A_TURNED, N)
    entries = {"x/data.pkl": state, "x/data/0": FIRST, "x/data/1": SECOND}
    ordered = {**entries, "x/byteorder": b"little"}
    zip64 = archive(entries, zip64=True)
    field = struct.pack("<2H2Q", 1, 24, len(state), len(state))  # behind it: where the header is
    system = PROTOCOL + b"}" + string("little_endian") + b"\x88s."
    keys = PROTOCOL + b"](" + string("0") + string("1") + b"e."
    old = legacy(system, state_dict(A, A_TURNED, N, view=b"N"), keys, [(6, FIRST), (1, SECOND)])
    beyond = state_dict((*A_TURNED[:4], 1, *A_TURNED[5:]))
    expanded = state_dict((*A_TURNED[:5], (1000, 2), (0, 3)))
    tensors = {"w": torch_tensor([2, 2], [1, 2], "0"), "b": torch_tensor([1], [1], "1")}
    by_torch = {"data.pkl": pickled(tensors), "data/0": floats(0, 1, 2, 3), "data/1": floats(0),
                "version": b"3\n"}
    yield "empty", b""
    yield "safetensors", TWO
    yield "pickle", state
    yield "pickle_system", PROTOCOL + b"cos\nsystem\n" + string("ls") + b"\x85R."
    yield "pickle_itself", PROTOCOL + b"]q\0h\0a."
    yield "pickle_memo", PROTOCOL + b"Nr\xff\xff\xff\x7f."
    # A tuple: None, True, False, 2^72, 1.5, a text, (), [7, the text], (the text,), two integers.
    yield "pickle_kinds", (PROTOCOL + b"(N\x88\x89\x8a\n" + bytes(9) + b"\1G" +
                           struct.pack(">d", 1.5) + string("ab") +
                           b"q\5)]K\7ah\5\x85J\1\2\3\4M\1\2tr\x10\0\0\0.")
    yield "legacy", old
    yield "legacy_cut", old[:-3]
    yield "legacy_nested", legacy(system, nested(), PROTOCOL + b"]" + string("0") + b"a.",
                                  [(4, SECOND)])
    yield "torch_legacy", torch_legacy()
    yield "zip", archive(ordered)
    yield "zip_compressed", archive(ordered, compressed=["x/data/0"])
    yield "zip_beyond", archive({"x/data.pkl": beyond, "x/data/0": FIRST})
    yield "zip_expanded", archive({"x/data.pkl": expanded, "x/data/0": FIRST})
    yield "zip64", zip64
    yield "zip64_cut", zip64[:-30]
    yield "zip64_far_header", zip64.replace(field + bytes(8), field + bytes(5) + b"\xfe\xff\xff")
    yield "torch_zip", archive({f"torch_zip/{name}": data for name, data in by_torch.items()},
                               torch=True)


# ---------------------------------------------------------------- arrays ---------------------


def array(descr, shape, numbers, version=1, spaces=0, order="False"):
    """An .npy file; shape is text."""
    literal = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}{' ' * spaces}\n"
    length = struct.pack("<H" if version == 1 else "<I", len(literal))
    return b"\x93NUMPY" + bytes([version, 0]) + length + literal.encode() + numbers


def fuzz_arrays():
    six = floats(1, -2, 0.5, 0, 1e-40, 3e38)
    head = b"#index\tname\tlength\ttokens\tambiguous\tchunks"
    ids = b"\n#ids\n" + head
    whole = array("'<f4'", "(2, 3)", six, spaces=54)
    yield "empty", b""
    yield "f4", whole + ids + b"\n0\tread1\t150\t49\t0\t1\n1\tread 2\t150\t49\t3\t1\n"
    yield "f2", array("'<f2'", "(1, 4)", struct.pack("<4e", 1, -0.5, math.inf, math.nan))
    yield "f8_version2", array("'<f8'", "(1, 2)", struct.pack("<2d", 1e300, -1), version=2)
    yield "version3", array("'<f4'", "(3,2)", six, version=3)
    yield "no_rows", array("'<f4'", "(0, 3)", b"") + ids + b"\n"
    yield "no_columns", array("'<f4'", "(6, 0)", b"")
    yield "one_axis", array("'<f4'", "(6,)", six)
    yield "three_axes", array("'<f4'", "(1, 2, 3)", six)
    yield "integers", array("'<i4'", "(2, 3)", six)
    yield "big_endian", array("'>f4'", "(2, 3)", six)
    yield "fortran", array("'<f4'", "(2, 3)", six, order="True")
    yield "record", array("[('a', '<f4')]", "(2, 3)", six)
    yield "cut", whole[:-1]
    yield "cut_literal", whole[:60]
    yield "longer", whole + b"\0"
    yield "negative", array("'<f4'", "(-2, -3)", six)
    yield "wraps", array("'<f4'", "(4611686018427387906, 1)", six[:8])
    yield "absurd", array("'<f4'", "(18446744073709551617, 99999999999999999999)", six)
    yield "no_literal", b"\x93NUMPY\2\0\xff\xff\xff\xff"
    yield "tokens", whole + ids + (b"\tposition\n0\ta\t9\t2\t0\t1\t-1\n0\ta\t9\t2\t0\t1\t3\n"
                                   b"4\tb\t6\t1\t0\t1\t0\n")
    yield "sorted", whole + ids + b"\n1\ta\t1\t1\t0\t1\n0\tb\t1\t1\t0\t1\n"
    yield "nul", whole + ids + b"\n0\ta\0b\t1\t1\t0\t1\n"
    yield "huge", whole + ids + b"\n9223372036854775807\ta\t9223372036854775808\t1\t0\t1\n"
    yield "fields", whole + ids + b"\n0\ta\t1\t1\t0\n"
    yield "no_end", whole + ids + b"\n0\ta\t1\t1\t0\t1"
    yield "crlf", whole + ids + b"\r\n0\ta\t1\t1\t0\t1\r\n"


TARGETS = (fuzz_arrays, fuzz_blocks, fuzz_config, fuzz_counts, fuzz_pickle, fuzz_safetensors, fuzz_seqio,
           fuzz_tokenizer, fuzz_vectors, fuzz_vocab)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", metavar="DIR", type=pathlib.Path, nargs="?", default=CORPUS)
    args = parser.parse_args()
    for target in TARGETS:
        folder = args.directory / target.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for case, data in target():
            (folder / case).write_bytes(data)


if __name__ == "__main__":
    main()
