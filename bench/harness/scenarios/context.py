"""Prompts of growing length: speed of reading them, and of the tokens after them. Over HTTP where the peer is a server."""
from ..figures import Sample

TOKENS = 32


def measure(bench, peer):
    lengths = [length for length in bench.contexts if length + TOKENS <= bench.length_max]
    for length in bench.contexts:
        if length not in lengths:
            bench.note(f"context {length}: longer than the model's {bench.length_max} positions")
    if lengths:
        for length, first_s, rate in peer.contexts(lengths, TOKENS, bench.prompts):
            yield Sample("read", "tok/s", length / first_s, x=length, x_name="tokens")
            yield Sample("decode", "tok/s", rate, x=length, x_name="tokens")
