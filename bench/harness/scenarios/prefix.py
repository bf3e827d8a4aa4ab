"""A long prefix that was asked before: time to the first token, warm against cold."""
from ..figures import LESS, Sample
from ..process import PeerError
from ..prompts import document

OURS_ALONE = True


def measure(bench, peer):
    text = document(100, 1000 * bench.turn) + "Then"
    with peer.serve(4, bench.length_max) as server:
        cold, first, usage = server.stream(text, 4)
        warm, again, _ = server.stream(text, 4)
    if again != first:
        raise PeerError("the cache changed the answer")
    size = usage["prompt_tokens"]
    yield Sample(f"first token after {size} tokens, cold", "s", cold[0], LESS)
    yield Sample("the same, cached", "s", warm[0], LESS)
    yield Sample("cached / cold", "%", 100 * warm[0] / cold[0], LESS)
