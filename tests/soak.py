"""Many clients of every temper for a long time against one server: nothing is lost, nothing is left over.

    QUERN_BINARY=build/release/quern python3 tests/soak.py --clients 200 --minutes 10 [--model PATH] [--seed N]

Clients ask for answers of random lengths, whole and streamed; leave before or during them; read slowly; send what must be
refused. Each request has to end in an answer, an error with words, or its own cancel. A greedy stream runs all the time and
must say the same each time. At the end the gauges are at zero, the counters agree with what was sent, and memory and KV blocks
are where they were after the first tenth of the time. Exit 0 when all that held; a summary as JSON on stdout.
"""
import argparse
import collections
import http.client
import json
import pathlib
import random
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "api"))
from quern_server import LLAMA, Server  # noqa: E402

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
BYTES_GROWN_MAX = 64 << 20
BAD = ({"temperature": -1}, {"messages": "x"}, {"max_tokens": 1.5}, {"model": "nobody"}, {"nonsense": 1}, {"logit_bias": {"-5": 1}},
       {"stop": [""]}, {"structured_outputs": {"regex": "("}})


class Ledger:
    """How requests ended. Thread-safe."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent, self.ends, self.faults = 0, collections.Counter(), []

    def begin(self):
        with self.lock:
            self.sent += 1

    def end(self, how):
        with self.lock:
            self.ends[how] += 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)


class Client(threading.Thread):
    def __init__(self, server, model, ledger, stop, seed):
        super().__init__(daemon=True)
        self.server, self.model, self.ledger, self.stop_event, self.dice = server, model, ledger, stop, random.Random(seed)

    def run(self):
        kinds = (self.whole, self.whole, self.stream, self.stream, self.leave_during, self.leave_before, self.slow, self.refused)
        while not self.stop_event.is_set():
            kind = self.dice.choice(kinds)
            try:
                self.ledger.begin()
                self.ledger.end(kind())
            except Exception as error:  # noqa: BLE001: whatever it is, this request was lost
                self.ledger.fault(f"{kind.__name__}: {error!r}")
            time.sleep(self.dice.random() * 0.02)

    def body(self, **fields):
        words = " ".join(self.dice.choice(("tide", "mill", "grain", "flour", "river")) for _ in range(self.dice.choice((1, 3, 10, 40, 100))))
        body = {"model": self.model, "messages": [{"role": "user", "content": words}], "max_tokens": self.dice.choice((1, 2, 8, 30, 80)),
                "seed": self.dice.randrange(1 << 30), "n": self.dice.choice((1, 1, 1, 2)), **fields}
        if self.dice.random() < 0.1:
            body["structured_outputs"] = {"regex": "[ab]{1,20}"}
        return body

    def open(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300)
        connection.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json"})
        return connection

    def answer(self, body):
        connection = self.open(body)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text

    @staticmethod
    def words_of(text):
        message = json.loads(text)["error"]["message"]
        assert message, "an error without words"
        return message

    def whole(self):
        body = self.body()
        status, text = self.answer(body)
        if status == 429:
            return self.words_of(text) and "busy"
        assert status == 200, (status, text[:200])
        assert [c["finish_reason"] in ("stop", "length") for c in json.loads(text)["choices"]] == [True] * body["n"], text[:200]
        return "answered"

    def check_stream(self, status, text, body):
        if status == 429:
            return self.words_of(text) and "busy"
        assert status == 200, (status, text[:200])
        assert text.endswith("data: [DONE]\n\n"), text[-200:]
        chunks = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
        assert not any("error" in chunk for chunk in chunks), text[-300:]
        ended = [c["index"] for chunk in chunks for c in chunk["choices"] if c["finish_reason"]]
        assert sorted(ended) == list(range(body["n"])), ended
        return "answered"

    def stream(self):
        body = self.body(stream=True)
        return self.check_stream(*self.answer(body), body)

    def slow(self):
        body = self.body(stream=True, max_tokens=40)
        connection = self.open(body)
        reply = connection.getresponse()
        text = b""
        while piece := reply.read(200):
            text += piece
            time.sleep(0.01)
        connection.close()
        return self.check_stream(reply.status, text.decode(), body)

    def leave_during(self):
        connection = self.open(self.body(stream=True, max_tokens=300, ignore_eos=True, structured_outputs=None))
        reply = connection.getresponse()
        if reply.status != 200:
            return self.words_of(reply.read().decode()) and "busy"
        reply.read(self.dice.choice((1, 300, 2000)))
        connection.sock.close() if connection.sock else None
        reply.close()
        connection.close()
        return "left during"

    def leave_before(self):
        connection = self.open(self.body(max_tokens=300, ignore_eos=True, structured_outputs=None))
        time.sleep(self.dice.random() * 0.05)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        return "left before"

    def refused(self):
        status, text = self.answer({**self.body(), **self.dice.choice(BAD)})
        assert status in (400, 404), (status, text[:200])
        self.words_of(text)
        return "refused"


class Observer(threading.Thread):
    """A well-behaved greedy stream, over and over."""

    def __init__(self, server, model, ledger, stop):
        super().__init__(daemon=True)
        self.server, self.model, self.ledger, self.stop_event = server, model, ledger, stop
        self.text, self.count = None, 0

    def ask(self):
        body = {"model": self.model, "messages": [{"role": "user", "content": "the tide"}], "temperature": 0, "max_tokens": 60, "ignore_eos": True,
                "priority": -1, "stream": True}
        while True:
            self.ledger.begin()
            status, text, _ = self.server.request("POST", CHAT, body)
            if status == 429:
                self.ledger.end("busy")
                time.sleep(0.05)
                continue
            self.ledger.end("answered")
            chunks = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
            return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"])

    def run(self):
        self.text = self.ask()
        while not self.stop_event.is_set():
            text = self.ask()
            self.count += 1
            if text != self.text:
                self.ledger.fault(f"the greedy stream changed: {text!r} for {self.text!r}")


def idle(server, seconds=60):
    """Metrics once nothing runs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        metrics = server.metrics()
        if all(v == 0 for k, v in metrics.items() if k.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting"))):
            return metrics
        time.sleep(0.1)
    raise AssertionError("requests still run or wait a minute after the last client left")


def total(metrics, name, **labels):
    return sum(v for k, v in metrics.items() if k.split("{")[0] == name and all(f'{a}="{b}"' in k for a, b in labels.items()))


def run_for(server, arguments, ledger, observer, seconds, seed):
    stop = threading.Event()
    clients = [Client(server, arguments.model_id, ledger, stop, seed + i) for i in range(arguments.clients)]
    observer = observer(stop)
    for thread in (*clients, observer):
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in (*clients, observer):
        thread.join(timeout=300)
        if thread.is_alive():
            ledger.fault("a client still waits five minutes after the end")
    return observer


def check(server, ledger, before, after, observers):
    faults = list(ledger.faults)

    def expect(holds, text):
        if not holds:
            faults.append(text)
    sent, ends = ledger.sent, ledger.ends
    expect(sum(ends.values()) + len(ledger.faults) == sent, f"{sent} sent, {sum(ends.values())} ended")
    counted = total(after, "http_requests_total", handler=CHAT)
    expect(sent - ends["left before"] <= counted <= sent, f"{sent} requests sent, {counted} counted by HTTP")
    outcomes = total(after, "vllm:request_success_total")
    sure = ends["answered"] + ends["left during"]
    expect(sure <= outcomes <= sure + ends["left before"], f"{outcomes} outcomes, {sure} answered or left during, {ends['left before']} left before")
    expect(total(after, "vllm:request_success_total", finished_reason="error") == 0, "answers ended in errors")
    expect(total(after, "vllm:kv_cache_usage_perc") == 0, "KV blocks are still in use")
    expect(total(after, "vllm:kv_blocks_total") == total(before, "vllm:kv_blocks_total"), "the number of KV blocks changed")
    grown = after["process_anonymous_memory_bytes"] - before["process_anonymous_memory_bytes"]
    expect(grown < BYTES_GROWN_MAX, f"memory grew by {grown / (1 << 20):.1f} MiB")
    expect(after["process_open_fds"] <= before["process_open_fds"] + 8, f"{before['process_open_fds']} open files became {after['process_open_fds']}")
    expect(len({o.text for o in observers}) == 1 and sum(o.count for o in observers) > 0, "the greedy stream said different things, or nothing")
    expect(server.process.poll() is None, "the server ended")
    return faults, {"sent": sent, "ends": dict(ends), "observed": sum(o.count for o in observers), "memory_grown_mib": round(grown / (1 << 20), 1),
                    "faults": faults[:20]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--model", default=str(LLAMA))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    server = Server("--store", ":memory:", "--log-level", "error", "--max-waiting", max(256, arguments.clients), models=(arguments.model,))
    arguments.model_id = server.get("/v1/models")[1]["data"][0]["id"]
    ledger, seconds = Ledger(), arguments.minutes * 60
    observer = lambda stop: Observer(server, arguments.model_id, ledger, stop)
    first = run_for(server, arguments, ledger, observer, seconds / 10, arguments.seed)
    before = idle(server)
    second = run_for(server, arguments, ledger, observer, seconds * 9 / 10, arguments.seed + 100_000)
    time.sleep(0.5)  # connections of clients that left are closed
    faults, summary = check(server, ledger, before, idle(server), (first, second))
    status = server.stop()
    if status != 0:
        faults.append(f"the server ended with {status}")
    print(json.dumps(summary, indent=1))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
