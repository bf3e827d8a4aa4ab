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
NAMES = ["phi", "gpt_neox", "gpt_neox_serial", "falcon", "falcon_new", "stablelm", "stablelm_parallel", "starcoder2", "gemma", "olmo2", "glm4",
         "granite", "cohere", "smollm3", "exaone", "internlm2", "minicpm", "qwen2_moe", "nomic_bert", "modernbert",
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
    return json.load(open(target / "config.json"))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--llama-cpp", required=True)
    ap.add_argument("--out", default=str(HERE / "families" / "gguf"))
    ap.add_argument("--only", nargs="*")
    a = ap.parse_args()
    sys.path.insert(0, a.llama_cpp)
    sys.path.insert(1, os.path.join(a.llama_cpp, "gguf-py"))
    sys.argv = sys.argv[:1]
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    from conversion.base import TextModel
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.ERROR)
    TextModel.get_vocab_base_pre = lambda self, tok: "gpt-2"
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    for name in a.only or NAMES:
        with tempfile.TemporaryDirectory() as tmp, torch.inference_mode():
            source = Path(tmp) / name
            config = prepare(name, source)
            hparams = {**ModelBase.load_hparams(source, False), **config}  # the library drops older keys
            cls = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
            if name not in OWN_VOCAB:
                cls.set_vocab = lambda self: self._set_vocab_gpt2()
            kind = gguf.LlamaFileType.MOSTLY_BF16 if config.get("torch_dtype") == "bfloat16" else gguf.LlamaFileType.ALL_F32
            cls(source, kind, out / f"{name}.gguf", model_name=f"golden {name}", hparams=hparams).write()
        print(f"{name:24s} {(out / f'{name}.gguf').stat().st_size // 1024} KB", flush=True)


if __name__ == "__main__":
    main()
