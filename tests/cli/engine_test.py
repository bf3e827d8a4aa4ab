"""What the engine does for many, seen over HTTP: sampling fields, logprobs, speculation, adapters, the disk tier."""
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
import quern_server  # noqa: E402
from adapter_files import write_adapter  # noqa: E402

QUERN, MODEL = quern_server.QUERN, quern_server.LLAMA


class Server(quern_server.Server):
    def post(self, path, body, headers=None):  # the adapter routes answer with a line of text
        status, text, _ = self.request("POST", path, body, headers)
        return status, json.loads(text) if text.startswith("{") else text

    def complete(self, **fields):
        return self.ok("/v1/completions", completion(**fields))


IDS = [5, 9, 33, 40, 7, 100, 61, 12, 3, 90]


def completion(**fields):
    return {"model": "llama", "prompt": IDS, "temperature": 0, "max_tokens": 8, "ignore_eos": True, **fields}


def text_of(body, index=0):
    return body["choices"][index]["text"]


class Sampling(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_fields_are_honoured(self):
        def ids(**fields):
            body = self.server.complete(logprobs=0, **fields)
            return body["choices"][0]["logprobs"]["tokens"]

        plain = ids()
        allowed = self.server.complete(allowed_token_ids=[44], max_tokens=3)
        self.assertEqual(allowed["usage"]["completion_tokens"], 3)
        self.assertEqual(len(set(ids(allowed_token_ids=[44], max_tokens=3))), 1)
        self.assertNotIn(plain[0], ids(bad_words=[plain[0]]) if plain[0].strip() else [])
        self.assertEqual(ids(top_n_sigma=0.001, temperature=1, seed=3), plain, "only the best is left")
        self.assertEqual(ids(samplers=["top_k"], top_k=1, temperature=1, seed=3), plain)
        for fields in ({"xtc_probability": 1, "xtc_threshold": 0}, {"mirostat": 2}, {"mirostat": 1},
                       {"dry_multiplier": 0.8, "dry_sequence_breakers": ["\n"]}, {"typical_p": 0.5}, {"min_p": 0.1}):
            first = ids(temperature=0.8, seed=11, **fields)
            self.assertEqual(first, ids(temperature=0.8, seed=11, **fields), fields)

    def test_min_tokens_outlives_the_end(self):
        first = self.server.complete(logprobs=0, max_tokens=1)["choices"][0]["logprobs"]["tokens"]
        forced = self.server.complete(logit_bias={"17": 100}, stop_token_ids=[17], max_tokens=6, ignore_eos=False)
        self.assertEqual(forced["usage"]["completion_tokens"], 1)
        later = self.server.complete(logit_bias={"17": 100}, stop_token_ids=[17], max_tokens=6, min_tokens=4, ignore_eos=False)
        self.assertGreaterEqual(later["usage"]["completion_tokens"], 4)
        self.assertTrue(first)

    def test_bad_values_name_the_field(self):
        for field, value in (("xtc_probability", 2), ("mirostat", 3), ("dry_base", -1), ("samplers", ["nope"]),
                             ("allowed_token_ids", []), ("allowed_token_ids", [10**8]), ("min_tokens", -1),
                             ("bad_words", [""]), ("best_of", 0), ("speculation", "magic"), ("num_speculative_tokens", 65),
                             ("prompt_logprobs", 1000), ("lora", [{"name": "a"}, {"name": "b"}]), ("cache_salt", "")):
            status, body = self.server.post("/v1/completions", completion(**{field: value}))
            self.assertEqual(status, 400, (field, value, body))
            self.assertIn(field, body["error"]["message"])
        status, body = self.server.post("/v1/completions", completion(lora=[{"name": "nobody"}]))
        self.assertEqual(status, 404, body)

    def test_completion_logprobs_and_echo(self):
        body = self.server.complete(logprobs=2)
        told = body["choices"][0]["logprobs"]
        # A character may lie in two tokens, each of which then shows as U+FFFD.
        self.assertEqual("".join(told["tokens"]).replace("\ufffd", ""), text_of(body).replace("\ufffd", ""))
        self.assertEqual(len(told["token_logprobs"]), 8)
        for token, logprob, top in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"]):
            self.assertAlmostEqual(top[token], logprob, places=5)
            self.assertLessEqual(max(top.values()), logprob + 1e-6, "greedy takes the best")
        echoed = self.server.complete(logprobs=1, echo=True, max_tokens=0)
        told = echoed["choices"][0]["logprobs"]
        self.assertEqual(len(told["tokens"]), len(IDS))
        self.assertIsNone(told["token_logprobs"][0])
        self.assertEqual(echoed["usage"]["completion_tokens"], 0)
        for i in (1, 5, 9):
            forced = self.server.complete(prompt=IDS[:i], allowed_token_ids=[IDS[i]], logprobs=0, max_tokens=1)
            self.assertAlmostEqual(forced["choices"][0]["logprobs"]["token_logprobs"][0], told["token_logprobs"][i], places=3)

    def test_chat_logprobs_whole_and_streamed(self):
        request = {"model": "llama", "messages": [{"role": "user", "content": "the tide"}], "temperature": 0,
                   "max_tokens": 6, "ignore_eos": True, "logprobs": True, "top_logprobs": 3}
        status, body = self.server.post("/v1/chat/completions", request)
        self.assertEqual(status, 200, body)
        content = body["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(content), 6)
        for entry in content:
            self.assertEqual(len(entry["top_logprobs"]), 3)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])
            self.assertEqual(bytes(entry["bytes"]).decode(errors="replace"), entry["token"])
        status, text, _ = self.server.request("POST", "/v1/chat/completions", {**request, "stream": True})
        chunks = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
        streamed = [entry for chunk in chunks for entry in ((chunk["choices"][0]["logprobs"] or {}).get("content") or [])]
        self.assertEqual(streamed, content)
        status, body = self.server.post("/v1/chat/completions", {**request, "logprobs": False})
        self.assertEqual((status, body["error"]["param"]), (400, "top_logprobs"))

    def test_prompt_logprobs(self):
        body = self.server.complete(prompt_logprobs=2)
        told = body["choices"][0]["prompt_logprobs"]
        self.assertEqual(len(told), len(IDS))
        self.assertIsNone(told[0])
        for token, entry in zip(IDS[1:], told[1:]):
            self.assertIn(str(token), entry)
            self.assertIn(len(entry), (2, 3))

    def test_best_of_keeps_the_likeliest(self):
        fields = {"temperature": 1.0, "seed": 5, "n": 1, "logprobs": 0}
        best = self.server.complete(best_of=6, **fields)
        self.assertEqual(len(best["choices"]), 1)
        everyone = self.server.complete(**{**fields, "n": 6})
        mean = [sum(c["logprobs"]["token_logprobs"]) / 8 for c in everyone["choices"]]
        self.assertEqual(text_of(best), everyone["choices"][mean.index(max(mean))]["text"])

    def test_beam_search(self):
        greedy = self.server.complete(max_tokens=6)
        beams = self.server.complete(use_beam_search=True, n=4, max_tokens=6)
        self.assertEqual(len(beams["choices"]), 4)
        self.assertEqual(len({c["text"] for c in beams["choices"]}), 4)
        self.assertEqual(beams["usage"]["completion_tokens"], 24)
        one = self.server.complete(use_beam_search=True, n=1, max_tokens=6)
        self.assertEqual(text_of(one), text_of(greedy))
        self.assertEqual(self.server.post("/v1/completions", completion(use_beam_search=True, stream=True))[0], 400)

    def test_speculation_changes_nothing(self):
        prompt = IDS * 12
        for fields in ({"temperature": 0}, {"temperature": 0.7, "seed": 4}, {"temperature": 1.2, "seed": 9, "top_p": 0.9}):
            plain = self.server.complete(prompt=prompt, max_tokens=60, speculation="off", **fields)
            self.assertNotIn("completion_tokens_details", plain["usage"])
            for method in ("ngram", "suffix"):
                guessed = self.server.complete(prompt=prompt, max_tokens=60, speculation=method, **fields)
                self.assertEqual(text_of(guessed), text_of(plain), (method, fields))
        predicted = self.server.complete(speculation="ngram", max_tokens=40, prediction={"type": "content", "content": "a b c"})
        self.assertEqual(text_of(predicted), text_of(self.server.complete(speculation="off", max_tokens=40)))
        status, body = self.server.post("/v1/completions", completion(speculation="draft"))
        self.assertEqual(status, 400, body)


class AdapterRoutes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-loras", "3")
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def load(self, name, path, **fields):
        return self.server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path), **fields})

    def unload(self, name):
        return self.server.post("/v1/unload_lora_adapter", {"lora_name": name})

    def names(self):
        return [m["id"] for m in json.loads(self.server.request("GET", "/v1/models")[1])["data"]]

    def test_load_use_unload(self):
        path = write_adapter(self.root / "one", 1)
        plain = self.server.complete(max_tokens=20)
        self.assertEqual(self.load("one", path)[0], 200)
        self.assertIn("one", self.names())
        entry = [m for m in json.loads(self.server.request("GET", "/v1/models")[1])["data"] if m["id"] == "one"][0]
        self.assertEqual(entry["parent"], "llama")
        adapted = self.server.complete(model="one", max_tokens=20)
        self.assertNotEqual(text_of(adapted), text_of(plain))
        self.assertEqual(adapted["model"], "one")
        self.assertEqual(text_of(self.server.complete(max_tokens=20)), text_of(plain), "the prefix cache keeps them apart")
        self.assertEqual(text_of(self.server.complete(model="one", max_tokens=20)), text_of(adapted))
        self.assertEqual(text_of(self.server.complete(lora=[{"name": "one"}], max_tokens=20)), text_of(adapted))
        self.assertEqual(text_of(self.server.complete(lora=[{"name": "one", "scale": 0}], max_tokens=20)), text_of(plain))
        self.assertEqual(self.load("one", path)[0], 400, "the name is taken")
        self.assertEqual(self.load("one", path, load_inplace=True)[0], 200)
        self.assertEqual(self.unload("one")[0], 200)
        self.assertEqual(self.unload("one")[0], 404)
        self.assertNotIn("one", self.names())
        self.assertEqual(self.server.post("/v1/completions", completion(model="one"))[0], 404)

    def test_what_does_not_fit_is_refused(self):
        empty = self.root / "empty"
        empty.mkdir()
        damaged = write_adapter(self.root / "damaged", 2)
        raw = (damaged / "adapter_model.safetensors").read_bytes()
        (damaged / "adapter_model.safetensors").write_bytes(raw[:len(raw) // 2])
        for path in (self.root / "missing", empty, damaged, write_adapter(self.root / "wide", 3, hidden=48)):
            status, body = self.load("bad", path)
            self.assertIn(status, (400, 404), body)
            self.assertIn(path.name, body["error"]["message"])
            self.assertNotIn("bad", self.names())
        self.assertEqual(self.load("llama", write_adapter(self.root / "named", 4))[0], 400)
        self.assertEqual(self.server.post("/v1/load_lora_adapter", {"lora_name": "x"})[0], 400)

    def test_many_in_a_row_stay_within_the_limit(self):
        for i in range(8):
            self.assertEqual(self.load(f"many{i}", write_adapter(self.root / f"many{i}", 10 + i))[0], 200)
        left = [name for name in self.names() if name.startswith("many")]
        self.assertEqual(left, ["many5", "many6", "many7"])
        texts = {text_of(self.server.complete(model=name, max_tokens=20)) for name in left}
        self.assertEqual(len(texts), 3)
        for name in left:
            self.unload(name)

    def test_several_in_one_batch_are_each_their_own(self):
        for i in range(2):
            self.load(f"mix{i}", write_adapter(self.root / f"mix{i}", 30 + i))
        alone = {name: text_of(self.server.complete(model=name, max_tokens=24)) for name in ("llama", "mix0", "mix1")}
        results = []
        threads = [threading.Thread(target=lambda n=name: results.append((n, text_of(self.server.complete(model=n, max_tokens=24)))))
                   for name in ("llama", "mix0", "mix1") * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 12)
        for name, text in results:
            self.assertEqual(text, alone[name])


class Disk(unittest.TestCase):
    def test_blocks_come_back_after_a_restart_and_damage_is_ignored(self):
        folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(folder.name) / "kv"
        prompt = (IDS * 20)[:150]
        server = Server("--kv-disk", str(path), "--kv-disk-size", "64M")
        cold = server.complete(prompt=prompt)
        self.assertEqual(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(server.stop(), 0)
        server = Server("--kv-disk", str(path), "--kv-disk-size", "64M")
        warm = server.complete(prompt=prompt)
        self.assertEqual(text_of(warm), text_of(cold))
        self.assertEqual(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 144)
        self.assertEqual(server.stop(), 0)
        raw = bytearray(path.read_bytes())
        for at in range(4096 + 600, len(raw), 4096):
            raw[at] ^= 0x5a
        path.write_bytes(raw)
        server = Server("--kv-disk", str(path), "--kv-disk-size", "64M")
        self.assertEqual(text_of(server.complete(prompt=prompt)), text_of(cold))
        self.assertEqual(server.stop(), 0)
        path.write_bytes(b"not a cache at all")
        server = Server("--kv-disk", str(path), "--kv-disk-size", "64M")
        self.assertTrue(any("started anew" in line for line in server.log), server.log)
        self.assertEqual(text_of(server.complete(prompt=prompt)), text_of(cold))
        self.assertEqual(server.stop(), 0)
        folder.cleanup()

    def test_impossible_options_are_refused(self):
        for arguments, word in ((("--kv-disk", "/nonexistent/x/y"), "--kv-disk"), (("--kv-disk", "/tmp", "--kv-disk-size", "10"), "--kv-disk-size"),
                                (("--gpu-memory-utilization", "1.5"), "--gpu-memory-utilization"),
                                (("--scheduling-policy", "lifo"), "--scheduling-policy"), (("--max-loras", "0"), "--max-loras"),
                                (("--lora-modules", "x"), "--lora-modules"), (("--speculative-method", "x"), "--speculative-method")):
            result = subprocess.run([QUERN, "serve", str(MODEL), "--port", "0", *arguments], capture_output=True, text=True, timeout=60)
            self.assertIn(result.returncode, (1, 2), arguments)
            self.assertIn(word.lstrip("-").replace("-", "_"), result.stderr.replace("-", "_"), arguments)


class Generate(unittest.TestCase):
    def generate(self, *arguments, threads=1):
        result = subprocess.run([QUERN, "generate", str(MODEL), "--ids", ",".join(map(str, IDS)), "--json", "-t", str(threads), *arguments],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_the_same_options_on_the_command_line(self):
        plain = self.generate("--greedy", "--max-tokens", "12", "--ignore-eos")
        self.assertEqual(self.generate("--max-tokens", "12", "--ignore-eos", "--samplers", "top_k", "--top-k", "1", "--seed", "2")["ids"],
                         plain["ids"])
        self.assertEqual(set(self.generate("--allowed-ids", "44,45", "--max-tokens", "5")["ids"]) - {44, 45}, set())
        stopped = self.generate("--greedy", "--max-tokens", "12", "--stop", "zzzz", "--stop", plain["text"][2:5])
        self.assertEqual(stopped["finish_reason"], "stop")
        self.assertEqual(stopped["text"], plain["text"][:plain["text"].index(plain["text"][2:5])])

    def test_types_of_the_kv_cache(self):
        arguments = ("--greedy", "--max-tokens", "24", "--ignore-eos")
        for types in (("q4_0", "q4_0"), ("q8_0", "q4_0"), ("f16", "q4_0"), ("q4_0", "bf16")):
            options = (*arguments, "--kv-cache-dtype", types[0], "--kv-cache-dtype-v", types[1])
            ids = self.generate(*options)["ids"]
            self.assertEqual(len(ids), 24)
            self.assertEqual(self.generate(*options, "--max-num-batched-tokens", "3", threads=2)["ids"], ids, types)
        result = subprocess.run([QUERN, "generate", str(MODEL), "--ids", "5", "--kv-cache-dtype", "q5_0"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("kv-cache-dtype", result.stderr)

    def test_adapters(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_adapter(pathlib.Path(folder) / "a", 5)
            plain = self.generate("--greedy", "--max-tokens", "12", "--ignore-eos")
            adapted = self.generate("--greedy", "--max-tokens", "12", "--ignore-eos", "--lora-modules", f"a={path}", "--lora", "a")
            self.assertNotEqual(adapted["ids"], plain["ids"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
