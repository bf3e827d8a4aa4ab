"""Derives the codebooks of the IQ1, IQ2 and IQ3 element types from the golden blocks and writes src/tensor/iq_codebooks.inc.

    python scripts/derive_codebooks.py [--quants tests/golden/quants] [--out src/tensor/iq_codebooks.inc]

A golden file holds blocks and the float32 values they stand for; every entry of a codebook occurs in its blocks.  Dividing the
values by the block's scale leaves the magnitudes of the entry, which take few levels.  An entry is written as one number whose
digits, in the base of the number of levels, are the level indices of its components, first component least significant.

Needs numpy.
"""

import argparse
import json
import os
import struct

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TERNARY = [-1, 0, 1]
IQ2_LEVELS = [8, 25, 43]
IQ3_XXS_LEVELS = [4, 12, 20, 28, 36, 44, 52, 62]
IQ3_S_LEVELS = [1, 3, 5, 7, 9, 11, 13, 15]


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    kinds = {"U8": np.uint8, "F32": np.float32}
    tensors = {}
    for name, t in json.loads(raw[8:8 + size]).items():
        begin, end = (8 + size + o for o in t["data_offsets"])
        tensors[name] = np.frombuffer(raw[begin:end], kinds[t["dtype"]]).reshape(t["shape"])
    return tensors


def half(blocks, offset):
    return blocks[:, offset:offset + 2].copy().view(np.float16).astype(np.float64).reshape(-1)


def words(blocks, begin, end, kind):
    return blocks[:, begin:end].copy().view(kind).astype(np.int64)


def nibbles(b):
    """[n, k] bytes to [n, 2k], low nibble first."""
    return np.stack([b & 15, b >> 4], -1).reshape(b.shape[0], -1).astype(np.int64)


# Each reader returns (index, scale) per group: the entry a group of components uses and what multiplies it.

def iq1_s(b):
    qh = words(b, 34, 50, "<u2")  # per 32 elements: four times 3 index bits, 3 bits of scale, sign of the shift
    high = np.stack([(qh >> (3 * i)) & 7 for i in range(4)], -1).reshape(len(b), 32)
    scale = half(b, 0)[:, None] * (2 * ((qh >> 12) & 7) + 1)
    shift = np.where(qh & 0x8000, -0.125, 0.125)
    return b[:, 2:34].astype(np.int64) | (high << 8), np.repeat(scale, 4, 1), np.repeat(shift, 4, 1)


def iq2_xxs(b):
    w = words(b, 2, 66, "<u4").reshape(len(b), 8, 2)
    index = np.stack([(w[:, :, 0] >> (8 * i)) & 255 for i in range(4)], -1).reshape(len(b), 32)
    scale = half(b, 0)[:, None] * (0.5 + (w[:, :, 1] >> 28)) * 0.25
    return index, np.repeat(scale, 4, 1), None


def iq2_xs(b):
    scale = half(b, 0)[:, None] * (0.5 + nibbles(b[:, 66:74])) * 0.25
    return words(b, 2, 66, "<u2") & 511, np.repeat(scale, 2, 1), None


def iq2_s(b):
    qh = b[:, 66:74].astype(np.int64)
    high = np.stack([(qh >> (2 * i)) & 3 for i in range(4)], -1).reshape(len(b), 32)
    scale = half(b, 0)[:, None] * (0.5 + nibbles(b[:, 74:82])) * 0.25
    return b[:, 2:34].astype(np.int64) | (high << 8), np.repeat(scale, 2, 1), None


def iq3_xxs(b):
    scale = half(b, 0)[:, None] * (0.5 + (words(b, 66, 98, "<u4") >> 28)) * 0.5
    return b[:, 2:66].astype(np.int64), np.repeat(scale, 8, 1), None


def iq3_s(b):
    high = np.unpackbits(b[:, 66:74], axis=1, bitorder="little").astype(np.int64)
    scale = half(b, 0)[:, None] * (1 + 2 * nibbles(b[:, 106:110]))
    return b[:, 2:66].astype(np.int64) | (high << 8), np.repeat(scale, 8, 1), None


# name in C++, golden type, reader, entries, components, levels
BOOKS = [
    ("kIq1Codes", "IQ1_S", iq1_s, 2048, 8, TERNARY),  # IQ1_M has the same
    ("kIq2XxsCodes", "IQ2_XXS", iq2_xxs, 256, 8, IQ2_LEVELS),
    ("kIq2XsCodes", "IQ2_XS", iq2_xs, 512, 8, IQ2_LEVELS),
    ("kIq2SCodes", "IQ2_S", iq2_s, 1024, 8, IQ2_LEVELS),
    ("kIq3XxsCodes", "IQ3_XXS", iq3_xxs, 256, 4, IQ3_XXS_LEVELS),
    ("kIq3SCodes", "IQ3_S", iq3_s, 512, 4, IQ3_S_LEVELS),
]


def derive(golden, reader, entries, components, levels):
    index, scale, shift = reader(golden["blocks"])
    values = golden["values"].astype(np.float64).reshape(*index.shape, components)
    used = scale != 0
    index, ratio = index[used], values[used] / scale[used][:, None]
    ratio = ratio - shift[used][:, None] if shift is not None else np.abs(ratio)
    distance = np.abs(ratio[:, :, None] - np.array(levels))
    digits = distance.argmin(-1)
    assert distance.min(-1).max() < 1e-3, "values are not multiples of the levels"
    codes = (digits * len(levels) ** np.arange(components)).sum(-1)
    book = np.full(entries, -1)
    book[index] = codes
    assert (book >= 0).all(), "an entry does not occur"
    assert (book[index] == codes).all(), "an entry has two values"
    return book


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--quants", default=os.path.join(ROOT, "tests", "golden", "quants"))
    ap.add_argument("--out", default=os.path.join(ROOT, "src", "tensor", "iq_codebooks.inc"))
    a = ap.parse_args()
    lines = ["// Written by scripts/derive_codebooks.py from tests/golden/quants; iq_codebooks.h says what the numbers mean."]
    for name, kind, reader, entries, components, levels in BOOKS:
        book = derive(read_safetensors(os.path.join(a.quants, f"{kind}.safetensors")), reader, entries, components, levels)
        lines.append(f"constexpr std::array<uint16_t, {entries}> {name} = {{")
        for i in range(0, entries, 16):
            lines.append("    " + " ".join(f"{c}," for c in book[i:i + 16]))
        lines.append("};")
    with open(a.out, "w") as f:
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
