"""How much of the KV memory that is taken holds tokens, and what eight answers to one prompt take."""
import threading

from ..figures import LESS, Sample
from ..process import PeerError
from ..prompts import texts

OURS_ALONE = True
BLOCK = 16


def measure(bench, peer):
    options = ("--kv-cache-memory", "1G")  # as large as the crowd needs: nobody waits for memory
    with peer.serve(64, bench.length_max, options) as server:
        looks = watch(server, lambda: server.crowd(bench.prompts.many(32, 128), 128))
        share = sum(positions for positions, _ in looks) / (BLOCK * sum(live for _, live in looks))
        yield Sample("KV in use of reserved, 32 streams", "%", 100 * share)
        usage = {}
        looks = watch(server, lambda: usage.update(server.stream(texts(1, 500, bench.turn)[0], 48, n=8, temperature=1.0)[2]))
        yield Sample(f"n = 8 on {usage['prompt_tokens']} tokens, blocks at most", "blocks", max(live for _, live in looks), LESS)
        yield Sample("eight copies would take", "blocks", 8 * -(-usage["prompt_tokens"] // BLOCK), LESS)


def watch(server, work):
    """(positions in use, live blocks), looked at every 50 ms while `work` runs."""
    looks, stop = [], threading.Event()

    def look():
        while not stop.wait(0.05):
            live, positions = server.metric("vllm:kv_blocks_live"), server.metric("vllm:kv_positions_live")
            if live > 0:
                looks.append((positions, live))
    thread = threading.Thread(target=look)
    thread.start()
    try:
        work()
    finally:
        stop.set()
        thread.join()
    if not looks:
        raise PeerError("over before a look was taken")
    return looks
