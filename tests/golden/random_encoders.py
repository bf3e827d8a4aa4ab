"""Random configurations of every encoder family against the official implementation, run by hand.

    python random_encoders.py --quern build/release/quern [--only FAMILY ...] [--seeds 0-19]

As random_families.py: every layer, the last states, the pooled embedding or the logits of the labels, for random sizes,
pooling files and heads.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback

import golden_common as gc
import torch
from golden_common import LayerTap, build, encoder_outputs, fill, load_file, save_checkpoint, submodule, write_json
from random_families import compare

HERE = os.path.dirname(os.path.abspath(__file__))
POOLING = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "lasttoken": "lasttoken", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens"}
FAMILIES = {}


def family(function):
    FAMILIES[function.__name__] = function
    return function


def bert_sizes(rng):
    h = rng.choice([1, 2, 3, 5])
    return dict(vocab_size=rng.choice([61, 97, 320]), hidden_size=h * rng.choice([8, 12, 16, 20]), num_attention_heads=h, num_hidden_layers=rng.choice([1, 2, 3]),
                intermediate_size=rng.choice([31, 48, 77]), hidden_act=rng.choice(["gelu", "gelu", "gelu_new", "relu", "silu"]), max_position_embeddings=rng.choice([80, 96]),
                type_vocab_size=rng.choice([1, 2, 3]), layer_norm_eps=rng.choice([1e-12, 1e-5]), pad_token_id=rng.choice([0, 1]))


def with_head(rng, base, cfg, model_class, classifier_class, layers, prefix):
    """A classifier with one label or several, or an embedding model."""
    import transformers as T
    if rng.random() < 0.5:
        return dict(cls=getattr(T, model_class), cfg={"architectures": [model_class], "model_type": base, **cfg}, layers=layers, classifier=False)
    n = rng.choice([1, 1, 2, 3, 5])
    cfg = {"architectures": [classifier_class], "model_type": base, **cfg, "id2label": {str(i): f"L{i}" for i in range(n)}, "label2id": {f"L{i}": i for i in range(n)}}
    return dict(cls=getattr(T, classifier_class), cfg=cfg, layers=f"{prefix}.{layers}", classifier=True)


@family
def bert(rng):
    return with_head(rng, "bert", bert_sizes(rng), "BertModel", "BertForSequenceClassification", "encoder.layer", "bert")


@family
def roberta(rng):
    return with_head(rng, "roberta", bert_sizes(rng), "RobertaModel", "RobertaForSequenceClassification", "encoder.layer", "roberta")


@family
def xlm_roberta(rng):
    return with_head(rng, "xlm-roberta", bert_sizes(rng), "XLMRobertaModel", "XLMRobertaForSequenceClassification", "encoder.layer", "roberta")


@family
def distilbert(rng):
    b = bert_sizes(rng)
    c = dict(vocab_size=b["vocab_size"], dim=b["hidden_size"], n_heads=b["num_attention_heads"], n_layers=b["num_hidden_layers"], hidden_dim=b["intermediate_size"],
             activation=rng.choice(["gelu", "relu"]), max_position_embeddings=b["max_position_embeddings"], sinusoidal_pos_embds=rng.random() < 0.3, pad_token_id=0)
    return with_head(rng, "distilbert", c, "DistilBertModel", "DistilBertForSequenceClassification", "transformer.layer", "distilbert")


@family
def nomic_bert(rng):
    import transformers as T
    c = bert_sizes(rng)
    c.update(hidden_act="silu", type_vocab_size=rng.choice([1, 2]), rope_theta=rng.choice([1000.0, 10000.0]))
    return dict(cls=T.NomicBertModel, cfg={"architectures": ["NomicBertModel"], "model_type": "nomic_bert", **c}, layers="layers", classifier=False)


@family
def modernbert(rng):
    b = bert_sizes(rng)
    c = {k: b[k] for k in ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings", "pad_token_id")}
    c.update(num_hidden_layers=rng.choice([1, 3, 4]), hidden_activation=rng.choice(["gelu", "gelu", "silu"]), norm_eps=1e-5, norm_bias=rng.random() < 0.3,
             attention_bias=rng.random() < 0.3, mlp_bias=rng.random() < 0.3, global_attn_every_n_layers=rng.choice([1, 2, 3]), global_rope_theta=160000.0,
             local_rope_theta=10000.0, local_attention=rng.choice([8, 16, 128]), classifier_pooling=rng.choice(["mean", "cls"]), classifier_bias=rng.random() < 0.3,
             classifier_activation=rng.choice(["gelu", "silu", "relu"]), bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3)
    return with_head(rng, "modernbert", c, "ModernBertModel", "ModernBertForSequenceClassification", "layers", "model")


def pooling_files(rng, folder, width):
    """What sentence-transformers writes; returns mode and whether it normalises. None: no files, mean and L2."""
    if rng.random() < 0.2:
        return "mean", True
    mode, normalize = rng.choice(list(POOLING)), rng.random() < 0.5
    kind = "sentence_transformers.models."
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind + "Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind + "Pooling"}]
    if normalize:
        modules.append({"idx": 2, "name": "2", "path": "2_Normalize", "type": kind + "Normalize"})
    write_json(os.path.join(folder, "modules.json"), modules)
    os.makedirs(os.path.join(folder, "1_Pooling"))
    pool = {"word_embedding_dimension": width}
    if rng.random() < 0.3:
        pool["pooling_mode"] = mode
    else:
        pool.update({f"pooling_mode_{flag}": flag == POOLING[mode] for flag in POOLING.values()})
    write_json(os.path.join(folder, "1_Pooling", "config.json"), pool)
    return mode, normalize


def pooled(h, mode, normalize):
    v = {"cls": lambda: h[0], "mean": lambda: h.mean(0), "max": lambda: h.max(0).values, "lasttoken": lambda: h[-1],
         "mean_sqrt_len_tokens": lambda: h.sum(0) / len(h) ** 0.5}[mode]()
    return torch.nn.functional.normalize(v, dim=0) if normalize else v


def check(name, seed, quern, folder):
    rng = random.Random(f"{name}:{seed}")
    spec = FAMILIES[name](rng)
    cfg = spec["cfg"]
    model = build(spec["cls"], cfg)
    store = rng.choice(["float32", "float16", "bfloat16"])
    fill(model, seed, gc.DTYPES[store])
    os.makedirs(folder)
    save_checkpoint(model, folder, gc.DTYPES[store], shards=rng.choice([1, 2]))
    if rng.random() < 0.5:
        model.config.architectures = cfg["architectures"]
        model.config.to_json_file(os.path.join(folder, "config.json"))
    else:
        write_json(os.path.join(folder, "config.json"), {**cfg, "torch_dtype": store})
    width = cfg.get("hidden_size") or cfg["dim"]
    mode, normalize = pooling_files(rng, folder, width)
    bad = []
    for n in (1, rng.randint(2, 20), rng.randint(30, 70)):
        first = 2 if name in ("roberta", "xlm_roberta") else 0  # never the padding id: its positions are not counted
        ids = [rng.randrange(first, cfg["vocab_size"]) for _ in range(n)]
        ids = [i if i != cfg.get("pad_token_id") else i + 1 for i in ids]
        types = [rng.randrange(cfg["type_vocab_size"]) for _ in range(n)] if cfg.get("type_vocab_size", 1) > 1 and rng.random() < 0.7 else None
        tap = LayerTap(submodule(model, spec["layers"]))
        result = encoder_outputs(model, ids, types)
        tap.close()
        want = {k: v[0].float() for k, v in tap.values.items()}
        if spec["classifier"]:
            want["logits"] = result.logits[0][None]
        else:
            want["last_hidden_state"] = result.last_hidden_state[0]
            want["embedding"] = pooled(result.last_hidden_state[0], mode, normalize)[None]
        out = os.path.join(folder, "out.safetensors")
        command = [quern, "logits", folder, "--ids", ",".join(map(str, ids)), "-o", out, "--hidden", "--precision", "exact", "-t", str(rng.choice([1, 2]))]
        if types:
            command += ["--type-ids", ",".join(map(str, types))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            return cfg, [f"n={n}: exit {done.returncode}: {done.stderr.strip()}"]
        got = {k: v if v.ndim == 2 else v[None] for k, v in load_file(out).items()}
        bad += [f"n={n}: {line}" for line in compare(want, got)[:3]]
        if bad:
            break
    return cfg, bad


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--quern", default=os.path.join(HERE, "..", "..", "build", "release", "quern"))
    ap.add_argument("--only", nargs="*")
    ap.add_argument("--seeds", default="0-9")
    args = ap.parse_args()
    first, _, last = args.seeds.partition("-")
    failed = 0
    for name in args.only or FAMILIES:
        wrong = 0
        for seed in range(int(first), int(last or first) + 1):
            cfg = None
            with tempfile.TemporaryDirectory() as tmp:
                try:
                    cfg, bad = check(name, seed, args.quern, os.path.join(tmp, name))
                except Exception:
                    bad = [traceback.format_exc(limit=-2)]
            if bad:
                wrong += 1
                print(f"{name} {seed}")
                for line in bad + [json.dumps(cfg)]:
                    print("   ", line, flush=True)
        failed += wrong
        print(f"{name:20s} {'ok' if wrong == 0 else f'{wrong} differ'}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
