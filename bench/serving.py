#!/usr/bin/env python3
"""What sharing, speculation and company cost or give one server: bench/serving.py MODEL [--quern PATH] [-t THREADS] [--turns N]

Starts `quern serve` for each part, asks over HTTP, prints one line a figure; medians over the turns. Keep the machine idle.
"""
import argparse
import http.client
import json
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

SENTENCE = "The keeper of the lighthouse wrote down number {} in a book that nobody would read for years. "


class Server:
    def __init__(self, args, *options):
        command = [args.quern, "serve", args.model, "-t", str(args.threads), "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if match := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(match.group(1))
                break
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def complete(self, prompt, max_tokens, **fields):
        """Seconds to the first token, times of all pieces, text, usage."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}, **fields}
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        times, text, usage = [], "", {}
        for line in answer:
            if not line.startswith(b"data: ") or b"[DONE]" in line:
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            if chunk["choices"]:
                times.append(time.perf_counter() - begin)
                text += chunk["choices"][0]["text"]
        connection.close()
        return times, text, usage

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", text, re.M))


def document(words, start=0):
    return "".join(SENTENCE.format(start + i) for i in range(words))


def prefix(args):
    cold, warm, size = [], [], 0
    with Server(args) as server:
        for turn in range(args.turns):
            text = document(100, 1000 * turn)
            times, first, usage = server.complete(text + "Then", 4)
            size = usage["prompt_tokens"]
            cold.append(times[0])
            times, again, _ = server.complete(text + "Then", 4)
            assert again == first
            warm.append(times[0])
    report(f"repeated prefix, {size} tokens", f"first token {median(cold):.3f} s cold, {median(warm):.3f} s warm: {100 * median(warm) / median(cold):.1f} %")


def disk(args):
    folder = tempfile.mkdtemp()
    cold, restored, size = [], [], 0
    try:
        for turn in range(args.turns):
            text = document(100, 1000 * turn)
            options = ("--kv-disk", folder, "--kv-disk-size", "1G", "--kv-cache-memory", "80M")
            with Server(args, *options) as server:
                times, first, usage = server.complete(text + "Then", 4)
                size = usage["prompt_tokens"]
                cold.append(times[0])
                server.complete(document(100, 500_000 + 1000 * turn), 4)  # the first one's blocks leave memory
            with Server(args, *options) as server:
                times, again, _ = server.complete(text + "Then", 4)
                assert again == first
                restored.append(times[0])
    finally:
        shutil.rmtree(folder)
    report(f"prefix from disk after a restart, {size} tokens", f"first token {median(cold):.3f} s cold, {median(restored):.3f} s restored: {100 * median(restored) / median(cold):.1f} %")


def speculation(args):
    # Copying is forced, so that any model does it: the likeliest continuation of a list that repeats is the list.
    text = document(6) * 4
    rates = {}
    with Server(args) as server:
        answers = set()
        for method in ["off", "ngram"] * args.turns:
            times, answer, usage = server.complete(text, 200, speculation=method)
            answers.add(answer)
            rates.setdefault(method, []).append((usage["completion_tokens"] - 1) / (times[-1] - times[0]))
        assert len(answers) == 1, "speculation changed the answer"
    report("copying, one stream", f"{median(rates['off']):.0f} tok/s without, {median(rates['ngram']):.0f} with n-gram speculation: {median(rates['ngram']) / median(rates['off']):.2f} times")


def intruder(args):
    with Server(args) as server:
        alone = [server.complete(document(205, 9000 + 1000 * i), 2)[0][0] for i in range(args.turns)]
        streams = [None] * 8

        def read(i):
            streams[i] = server.complete(document(2, 50 * i), 400)[0]
        threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        time.sleep(2)
        came = time.perf_counter() - begin
        first = server.complete(document(205, 90_000), 2)
        left = came + first[0][0]
        for thread in threads:
            thread.join()
        gaps = lambda low, high: sorted(b - a for times in streams for a, b in zip(times, times[1:]) if low <= b < high)
        p99 = lambda values: values[int(0.99 * (len(values) - 1))]
        before, during = gaps(0.5, came), gaps(came, left)
    report(f"{first[2]['prompt_tokens']} tokens come during 8 streams",
           f"p99 gap {1000 * p99(before):.1f} ms before, {1000 * p99(during):.1f} ms during: {p99(during) / p99(before):.2f} times; "
           f"first token {median(alone):.2f} s alone, {first[0][0]:.2f} s: {first[0][0] / median(alone):.2f} times")


def crowd(args):
    with Server(args) as server:
        counts = []

        def read(i):
            counts.append(server.complete(document(6, 70 * i), 128)[2]["completion_tokens"])
        threads = [threading.Thread(target=read, args=(i,)) for i in range(32)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
    report("32 streams, about 128 in, 128 out", f"{sum(counts) / seconds:.0f} tok/s out, prefill counted")


def median(values):
    return statistics.median(values)


def report(name, figure):
    print(f"{name}: {figure}", flush=True)


PARTS = {"prefix": prefix, "disk": disk, "speculation": speculation, "intruder": intruder, "crowd": crowd}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--quern", default="build/release/quern")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    args = parser.parse_args()
    for name in args.only:
        PARTS[name](args)


if __name__ == "__main__":
    main()
