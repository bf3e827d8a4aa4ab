"""One stream by each engine's own measuring program: a prompt, then tokens one by one; peak of memory."""
from ..figures import LESS, Sample


def measure(bench, peer):
    speeds = peer.speeds([bench.prompt], bench.generate)
    for (kind, size), (rate, gbps, gmacs) in speeds.items():
        yield Sample(f"{kind} {size}", "tok/s", rate, gbps=gbps, gmacs=gmacs)
    yield Sample("peak memory", "MiB", speeds.peak_mib, LESS)
