#!/usr/bin/env python3
"""What a client waits for a model that is not loaded: its first token through the front door, beside the load itself.

    python3 bench/scale_from_zero.py QUERN MODEL [--rounds 10] [--threads 2]

Each round unloads the model, asks one streamed chat, and takes the time to the first event with text; `load` is what the
fleet says the load took (from the start of the process to its first healthy answer), `more` the difference, `warm` the
same question asked again at once.
"""
import argparse
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time


class Server:
    def __init__(self, quern, home):
        self.process = subprocess.Popen([quern, "serve", "--fleet", "--stop-workers", "--port", "0"], stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, "QUERN_HOME": home})
        for line in self.process.stderr:
            if found := re.search(r"listening on http://[\d.]+:(\d+)", line):
                self.port = int(found.group(1))
                return
        raise SystemExit("the server did not start")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)

    def first_token_s(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.connect()
        body = {"model": "m", "max_tokens": 2, "temperature": 0, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        begin = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        for line in answer:
            if line.startswith(b"data: {") and any(c["delta"].get("content") for c in json.loads(line[6:])["choices"]):
                seconds = time.perf_counter() - begin
                answer.read()
                return seconds
        raise SystemExit(f"no token came: {answer.status}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quern")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as home:
        server = Server(options.quern, home)
        try:
            server.ask("POST", "/v1/models", {"uid": "m", "model_name": options.model, "engine_options": {"threads": options.threads}})
            server.first_token_s()
            for _ in range(options.rounds):
                server.ask("POST", "/v1/models/m/unload", {})
                while any(r["pid"] for r in server.ask("GET", "/v1/models/m")["replicas"]):
                    time.sleep(0.02)
                first = server.first_token_s()
                load = server.ask("GET", "/v1/models/m")["replicas"][0]["load_seconds"]
                rows.append((load, first, first - load, server.first_token_s()))
        finally:
            server.stop()
    print("load s   first token s   more s   warm s")
    for row in rows:
        print("{:6.3f}   {:13.3f}   {:6.3f}   {:6.3f}".format(*row))
    medians = [statistics.median(column) for column in zip(*rows)]
    print("median: load {:.3f} s, first token {:.3f} s, more {:.3f} s (worst {:.3f}), warm {:.3f} s".format(
        *medians[:3], max(row[2] for row in rows), medians[3]))


if __name__ == "__main__":
    main()
