"""Broken model files, made from the golden llama: GGUF, safetensors and model folders. Used by hostile_test.py."""
import json
import pathlib
import shutil
import struct

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
U8, I8, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = 0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12
SCALARS = {U8: "<B", I8: "<b", 2: "<H", 3: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", I64: "<q", F64: "<d"}


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


def scalar(kind, value):
    return text(value) if kind == STR else struct.pack(SCALARS[kind], value)


def array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(scalar(kind, item) for item in items)


class Gguf:
    """A GGUF file taken apart: `pairs` are [key, type, encoded value], `tensors` are [name, dims, type, offset]."""

    def __init__(self, path=GOLDEN / "gguf" / "llama-f32.gguf"):
        self.raw, self.at = path.read_bytes(), 8
        self.magic, self.version, self.align = b"GGUF", 3, 32
        num_tensors, num_pairs = self.take("<Q"), self.take("<Q")
        self.pairs = [self.take_pair() for _ in range(num_pairs)]
        self.tensors = [[self.take_text(), [self.take("<Q") for _ in range(self.take("<I"))], self.take("<I"), self.take("<Q")]
                        for _ in range(num_tensors)]
        self.data = self.raw[-(-self.at // 32) * 32:]
        self.num_tensors = self.num_pairs = None  # what the header claims; None: the truth

    def take(self, form):
        value, = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return value

    def take_text(self):
        size = self.take("<Q")
        self.at += size
        return self.raw[self.at - size:self.at]

    def skip(self, kind):
        if kind == STR:
            self.take_text()
        elif kind == ARR:
            kind, count = self.take("<I"), self.take("<Q")
            for _ in range(count):
                self.skip(kind)
        else:
            self.take(SCALARS[kind])

    def take_pair(self):
        key, kind = self.take_text(), self.take("<I")
        start = self.at
        self.skip(kind)
        return [key, kind, self.raw[start:self.at]]

    def set(self, key, kind, value):
        """`value` is encoded already when it is bytes and no string."""
        encoded = value if isinstance(value, bytes) and kind != STR else scalar(kind, value)
        self.remove(key)
        self.pairs.append([key.encode(), kind, encoded])
        return self

    def remove(self, key):
        self.pairs = [pair for pair in self.pairs if pair[0] != key.encode()]
        return self

    def tensor(self, name):
        return next(tensor for tensor in self.tensors if tensor[0] == name.encode())

    def head(self):
        """Encoded parts: header, metadata, tensor descriptions."""
        counts = [len(self.tensors) if self.num_tensors is None else self.num_tensors,
                  len(self.pairs) if self.num_pairs is None else self.num_pairs]
        return [self.magic + struct.pack("<IQQ", self.version, *counts),
                b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in self.pairs),
                b"".join(text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", dim) for dim in dims)
                         + struct.pack("<IQ", kind, offset) for name, dims, kind, offset in self.tensors)]

    def bytes(self):
        head = b"".join(self.head())
        return head + b"\0" * (-len(head) % self.align) + self.data


def changed(**fields):
    """A GGUF whose tensor blk.0.attn_q.weight has other dims, type, offset or name."""
    gguf = Gguf()
    tensor = gguf.tensor("blk.0.attn_q.weight")
    for field, value in fields.items():
        tensor[("name", "dims", "type", "offset").index(field)] = value
    return gguf.bytes()


def weights_of(name, row, value):
    """A GGUF of which one row of an F32 tensor holds `value` everywhere; of a vector one element."""
    gguf = Gguf()
    _, dims, _, offset = gguf.tensor(name)
    width = dims[0] if len(dims) > 1 else 1
    begin = offset + 4 * row * width
    gguf.data = gguf.data[:begin] + struct.pack("<f", value) * width + gguf.data[begin + 4 * width:]
    return gguf.bytes()


def valued(key, kind, value):
    return Gguf().set(key, kind, value).bytes()


def numbered(**fields):
    gguf = Gguf()
    for field, value in fields.items():
        setattr(gguf, field, value)
    return gguf.bytes()


def cut(part, share=0.5):
    """Ends inside the header, the metadata, the tensor descriptions or the data."""
    parts = Gguf().head() + [Gguf().data]
    return b"".join(parts[:part]) + parts[part][:int(len(parts[part]) * share)]


def gguf_files():
    """(name, bytes, what the message says): refused by every command."""
    nested = struct.pack("<IQ", ARR, 1) * 5 + array(U32, [1])
    q = Gguf().tensor("blk.0.attn_q.weight")
    other = Gguf().tensor("blk.0.attn_k.weight")
    swapped = b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + Gguf().bytes()[24:]
    more = Gguf()
    more.pairs.append(list(more.pairs[0]))
    return [
        ("alignment_not_power.gguf", valued("general.alignment", U32, 24), "general.alignment"),
        ("alignment_one.gguf", valued("general.alignment", U32, 1), "general.alignment"),
        ("alignment_huge.gguf", valued("general.alignment", U32, 2**31), "tensor"),
        ("alignment_negative.gguf", valued("general.alignment", I32, -32), "general.alignment"),
        ("alignment_float.gguf", valued("general.alignment", F32, 32.0), "general.alignment"),
        ("alignment_array.gguf", valued("general.alignment", ARR, array(U32, [32])), "general.alignment"),
        ("alignment_wide.gguf", valued("general.alignment", U64, 32), "general.alignment"),
        ("dims_sign.gguf", changed(dims=[2**63, 1]), "blk.0.attn_q.weight"),
        ("dims_product.gguf", changed(dims=[2**31, 2**31, 4]), "blk.0.attn_q.weight"),
        ("dims_zero_times_huge.gguf", changed(dims=[2**62, 0, 2**62]), "blk.0.attn_q.weight"),
        ("dims_five.gguf", changed(dims=[4, 4, 4, 8, 8]), "5 dimensions"),
        ("type_removed.gguf", changed(type=4), "element type 4"),
        ("type_hole.gguf", changed(type=36), "element type 36"),
        ("type_negative.gguf", changed(type=2**32 - 1), "element type 4294967295"),
        ("offset_overlap.gguf", changed(offset=other[3]), "overlap"),
        ("offset_end.gguf", changed(offset=2**40), "past the end"),
        ("offset_wraps.gguf", changed(offset=2**64 - 32), "past the end"),
        ("offset_odd.gguf", changed(offset=q[3] + 4), "alignment"),
        ("tensor_name_twice.gguf", changed(name=b"blk.0.attn_k.weight"), "blk.0.attn_k.weight"),
        ("tensor_name_long.gguf", changed(name=b"x" * 70000), "tensor"),
        ("string_2_63.gguf", valued("general.name", ARR, struct.pack("<IQQ", STR, 1, 2**63)), "general.name"),
        ("string_wraps.gguf", valued("general.name", ARR, struct.pack("<IQQ", STR, 1, 2**64 - 8)), "general.name"),
        ("array_count.gguf", valued("x.list", ARR, struct.pack("<IQ", U8, 2**63)), "x.list"),
        ("array_of_strings_count.gguf", valued("x.list", ARR, struct.pack("<IQ", STR, 2**58)), "x.list"),
        ("array_nested.gguf", valued("x.nested", ARR, nested), "nested"),
        ("array_of_empty_arrays.gguf", valued("x.list", ARR, struct.pack("<IQ", ARR, 2**24) + array(U8, []) * 4), "x.list"),
        ("array_type.gguf", valued("x.list", ARR, struct.pack("<IQ", 13, 1) + b"\0"), "x.list"),
        ("bool_two.gguf", valued("x.flag", BOOL, 2), "x.flag"),
        ("value_type.gguf", valued("x.value", 255, b"\0" * 8), "x.value"),
        ("key_twice.gguf", more.bytes(), "twice"),
        ("key_long.gguf", valued("k" * 100_000, U32, 1), "key"),
        ("big_endian.gguf", swapped, "big-endian"),
        ("version_zero.gguf", numbered(version=0), "version 0"),
        ("version_one.gguf", numbered(version=1), "version 1"),
        ("version_four.gguf", numbered(version=4), "version 4"),
        ("magic.gguf", numbered(magic=b"ggml"), "ggml"),
        ("one_tensor_more.gguf", numbered(num_tensors=len(Gguf().tensors) + 1), "tensor"),
        ("tensors_2_63.gguf", numbered(num_tensors=2**63), "tensors"),
        ("one_pair_less.gguf", numbered(num_pairs=len(Gguf().pairs) - 1), "tensor"),
        ("one_pair_more.gguf", numbered(num_pairs=len(Gguf().pairs) + 1), "runs past the end of the file"),
        ("pairs_2_32.gguf", numbered(num_pairs=2**32), "metadata"),
        ("cut_magic.gguf", b"GG", "too few"),
        ("cut_header.gguf", cut(0), ""),
        ("cut_metadata.gguf", cut(1), ""),
        ("cut_tensors.gguf", cut(2), ""),
        ("cut_before_data.gguf", cut(3, 0), ""),
        ("cut_data.gguf", cut(3), "past the end"),
    ]


def gguf_models():
    """Well-formed files that are no model: `logits` and `generate` refuse them."""
    def without(name):
        gguf = Gguf()
        gguf.tensors.remove(gguf.tensor(name))
        return gguf.bytes()

    def renamed(name, to):
        gguf = Gguf()
        gguf.tensor(name)[0] = to
        return gguf.bytes()

    return [
        ("no_architecture.gguf", Gguf().remove("general.architecture").bytes(), "general.architecture"),
        ("architecture_number.gguf", valued("general.architecture", U32, 7), "general.architecture"),
        ("architecture_unknown.gguf", valued("general.architecture", STR, "x\n\x1b[2Jy"), "architecture"),
        ("heads_zero.gguf", valued("llama.attention.head_count", U32, 0), "head_count"),
        ("heads_three.gguf", valued("llama.attention.head_count", U32, 3), ""),
        ("heads_negative.gguf", valued("llama.attention.head_count", I32, -4), "head_count"),
        ("heads_text.gguf", valued("llama.attention.head_count", STR, "4"), "head_count"),
        ("kv_heads_more.gguf", valued("llama.attention.head_count_kv", U32, 8), ""),
        ("kv_heads_three.gguf", valued("llama.attention.head_count_kv", U32, 3), ""),
        ("layers_billion.gguf", valued("llama.block_count", U32, 10**9), "block_count"),
        ("layers_zero.gguf", valued("llama.block_count", U32, 0), "block_count"),
        ("layers_four.gguf", valued("llama.block_count", U32, 4), "blk.3"),
        ("layers_two.gguf", valued("llama.block_count", U32, 2), "blk.2"),
        ("width_zero.gguf", valued("llama.embedding_length", U32, 0), "embedding_length"),
        ("width_odd.gguf", valued("llama.embedding_length", U32, 63), ""),
        ("width_2_63.gguf", valued("llama.embedding_length", U64, 2**63), "embedding_length"),
        ("context_zero.gguf", valued("llama.context_length", U32, 0), "context_length"),
        ("rope_base_nan.gguf", valued("llama.rope.freq_base", F32, float("nan")), "freq_base"),
        ("rope_base_negative.gguf", valued("llama.rope.freq_base", F32, -1.0), "freq_base"),
        ("rope_dims_huge.gguf", valued("llama.rope.dimension_count", U32, 1 << 20), ""),
        ("epsilon_infinite.gguf", valued("llama.attention.layer_norm_rms_epsilon", F32, float("inf")), "epsilon"),
        ("tensor_missing.gguf", without("blk.1.ffn_up.weight"), "blk.1.ffn_up.weight"),
        ("tensor_unknown.gguf", renamed("blk.1.ffn_up.weight", b"blk.1.ffn_upp.weight"), "blk.1.ffn_up"),
        ("tensor_no_dims.gguf", changed(dims=[]), "blk.0.attn_q.weight"),
        ("tensor_no_elements.gguf", changed(dims=[64, 0]), "blk.0.attn_q.weight"),
        ("tensor_shape.gguf", changed(dims=[32, 128]), "blk.0.attn_q.weight"),
        ("tensor_integers.gguf", changed(type=26), "blk.0.attn_q is of type I32"),
        ("embedding_row_missing.gguf", _embedding(lambda dims: [dims[0], dims[1] - 1]), ""),
    ]


def _embedding(change):
    gguf = Gguf()
    tensor = gguf.tensor("token_embd.weight")
    tensor[1] = change(tensor[1])
    return gguf.bytes()


def gguf_texts():
    """Sound models with a broken tokenizer: `generate` refuses them."""
    return [
        ("tokenizer_unknown.gguf", valued("tokenizer.ggml.model", STR, "abacus"), "abacus"),
        ("tokenizer_number.gguf", valued("tokenizer.ggml.model", U32, 1), "tokenizer.ggml.model"),
        ("tokens_missing.gguf", Gguf().remove("tokenizer.ggml.tokens").bytes(), "tokenizer.ggml.tokens"),
        ("tokens_numbers.gguf", valued("tokenizer.ggml.tokens", ARR, array(U32, range(320))), "tokenizer.ggml.tokens"),
        ("tokens_none.gguf", valued("tokenizer.ggml.tokens", ARR, array(STR, [])), "token"),
        ("types_short.gguf", valued("tokenizer.ggml.token_type", ARR, array(I32, [1, 2])), "token_type"),
        ("merges_numbers.gguf", valued("tokenizer.ggml.merges", ARR, array(U32, [1])), "merges"),
        ("merges_odd.gguf", valued("tokenizer.ggml.merges", ARR, array(STR, ["nothing"])), ""),
        ("pre_unknown.gguf", valued("tokenizer.ggml.pre", STR, "unheard-of"), "unheard-of"),
    ]


# ---- safetensors

def safetensors(header, data=b"", length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(dtype="F32", shape=(4,), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def safetensors_files():
    data = bytes(64)
    one = lambda **change: safetensors({"a": {**entry(), **change}}, data[:16])
    good = json.dumps({"a": entry()})[1:-1]
    return [
        ("length_2_63", safetensors({"a": entry()}, data[:16], length=2**63), "header"),
        ("length_zero", safetensors(b"", data, length=0), "header"),
        ("length_short", safetensors({"a": entry()}, data[:16], length=9), "JSON"),
        ("length_claims_a_gigabyte", safetensors({"a": entry()}, data[:16], length=1 << 30), "header"),
        ("only_length", struct.pack("<Q", 2), "header"),
        ("empty", b"", "bytes"),
        ("not_utf8", safetensors(b'{"\xff\xfe":' + json.dumps(entry()).encode() + b"}", data[:16]), "JSON"),
        ("array", safetensors(b"[]"), "array"),
        ("two_documents", safetensors(b"{}{}"), "JSON"),
        ("nul_behind", safetensors(json.dumps({"a": entry()}).encode() + b"\0{]", data[:16]), "NUL"),
        ("name_twice", safetensors("{{{0},{0}}}".format(good).encode(), data[:16]), "'a'"),
        ("overlap", safetensors({"a": entry(), "b": entry(offsets=(8, 24))}, data[:24]), "'b'"),
        ("hole", safetensors({"a": entry(), "b": entry(offsets=(32, 48))}, data[:48]), "'b'"),
        ("rest", safetensors({"a": entry()}, data[:24]), "8 bytes follow"),
        ("cut", safetensors({"a": entry()}, data[:8]), "'a'"),
        ("shape_and_bytes", one(shape=[5]), "'a'"),
        ("shape_wraps", one(shape=[2**62, 2**62, 4]), "'a'"),
        ("shape_2_64", one(shape=[2**64]), "shape"),
        ("shape_negative", one(shape=[-4]), "shape"),
        ("shape_fraction", one(shape=[4.0]), "shape"),
        ("shape_many", one(shape=[1] * 5000 + [4]), "shape"),
        ("dtype_number", one(dtype=7), "dtype"),
        ("dtype_unknown", one(dtype="Q4_0"), "Q4_0"),
        ("offsets_three", one(data_offsets=[0, 8, 16]), "data_offsets"),
        ("offsets_one", one(data_offsets=[16]), "data_offsets"),
        ("offsets_text", one(data_offsets=["0", "16"]), "data_offsets"),
        ("offsets_missing", safetensors({"a": {"dtype": "F32", "shape": [4]}}, data[:16]), "data_offsets"),
        ("field_unknown", one(strides=[1]), "strides"),
        ("field_twice", safetensors(b'{"a":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}}', data[:16]), "dtype"),
        ("metadata_number", safetensors({"__metadata__": {"format": 1}, "a": entry()}, data[:16]), "__metadata__"),
        ("metadata_deep", safetensors(b'{"__metadata__":' + b'{"a":' * 50_000 + b"}" * 50_001), "__metadata__"),
    ]


def index_files():
    shard = "model-00001-of-00001.safetensors"
    document = lambda weight_map: json.dumps({"weight_map": weight_map})
    return [
        ("up", document({"a": "../" + shard}), "../"),
        ("absolute", document({"a": "/etc/passwd"}), "/etc/passwd"),
        ("hidden_up", document({"a": "x/../../" + shard}), "x/"),
        ("dot", document({"a": "."}), "'.'"),
        ("nul", '{"weight_map":{"a":"' + shard + '\\u0000"}}', "a"),
        ("missing_shard", document({"a": "model-00002-of-00002.safetensors"}), "00002"),
        ("missing_tensor", document({"a": shard, "b": shard}), "'b'"),
        ("number", document({"a": 1}), "weight_map"),
        ("list", document([shard]), "weight_map"),
        ("no_map", "{}", "weight_map"),
        ("deep", '{"metadata":' + "[" * 100_000, "index"),
        ("cut", document({"a": shard})[:-3], "JSON"),
    ]


# ---- folders

CONFIG = json.loads((GOLDEN / "models" / "llama" / "config.json").read_text())


def folder(path, **files):
    """The golden llama with some files replaced (None: removed); the name of a file is written with __ for the dot."""
    path.mkdir()
    for source in (GOLDEN / "models" / "llama").iterdir():
        if not source.name.startswith("golden"):
            shutil.copy(source, path)
    for name, content in files.items():
        target = path / name.replace("__", ".")
        target.unlink(missing_ok=True)
        if content is not None:
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def configs():
    """(name, config.json, what the message says)."""
    literal = lambda key, value: json.dumps({**CONFIG, key: "@"}).replace('"@"', value)
    values = {
        "hidden_size": ["0", "-64", "64.5", '"64"', "NaN", "true", "[64, 32]", "{}", "1e30", "65", str(2**31), str(2**63), "9" * 400],
        "num_attention_heads": ["0", "3", "-4", "5000", '"4"'],
        "num_key_value_heads": ["0", "3", "8", "-1"],
        "head_dim": ["0", "15", "1048576"],
        "num_hidden_layers": ["0", str(10**9), "4", "2", "3.5", "null"],
        "vocab_size": ["0", "319", "321", str(10**12), "[320, 64]"],
        "intermediate_size": ["0", "97", "-1"],
        "max_position_embeddings": ["0", "-1", str(2**62)],
        "rms_norm_eps": ["-1", '"x"', "1e999", "Infinity"],
        "rope_theta": ["0", "-10000", "[]"],
        "rope_scaling": ['{"rope_type":"spiral"}', '{"rope_type":"linear","factor":0}', '{"rope_type":"linear","factor":"x"}',
                         '{"rope_type":7,"factor":2}'],
        "hidden_act": ['"sigmoidoid"', "1"],
        "model_type": ['"perceptron"', "1", "null", '"x\\ny\\u001b[2J"'],
        "tie_word_embeddings": ['"yes"', "1"],
        "quantization_config": ['{"quant_method":"magic"}'],
    }
    for key, literals in values.items():
        for number, value in enumerate(literals):
            yield f"{key}_{number}", literal(key, value), ""
    yield "nothing", "", "config.json"
    yield "list", "[]", "config.json"
    yield "deep", '{"a":' * 100_000, "config.json"
    yield "cut", json.dumps(CONFIG)[:200], "config.json"
    yield "not_utf8", b'{"model_type":"\xff"}', "config.json"
    yield "nul", json.dumps(CONFIG).encode() + b"\0", "config.json"
    yield "large", " " * (17 << 20) + json.dumps(CONFIG), "config.json"


def texts():
    """(name, files, what the message says): the weights are sound, `generate` refuses."""
    tokenizer = (GOLDEN / "models" / "llama" / "tokenizer.json").read_text()
    return [
        ("tokenizer_missing", {"tokenizer__json": None}, "tokenizer.json"),
        ("tokenizer_empty", {"tokenizer__json": ""}, "tokenizer.json"),
        ("tokenizer_cut", {"tokenizer__json": tokenizer[:1000]}, "tokenizer.json"),
        ("tokenizer_deep", {"tokenizer__json": '{"a":' * 100_000}, "tokenizer.json"),
        ("tokenizer_model", {"tokenizer__json": '{"model":{"type":"Abacus"}}'}, "tokenizer.json"),
        ("tokenizer_config_list", {"tokenizer_config__json": "[]"}, "tokenizer_config.json"),
        ("tokenizer_config_template", {"tokenizer_config__json": '{"chat_template":7}'}, "chat_template"),
        ("generation_config_cut", {"generation_config__json": "{"}, "generation_config.json"),
    ]


# ---- chat templates

# What no limit of ours reaches: minijinja copies such lists, and compares such values, without charging for it (see
# docs/architecture.md). Not run: they take all memory, or for ever.
TEMPLATES_OF_KNOWN_LIMITS = {
    "list_doubles": "{% set ns = namespace(v=[1]) %}{% for i in range(64) %}{% set ns.v = ns.v + ns.v %}{% endfor %}",
    "nested_twice_compared": "{% set ns = namespace(v=[1], w=[1]) %}{% for i in range(64) %}{% set ns.v = [ns.v, ns.v] %}"
                             "{% set ns.w = [ns.w, ns.w] %}{% endfor %}{{ ns.v == ns.w }}",
    "nested_twice_as_text": "{% set ns = namespace(v=[1]) %}{% for i in range(64) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}"
                            "{{ ns.v ~ '' }}",
}


def templates():
    """(name, text): each would take for ever, or all memory, or the whole stack."""
    grow = "{%% set ns = namespace(v=%s) %%}{%% for i in range(64) %%}{%% set ns.v = %s %%}{%% endfor %%}{{ ns.v | length }}"
    loops = "".join("{% for " + name + " in range(100000) %}" for name in "abcdef") + "x" + "{% endfor %}" * 6
    return [
        ("text_doubles", grow % ("'aaaa'", "ns.v ~ ns.v")),
        ("text_doubles_by_plus", grow % ("'aaaa'", "ns.v + ns.v")),
        ("replaced_doubles", grow % ("'aaaa'", "ns.v.replace('a', 'aa')")),
        ("joined_doubles", grow % ("'aaaa'", "[ns.v, ns.v] | join")),
        ("nested_twice", grow % ("[1]", "[ns.v, ns.v]") + "{{ ns.v }}"),
        ("json_of_nested_twice", grow % ("[1]", "[ns.v, ns.v]") + "{{ ns.v | tojson }}"),
        ("repeated_text", "{{ 'a' * 10000000000 }}"),
        ("repeated_list", "{{ ([1] * 10000000000) | length }}"),
        ("range", "{{ range(1000000000000) | list | length }}"),
        ("range_sum", "{{ range(100000000) | sum }}"),
        ("loops", loops),
        ("silent_loops", loops.replace("x", "{% set y = 1 %}")),
        ("filter_width", "{{ 'a' | center(10000000000) }}"),
        ("method_width", "{{ 'a'.ljust(10000000000) }}"),
        ("indent", "{{ 'a\\nb' | indent(10000000000) }}"),
        ("format_width", "{{ '%10000000000d' | format(1) }}"),
        ("format_method_width", "{{ '{:>10000000000}'.format(1) }}"),
        ("format_precision", "{{ '%.1000000000f' | format(1.5) }}"),
        ("power", "{{ 10 ** 10 ** 10 }}"),
        ("batch", "{{ [1] | batch(10000000000, 'x') | list | length }}"),
        ("slice", "{{ [1] | slice(10000000000) | list | length }}"),
        ("macro", "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"),
        ("macro_pair", "{% macro a() %}{{ b() }}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{{ a() }}{% endmacro %}{{ a() }}"),
        ("recursive_loop", "{% for i in [[[[]]]] recursive %}{{ loop([i]) }}{% endfor %}"),
        ("caller", "{% macro m() %}{{ caller() }}{% endmacro %}" + "{% call m() %}" * 5000 + "x" + "{% endcall %}" * 5000),
        ("parentheses", "{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}"),
        ("lists", "{{ " + "[" * 50000 + "]" * 50000 + " }}"),
        ("open_lists", "{{ " + "[" * 100000),
        ("dicts", "{{ " + "{'a':" * 30000 + "1" + "}" * 30000 + " }}"),
        ("nots", "{{ " + "not " * 50000 + "1 }}"),
        ("minuses", "{{ " + "-" * 100000 + "1 }}"),
        ("sums", "{{ " + "1+" * 50000 + "1 }}"),
        ("filters", "{{ 'a'" + "|upper" * 30000 + " }}"),
        ("attributes", "{{ messages" + ".a" * 50000 + " }}"),
        ("items", "{{ messages" + "[0]" * 50000 + " }}"),
        ("ifs", "{% if 1 %}" * 20000 + "{% endif %}" * 20000),
        ("elifs", "{% if 0 %}" + "{% elif 0 %}" * 20000 + "{% endif %}"),
        ("conditions", "{{ " + "1 if 0 else " * 20000 + "1 }}"),
        ("deep_value", "{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = [ns.v] %}{% endfor %}{{ ns.v | tojson }}"),
        ("deep_value_compared", "{% set ns = namespace(v=[], w=[]) %}{% for i in range(100000) %}{% set ns.v = [ns.v] %}"
                                "{% set ns.w = [ns.w] %}{% endfor %}{{ ns.v == ns.w }}"),
        ("clock", "{{ strftime_now('%Y' * 100000) }}"),
        ("clock_width", "{{ strftime_now('%1000000000Y') }}"),
        ("raise_lines", "{{ raise_exception('a\\nb\\n' * 100) }}"),
        ("missing_lines", "{{ [1].index('a\\nb') }}"),
        ("include", "{% include '/etc/passwd' %}"),
        ("import", "{% import '/etc/passwd' as p %}"),
        ("extends", "{% extends '/etc/passwd' %}"),
        ("attributes_of_python", "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        ("large", "a" * (1 << 20)),
        ("nothing_ends", "{% raw %}" + "{# " * 100000),
        ("not_utf8", b"{{ '\xff' }}"),
    ]
