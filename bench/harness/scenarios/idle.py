"""Memory of 1,000 streams that are open and wait for their first token."""
import http.client
import json
import time

from ..figures import LESS, Sample
from ..process import PeerError

OURS_ALONE = True
STREAMS = 1000


def measure(bench, peer):
    options = ("--max-waiting", str(STREAMS + 100), "--max-connections", str(2 * STREAMS))
    connections = []
    with peer.serve(1, bench.length_max, options) as server:
        def open_stream(tokens):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
            connections.append(connection)
            body = {"prompt": "Once upon a time", "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        try:
            open_stream(bench.length_max // 2)
            time.sleep(1)
            before = server.memory_mib("VmRSS")
            for _ in range(STREAMS):
                open_stream(8)
            time.sleep(2)
            waiting, after = server.metric("vllm:num_requests_waiting"), server.memory_mib("VmRSS")
        finally:
            for connection in connections:
                connection.close()
    if waiting < STREAMS:
        raise PeerError(f"only {waiting:.0f} of {STREAMS} streams waited")
    yield Sample(f"{STREAMS} idle streams", "MiB", after - before, LESS)
