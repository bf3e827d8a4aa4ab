"""A server under open-loop load: how many requests get their tokens in time, at each rate of arrival. ../load.py says where the lengths come from."""
from .. import load
from ..figures import LESS, Sample

STREAMS = 16  # side by side: llama-server sets memory aside for each, as long as the longest may be
OUT_MAX = 1000
DRAIN_S = 120
CLIENT_LATE_S = 0.05


def measure(bench, peer):
    in_max = min(bench.load_prompt_max, bench.length_max - OUT_MAX) if bench.length_max > 2 * OUT_MAX else bench.length_max // 2
    out_max = min(OUT_MAX, bench.length_max // 4)
    for rate in bench.rates:
        arrivals = load.schedule(bench.seed + bench.turn, rate, bench.load_s, in_max, out_max)  # the same for each peer
        if not arrivals:
            bench.note(f"load, {rate:g} requests/s: none came in {bench.load_s} s")
            continue
        with peer.serve(STREAMS, in_max + out_max) as server:
            server.crowd(bench.prompts.many(2, 32), 8)  # memory is touched, threads have started
            figures = load.summary(load.drive(server.port, arrivals, bench.prompts, DRAIN_S), bench.ttft_s, bench.tpot_s)
        if figures["client_late_s"] > CLIENT_LATE_S:
            bench.note(f"load, {peer.name}: the client sent a request {figures['client_late_s']:.2f} s late")

        def sample(metric, unit, value, better=LESS):
            return Sample(metric, unit, value, better, x=rate, x_name="requests/s")
        yield sample(f"goodput, first token ≤ {bench.ttft_s:g} s and {1000 * bench.tpot_s:g} ms a token", "% of requests",
                     100 * figures["good"] / figures["requests"], "more is better")
        yield sample("refused", "% of requests", 100 * figures["refused"] / figures["requests"])
        yield sample("failed", "% of requests", 100 * figures["failed"] / figures["requests"])
        for name in ("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s"):
            if name in figures:
                kind, share, _ = name.split("_")
                yield sample(f"{kind.upper()} {share}", "ms", 1000 * figures[name])
