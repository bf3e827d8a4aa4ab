"""Makes families/: tiny checkpoints with golden results for the model families that models/ lacks.

    python make_families.py [--out families] [--only NAME ...] [--verify]

Same files, prompts and rules as models/ (make_models.py, README.md); the decoders have no tokenizer of their own.
Deterministic: the same versions give the same files.
"""

import argparse
import json
import math
import os

import golden_common as gc
import torch
from golden_common import (build, load_file, make_decoder, maxdiff, prompts_for, round_sig, save_file, verify_decoder,
                           write_golden_json, write_json)
from make_models import VOCAB, cases, dec, unigram, wordpiece

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL_EMBEDDING = ("embed_tokens", 0.0, 0.25)  # for tied output projections: keeps the logits' deviation near 1 to 3
ROPE = dict(max_position_embeddings=512, rope_theta=10000.0)


def llama_cfg(**kw):
    cfg = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               hidden_act="silu", rms_norm_eps=1e-5, tie_word_embeddings=False, torch_dtype="bfloat16", **ROPE)
    cfg.update(kw)
    return cfg


# --------------------------------------------------------------------------- names of released checkpoints

def renamed(rules):
    """transform for make_decoder: (old, new) substrings, applied in order to every name."""
    def transform(sd):
        out = {}
        for k, v in sd.items():
            for old, new in rules:
                k = k.replace(old, new)
            out[k] = v
        return dict(sorted(out.items()))
    return transform


INTERNLM2_NAMES = [("model.embed_tokens", "model.tok_embeddings"), ("lm_head", "output"), ("self_attn.o_proj", "attention.wo"),
                   ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
                   ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2")]


def internlm2_names(sd, kv_heads=2, head_dim=16):
    """Llama's q, k, v into wqkv: per key/value head its query heads, then its key, then its value."""
    sd = renamed(INTERNLM2_NAMES)(sd)
    out = {}
    for k, v in sd.items():
        if ".k_proj." in k or ".v_proj." in k:
            continue
        if ".q_proj." in k:
            q = v.reshape(kv_heads, -1, head_dim, v.shape[-1])
            kk, vv = (sd[k.replace("q_proj", p)].reshape(kv_heads, 1, head_dim, v.shape[-1]) for p in ("k_proj", "v_proj"))
            k, v = k.replace("self_attn.q_proj", "attention.wqkv"), torch.cat([q, kk, vv], 1).reshape(-1, v.shape[-1])
        out[k] = v.contiguous()
    return dict(sorted(out.items()))


def internlm2_to_llama(sd, kv_heads=2, head_dim=16):
    back = {}
    for k, v in sd.items():
        for old, new in INTERNLM2_NAMES:
            k = k.replace(new, old) if new != "output" or k.startswith("output.") else k
        if "attention.wqkv" in k:
            w = v.reshape(kv_heads, -1, head_dim, v.shape[-1])
            for name, part in (("q_proj", w[:, :-2]), ("k_proj", w[:, -2]), ("v_proj", w[:, -1])):
                back[k.replace("attention.wqkv", f"self_attn.{name}")] = part.reshape(-1, v.shape[-1])
        else:
            back[k] = v
    return back


def neox_buffers(sd):
    """The buffers that checkpoints of the Pythia time carry; a reader has to ignore them."""
    out = dict(sd)
    for i in range(2):
        p = f"gpt_neox.layers.{i}.attention."
        out[p + "bias"] = torch.tril(torch.ones(64, 64, dtype=torch.bool)).reshape(1, 1, 64, 64)
        out[p + "masked_bias"] = torch.tensor(-1e9)
        out[p + "rotary_emb.inv_freq"] = 1.0 / (10000.0 ** (torch.arange(0, 4, 2).float() / 4))
    return dict(sorted(out.items()))


# --------------------------------------------------------------------------- decoders

def parallel_decoders():
    """Layer norms, biases, parallel residuals, partial rotary embeddings."""
    import transformers as T
    s = {}
    s["phi"] = dict(
        cls=T.PhiForCausalLM, seed=6100,
        cfg=dec("PhiForCausalLM", "phi", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=4, hidden_act="gelu_new", layer_norm_eps=1e-5, partial_rotary_factor=0.5,
                qk_layernorm=False, embd_pdrop=0.0, resid_pdrop=0.0, attention_dropout=0.0, tie_word_embeddings=False,
                torch_dtype="bfloat16", **ROPE),
        note="parallel residual with one layer norm; rotary embedding on the first 8 of 16 elements; lm_head has a bias",
        ablations={"rotary_full": {"partial_rotary_factor": 1.0}, "gelu_erf": {"hidden_act": "gelu"}})
    neox = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, hidden_act="gelu",
                layer_norm_eps=1e-5, max_position_embeddings=64, rotary_pct=0.25, rotary_emb_base=10000,
                tie_word_embeddings=False, torch_dtype="float16")
    s["gpt_neox"] = dict(
        cls=T.GPTNeoXForCausalLM, seed=6200, layers="gpt_neox.layers", store="float16", transform=neox_buffers,
        cfg=dec("GPTNeoXForCausalLM", "gpt_neox", use_parallel_residual=True, **neox),
        note="fused query_key_value, per head its query, key and value; parallel residual with two layer norms; rotary "
             "embedding on the first 4 of 16 elements; the file carries attention.bias, attention.masked_bias and "
             "attention.rotary_emb.inv_freq, which are not weights",
        ablations={"serial": {"use_parallel_residual": False}, "rotary_full": {"rotary_pct": 1.0}})
    s["gpt_neox_serial"] = dict(
        cls=T.GPTNeoXForCausalLM, seed=6250, layers="gpt_neox.layers", store="float16",
        cfg=dec("GPTNeoXForCausalLM", "gpt_neox", use_parallel_residual=False, **{**neox, "rotary_pct": 1.0, "hidden_act": "gelu_fast"}),
        note="serial residual, rotary embedding on all elements, gelu_fast (the tanh form)",
        ablations={"parallel": {"use_parallel_residual": True}})
    falcon = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, layer_norm_epsilon=1e-5, alibi=False,
                  parallel_attn=True, bias=False, hidden_dropout=0.0, attention_dropout=0.0, torch_dtype="bfloat16", **ROPE)
    s["falcon"] = dict(
        cls=T.FalconForCausalLM, seed=6300, layers="transformer.h", gains=[("word_embeddings", 0.0, 0.25)],
        cfg=dec("FalconForCausalLM", "falcon", multi_query=True, new_decoder_architecture=False, **falcon),
        note="the 7B layout: one key/value head behind the query heads in query_key_value, parallel attention with one "
             "layer norm, tied output")
    s["falcon_rw"] = dict(
        cls=T.FalconForCausalLM, seed=6330, layers="transformer.h", gains=[("word_embeddings", 0.0, 0.12)],
        cfg=dec("FalconForCausalLM", "falcon", multi_query=False, new_decoder_architecture=False,
                **(falcon | dict(alibi=True, parallel_attn=False, bias=True, hidden_size=96, num_attention_heads=6))),
        note="the falcon-rw layout: ALiBi instead of rotation (6 heads: slopes of two series), serial blocks, biases; computed with sdpa attention")
    s["falcon_new"] = dict(
        cls=T.FalconForCausalLM, seed=6350, layers="transformer.h", gains=[("word_embeddings", 0.0, 0.25)],
        cfg=dec("FalconForCausalLM", "falcon", multi_query=True, new_decoder_architecture=True, num_kv_heads=2, **falcon),
        note="the 40B layout: query_key_value in groups (query heads, key, value per key/value head), ln_attn and ln_mlp")
    s["falcon_new_one_norm"] = dict(
        cls=T.FalconForCausalLM, seed=6370, layers="transformer.h", gains=[("word_embeddings", 0.0, 0.25)],
        cfg=dec("FalconForCausalLM", "falcon", multi_query=True, new_decoder_architecture=True, num_kv_heads=2,
                num_ln_in_parallel_attn=1, ffn_hidden_size=96, **falcon),
        note="the 11B layout: grouped as the 40B one, but one input_layernorm; ffn_hidden_size is not 4 * hidden_size")
    stable = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                  hidden_act="silu", layer_norm_eps=1e-5, partial_rotary_factor=0.25, tie_word_embeddings=False,
                  torch_dtype="bfloat16", **ROPE)
    s["stablelm"] = dict(
        cls=T.StableLmForCausalLM, seed=6400,
        cfg=dec("StableLmForCausalLM", "stablelm", use_qkv_bias=True, qk_layernorm=False, use_parallel_residual=False, **stable),
        note="layer norms, bias on q, k, v, rotary embedding on the first 4 of 16 elements, gated silu",
        ablations={"rotary_half": {"partial_rotary_factor": 0.5}})
    s["stablelm_parallel"] = dict(
        cls=T.StableLmForCausalLM, seed=6450,
        cfg=dec("StableLmForCausalLM", "stablelm", use_qkv_bias=False, qk_layernorm=True, use_parallel_residual=True, **stable),
        note="the 12B layout: parallel residual with one norm, a layer norm without bias for every query and key head",
        ablations={"no_qk_norm": {"qk_layernorm": False}})
    s["starcoder2"] = dict(
        cls=T.Starcoder2ForCausalLM, seed=6500, gains=[SMALL_EMBEDDING],
        cfg=dec("Starcoder2ForCausalLM", "starcoder2", hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5,
                norm_type="layer_norm", mlp_type="default", use_bias=True, sliding_window=16, residual_dropout=0.0,
                embedding_dropout=0.0, tie_word_embeddings=True, torch_dtype="bfloat16", **ROPE),
        note="layer norms, biases everywhere, plain gelu block c_fc and c_proj, sliding window 16, tied output",
        ablations={"no_sliding_window": {"sliding_window": None}})
    return s


def norm_decoders():
    """Other places of norms, other multipliers, layers without rotary embedding."""
    import transformers as T
    s = {}
    s["gemma"] = dict(
        cls=T.GemmaForCausalLM, seed=6600, gains=[("embed_tokens", 0.0, 0.12), ("model.norm", -1.0, 1.5), ("norm", 0.0, 0.3)],
        cfg=dec("GemmaForCausalLM", "gemma", **llama_cfg(num_key_value_heads=1, head_dim=32, hidden_act="gelu", rms_norm_eps=1e-6,
                hidden_activation="gelu_pytorch_tanh", attention_bias=False, tie_word_embeddings=True)),
        note="hidden_act 'gelu' of the released config means the tanh form; norms are 1 + w; embeddings times sqrt(hidden_size); "
             "head_dim 32, one key/value head")
    s["olmo2"] = dict(
        cls=T.Olmo2ForCausalLM, seed=6700,
        cfg=dec("Olmo2ForCausalLM", "olmo2", **llama_cfg(attention_bias=False, rms_norm_eps=1e-6, rope_theta=500000.0)),
        note="norms after attention and feed-forward only; query and key norms over the whole projection, before the heads are split")
    s["glm4"] = dict(
        cls=T.Glm4ForCausalLM, seed=6800,
        cfg=dec("Glm4ForCausalLM", "glm4", **llama_cfg(head_dim=16, attention_bias=True, partial_rotary_factor=0.5)),
        note="four norms per layer; rotary pairs (2i, 2i + 1) of the first 8 of 16 elements; fused gate_up_proj; bias on q, k, v",
        ablations={"rotary_full": {"partial_rotary_factor": 1.0}})
    s["glm"] = dict(
        cls=T.GlmForCausalLM, seed=6850,
        cfg=dec("GlmForCausalLM", "glm", **llama_cfg(head_dim=16, attention_bias=True, partial_rotary_factor=0.5)),
        note="as glm4 with the two usual norms")
    s["granite"] = dict(
        cls=T.GraniteForCausalLM, seed=6900,
        cfg=dec("GraniteForCausalLM", "granite", **llama_cfg(attention_bias=False, mlp_bias=False, embedding_multiplier=6.0,
                residual_multiplier=0.5, attention_multiplier=0.2, logits_scaling=2.0)),
        note="embeddings times embedding_multiplier, every branch times residual_multiplier, q·k times attention_multiplier, "
             "logits divided by logits_scaling",
        ablations={k: {k: 1.0} for k in ("embedding_multiplier", "residual_multiplier", "logits_scaling")} |
                  {"attention_multiplier": {"attention_multiplier": 0.25}})
    s["cohere"] = dict(
        cls=T.CohereForCausalLM, seed=7000, gains=[SMALL_EMBEDDING],
        cfg=dec("CohereForCausalLM", "cohere", hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, hidden_act="silu", layer_norm_eps=1e-5, logit_scale=0.5, use_qk_norm=True,
                attention_bias=False, tie_word_embeddings=True, torch_dtype="bfloat16", **ROPE),
        note="layer norms without bias, parallel residual, rotary pairs (2i, 2i + 1), query and key layer norms with a weight per "
             "head and element, logits times logit_scale",
        ablations={"no_logit_scale": {"logit_scale": 1.0}, "no_qk_norm": {"use_qk_norm": False}})
    s["cohere2"] = dict(
        cls=T.Cohere2ForCausalLM, seed=7050, gains=[SMALL_EMBEDDING],
        cfg=dec("Cohere2ForCausalLM", "cohere2", hidden_size=48, intermediate_size=64, num_hidden_layers=4, num_attention_heads=3,
                num_key_value_heads=1, hidden_act="silu", layer_norm_eps=1e-5, logit_scale=0.5, attention_bias=False,
                sliding_window=12, sliding_window_pattern=4, tie_word_embeddings=True, torch_dtype="bfloat16", **ROPE),
        note="layers 0 to 2: sliding window 12 and rotary pairs; layer 3: global, no rotary embedding",
        ablations={"no_sliding_window": {"sliding_window": 512}, "pattern_2": {"sliding_window_pattern": 2}})
    s["smollm3"] = dict(
        cls=T.SmolLM3ForCausalLM, seed=7100, gains=[SMALL_EMBEDDING],
        cfg=dec("SmolLM3ForCausalLM", "smollm3", **llama_cfg(num_hidden_layers=4, hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
                attention_bias=False, mlp_bias=False, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4, use_sliding_window=False,
                sliding_window=None, layer_types=["full_attention"] * 4, tie_word_embeddings=True)),
        note="no_rope_layers: 0 means that the layer has no rotary embedding (layer 3)",
        ablations={"rope_everywhere": {"no_rope_layers": [1, 1, 1, 1]}})
    s["exaone"] = dict(
        cls=T.AutoModelForCausalLM, seed=7200, layers="model.layers",
        cfg={**dec("ExaoneForCausalLM", "exaone", hidden_size=64, intermediate_size=96, num_layers=2, num_attention_heads=4,
                   num_key_value_heads=2, head_dim=16, activation_function="silu", layer_norm_epsilon=1e-5, attention_dropout=0.0,
                   embed_dropout=0.0, tie_word_embeddings=False, torch_dtype="bfloat16", **ROPE)},
        note="EXAONE 3: llama under other names (transformer.h.N.attn.attention.q_proj, mlp.c_fc_0 = gate, c_fc_1 = up); "
             "config has num_layers, layer_norm_epsilon, activation_function")
    s["exaone4"] = dict(
        cls=T.Exaone4ForCausalLM, seed=7250, gains=[SMALL_EMBEDDING],
        cfg=dec("Exaone4ForCausalLM", "exaone4", **llama_cfg(num_hidden_layers=4, hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
                head_dim=16, sliding_window=12, sliding_window_pattern=4, tie_word_embeddings=True)),
        note="norms after attention and feed-forward, query and key norms per head; layers 0 to 2 local with rotary embedding, "
             "layer 3 global without",
        ablations={"no_sliding_window": {"sliding_window": 512}})
    return s


def mapped_decoders():
    """Families of remote code: computed as llama or granite, stored under the released names and configuration."""
    import transformers as T
    s = {}
    llama = llama_cfg(num_hidden_layers=2, head_dim=16)
    s["internlm2"] = dict(
        cls=T.LlamaForCausalLM, seed=7300, transform=internlm2_names, cfg=dec("LlamaForCausalLM", "llama", **llama),
        disk_cfg=dec("InternLM2ForCausalLM", "internlm2", **{**llama_cfg(), "bias": False,
                     "rope_scaling": {"type": "dynamic", "factor": 2.0}, "attn_implementation": "eager"}),
        back=internlm2_to_llama,
        note="llama under other names; wqkv holds per key/value head its query heads, its key and its value; "
             "dynamic rope scaling begins at 512 positions, which no prompt reaches")
    mini = dict(num_hidden_layers=3, tie_word_embeddings=False, hidden_size=64)
    s["minicpm"] = dict(
        cls=T.GraniteForCausalLM, seed=7400,
        cfg=dec("GraniteForCausalLM", "granite", **llama_cfg(**mini, embedding_multiplier=6.0, residual_multiplier=1.4 / math.sqrt(3),
                attention_multiplier=0.25, logits_scaling=2.0, attention_bias=False, mlp_bias=False)),
        disk_cfg=dec("MiniCPMForCausalLM", "minicpm", **llama_cfg(**mini, scale_emb=6, scale_depth=1.4, dim_model_base=32)),
        back=lambda sd: sd,
        note="embeddings times scale_emb, every branch times scale_depth / sqrt(layers), the output projection's input divided by "
             "hidden_size / dim_model_base; 'final' is taken before that division")
    return s


def moe_decoders():
    import transformers as T
    s = {}
    s["qwen2_moe"] = dict(
        cls=T.Qwen2MoeForCausalLM, seed=7500,
        cfg=dec("Qwen2MoeForCausalLM", "qwen2_moe", **llama_cfg(intermediate_size=96, moe_intermediate_size=24, num_experts=6,
                shared_expert_intermediate_size=40, num_experts_per_tok=2, norm_topk_prob=False, decoder_sparse_step=1,
                mlp_only_layers=[], use_sliding_window=False, sliding_window=32, max_window_layers=2, rms_norm_eps=1e-6,
                router_aux_loss_coef=0.001, output_router_logits=False, rope_theta=1000000.0)),
        note="softmax routing without normalisation; a shared expert times the sigmoid of its own gate; bias on q, k, v",
        ablations={"norm_topk": {"norm_topk_prob": True}, "top_1": {"num_experts_per_tok": 1}})
    v2 = dict(intermediate_size=96, moe_intermediate_size=24, num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=16,
              qk_rope_head_dim=8, v_head_dim=16, n_shared_experts=2, scoring_func="softmax", norm_topk_prob=False,
              first_k_dense_replace=1, moe_layer_freq=1, attention_bias=False, rms_norm_eps=1e-6, max_position_embeddings=256,
              rope_scaling={"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1,
                            "mscale": 0.707, "mscale_all_dim": 0.707})
    s["deepseek_v2"] = dict(
        cls=T.DeepseekV2ForCausalLM, seed=7600,
        cfg=dec("DeepseekV2ForCausalLM", "deepseek_v2", **llama_cfg(**v2, q_lora_rank=24, n_routed_experts=8, num_experts_per_tok=3,
                n_group=4, topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=4.0)),
        note="softmax routing; groups are chosen by their best expert; weights are not normalised, times 4; q_lora; two shared experts",
        ablations={"no_groups": {"topk_method": "greedy"}, "scale_1": {"routed_scaling_factor": 1.0}, "no_yarn": {"rope_scaling": None}})
    s["deepseek_v2_lite"] = dict(
        cls=T.DeepseekV2ForCausalLM, seed=7650,
        cfg=dec("DeepseekV2ForCausalLM", "deepseek_v2", **llama_cfg(**v2, q_lora_rank=None, n_routed_experts=6, num_experts_per_tok=2,
                n_group=1, topk_group=1, topk_method="greedy", routed_scaling_factor=1.0)),
        note="no q_lora (q_proj), greedy routing")
    return s


def rope_decoders():
    """Llama with the other rope scalings; phi3 with the old name of longrope."""
    import transformers as T
    s = {}
    llama = lambda **kw: dec("LlamaForCausalLM", "llama", **llama_cfg(head_dim=16, attention_bias=False, mlp_bias=False, **kw))
    short, long = [1.0 + 0.03 * i for i in range(8)], [1.0 + 0.6 * i for i in range(8)]
    s["llama_rope_linear"] = dict(cls=T.LlamaForCausalLM, seed=7700, cfg=llama(rope_scaling={"type": "linear", "factor": 4.0}),
                                  note="positions divided by 4", ablations={"no_scaling": {"rope_scaling": None}})
    s["llama_rope_yarn"] = dict(
        cls=T.LlamaForCausalLM, seed=7710,
        cfg=llama(rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}),
        note="YaRN with its defaults: beta_fast 32, beta_slow 1, cos and sin times 0.1 ln(4) + 1",
        ablations={"no_scaling": {"rope_scaling": None}})
    s["llama_rope_dynamic"] = dict(
        cls=T.LlamaForCausalLM, seed=7720, check_cache=False, grow_rope=True,
        cfg=llama(max_position_embeddings=32, rope_scaling={"type": "dynamic", "factor": 2.0}),
        note="dynamic NTK: beyond 32 positions the base grows with the length. A prompt's tokens take the prompt's "
             "length, each generated one its own, as with a cache; p1 and p7 stay plain")
    s["llama_rope_longrope"] = dict(
        cls=T.LlamaForCausalLM, seed=7730,
        cfg=llama(rope_scaling={"rope_type": "longrope", "factor": 4.0, "short_factor": short, "long_factor": long,
                                "original_max_position_embeddings": 32}),
        lengths=(1, 7, 40),
        note="p1 and p7 use short_factor (up to 32 positions), p40 long_factor; cos and sin times sqrt(1 + ln(4) / ln(32))")
    s["phi3_su"] = dict(
        cls=T.Phi3ForCausalLM, seed=7740,
        cfg=dec("Phi3ForCausalLM", "phi3", **llama_cfg(max_position_embeddings=256, original_max_position_embeddings=64,
                rope_scaling={"type": "su", "original_max_position_embeddings": 64, "short_factor": short, "long_factor": long}, sliding_window=2047, attention_bias=False)),
        note="'su' is the first name of longrope; every sequence stays under 64 positions: short_factor; cos and sin times "
             "sqrt(1 + ln(4) / ln(64))")
    return s


def decoders():
    return parallel_decoders() | norm_decoders() | mapped_decoders() | moe_decoders() | rope_decoders()


# --------------------------------------------------------------------------- running them

def grown_greedy(model, ids, steps=gc.GREEDY_STEPS):
    """gc.greedy for dynamic rope, through the cache: each token's frequencies are those of the length it was computed at."""
    x, past, out, margin = torch.tensor([ids]), None, [], float("inf")
    for _ in range(steps):
        r = model(input_ids=x, past_key_values=past, use_cache=True)
        past, top = r.past_key_values, torch.topk(r.logits[0, -1], 2)
        margin = min(margin, float(top.values[0] - top.values[1]))
        out.append(int(top.indices[0]))
        x = torch.tensor([[out[-1]]])
    return out, margin


def finish_mapped(path, disk_cfg):
    """Puts the released configuration in place of the one the library computed with."""
    write_json(os.path.join(path, "config.json"), disk_cfg)
    g = json.load(open(os.path.join(path, "golden.json")))
    g["architecture"], g["model_type"] = disk_cfg["architectures"][0], disk_cfg["model_type"]
    write_golden_json(os.path.join(path, "golden.json"), g)


def verify_mapped(path, cls, cfg, back):
    """As gc.verify_decoder, the stored tensors mapped back to the library's names."""
    m = build(cls, cfg)
    sd = {k: v.float() for k, v in back(load_file(os.path.join(path, "model.safetensors"))).items()}
    missing, extra = m.load_state_dict(sd, strict=False)
    assert not extra and set(missing) <= {"lm_head.weight"}, (missing, extra)
    m.tie_weights()
    g, t = json.load(open(os.path.join(path, "golden.json"))), load_file(os.path.join(path, "golden.safetensors"))
    return max(maxdiff(gc.logits_of(m, e["ids"]), t[e["logits"]]) for e in g["prompts"])


def run_decoder(root, name, spec, verify):
    cls, disk, back = spec.pop("cls"), spec.pop("disk_cfg", None), spec.pop("back", None)
    grown = spec.pop("grow_rope", False)
    cfg, plain_greedy = spec.pop("cfg"), gc.greedy
    reader = cls  # what loads the folder
    if cls.__name__ == "AutoModelForCausalLM":
        cls = architecture(cfg)
    if grown:
        gc.greedy = grown_greedy
    path = os.path.join(root, name)
    if not verify:
        spec.setdefault("store", "bfloat16")
        make_decoder(root, name, cls, cfg, **spec)
        if disk:
            finish_mapped(path, disk)
    worst = verify_mapped(path, cls, cfg, back) if disk else verify_decoder(path, reader)
    gc.greedy = plain_greedy
    print(f"{name:24s} reloaded, max diff {worst:.3g}", flush=True)


def architecture(cfg):
    """The class the library maps this configuration to."""
    import tempfile
    from transformers import AutoConfig, MODEL_FOR_CAUSAL_LM_MAPPING
    with tempfile.TemporaryDirectory() as tmp:
        write_json(os.path.join(tmp, "config.json"), cfg)
        return MODEL_FOR_CAUSAL_LM_MAPPING[type(AutoConfig.from_pretrained(tmp))]


# --------------------------------------------------------------------------- encoders

def pooling_files(width, mode, normalize=True, style="modes"):
    """What sentence-transformers puts beside an encoder."""
    kind = "sentence_transformers.models."
    mods = [{"idx": 0, "name": "0", "path": "", "type": kind + "Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind + "Pooling"}]
    if normalize:
        mods.append({"idx": 2, "name": "2", "path": "2_Normalize", "type": kind + "Normalize"})
    pool = {"word_embedding_dimension": width}
    for m in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken"):
        pool[f"pooling_mode_{m}"] = m == mode
    return {"modules.json": mods, "1_Pooling/config.json": pool}


def tokenizer_files(tok, cls, words=None):
    files = {"tokenizer.json": tok.to_str(), "tokenizer_config.json": {"tokenizer_class": cls, "model_max_length": 64}}
    if words:
        files["vocab.txt"] = "\n".join(words) + "\n"
    return files


NOMIC_KEYS = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "intermediate_size": "n_inner",
              "max_position_embeddings": "n_positions", "layer_norm_eps": "layer_norm_epsilon"}


def encoders():
    import transformers as T
    tok, words = wordpiece(VOCAB)
    uni = unigram(VOCAB)
    wp = prompts_for("bert", VOCAB, (1, 7, 40), bos=2)
    seven = wp[1][:3] + [3] + wp[1][3:5] + [3]  # [CLS] a b [SEP] c d [SEP]
    typed = [([2, 3], [0, 0]), (seven, [0] * 4 + [1] * 3), (wp[2][:-1] + [3], [0] * 12 + [1] * 28)]
    plain = [(i, None) for i, _ in typed]
    up = prompts_for("xlm_roberta", VOCAB, (1, 7, 40), bos=0)
    robert = [([0, 2], None), ([0] + up[1][1:6] + [2], None), ([0] + up[2][1:39] + [2], None)]
    bert_files, uni_files = tokenizer_files(tok, "BertTokenizer", words), tokenizer_files(uni, "XLMRobertaTokenizer")
    bert = {"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
            "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 64,
            "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute"}
    roberta = {**bert, "max_position_embeddings": 66, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1,
               "bos_token_id": 0, "eos_token_id": 2}
    nomic = {"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
             "hidden_act": "silu", "max_position_embeddings": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0}
    modern = {"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64,
              "hidden_activation": "gelu", "max_position_embeddings": 128, "norm_eps": 1e-5, "norm_bias": False, "pad_token_id": 0,
              "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3, "attention_bias": False, "mlp_bias": False,
              "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "local_attention": 16,
              "classifier_pooling": "mean", "classifier_bias": False, "classifier_activation": "gelu", "position_embedding_type": "absolute"}
    one = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    three = {"id2label": {str(i): f"LABEL_{i}" for i in range(3)}, "label2id": {f"LABEL_{i}": i for i in range(3)}}
    arch = lambda a, t, **kw: {"architectures": [a], "model_type": t, "torch_dtype": "float32", **kw}
    head = [("classifier.weight", 0.0, 0.3), ("dense.weight", 0.0, 0.2)]
    e = {}
    e["bert_rerank"] = dict(
        cls=T.BertForSequenceClassification, cfg=arch("BertForSequenceClassification", "bert", **bert, **one), layers="bert.encoder.layer",
        inputs=typed, seed=8100, task="sequence-classification", gains=head, extra_files=bert_files,
        note="cross encoder: pooler (dense and tanh on the first token), then one label; names begin with 'bert.'")
    e["bert_classify"] = dict(
        cls=T.BertForSequenceClassification, cfg=arch("BertForSequenceClassification", "bert", **{**bert, "hidden_act": "gelu_new"}, **three),
        layers="bert.encoder.layer", inputs=typed, seed=8110, task="sequence-classification", gains=head, extra_files=bert_files,
        note="three labels, gelu_new")
    e["xlm_roberta"] = dict(
        cls=T.XLMRobertaModel, cfg=arch("XLMRobertaModel", "xlm-roberta", **roberta), layers="encoder.layer", inputs=robert, seed=8200,
        pooling="cls, then L2 normalisation", extra_files={**uni_files, **pooling_files(48, "cls_token")},
        note="positions start at pad_token_id + 1 = 2; first-token pooling")
    e["roberta_classify"] = dict(
        cls=T.RobertaForSequenceClassification, cfg=arch("RobertaForSequenceClassification", "roberta", **roberta, **three),
        layers="roberta.encoder.layer", inputs=robert, seed=8210, task="sequence-classification",
        gains=[("classifier.out_proj", 0.0, 0.3), ("classifier.dense", 0.0, 0.2)], extra_files=uni_files,
        note="head on the first token: dense, tanh, out_proj; three labels")
    e["distilbert"] = dict(
        cls=T.DistilBertModel, cfg=arch("DistilBertModel", "distilbert", vocab_size=VOCAB, dim=48, hidden_dim=96, n_layers=2, n_heads=4,
                                        activation="gelu", max_position_embeddings=64, sinusoidal_pos_embds=False, pad_token_id=0,
                                        dropout=0.1, attention_dropout=0.1),
        layers="transformer.layer", inputs=plain, seed=8300, pooling="max, no normalisation",
        extra_files={**bert_files, **pooling_files(48, "max_tokens", normalize=False)},
        note="no token types, no pooler, layer_norm_eps 1e-12; max pooling without normalisation")
    e["nomic_bert"] = dict(
        cls=T.NomicBertModel, cfg=arch("NomicBertModel", "nomic_bert", **nomic, rope_theta=1000.0), layers="layers", inputs=typed, seed=8400,
        pooling="mean, no normalisation", extra_files={**bert_files, **pooling_files(48, "mean_tokens", normalize=False)},
        disk_cfg=arch("NomicBertModel", "nomic_bert", **{NOMIC_KEYS.get(k, k): v for k, v in nomic.items() if k != "hidden_act"},
                      activation_function="swiglu", rotary_emb_base=1000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False,
                      rotary_emb_scale_base=None, rotary_scaling_factor=None, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False,
                      prenorm=False, parallel_block=False, causal=False, use_rms_norm=False, use_xentropy=True),
        note="rotary embedding (halves, base 1000), no learned positions, norms after each block, no biases, fc11(x) * silu(fc12(x)); "
             "configuration and names as released (n_embd, encoder.layers.N.attn.Wqkv)")
    e["modernbert"] = dict(
        cls=T.ModernBertModel, cfg=arch("ModernBertModel", "modernbert", **modern, torch_dtype="bfloat16"), layers="layers", inputs=plain, seed=8500, store="bfloat16",
        pooling="mean, then L2 normalisation", extra_files={**bert_files, **pooling_files(48, "mean_tokens")},
        note="layers 0 and 3 global (theta 160000), 1 and 2 local: |i - j| <= local_attention / 2 = 8, theta 10000; layer 0 has no "
             "attn_norm; Wi holds what is activated, then the gate; norms without bias; final_norm",
        ablations={"window_7": {"local_attention": 14}, "no_window": {"local_attention": 256}, "global_every_2": {"global_attn_every_n_layers": 2}})
    e["modernbert_rerank"] = dict(
        cls=T.ModernBertForSequenceClassification, cfg=arch("ModernBertForSequenceClassification", "modernbert", **modern, **one, torch_dtype="bfloat16"),
        layers="model.layers", inputs=plain, seed=8510, store="bfloat16", task="sequence-classification", gains=[("classifier.weight", 0.0, 0.3)],
        extra_files=bert_files, note="mean pooling, head.dense (no bias), gelu, head.norm, classifier; names begin with 'model.'",
        ablations={"cls_pooling": {"classifier_pooling": "cls"}})
    return e



def add_embedding(path):
    """golden.safetensors gets 'pN.embedding': what the pooling files beside the model ask for."""
    g = json.load(open(os.path.join(path, "golden.json")))
    if g["task"] != "embedding":
        return
    t = load_file(os.path.join(path, "golden.safetensors"))
    pooling = g["pooling"]
    for e in g["inputs"]:
        h = t[e["outputs"]["last_hidden_state"]]
        v = h.mean(0) if pooling.startswith("mean") else h[0] if pooling.startswith("cls") else h.max(0).values
        t[e["name"] + ".embedding"] = torch.nn.functional.normalize(v, dim=0) if "L2" in pooling else v.clone()
        e["outputs"]["embedding"] = e["name"] + ".embedding"
    save_file(t, os.path.join(path, "golden.safetensors"))
    write_golden_json(os.path.join(path, "golden.json"), g)


def run_encoder(root, name, spec, verify):
    cls, disk = spec.pop("cls"), spec.pop("disk_cfg", None)
    path, cfg = os.path.join(root, name), spec.pop("cfg")
    if not verify:
        gc.make_encoder(root, name, cls, cfg, spec.pop("layers"), spec.pop("inputs"), **spec)
        add_embedding(path)
    elif disk:
        write_json(os.path.join(path, "config.json"), cfg)
    worst = gc.verify_encoder(path, cls)
    if disk:
        write_json(os.path.join(path, "config.json"), disk)
    print(f"{name:24s} reloaded, max diff {worst:.3g}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=os.path.join(HERE, "families"))
    ap.add_argument("--only", nargs="*", help="names of fixtures (default: all)")
    ap.add_argument("--verify", action="store_true", help="only reload what is there and compare")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    for run, specs in ((run_decoder, decoders()), (run_encoder, encoders())):
        for name, spec in specs.items():
            if not a.only or name in a.only:
                run(a.out, name, dict(spec), a.verify)


if __name__ == "__main__":
    main()
