"""LoRA adapters for tests: PEFT folders with random weights for the golden model."""
import json
import random
import struct

from quern_server import LLAMA


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_adapter(folder, seed, rank=4, hidden=None):
    config = json.loads((LLAMA / "config.json").read_text())
    hidden = hidden or config["hidden_size"]
    rows = config["num_attention_heads"] * config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    dice = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 64}))
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        stem = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[stem + ".lora_A.weight"] = ([rank, hidden], [dice.gauss(0, 0.3) for _ in range(rank * hidden)])
        tensors[stem + ".lora_B.weight"] = ([rows, rank], [dice.gauss(0, 0.3) for _ in range(rows * rank)])
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    return folder


def write_gguf_adapter(path, seed, layers, width, rank=4):
    """The same for llama-server: a GGUF file for a llama whose queries are as wide as its hidden state."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    words = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora"}
    head = b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in words.items())
    head += text("adapter.lora.alpha") + struct.pack("<If", 6, 64.0)
    dice = random.Random(seed)
    infos, data = b"", b""
    for layer in range(layers):
        for end, shape in (("lora_a", (width, rank)), ("lora_b", (rank, width))):
            infos += text(f"blk.{layer}.attn_q.weight.{end}") + struct.pack("<IQQIQ", 2, *shape, 0, len(data))
            data += struct.pack(f"<{width * rank}f", *(dice.gauss(0, 0.3) for _ in range(width * rank)))
            data += b"\0" * (-len(data) % 32)
    whole = b"GGUF" + struct.pack("<IQQ", 3, 2 * layers, len(words) + 1) + head + infos
    path.write_bytes(whole + b"\0" * (-len(whole) % 32) + data)
    return path
