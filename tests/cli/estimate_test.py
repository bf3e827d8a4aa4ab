"""`quern estimate` against what `quern serve` then takes: python3 estimate_test.py QUERN

Taken is measured once the server has worked through prompts that fill its KV cache: RssAnon of /proc/PID/status, plus
the weights that are read where the file is mapped (clean pages of a file count for nothing else)."""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"
MODELS = os.environ.get("QUERN_TEST_MODELS")
FOLDER = tempfile.TemporaryDirectory()
ENVIRONMENT = {**os.environ, "QUERN_HOME": FOLDER.name}
TOLERANCE = 0.05


def quern(*arguments):
    return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)


class Server:
    def __init__(self, model, *options):
        command = [QUERN, "serve", str(model), "--port", "0", "--served-model-name", "m", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.log, self.port = [], None

    def __enter__(self):
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(match.group(1))
                threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
                return self
        raise RuntimeError("".join(self.log))

    def __exit__(self, *ignored):
        self.process.terminate()
        self.process.wait(timeout=60)

    def post(self, path, body):
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=300))

    def anonymous_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RssAnon")


@unittest.skipUnless(MODELS, "QUERN_TEST_MODELS does not name the folder of real models")
class WithRealModels(unittest.TestCase):
    def model(self, name):
        path = pathlib.Path(MODELS) / name
        if not path.exists():
            self.skipTest(f"no {name} in QUERN_TEST_MODELS")
        return path

    def estimate(self, model, *options):
        result = quern("estimate", model, "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_close(self, estimate, anonymous):
        taken = anonymous + estimate["weights_mapped"]
        print(f"estimated {estimate['total']}, taken {taken}, {estimate['total'] / taken - 1:+.1%}: {estimate}", file=sys.stderr)
        self.assertLess(abs(estimate["total"] - taken), TOLERANCE * taken, f"taken {taken}: {estimate}")

    def check_decoder(self, name, *options, tokens=1000):
        """Five prompts of so many tokens fill the cache, which has room for four of a little more."""
        model = self.model(name)
        options = ("--max-num-seqs", "4", "--max-model-len", str(tokens + 24), *options)
        estimate = self.estimate(model, *options)
        draw = random.Random(1)
        prompts = [[draw.randrange(1000, 40000) for _ in range(tokens)] for _ in range(5)]
        with Server(model, *options) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
            bodies = [{"model": "m", "prompt": prompt, "max_tokens": 8, "ignore_eos": True} for prompt in prompts]
            for answer in pool.map(lambda body: server.post("/v1/completions", body), bodies):
                self.assertEqual(answer["usage"]["prompt_tokens"], tokens)
            self.assert_close(estimate, server.anonymous_bytes())

    def test_smollm2(self):
        self.check_decoder("SmolLM2-135M-Instruct.Q4_1.gguf")

    def test_smollm2_exact_reads_its_weights_in_place(self):
        self.check_decoder("SmolLM2-135M-Instruct.Q4_1.gguf", "--precision", "exact", tokens=400)

    def test_qwen(self):
        self.check_decoder("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "--kv-cache-dtype", "q8_0")

    def test_minilm(self):
        model = self.model("all-MiniLM-L6-v2--f32")
        estimate = self.estimate(model)
        with Server(model) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
            body = {"model": "m", "input": [f"{i} " + "word " * 250 for i in range(32)]}
            for answer in pool.map(lambda _: server.post("/v1/embeddings", body), range(4)):
                self.assertEqual(len(answer["data"]), 32)
            self.assert_close(estimate, server.anonymous_bytes())


if __name__ == "__main__":
    unittest.main()
