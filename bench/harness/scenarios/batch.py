"""Streams that decode side by side, by each engine's own measuring program."""
from ..figures import LESS, Sample


def measure(bench, peer):
    speeds = peer.speeds((), bench.generate, bench.batches)
    for (_, streams), (rate, gbps, gmacs) in speeds.items():
        yield Sample(f"decode {bench.generate}", "tok/s", rate, x=streams, x_name="streams", gbps=gbps, gmacs=gmacs)
    yield Sample("peak memory", "MiB", speeds.peak_mib, LESS)
