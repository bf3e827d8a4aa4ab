"""A long prefix that was asked before the server's restart and comes back from --kv-disk."""
import tempfile

from ..figures import LESS, Sample
from ..process import PeerError
from ..prompts import document

OURS_ALONE = True


def measure(bench, peer):
    text = document(100, 1000 * bench.turn) + "Then"
    with tempfile.TemporaryDirectory() as folder:
        options = ("--kv-disk", folder, "--kv-disk-size", "1G", "--kv-cache-memory", "80M")
        with peer.serve(4, bench.length_max, options) as server:
            cold, first, usage = server.stream(text, 4)
            server.stream(document(100, 500_000 + 1000 * bench.turn), 4)  # the first one's blocks leave memory
        with peer.serve(4, bench.length_max, options) as server:
            restored, again, _ = server.stream(text, 4)
    if again != first:
        raise PeerError("the disk changed the answer")
    yield Sample(f"first token after {usage['prompt_tokens']} tokens, cold", "s", cold[0], LESS)
    yield Sample("the same after a restart, from disk", "s", restored[0], LESS)
    yield Sample("from disk / cold", "%", 100 * restored[0] / cold[0], LESS)
