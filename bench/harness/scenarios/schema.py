"""What a JSON schema costs: eight streams of lists of numbers, with it and without."""
from ..figures import LESS, Sample
from ..prompts import texts

OURS_ALONE = True
STREAMS, TOKENS = 8, 128
SCHEMA = {"type": "object", "properties": {"values": {"type": "array", "items": {"type": "integer"}, "minItems": 200}}, "required": ["values"]}


def measure(bench, peer):
    rates = {}
    with peer.serve(STREAMS, bench.length_max) as server:
        for name, fields in {"without": {}, "with": {"structured_outputs": {"json": SCHEMA}}}.items():
            seconds, tokens = server.crowd(texts(STREAMS, 30, bench.turn), TOKENS, speculation="off", **fields)
            rates[name] = tokens / seconds
    yield Sample(f"{STREAMS} streams without a schema", "tok/s", rates["without"])
    yield Sample(f"{STREAMS} streams with a schema", "tok/s", rates["with"])
    yield Sample("the schema takes", "%", 100 - 100 * rates["with"] / rates["without"], LESS)
