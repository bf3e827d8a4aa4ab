"""Perplexity of a text, the second half of each window scored; and how far our `fast` is from our `exact`. The same in every turn, so measured once."""
from ..figures import LESS, OURS, Sample
from ..process import NotOffered

WINDOW = 512


def measure(bench, peer):
    if bench.turn > 0:
        return
    if bench.text is None:
        raise NotOffered("needs --text FILE")
    window = min(WINDOW, bench.length_max)
    yield Sample(f"perplexity, {bench.windows} windows of {window}", "", peer.perplexity(bench.text, window, bench.windows), LESS)
    if peer.name == OURS:
        divergence, agreement = peer.divergence(bench.text, window, bench.windows)
        yield Sample("mean KL divergence of fast to exact", "nats/token", divergence, LESS)
        yield Sample("fast and exact prefer the same token", "%", 100 * agreement)
