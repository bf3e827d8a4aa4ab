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
