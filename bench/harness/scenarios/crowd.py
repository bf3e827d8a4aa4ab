"""32 streams over HTTP at once, 128 tokens in and 128 out; reading the prompts counts."""
from ..figures import LESS, Sample

STREAMS, TOKENS = 32, 128


def measure(bench, peer):
    with peer.serve(STREAMS, 2 * TOKENS) as server:
        server.crowd(bench.prompts.many(STREAMS, TOKENS), 32)  # memory is touched, threads have started
        seconds, tokens = server.crowd(bench.prompts.many(STREAMS, TOKENS), TOKENS)
        yield Sample(f"{STREAMS} streams, {TOKENS} in, {TOKENS} out", "tok/s", tokens / seconds)
        yield Sample("peak memory", "MiB", server.memory_mib(), LESS)
