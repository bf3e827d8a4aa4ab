#!/usr/bin/env python3
"""What sharing, speculation and company cost or give one server: bench/serving.py MODEL [--quern PATH] [-t THREADS] [--turns N]

Starts `quern serve` for each part, asks over HTTP, prints one line a figure; medians over the turns. Keep the machine idle.
"""
import argparse
import http.client
import json
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

MODEL_NAME = "model"
SENTENCE = "The keeper of the lighthouse wrote down number {} in a book that nobody would read for years. "


class Server:
    def __init__(self, args, *options):
        command = [args.quern, "serve", args.model, "--served-model-name", MODEL_NAME, "-t", str(args.threads), "--port", "0", *options]
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
    text = (document(12) * 3).rstrip()
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


def prompts_of(server, count, tokens):
    """Token ids, so that every server gets prompts of exactly this length; they share nothing, not even the first token."""
    ids = []
    for text in texts(count, tokens):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("POST", "/tokenize", json.dumps({"model": MODEL_NAME, "prompt": text}), {"Content-Type": "application/json"})
        ids.append(json.loads(connection.getresponse().read())["tokens"][:tokens])
        assert len(ids[-1]) == tokens
    return ids


def texts(count, words):
    """Texts of so many words and a number in front."""
    draw = random.Random(1)
    vocabulary = ("river stone lantern harbour winter copper letter garden mountain signal orchard captain mirror thunder "
                  "village basket feather island kitchen whistle").split()
    return [" ".join([str(i), *(draw.choice(vocabulary) for _ in range(words))]) for i in range(count)]


def ask_all(port, prompts, tokens, **fields):
    """All at once, whole answers, so that the client costs little: seconds and tokens."""
    counts = [0] * len(prompts)

    def ask(i):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1200)
        body = {"model": MODEL_NAME, "prompt": prompts[i], "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **fields}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        counts[i] = json.loads(text)["usage"]["completion_tokens"]
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    assert counts == [tokens] * len(prompts), counts
    return seconds, sum(counts)


class Peer:
    """Another server on a free port, ready when /health says so."""

    def __init__(self, command, port):
        self.port = port
        self.process = subprocess.Popen([part.replace("PORT", str(port)) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            time.sleep(0.5)
            assert self.process.poll() is None, f"{command[0]} ended"
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
        raise RuntimeError(f"{command[0]} does not answer")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def crowd(args):
    servers = {"quern": lambda: Server(args)}
    if args.llama_server:
        servers["llama-server"] = lambda: Peer([args.llama_server, "-m", args.model, "-t", str(args.threads), "-np", "32", "-c", str(32 * 512),
                                                "--port", "PORT"], 9871)
    if args.vllm:
        servers["vllm"] = lambda: Peer([args.vllm, "serve", args.vllm_model, "--served-model-name", MODEL_NAME, "--max-model-len", "1024",
                                        "--max-num-seqs", "64", "--port", "PORT"], 9872)
    with Server(args) as server:
        prompts = prompts_of(server, 64, 128)
    rates = {name: [] for name in servers}
    for _ in range(args.turns):
        for name, start in servers.items():
            with start() as server:
                ask_all(server.port, prompts[32:], 32)  # memory is touched, threads have started
                seconds, tokens = ask_all(server.port, prompts[:32], 128)
                rates[name].append(tokens / seconds)
            time.sleep(3)  # a peer's children may outlive it for a moment
    ours = median(rates["quern"])
    for name, values in rates.items():
        report(f"32 streams, 128 in, 128 out, {name}", f"{median(values):.0f} tok/s out, prefill counted" +
               (f": quern has {ours / median(values):.2f} times that" if name != "quern" else ""))


def cost(args):
    """The same work by the engine alone: `quern generate --jsonl`. Clients ask for one answer after the other, so that 32 streams run all the time."""
    prompts, alone, served = texts(32 * 4, 100), [], []
    for _ in range(args.turns):
        process = subprocess.Popen([args.quern, "generate", args.model, "-t", str(args.threads), "--jsonl", "--json", "--max-num-seqs", "32"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = lambda prompt, tokens: json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}) + "\n"
        process.stdin.write(line("Hi", 1))
        process.stdin.flush()
        process.stdout.readline()
        begin = time.perf_counter()
        process.stdin.write("".join(line(prompt, 128) for prompt in prompts))
        process.stdin.flush()
        tokens = sum(len(json.loads(process.stdout.readline())["ids"]) for _ in prompts)
        alone.append(tokens / (time.perf_counter() - begin))
        process.stdin.close()
        process.wait()
        with Server(args, "--max-num-seqs", "32") as server:
            ask_all(server.port, prompts[:1], 1)
            seconds, tokens = ask_all(server.port, prompts, 128)
            served.append(tokens / seconds)
    report("32 streams", f"{median(alone):.0f} tok/s by the engine alone, {median(served):.0f} over HTTP: {100 - 100 * median(served) / median(alone):.1f} % less")


def kv(args):
    """How much of the KV memory that is taken holds tokens, and what n = 8 takes."""
    with Server(args, "--kv-cache-memory", "1G") as server:  # as large as the crowd needs: nobody waits for memory
        looks, stop = [], threading.Event()

        def watch():
            while not stop.wait(0.05):
                live, tokens = server.metric("vllm:kv_blocks_live"), server.metric("vllm:kv_positions_live")
                if live > 0:
                    looks.append((tokens, live))
        thread = threading.Thread(target=watch)
        thread.start()
        ask_all(server.port, prompts_of(server, 32, 128), 128)
        stop.set()
        thread.join()
        share = sum(tokens for tokens, _ in looks) / (16 * sum(live for _, live in looks))
        report("KV in use / reserved, 32 streams", f"{100 * share:.1f} % over {len(looks)} looks")
        looks.clear()
        stop.clear()
        thread = threading.Thread(target=watch)
        thread.start()
        prompt = texts(1, 500)[0]
        usage = {}

        def ask():
            usage.update(server.complete(prompt, 48, n=8, temperature=1.0)[2])
        ask()
        stop.set()
        thread.join()
        blocks = -(-usage["prompt_tokens"] // 16)
        report(f"n = 8 on a prompt of {usage['prompt_tokens']} tokens", f"{max(live for _, live in looks):.0f} blocks at most, the prompt alone takes {blocks}, eight copies would take {8 * blocks}")


def idle(args):
    """Memory of 1,000 streams that are open and wait for their first token."""
    with Server(args, "--max-num-seqs", "1", "--max-waiting", "1100", "--max-connections", "2000") as server:
        resident = lambda: int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{server.process.pid}/status").read()).group(1)) / 1024
        connections = []

        def open_stream(tokens):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
            body = {"prompt": "Once upon a time", "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            connections.append(connection)
        open_stream(4000)
        time.sleep(1)
        before = resident()
        for _ in range(1000):
            open_stream(8)
        time.sleep(2)
        waiting = server.metric("vllm:num_requests_waiting")
        after = resident()
        for connection in connections:
            connection.close()
    report(f"{waiting:.0f} idle streams", f"{after - before:.1f} MiB")


def schema(args):
    """A JSON schema's cost in tokens per second: lists of numbers, with and without, 8 streams."""
    shape = {"type": "object", "properties": {"values": {"type": "array", "items": {"type": "integer"}, "minItems": 200}}, "required": ["values"]}
    rates = {"without": [], "with": []}
    with Server(args) as server:
        for _ in range(args.turns):
            for name, fields in {"without": {}, "with": {"structured_outputs": {"json": shape}}}.items():
                prompts = texts(8, 30)
                seconds, tokens = ask_all(server.port, prompts, 128, **{"speculation": "off", **fields})
                rates[name].append(tokens / seconds)
    report("8 streams with a JSON schema", f"{median(rates['with']):.0f} tok/s against {median(rates['without']):.0f} without: {100 - 100 * median(rates['with']) / median(rates['without']):.1f} % less")


def median(values):
    return statistics.median(values)


def report(name, figure):
    print(f"{name}: {figure}", flush=True)


PARTS = {"prefix": prefix, "disk": disk, "speculation": speculation, "intruder": intruder, "crowd": crowd, "cost": cost, "kv": kv, "idle": idle,
         "schema": schema}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--quern", default="build/release/quern")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--llama-server", metavar="PATH", help="llama.cpp's server, for the crowd")
    parser.add_argument("--vllm", metavar="PATH", help="vLLM's command, for the crowd, with --vllm-model FOLDER (the same weights in bfloat16)")
    parser.add_argument("--vllm-model", metavar="FOLDER")
    args = parser.parse_args()
    for name in args.only:
        PARTS[name](args)


if __name__ == "__main__":
    main()
