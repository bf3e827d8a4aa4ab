"""Random configurations of the decoder families, for random_families.py: one function of a random.Random per family.

A configuration has the keys of released checkpoints (rope_theta, rope_scaling); sizes are odd on purpose.
"""

import math

from make_families import architecture, internlm2_names

SMALL = ("embed_tokens", 0.0, 0.25)
FAMILIES = {}


def family(function):
    FAMILIES[function.__name__] = function
    return function


def pick(rng, *values):
    return rng.choice(values)


def flag(rng, p=0.5):
    return rng.random() < p


def heads(rng, groups=True):
    """(heads, kv heads)"""
    kv = pick(rng, 1, 1, 2, 3)
    return (kv * pick(rng, 1, 2, 3, 4), kv) if groups else (pick(rng, 1, 2, 3, 5),) * 2


def sizes(rng, groups=True, own_head_dim=True, dims=(8, 12, 16, 20, 32)):
    h, kv = heads(rng, groups)
    head_dim = pick(rng, *dims)
    c = dict(vocab_size=pick(rng, 320, 321, 333, 350), num_hidden_layers=pick(rng, 1, 2, 3, 4), num_attention_heads=h, num_key_value_heads=kv,
             intermediate_size=pick(rng, 24, 50, 77, 96, 129), tie_word_embeddings=flag(rng), bos_token_id=1, eos_token_id=2, pad_token_id=0)
    if own_head_dim and flag(rng):
        c.update(head_dim=head_dim, hidden_size=h * pick(rng, 5, 9, 14, 22))
    else:
        c.update(hidden_size=h * head_dim)
        if own_head_dim and flag(rng, 0.3):
            c["head_dim"] = pick(rng, None, head_dim)
            if c["head_dim"] is None:
                del c["head_dim"]
    return c


def head_dim_of(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def rope(rng, c, scalings=("none", "none", "linear", "dynamic", "llama3", "yarn", "longrope"), rotary=None):
    """rope_theta and perhaps rope_scaling, in the older or the newer spelling. Lengths stay under 128."""
    theta = pick(rng, 1000.0, 10000.0, 500000.0, 1000000)
    kind = pick(rng, *scalings)
    half = (rotary or head_dim_of(c)) // 2
    r = {}
    if kind == "linear":
        r = dict(rope_type="linear", factor=pick(rng, 2.0, 4, 8.5))
    elif kind == "llama3":
        r = dict(rope_type="llama3", factor=pick(rng, 2.0, 8.0, 32.0), low_freq_factor=pick(rng, 1.0, 0.5), high_freq_factor=pick(rng, 4.0, 3.0),
                 original_max_position_embeddings=pick(rng, 16, 64, 256))
    elif kind == "yarn":
        r = dict(rope_type="yarn", factor=pick(rng, 2.0, 4.0, 16.0), original_max_position_embeddings=pick(rng, 16, 32, 64, 128))
        if flag(rng):
            r.update(beta_fast=pick(rng, 32.0, 8), beta_slow=pick(rng, 1.0, 2))
        if flag(rng, 0.3):
            r.update(attention_factor=1.2)
        elif flag(rng, 0.3):
            r.update(mscale=pick(rng, 1.0, 0.8), mscale_all_dim=pick(rng, 1.0, 0.6))
        if flag(rng, 0.2):
            r.update(truncate=False)
        c["max_position_embeddings"] = int(r["factor"] * r["original_max_position_embeddings"])
    elif kind == "longrope":
        r = dict(rope_type="longrope", factor=pick(rng, 4.0, 2.0), short_factor=[1.0 + 0.05 * i for i in range(half)],
                 long_factor=[1.0 + 0.7 * i for i in range(half)], original_max_position_embeddings=pick(rng, 32, 64))
        if flag(rng, 0.2):
            r.update(attention_factor=1.1)
        c["max_position_embeddings"] = int(r["factor"] * r["original_max_position_embeddings"])
    elif kind == "dynamic":
        r = dict(rope_type="dynamic", factor=pick(rng, 2.0, 4.0))
        c["max_position_embeddings"] = pick(rng, 24, 32, 48)
    c.setdefault("max_position_embeddings", pick(rng, 128, 256, 512))
    if flag(rng):
        c["rope_parameters"] = {"rope_theta": theta, **(r or {"rope_type": "default"})}
    else:
        c["rope_theta"] = theta
        if r and flag(rng) and kind != "longrope":
            r["type"] = r.pop("rope_type")
        c["rope_scaling"] = r or None
        if c["rope_scaling"] is None and flag(rng):
            del c["rope_scaling"]
    return c


def dec(cls_name, model_type, c, gains=None, **kw):
    import transformers as T
    cfg = {"architectures": [cls_name], "model_type": model_type, **c}
    tied = cfg.get("tie_word_embeddings")
    return dict(cls=getattr(T, cls_name), cfg=cfg, gains=gains if gains is not None else ([SMALL] if tied else []), **kw)


def eps(rng, key="rms_norm_eps"):
    return {key: pick(rng, 1e-5, 1e-6, 1e-3)}


def plain_rope(c):
    """What converters to GGUF that write no rope_theta take for granted."""
    theta = c.get("rope_theta") or c["rope_parameters"]["rope_theta"]
    return theta == 10000.0 and not scaled(c)


def layer_types(rng, n):
    return [pick(rng, "sliding_attention", "full_attention") for _ in range(n)]


@family
def llama(rng):
    c = sizes(rng)
    rope(rng, c)
    c.update(hidden_act=pick(rng, "silu", "silu", "gelu", "relu"), attention_bias=flag(rng), mlp_bias=flag(rng), **eps(rng))
    return dec("LlamaForCausalLM", "llama", c, gguf=c["hidden_act"] == "silu")


@family
def mistral(rng):
    c = sizes(rng)
    rope(rng, c, ("none", "none", "yarn", "linear"))
    c.update(hidden_act="silu", sliding_window=pick(rng, None, 5, 16, 33, 4096), **eps(rng))
    return dec("MistralForCausalLM", "mistral", c, gguf=c["sliding_window"] in (None, 4096))


@family
def mixtral(rng):
    c = sizes(rng)
    rope(rng, c, ("none",))
    n = pick(rng, 2, 4, 7)
    c.update(hidden_act="silu", sliding_window=pick(rng, None, 9), num_local_experts=n, num_experts_per_tok=rng.randint(1, min(n, 3)), **eps(rng))
    return dec("MixtralForCausalLM", "mixtral", c, gguf=c["sliding_window"] is None)


def qwen_windows(rng, c):
    c.update(use_sliding_window=flag(rng), sliding_window=pick(rng, 7, 24, None), max_window_layers=rng.randint(0, c["num_hidden_layers"]))
    if flag(rng, 0.3):
        c["layer_types"] = layer_types(rng, c["num_hidden_layers"]) if c["use_sliding_window"] and c["sliding_window"] else ["full_attention"] * c["num_hidden_layers"]
    return not (c["use_sliding_window"] and c["sliding_window"])


@family
def qwen2(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none", "none", "yarn"))
    plain = qwen_windows(rng, c)
    c.update(hidden_act="silu", **eps(rng))
    return dec("Qwen2ForCausalLM", "qwen2", c, gguf=plain)


@family
def qwen3(rng):
    c = sizes(rng)
    rope(rng, c, ("none", "none", "yarn"))
    plain = qwen_windows(rng, c)
    c.update(hidden_act="silu", attention_bias=flag(rng, 0.3), **eps(rng))
    c.setdefault("head_dim", head_dim_of(c))
    return dec("Qwen3ForCausalLM", "qwen3", c, gguf=plain and not c["attention_bias"])


def sparse(rng, c, n):
    c.update(num_experts=n, num_experts_per_tok=rng.randint(1, min(4, n)), moe_intermediate_size=pick(rng, 16, 24, 37),
             norm_topk_prob=flag(rng), decoder_sparse_step=pick(rng, 1, 1, 2),
             mlp_only_layers=[i for i in range(c["num_hidden_layers"]) if flag(rng, 0.2)])


@family
def qwen2_moe(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none",))
    plain = qwen_windows(rng, c)
    c["sliding_window"] = c["sliding_window"] or 13  # the library cannot do without
    plain = plain and not c["use_sliding_window"]
    sparse(rng, c, pick(rng, 4, 6, 8))
    c.update(hidden_act="silu", shared_expert_intermediate_size=pick(rng, 24, 40, 51), **eps(rng))
    if flag(rng, 0.3):
        c["qkv_bias"] = flag(rng)
    plain = plain and c["decoder_sparse_step"] == 1 and not c["mlp_only_layers"] and not c["norm_topk_prob"] and c.get("qkv_bias", True)
    return dec("Qwen2MoeForCausalLM", "qwen2_moe", c, gguf=plain)


@family
def qwen3_moe(rng):
    c = sizes(rng)
    rope(rng, c, ("none", "yarn"))
    plain = qwen_windows(rng, c)
    sparse(rng, c, pick(rng, 4, 8, 9))
    c.update(hidden_act="silu", attention_bias=flag(rng, 0.3), **eps(rng))
    c.setdefault("head_dim", head_dim_of(c))
    plain = plain and c["decoder_sparse_step"] == 1 and not c["mlp_only_layers"] and c["norm_topk_prob"] and not c["attention_bias"]
    return dec("Qwen3MoeForCausalLM", "qwen3_moe", c, gguf=plain)


def gemma_sizes(rng):
    c = sizes(rng)
    c.update(tie_word_embeddings=True, head_dim=head_dim_of(c), rms_norm_eps=1e-6, attention_bias=flag(rng, 0.2))
    if flag(rng):
        del c["tie_word_embeddings"]  # their default is true
    return c


GEMMA_GAINS = [("embed_tokens", 0.0, 0.12), ("model.norm", -1.0, 1.5), ("norm", 0.0, 0.3)]


@family
def gemma(rng):
    c = gemma_sizes(rng)
    rope(rng, c, ("none",))
    c.update(pick(rng, dict(hidden_act="gelu", hidden_activation=None), dict(hidden_activation="gelu_pytorch_tanh", hidden_act="gelu_pytorch_tanh")))
    return dec("GemmaForCausalLM", "gemma", c, GEMMA_GAINS, gguf=not c["attention_bias"] and plain_rope(c))


@family
def gemma2(rng):
    c = gemma_sizes(rng)
    rope(rng, c, ("none",))
    c.update(hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=pick(rng, c["head_dim"], 20, 100), sliding_window=pick(rng, 6, 17, 4096),
             attn_logit_softcapping=pick(rng, 50.0, 10.0, None), final_logit_softcapping=pick(rng, 30.0, 5.0, None))
    if flag(rng, 0.3):
        c["layer_types"] = layer_types(rng, c["num_hidden_layers"])
    plain = not c["attention_bias"] and c["query_pre_attn_scalar"] == c["head_dim"] and "layer_types" not in c and plain_rope(c) and c["attn_logit_softcapping"] and c["final_logit_softcapping"]
    return dec("Gemma2ForCausalLM", "gemma2", c, GEMMA_GAINS, gguf=bool(plain))


@family
def gemma3(rng):
    c = gemma_sizes(rng)
    c.update(num_hidden_layers=pick(rng, 1, 4, 7), rope_theta=1000000.0, rope_local_base_freq=10000.0, max_position_embeddings=512,
             hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=pick(rng, c["head_dim"], 20), sliding_window=pick(rng, 6, 17, 512),
             attn_logit_softcapping=None, final_logit_softcapping=pick(rng, None, None, 20.0))
    if flag(rng, 0.4):
        c["rope_scaling"] = dict(rope_type="linear", factor=8.0)
    if flag(rng, 0.3):
        c["layer_types"] = layer_types(rng, c["num_hidden_layers"])
    elif flag(rng, 0.5):
        c["sliding_window_pattern"] = pick(rng, 6, 3, 2)
    plain = not c["attention_bias"] and c["query_pre_attn_scalar"] == c["head_dim"] and "layer_types" not in c and c.get("sliding_window_pattern", 6) == 6 and c["vocab_size"] == 320
    return dec("Gemma3ForCausalLM", "gemma3_text", c, GEMMA_GAINS, gguf=plain)


@family
def phi(rng):
    c = sizes(rng, own_head_dim=False, dims=(16, 20, 32))
    c["partial_rotary_factor"] = pick(rng, 0.5, 0.4, 0.25, 1.0)
    while int(head_dim_of(c) * c["partial_rotary_factor"]) % 2 or int(head_dim_of(c) * c["partial_rotary_factor"]) < 4:
        c["partial_rotary_factor"] = pick(rng, 0.5, 0.4, 0.25, 1.0)
    rope(rng, c, ("none", "linear", "yarn", "dynamic"), int(head_dim_of(c) * c["partial_rotary_factor"]))
    c.update(hidden_act=pick(rng, "gelu_new", "gelu_new", "gelu"), qk_layernorm=flag(rng, 0.3), layer_norm_eps=1e-5, tie_word_embeddings=flag(rng, 0.2))
    plain = c["hidden_act"] == "gelu_new" and not c["qk_layernorm"] and not c["tie_word_embeddings"] and plain_rope(c) and c["num_key_value_heads"] == c["num_attention_heads"]
    return dec("PhiForCausalLM", "phi", c, gguf=plain)


def scaled(c):
    r = c.get("rope_parameters") or c.get("rope_scaling") or {}
    return r.get("rope_type", r.get("type", "default")) != "default"


@family
def phi3(rng):
    c = sizes(rng, own_head_dim=False, dims=(16, 32))
    if flag(rng, 0.3):
        c["partial_rotary_factor"] = pick(rng, 0.75, 0.5)
    rotary = int(head_dim_of(c) * c.get("partial_rotary_factor", 1.0))
    original = pick(rng, 32, 64)
    c.update(hidden_act="silu", sliding_window=pick(rng, None, 12, 2047), attention_bias=False, **eps(rng))
    if flag(rng, 0.7):
        c.update(max_position_embeddings=original * pick(rng, 1, 2, 4), original_max_position_embeddings=original, rope_theta=10000.0,
                 rope_scaling={"type": pick(rng, "su", "longrope"), "original_max_position_embeddings": original, "short_factor": [1.0 + 0.05 * i for i in range(rotary // 2)],
                               "long_factor": [1.0 + 0.7 * i for i in range(rotary // 2)]})
    else:
        c.update(max_position_embeddings=512, original_max_position_embeddings=512, rope_theta=10000.0, rope_scaling=None)
    return dec("Phi3ForCausalLM", "phi3", c, gguf=c["sliding_window"] in (2047, None))


@family
def gpt2(rng):
    h, d = pick(rng, 1, 2, 3, 5), pick(rng, 7, 8, 12, 16)
    c = dict(vocab_size=pick(rng, 320, 321, 333), n_embd=h * d, n_head=h, n_layer=pick(rng, 1, 2, 3), n_positions=pick(rng, 80, 128), n_ctx=128,
             n_inner=pick(rng, None, 50), activation_function=pick(rng, "gelu_new", "gelu_new", "gelu", "relu"), layer_norm_epsilon=1e-5,
             scale_attn_weights=flag(rng, 0.8), scale_attn_by_inverse_layer_idx=flag(rng, 0.3), reorder_and_upcast_attn=False, bos_token_id=1, eos_token_id=2)
    if flag(rng, 0.3):
        c["tie_word_embeddings"] = flag(rng)
    plain = c["activation_function"] == "gelu_new" and c["scale_attn_weights"] and not c["scale_attn_by_inverse_layer_idx"] and c.get("tie_word_embeddings", True)
    return dec("GPT2LMHeadModel", "gpt2", c, [("wte", 0.0, 0.25)], layers="transformer.h", gguf=plain)


@family
def gpt_neox(rng):
    c = sizes(rng, groups=False, own_head_dim=False, dims=(8, 16, 32))
    del c["num_key_value_heads"]
    pct = pick(rng, 0.25, 0.5, 1.0)
    c.update(rotary_pct=pct, rotary_emb_base=pick(rng, 10000, 50000), hidden_act=pick(rng, "gelu", "gelu", "gelu_fast", "gelu_new"), layer_norm_eps=1e-5,
             use_parallel_residual=flag(rng), max_position_embeddings=128, attention_bias=flag(rng, 0.8))
    if int(head_dim_of(c) * pct) < 4:
        c["rotary_pct"] = 1.0
    return dec("GPTNeoXForCausalLM", "gpt_neox", c, [("embed_in", 0.0, 0.25)] if c["tie_word_embeddings"] else [], layers="gpt_neox.layers",
               gguf=c["hidden_act"] == "gelu" and not c["tie_word_embeddings"])


@family
def falcon(rng):
    h, kv = heads(rng)
    c = dict(vocab_size=pick(rng, 320, 321, 333), hidden_size=h * pick(rng, 8, 12, 16, 32), num_attention_heads=h, num_hidden_layers=pick(rng, 1, 2, 3),
             layer_norm_epsilon=1e-5, alibi=False, hidden_dropout=0.0, attention_dropout=0.0, bias=flag(rng, 0.3), parallel_attn=flag(rng, 0.7),
             multi_query=flag(rng), new_decoder_architecture=flag(rng), bos_token_id=1, eos_token_id=2)
    if c["new_decoder_architecture"]:
        c.update(num_kv_heads=kv, parallel_attn=True)
        if flag(rng):
            c["num_ln_in_parallel_attn"] = pick(rng, 1, 2, None)
    if flag(rng, 0.4):
        c["ffn_hidden_size"] = pick(rng, 50, 96)
    if flag(rng, 0.3):
        c["activation"] = "gelu"
    c["alibi"] = flag(rng, 0.25)
    rope(rng, c, ("none", "none", "linear"))
    # the converter writes neither biases nor serial blocks
    plain = not c["bias"] and not c["alibi"] and (c["parallel_attn"] or c["new_decoder_architecture"]) and not scaled(c) and c.get("ffn_hidden_size") is None
    return dec("FalconForCausalLM", "falcon", c, [("word_embeddings", 0.0, 0.25)], layers="transformer.h", gguf=plain and (c["multi_query"] or c["new_decoder_architecture"]),
               gguf_patch=None if c["new_decoder_architecture"] else {"num_kv_heads": 1})


@family
def stablelm(rng):
    c = sizes(rng, own_head_dim=False, dims=(16, 32))
    c.update(partial_rotary_factor=pick(rng, 0.25, 0.5, 1.0), hidden_act="silu", layer_norm_eps=1e-5, use_qkv_bias=flag(rng), qk_layernorm=flag(rng, 0.4),
             use_parallel_residual=flag(rng, 0.4))
    rope(rng, c, ("none",), int(head_dim_of(c) * c["partial_rotary_factor"]))
    return dec("StableLmForCausalLM", "stablelm", c, gguf=plain_rope(c) and (not c["qk_layernorm"] or c["num_key_value_heads"] == c["num_attention_heads"]))


@family
def starcoder2(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none", "none", "linear"))
    c.update(hidden_act=pick(rng, "gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu"), norm_epsilon=1e-5, use_bias=flag(rng, 0.7), sliding_window=pick(rng, None, 9, 4096))
    return dec("Starcoder2ForCausalLM", "starcoder2", c, gguf=c["hidden_act"] != "gelu" and c["sliding_window"] != 9 and not scaled(c))


@family
def olmo2(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none", "none", "yarn"))
    c.update(hidden_act="silu", attention_bias=flag(rng, 0.3), **eps(rng))
    return dec("Olmo2ForCausalLM", "olmo2", c, gguf=not c["attention_bias"])


def glm_sizes(rng):
    c = sizes(rng, dims=(16, 32))
    c.setdefault("head_dim", head_dim_of(c))
    c.update(partial_rotary_factor=pick(rng, 0.5, 0.25, 1.0), hidden_act="silu", attention_bias=flag(rng), **eps(rng))
    rope(rng, c, ("none",), int(head_dim_of(c) * c["partial_rotary_factor"]))
    return c


@family
def glm4(rng):
    return dec("Glm4ForCausalLM", "glm4", glm_sizes(rng))


@family
def glm(rng):
    return dec("GlmForCausalLM", "glm", glm_sizes(rng), gguf=False)


@family
def granite(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none", "linear"))
    c.update(hidden_act="silu", attention_bias=flag(rng, 0.3), mlp_bias=flag(rng, 0.3), embedding_multiplier=pick(rng, 1.0, 6.0, 12),
             residual_multiplier=pick(rng, 1.0, 0.22), attention_multiplier=pick(rng, 1.0, 0.125, 0.0078125), logits_scaling=pick(rng, 1.0, 8.0), **eps(rng))
    return dec("GraniteForCausalLM", "granite", c, gguf=not c["attention_bias"] and not c["mlp_bias"])


@family
def cohere(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none",))
    c.update(hidden_act="silu", layer_norm_eps=1e-5, logit_scale=pick(rng, 0.0625, 0.5, 1.0), use_qk_norm=flag(rng), attention_bias=flag(rng, 0.3), tie_word_embeddings=True)
    if flag(rng):
        del c["tie_word_embeddings"]
    return dec("CohereForCausalLM", "cohere", c, [SMALL], gguf=not c["attention_bias"])


@family
def cohere2(rng):
    c = sizes(rng)
    rope(rng, c, ("none",))
    c.update(hidden_act="silu", layer_norm_eps=1e-5, logit_scale=pick(rng, 0.0625, 0.5), attention_bias=flag(rng, 0.3), tie_word_embeddings=True,
             sliding_window=pick(rng, 7, 20), num_hidden_layers=pick(rng, 2, 4, 5))
    if flag(rng):
        c["layer_types"] = layer_types(rng, c["num_hidden_layers"])
    else:
        c["sliding_window_pattern"] = pick(rng, 4, 2, 3)
    return dec("Cohere2ForCausalLM", "cohere2", c, [SMALL], gguf="layer_types" not in c and c["sliding_window_pattern"] == 4 and not c["attention_bias"] and "head_dim" not in c)


@family
def smollm3(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none", "none", "yarn"))
    n = c["num_hidden_layers"]
    c.update(hidden_act="silu", attention_bias=flag(rng, 0.3), mlp_bias=flag(rng, 0.3), **eps(rng))
    kind = pick(rng, 0, 1, 2)
    if kind == 0:
        c["no_rope_layers"] = [pick(rng, 0, 1) for _ in range(n)]
    elif kind == 1:
        c["no_rope_layer_interval"] = pick(rng, 2, 3, 4)
    if flag(rng, 0.3):
        c.update(use_sliding_window=True, sliding_window=9)
        if flag(rng):
            c["layer_types"] = layer_types(rng, n)
    plain = kind == 2 and not c["attention_bias"] and not c["mlp_bias"] and not c.get("use_sliding_window")
    return dec("SmolLM3ForCausalLM", "smollm3", c, gguf=plain)


@family
def exaone4(rng):
    c = sizes(rng)
    rope(rng, c, ("none", "llama3"))
    c.update(hidden_act="silu", sliding_window=pick(rng, None, 11), **eps(rng))
    if not c["sliding_window"]:
        c.update(sliding_window_pattern=None, layer_types=["full_attention"] * c["num_hidden_layers"])
    elif flag(rng):
        c["layer_types"] = layer_types(rng, c["num_hidden_layers"])
    else:
        c["sliding_window_pattern"] = pick(rng, 2, 3, 4)
    return dec("Exaone4ForCausalLM", "exaone4", c, gguf=c["sliding_window"] is None or c.get("sliding_window_pattern") == 4)


@family
def exaone(rng):
    c = sizes(rng)
    rope(rng, c, ("none", "linear", "llama3", "dynamic"))
    c.update(activation_function="silu", layer_norm_epsilon=pick(rng, 1e-5, 1e-6), num_layers=c.pop("num_hidden_layers"))
    cfg = {"architectures": ["ExaoneForCausalLM"], "model_type": "exaone", **c}
    return dict(cls=architecture(cfg), cfg=cfg, gains=[SMALL] if c["tie_word_embeddings"] else [], gguf="given")


@family
def internlm2(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none", "linear", "dynamic"))
    bias = flag(rng, 0.3)
    c.update(hidden_act="silu", attention_bias=bias, mlp_bias=False, tie_word_embeddings=False, **eps(rng))
    disk = {k: v for k, v in c.items() if k not in ("attention_bias", "mlp_bias")}
    disk = {**disk, "architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", "bias": bias}
    kv, d = c["num_key_value_heads"], head_dim_of(c)
    return dec("LlamaForCausalLM", "llama", c, disk_cfg=disk, transform=lambda sd: internlm2_names(sd, kv, d), gguf=not bias and not scaled(c))


@family
def minicpm(rng):
    c = sizes(rng, own_head_dim=False)
    rope(rng, c, ("none", "linear"))
    h, n = c["hidden_size"], c["num_hidden_layers"]
    emb, depth, base = pick(rng, 1, 12, 6), pick(rng, 1.4, 1.0), pick(rng, h, 16, 32)
    c.update(hidden_act="silu", attention_bias=False, mlp_bias=False, **eps(rng))
    official = {**c, "embedding_multiplier": float(emb), "residual_multiplier": depth / math.sqrt(n), "attention_multiplier": head_dim_of(c) ** -0.5,
                "logits_scaling": h / base}
    disk = {k: v for k, v in c.items() if k not in ("attention_bias", "mlp_bias")}
    disk = {**disk, "architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "scale_emb": emb, "scale_depth": depth, "dim_model_base": base}
    return dec("GraniteForCausalLM", "granite", official, disk_cfg=disk)


def mla(rng):
    c = sizes(rng, groups=False, own_head_dim=False)
    h = c["num_attention_heads"]
    c.update(hidden_size=h * pick(rng, 9, 14, 20), num_key_value_heads=h, q_lora_rank=pick(rng, None, 12, 24), kv_lora_rank=pick(rng, 8, 16, 20),
             qk_nope_head_dim=pick(rng, 8, 12, 16), qk_rope_head_dim=pick(rng, 4, 8, 12), v_head_dim=pick(rng, 8, 16, 20), moe_intermediate_size=pick(rng, 16, 21),
             n_shared_experts=pick(rng, 1, 2), first_k_dense_replace=pick(rng, 0, 1, 2), hidden_act="silu", attention_bias=flag(rng, 0.2), **eps(rng))
    groups = pick(rng, 1, 2, 4)
    per = pick(rng, 2, 3)
    c.update(n_routed_experts=groups * per, n_group=groups, topk_group=rng.randint(1, groups), routed_scaling_factor=pick(rng, 1.0, 2.5, 16.0))
    c["num_experts_per_tok"] = rng.randint(1, min(4, c["topk_group"] * per))
    rope(rng, c, ("none", "yarn"), c["qk_rope_head_dim"])
    r = c.get("rope_scaling") or c.get("rope_parameters")
    if r and "factor" in r:
        r.pop("attention_factor", None)
        r.pop("truncate", None)
        m = pick(rng, 1.0, 0.707)
        r.update(mscale=m, mscale_all_dim=m, beta_fast=32, beta_slow=1)
    return c


@family
def deepseek_v2(rng):
    c = mla(rng)
    method = pick(rng, "greedy", "group_limited_greedy")
    if method == "greedy":
        c["num_experts_per_tok"] = min(c["num_experts_per_tok"], c["n_routed_experts"])
    c.update(topk_method=method, norm_topk_prob=False, scoring_func="softmax", moe_layer_freq=1)
    return dec("DeepseekV2ForCausalLM", "deepseek_v2", c, gguf=not c["attention_bias"])


@family
def deepseek_v3(rng):
    c = mla(rng)
    c.update(norm_topk_prob=flag(rng, 0.8), scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1)
    if c["n_routed_experts"] // c["n_group"] < 2:
        c["n_group"] = c["topk_group"] = 1
    if flag(rng, 0.2):
        c["rope_interleave"] = False
    return dec("DeepseekV3ForCausalLM", "deepseek_v3", c, gguf=not c["attention_bias"] and c.get("rope_interleave", True) and c["norm_topk_prob"])


@family
def gpt_oss(rng):
    c = sizes(rng)
    c.setdefault("head_dim", head_dim_of(c))
    n = pick(rng, 2, 4, 6)
    c.update(hidden_act="silu", num_local_experts=n, num_experts_per_tok=rng.randint(1, min(n, 4)), sliding_window=pick(rng, 8, 16, 128), attention_bias=True,
             swiglu_limit=pick(rng, 7.0, 7.0, 3.0), tie_word_embeddings=False, **eps(rng))
    if flag(rng, 0.4):
        c["layer_types"] = layer_types(rng, c["num_hidden_layers"])
    c.update(max_position_embeddings=512, rope_theta=150000.0,
             rope_scaling={"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 16, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": flag(rng)})
    return dec("GptOssForCausalLM", "gpt_oss", c, gguf=False)
