"""A long prompt comes while eight streams are read: what it costs them, and what they cost it."""
import threading
import time

from ..client import in_parallel
from ..figures import LESS, Sample, percentile
from ..process import PeerError

STREAMS = 8
SETTLE_S = 2.0


def measure(bench, peer):
    length = min(bench.intruder, bench.length_max - 16)
    tokens = min(400, bench.length_max - 64)
    with peer.serve(STREAMS + 1, max(length + 16, tokens + 64)) as server:
        alone = server.stream(bench.prompts.ids(length), 2)[0][0]
        prompts, streams, failures = bench.prompts.many(STREAMS, 40), [[] for _ in range(STREAMS)], []
        long_prompt = bench.prompts.ids(length)  # made now: the readers share this process

        def read(i):
            try:
                streams[i] = server.stream(prompts[i], tokens)[0]
            except PeerError as error:
                failures.append(error)
        begin = time.perf_counter()
        readers = threading.Thread(target=in_parallel, args=(read, STREAMS))
        readers.start()
        time.sleep(SETTLE_S)
        came = time.perf_counter() - begin
        try:
            first = server.stream(long_prompt, 2)[0][0]
        finally:
            readers.join()
    if failures:
        raise failures[0]

    def gaps(low, high):
        return [after - before for times in streams for before, after in zip(times, times[1:]) if low <= before < high]
    before, during = gaps(0.25 * SETTLE_S, came), gaps(came, came + first)
    if not before or not during:
        raise PeerError(f"the streams ended before the prompt of {length} came, or had not begun: nothing to compare")
    yield Sample(f"p99 gap between tokens before {length} more come", "ms", 1000 * percentile(before, 0.99), LESS)
    yield Sample("p99 gap while they are read", "ms", 1000 * percentile(during, 0.99), LESS)
    yield Sample("p99 gap, during / before", "times", percentile(during, 0.99) / percentile(before, 0.99), LESS)
    yield Sample("their first token alone", "s", alone, LESS)
    yield Sample("their first token beside the streams", "s", first, LESS)
