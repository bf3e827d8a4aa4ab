"""Makes families/gguf/: GGUF files with the same weights as fixtures in families/ (see make_gguf.py).

    python make_family_gguf.py --llama-cpp DIR [--only NAME ...]

Matrices keep bfloat16 where the fixture has it (float32 else), so that no value changes. The decoders get the tokenizer of
models/llama, written as byte-level BPE; the encoders theirs, or byte-level BPE where the converter wants SentencePiece files.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = Path(__file__).resolve().parent
NAMES = ["phi", "gpt_neox", "falcon", "falcon_new", "stablelm", "stablelm_parallel", "gemma", "olmo2", "glm4",
         "granite", "cohere", "smollm3", "exaone", "internlm2", "minicpm", "qwen2_moe", "deepseek_v2", "deepseek_v2_lite", "exaone4",
         "llama_rope_linear", "llama_rope_yarn", "phi3_su", "nomic_bert", "modernbert",
         "modernbert_rerank", "roberta_classify"]
OWN_VOCAB = {"nomic_bert", "modernbert", "modernbert_rerank"}
# What the converter insists on and what does not change the results.
PATCHES = {"falcon": {"num_kv_heads": 1}, "nomic_bert": {"n_positions": 8192, "max_trained_positions": 2048}}


def prepare(name, target):
    """The fixture with a tokenizer and without its golden values."""
    source = HERE / "families" / name
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("golden.*"))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        if not (target / file).exists():
            shutil.copy(HERE / "models" / "llama" / file, target / file)
    if name in PATCHES:
        config = json.load(open(target / "config.json"))
        config.update(PATCHES[name])
        json.dump(config, open(target / "config.json", "w"))


def load_converter(llama_cpp):
    """The converter's modules, made to accept fixtures."""
    for path in (os.path.join(llama_cpp, "gguf-py"), llama_cpp):
        if path not in sys.path:
            sys.path.insert(0, path)
    import torch
    import conversion
    from conversion.base import TextModel
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.ERROR)
    logging.disable(logging.WARNING)
    TextModel.get_vocab_base_pre = lambda self, tok: "gpt-2"
    return conversion


def convert(source, target, llama_cpp, own_vocab=False):
    """Writes the checkpoint in folder `source` as GGUF."""
    conversion = load_converter(llama_cpp)
    import gguf
    import torch
    config = json.load(open(os.path.join(source, "config.json")))
    with torch.inference_mode():
        hparams = {**conversion.ModelBase.load_hparams(Path(source), False), **config}  # the library drops older keys
        cls = conversion.get_model_class(conversion.get_model_architecture(hparams, conversion.ModelType.TEXT))
        if not own_vocab:
            cls.set_vocab = lambda self: self._set_vocab_gpt2()
        stored = config.get("torch_dtype") or config.get("dtype")
        kind = gguf.LlamaFileType.MOSTLY_BF16 if stored == "bfloat16" else gguf.LlamaFileType.ALL_F32
        cls(Path(source), kind, Path(target), model_name="golden", hparams=hparams).write()


def write_joined_kv_b(source, target):
    """A deepseek2 file in the layout of older converters: attn_kv_b instead of attn_k_b and attn_v_b, as many key/value heads
    as query heads, sizes of the expanded heads under the usual keys."""
    import gguf
    import numpy as np
    reader = gguf.GGUFReader(source)
    fields = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    arch = fields["general.architecture"]
    writer = gguf.GGUFWriter(target, arch)
    fields[f"{arch}.attention.head_count_kv"] = fields[f"{arch}.attention.head_count"]
    for part in ("key", "value"):
        fields[f"{arch}.attention.{part}_length"] = fields.pop(f"{arch}.attention.{part}_length_mla")
    for key, value in fields.items():
        if key != "general.architecture":
            field = reader.fields[key.replace("_length", "_length_mla") if "attention.key_length" in key or "attention.value_length" in key else key]
            writer.add_key_value(key, value, field.types[0], field.types[-1] if len(field.types) > 1 else None)
    floats = {}
    for t in reader.tensors:
        data = t.data if t.tensor_type != gguf.GGMLQuantizationType.BF16 else gguf.quants.dequantize(t.data, t.tensor_type)
        floats[t.name] = np.asarray(data, dtype=np.float32)
    for name in [n for n in floats if n.endswith("attn_k_b.weight")]:
        keys, values = floats.pop(name), floats.pop(name.replace("_k_b", "_v_b"))  # [head, rank, nope], [head, value, rank]
        joined = np.concatenate([keys.transpose(0, 2, 1), values], axis=1)
        floats[name.replace("_k_b", "_kv_b")] = joined.reshape(-1, joined.shape[-1])
    for name, data in floats.items():
        writer.add_tensor(name, np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--llama-cpp", required=True)
    ap.add_argument("--out", default=str(HERE / "families" / "gguf"))
    ap.add_argument("--only", nargs="*")
    a = ap.parse_args()
    sys.argv = sys.argv[:1]
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    for name in a.only or NAMES:
        with tempfile.TemporaryDirectory() as tmp:
            source = Path(tmp) / name
            prepare(name, source)
            convert(source, out / f"{name}.gguf", a.llama_cpp, name in OWN_VOCAB)
            if name == "deepseek_v2":
                write_joined_kv_b(out / f"{name}.gguf", out / f"{name}-kv_b.gguf")
        print(f"{name:24s} {(out / f'{name}.gguf').stat().st_size // 1024} KB", flush=True)


if __name__ == "__main__":
    main()
