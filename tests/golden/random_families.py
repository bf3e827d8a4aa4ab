"""Random configurations of every decoder family against the official implementation, run by hand.

    python random_families.py --quern build/release/quern [--only FAMILY ...] [--seeds 0-19] [--llama-cpp DIR] [--keep DIR]

Each case is a tiny model with random sizes, options and weights. `quern logits --precision exact --hidden` has to give the
logits of every position and the output of every layer; with --llama-cpp the same weights go through the converter to GGUF
and are read from there as well. Prints one line per case that differs, and how to make it again.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback

import golden_common as gc
import torch
from golden_common import LayerTap, build, fill, load_file, logits_of, save_checkpoint, submodule, write_json
from random_decoders import FAMILIES

HERE = os.path.dirname(os.path.abspath(__file__))
LOGITS_TOLERANCE, HIDDEN_TOLERANCE = 2e-4, 4e-5


class Case:
    """One random model: folder with weights, and what the official implementation computes."""

    def __init__(self, family, seed, folder):
        self.rng = random.Random(f"{family}:{seed}")
        self.folder = folder
        spec = FAMILIES[family](self.rng)
        self.spec, self.cfg = spec, spec["cfg"]
        cfg = self.cfg
        self.model = build(spec["cls"], cfg)
        store = self.rng.choice(["bfloat16", "float32", "float16", "bfloat16"])
        fill(self.model, seed, gc.DTYPES[store], spec.get("gains", ()))
        for tweak in spec.get("tweaks", ()):
            tweak(self.model)
        os.makedirs(folder)
        save_checkpoint(self.model, folder, gc.DTYPES[store], shards=self.rng.choice([1, 1, 2, 3]), transform=spec.get("transform"))
        disk = spec.get("disk_cfg") or cfg
        self.style = "given"
        if not spec.get("disk_cfg") and self.rng.random() < 0.5:
            self.style = "saved"  # as transformers writes it itself
            self.model.config.architectures = cfg["architectures"]
            self.model.config.to_json_file(os.path.join(folder, "config.json"))
        else:
            write_json(os.path.join(folder, "config.json"), {**disk, self.rng.choice(["dtype", "torch_dtype"]): store})
        self.store = store

    def reference(self, ids):
        layers = self.spec.get("layers", "model.layers")
        tap, final = LayerTap(submodule(self.model, layers)), {}
        head = self.model.get_output_embeddings()
        hook = head.register_forward_pre_hook(lambda m, a: final.__setitem__("v", a[0].detach().clone()))
        logits = logits_of(self.model, ids)
        hook.remove()
        tap.close()
        out = {k: v[0].float() for k, v in tap.values.items()}
        if not self.spec.get("skip_final"):
            out["final"] = final["v"][0].float()
        out["logits"] = logits.float()
        return out


def run_quern(quern, path, ids, out, extra):
    command = [quern, "logits", path, "--ids", ",".join(map(str, ids)), "-o", out, "--hidden", "--precision", "exact", *extra]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()}")
    return load_file(out)


def compare(want, got):
    """Lines that say what differs."""
    lines = []
    for name in sorted(want, key=lambda n: (n == "logits", n == "final", n != "embed", len(n), n)):
        if name not in got:
            lines.append(f"{name} is missing")
            continue
        w, g = want[name], got[name]
        if w.shape != g.shape:
            lines.append(f"{name} has shape {tuple(g.shape)}, must be {tuple(w.shape)}")
            continue
        scale = float(w.abs().max())
        allowed = LOGITS_TOLERANCE * max(1.0, scale / 8) if name == "logits" else HIDDEN_TOLERANCE * max(scale, 1e-3)
        diff = (w - g).abs().max(dim=1).values
        if not bool((diff <= allowed).all()):
            row = int((diff > allowed).nonzero()[0]) if bool((diff > allowed).any()) else -1
            lines.append(f"{name}: {float(diff.max()):.3g} of {scale:.3g} (allowed {allowed:.2g}), first at row {row}")
    return lines


def options(rng):
    extra = ["-t", str(rng.choice([1, 2]))]
    if rng.random() < 0.6:
        extra += ["--max-num-batched-tokens", str(rng.choice([1, 3, 7, 16, 512]))]
    return extra


def to_gguf(case, folder, llama_cpp, out):
    """A copy with a tokenizer, which the converter insists on, through the converter."""
    from make_family_gguf import convert
    with tempfile.TemporaryDirectory() as tmp:
        source = os.path.join(tmp, "model")
        shutil.copytree(folder, source)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(HERE, "models", "llama", file), source)
        config = json.load(open(os.path.join(source, "config.json")))
        write_json(os.path.join(source, "config.json"), {**config, "vocab_size": case.cfg["vocab_size"], **(case.spec.get("gguf_patch") or {})})
        convert(source, out, llama_cpp)


def check(family, seed, args, folder):
    case = Case(family, seed, folder)
    rng, bad = case.rng, []
    vocab = case.cfg["vocab_size"]
    context = case.cfg.get("max_position_embeddings") or case.cfg.get("n_positions") or 128
    if (case.cfg.get("rope_scaling") or case.cfg.get("rope_parameters") or {}).get("rope_type") in ("linear", "dynamic"):
        context = 128
    lengths = [min(n, context) for n in (1, rng.randint(2, 30), rng.randint(40, 75))]
    gguf = None
    wanted = case.spec.get("gguf", True)  # "given": the converter does not know the keys that transformers writes
    if args.llama_cpp and wanted and wanted in (True, case.style):
        gguf = os.path.join(folder, "model.gguf")
        try:
            to_gguf(case, folder, args.llama_cpp, gguf)
        except Exception as error:  # the converter's limits are not ours
            print(f"{family} {seed}: not converted: {type(error).__name__}: {str(error)[:200]}", flush=True)
            gguf = None
    for n in lengths:
        ids = [rng.randrange(vocab) for _ in range(n)]
        want = case.reference(ids)
        extra = options(rng)
        for path in (folder, gguf) if gguf else (folder,):
            kind = "gguf" if path == gguf else "folder"
            try:
                lines = compare(want, run_quern(args.quern, path, ids, os.path.join(folder, "out.safetensors"), extra))
            except RuntimeError as error:
                lines = [str(error)]
            bad += [f"{kind} n={n} {' '.join(extra)}: {line}" for line in lines[:3]]
            if lines:
                break
        if bad:
            break
    return case, bad


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--quern", default=os.path.join(HERE, "..", "..", "build", "release", "quern"))
    ap.add_argument("--only", nargs="*")
    ap.add_argument("--seeds", default="0-9")
    ap.add_argument("--llama-cpp")
    ap.add_argument("--keep", help="folder for the cases that differ")
    args = ap.parse_args()
    first, _, last = args.seeds.partition("-")
    failed = total = 0
    for family in args.only or FAMILIES:
        wrong = 0
        for seed in range(int(first), int(last or first) + 1):
            total += 1
            with tempfile.TemporaryDirectory() as tmp:
                folder = os.path.join(tmp, f"{family}-{seed}")
                case = None
                try:
                    case, bad = check(family, seed, args, folder)
                except Exception:
                    bad = [traceback.format_exc(limit=-3).replace("\n", "\n    ")]
                if bad:
                    wrong += 1
                    print(f"{family} {seed}" + (f" ({case.style}, {case.store})" if case else ""))
                    for line in bad:
                        print("   ", line)
                    if case:
                        print("   ", json.dumps(case.cfg), flush=True)
                    if args.keep and os.path.isdir(folder):
                        shutil.copytree(folder, os.path.join(args.keep, f"{family}-{seed}"), dirs_exist_ok=True)
        failed += wrong
        print(f"{family:20s} {'ok' if wrong == 0 else f'{wrong} differ'}", flush=True)
    print(f"{total} cases, {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
