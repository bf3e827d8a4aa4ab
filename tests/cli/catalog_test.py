"""Black-box tests of `quern search`, `show`, `engines`, `estimate`, `register`: python3 catalog_test.py QUERN"""
import functools
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest

from folder_case import FolderCase

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"
XINFERENCE = {
    "version": 1, "context_length": 2048, "model_name": "custom-llama", "model_lang": ["en"], "model_ability": ["chat"],
    "model_family": "llama-2-chat",
    "model_specs": [{"model_format": "pytorch", "model_size_in_billions": 7, "quantization": "none", "model_uri": "file:///models/x"}]}


class Case(FolderCase):
    def setUp(self):
        super().setUp()
        for name in ("QUERN_VLLM", "QUERN_SGLANG", "QUERN_LLAMA_SERVER", "QUERN_OPENAI_URL"):
            self.environment.pop(name, None)

    def quern(self, *arguments, **more):
        return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, timeout=120, env={**self.environment, **more})

    def json_of(self, *arguments, **more):
        result = self.quern(*arguments, "--json", **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_refused(self, result, *fragments, code=2):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)

    def write(self, name, document):
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path


class Search(Case):
    def names(self, *arguments):
        return [model["name"] for model in self.json_of("search", *arguments)["data"]]

    def test_words(self):
        self.assertEqual(self.names("smollm2")[0], "smollm2")
        self.assertIn("qwen2.5-coder", self.names("QWEN", "coder"))
        self.assertEqual(self.names("no-such-model-at-all"), [])
        self.assertGreaterEqual(len(self.names()), 150)

    def test_filters(self):
        for model in self.json_of("search", "--kind", "rerank")["data"]:
            self.assertEqual(model["type"], "rerank")
        tools = self.json_of("search", "--ability", "tools", "--format", "gguf")["data"]
        self.assertTrue(tools)
        for model in tools:
            self.assertIn("tools", model["abilities"])
            self.assertIn("gguf", model["formats"])
        self.assertIn("smollm2", self.names("--max-size", "0.2", "--kind", "chat"))
        self.assertNotIn("llama-3.3-instruct", self.names("--max-size", "0.2"))

    def test_lines_for_people(self):
        result = self.quern("search", "smollm2")
        self.assertTrue(result.stdout.startswith("smollm2 "), result.stdout)


class Show(Case):
    def test_a_variant(self):
        shown = self.json_of("show", "SmolLM2:135m-q4_1")
        self.assertEqual(shown["name"], "smollm2:135m-q4_1")
        self.assertEqual(shown["sha256"], "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")
        self.assertEqual(shown["size"]["layers"], 30)
        self.assertIn("135m", shown["variants"])
        self.assertIsNone(shown["stored"])

    def test_unknown(self):
        self.assert_refused(self.quern("show", "nothing"), "nothing")
        self.assert_refused(self.quern("show", "smollm2:9b"), "135m-q4_1")


class Engines(Case):
    def engines(self, name, **more):
        return {check["engine"]: check for check in self.json_of("engines", name, **more)["data"]}

    def program(self, name):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def test_ours(self):
        ours = self.engines("smollm2:135m-q4_1")["quern"]
        self.assertTrue(ours["runs"], ours)
        self.assertFalse(self.engines("whisper-base")["quern"]["runs"])
        self.assertIn("mlx", self.engines("qwen2.5:0.5b-mlx-4bit")["quern"]["reason"])
        self.assertIn("awq", self.engines("qwen2.5:0.5b-awq")["quern"]["reason"])
        self.assertIn("GiB", self.engines("llama-3.1-instruct:405b")["quern"]["reason"])
        self.assertIn("qwen3_next", self.engines("Qwen3-Next-Instruct:80b")["quern"]["reason"])

    def test_programs_are_looked_up(self):
        self.assertIn("llama-server", self.engines("smollm2", PATH="/nowhere")["llama.cpp"]["reason"])
        program = self.program("llama-server")
        found = self.engines("smollm2", PATH=f"/nowhere:{program.parent}")["llama.cpp"]
        self.assertEqual(found["program"], str(program))
        runs = {variant["tag"]: variant["runs"] for variant in found["variants"]}
        self.assertTrue(runs["135m-q4_1"])
        self.assertFalse(runs["135m"])
        vllm = self.engines("smollm2:135m", QUERN_VLLM=str(program))["vllm"]
        self.assertTrue(vllm["runs"], vllm)
        self.assertIn("QUERN_VLLM", self.engines("smollm2", QUERN_VLLM="/nowhere/vllm")["vllm"]["reason"])

    def test_remote(self):
        self.assertFalse(self.engines("smollm2")["openai"]["runs"])
        self.assertTrue(self.engines("smollm2", QUERN_OPENAI_URL="https://example.org/v1")["openai"]["runs"])

    def test_paths_are_refused(self):
        self.assert_refused(self.quern("engines", "./x.gguf"), "quern register")


class Estimate(Case):
    def test_files(self):
        estimate = self.json_of("estimate", GOLDEN / "families" / "exaone", "--max-num-seqs", "1")
        self.assertEqual(estimate["basis"], "files")
        self.assertEqual(estimate["total"], sum(estimate[part] for part in ("weights", "kv_cache", "activations", "overhead")))

    def test_numbers(self):
        small = self.json_of("estimate", "qwen2.5:0.5b", "--context", "1024", "--max-num-seqs", "1", "--kv-cache-dtype", "f16")
        self.assertEqual(small["basis"], "catalogue")
        self.assertEqual(small["kv_bytes_per_token"], 24 * 2 * 2 * 64 * 2)
        self.assertEqual(small["kv_cache"], 1024 * small["kv_bytes_per_token"])
        quantised = self.json_of("estimate", "qwen2.5:0.5b", "--quantization", "Q8_0", "--context", "1024", "--kv-cache-dtype", "q8_0")
        self.assertLess(quantised["weights"], small["weights"] * 0.6)
        self.assertLess(quantised["kv_bytes_per_token"], small["kv_bytes_per_token"] * 0.6)

    def test_refusals(self):
        self.assert_refused(self.quern("estimate", "qwen2.5:0.5b", "--quantization", "q1"), "q8_0")
        self.assert_refused(self.quern("estimate", "qwen2.5:0.5b", "--kv-cache-dtype", "f8"), "--kv-cache-dtype")
        self.assert_refused(self.quern("estimate", "qwen2.5:0.5b", "--context", "999999"), "max")
        self.assert_refused(self.quern("estimate", "whisper-base"), "whisper-base")
        self.assert_refused(self.quern("estimate", "/nowhere.gguf"), "/nowhere.gguf")


class Register(Case):
    def registered(self):
        return [one["name"] for one in self.json_of("registrations")["data"]]

    def test_xinferences_form(self):
        path = self.write("model.json", XINFERENCE)
        self.assertEqual(self.quern("register", path).returncode, 0)
        self.assertEqual(self.registered(), ["custom-llama"])
        shown = self.json_of("show", "custom-llama:7b")
        self.assertEqual((shown["family"], shown["custom"], shown["sources"]), ("llama", True, ["/models/x"]))
        self.assertEqual(self.json_of("search", "custom-llama")["data"][0]["name"], "custom-llama")
        self.assert_refused(self.quern("register", path), "registered already")
        self.assertEqual(self.quern("unregister", "custom-llama").returncode, 0)
        self.assertEqual(self.registered(), [])
        self.assert_refused(self.quern("unregister", "custom-llama"), "not registered")

    def test_a_path_runs_where_it_lies(self):
        folder = GOLDEN / "families" / "exaone"
        self.assertEqual(self.quern("register", folder, "--name", "mine").returncode, 0)
        shown = self.json_of("show", "mine")
        self.assertEqual((shown["family"], shown["sources"]), ("exaone", [str(folder)]))
        self.assertEqual(self.json_of("estimate", "mine")["path"], str(folder))
        out = self.folder / "out.safetensors"
        self.assertEqual(self.quern("logits", "mine", "--ids", "1,2,3", "-o", out).returncode, 0)
        self.assertTrue(out.exists())
        self.assertFalse((self.folder / "home" / "models").exists())

    def test_a_url_is_pulled(self):
        (self.folder / "www").mkdir()
        (self.folder / "www" / "m.gguf").write_bytes(b"GGUF" + bytes(64))
        (self.folder / "www" / "doc").write_text(json.dumps({**XINFERENCE, "model_name": "by-url"}))
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(self.folder / "www"))
        handler.log_message = lambda *arguments: None
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        clean = {name: "" for name in os.environ if name.lower().endswith("_proxy")}
        self.assertEqual(self.quern("register", f"{url}/m.gguf", "--name", "u", **clean).returncode, 0)
        pulled = self.json_of("pull", "u", **clean)
        self.assertEqual(pathlib.Path(pulled["path"]).read_bytes()[:4], b"GGUF")
        self.assertEqual(self.quern("register", f"{url}/doc", **clean).returncode, 0)
        self.assertEqual(self.registered(), ["by-url", "u"])
        self.assert_refused(self.quern("register", "http://example.org/m.gguf"), "https")
        # Another host behind what looks like a loopback address and its port.
        self.assert_refused(self.quern("register", "http://localhost:80@192.0.2.1/m.gguf"), "https")
        self.assert_refused(self.quern("register", "http://127.0.0.1:x@192.0.2.1/m.gguf"), "https")

    def test_hostile(self):
        for change, field in (({"model_name": "../x"}, "model_name"), ({"model_specs": [{"model_id": "a"}]}, "model_id"),
                              ({"context_length": -1}, "context_length"), ({"model_specs": "x"}, "model_specs"),
                              ({"model_lang": [1]}, "model_lang[0]"), ({"chat_template": "x" * 300000}, "chat_template")):
            path = self.write("bad.json", {**XINFERENCE, **change})
            self.assert_refused(self.quern("register", path), field, "bad.json")
        self.assert_refused(self.quern("register", self.write("deep.json", "[" * 5000)), "deep.json")
        self.assert_refused(self.quern("register", self.write("long.json", " " * (1 << 21))), "long.json")
        self.assert_refused(self.quern("register", self.write("taken.json", XINFERENCE), "--name", "qwen3"), "built-in")
        self.assert_refused(self.quern("register", self.folder / "missing.json"), "missing.json")
        self.assertEqual(self.registered(), [])

    def test_what_is_accepted_can_be_read_back(self):
        wide = self.write("wide.json", {**XINFERENCE, "junk": [0] * 300000})
        self.assertEqual(self.quern("register", wide).returncode, 0)
        self.assertEqual(self.registered(), [XINFERENCE["model_name"]])
        listed = self.quern("registrations").stdout
        self.assertNotIn("broken", listed)

    def test_a_broken_file_is_told_and_can_go(self):
        folder = self.folder / "home" / "registrations"
        folder.mkdir(parents=True)
        (folder / "old.json").write_text("{")
        self.assertIn("fault", self.json_of("registrations")["data"][0])
        self.assertEqual(self.names_of_search(), "smollm2")
        self.assertEqual(self.quern("unregister", "old").returncode, 0)

    def names_of_search(self):
        return self.json_of("search", "smollm2")["data"][0]["name"]


if __name__ == "__main__":
    unittest.main()
