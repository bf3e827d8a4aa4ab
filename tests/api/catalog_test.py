"""The catalogue over HTTP: GET /v1/catalog, GET /v1/catalog/{name}, POST /v1/estimate."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from quern_server import LLAMA, QUERN, Server  # noqa: E402


class CatalogTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.server = Server("--store", ":memory:", QUERN_HOME=cls.home.name)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.home.cleanup()

    def names(self, query):
        status, answer = self.server.get("/v1/catalog" + query)
        self.assertEqual(status, 200, answer)
        return [model["name"] for model in answer["data"]]

    def quern(self, *arguments):
        done = subprocess.run([QUERN, *arguments, "--json"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "QUERN_HOME": self.home.name})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, status, param, answer):
        self.assertEqual((answer[0], answer[1]["error"]["param"]), (status, param), answer)

    def test_lists_what_the_command_line_finds(self):
        for query, arguments in (("", []), ("?q=smollm2", ["smollm2"]), ("?q=tools%20qwen&kind=LLM", ["tools", "qwen", "--kind", "LLM"]),
                                 ("?kind=embedding&format=gguf", ["--kind", "embedding", "--format", "gguf"]),
                                 ("?ability=reasoning&max_size=2", ["--ability", "reasoning", "--max-size", "2"])):
            expected = [model["name"] for model in self.quern("search", *arguments)["data"]]
            self.assertTrue(expected, arguments)
            self.assertEqual(self.names(query), expected)
        self.assertEqual(self.names("?q=no-such-word-anywhere"), [])

    def test_marks_what_fits_here(self):
        status, answer = self.server.get("/v1/catalog")
        models = {model["name"]: model for model in answer["data"]}
        small = models["smollm2"]["fits"]
        self.assertEqual((small["runs"], small["engine"]), (True, "quern"))
        self.assertTrue(small["model"].startswith("smollm2:"))
        whole = models["mixtral-8x22B-instruct-v0.1"]["fits"]  # of which the weights alone are known
        self.assertEqual(whole["runs"], False, whole)
        self.assertIn("memory", whole["reason"])
        huge = next(model for model in answer["data"] if model["kind"] == "image")["fits"]
        self.assertFalse(huge["runs"])
        self.assertTrue(huge["reason"])

    def test_shows_one_model_with_its_engines(self):
        status, model = self.server.get("/v1/catalog/smollm2")
        self.assertEqual(status, 200)
        self.assertEqual([engine["engine"] for engine in model["engines"]],
                         [check["engine"] for check in self.quern("engines", "smollm2")["data"]])
        self.assertNotIn("program", json.dumps(model["engines"]))
        tags = {variant["name"].partition(":")[2] for variant in model["variants"]}
        self.assertIn("135m-q4_1", tags)
        self.assertEqual(tags, {variant["tag"] for variant in model["engines"][0]["variants"]})
        self.assertFalse(model["stored"])
        self.refused(404, "name", self.server.get("/v1/catalog/no-such-model"))

    def test_a_registered_model_is_there_at_once(self):
        document = pathlib.Path(self.home.name) / "mine.json"
        document.write_text(json.dumps({"model_name": "mine", "model_lang": ["en"], "model_ability": ["chat"], "version": 1, "context_length": 64,
                                        "model_family": "llama", "model_specs": [{"model_format": "pytorch", "model_size_in_billions": 1,
                                                                                 "quantization": "none", "model_uri": f"file://{LLAMA}"}]}))
        self.quern("register", str(document))
        self.assertEqual(self.names("?q=mine")[0], "mine")
        status, model = self.server.get("/v1/catalog/mine")
        self.assertTrue(model["custom"] and model["stored"], model)

    def test_estimates_as_the_command_line_does(self):
        for model, fields, options in (("smollm2", {}, ["--max-num-seqs", "64"]),
                                       ("qwen2.5-coder", {"max_model_len": 2048, "kv_cache_dtype": "q8_0", "max_num_seqs": 4},
                                        ["--context", "2048", "--kv-cache-dtype", "q8_0", "--max-num-seqs", "4"]),
                                       ("smollm2", {"kv_cache_memory": 1 << 28}, ["--kv-cache-memory", "256M", "--max-num-seqs", "64"])):
            answer = self.server.ok("/v1/estimate", {"model": model, **fields})
            expected = self.quern("estimate", model, *options)
            for name in ("basis", "weights", "kv_cache", "activations", "overhead", "total", "max_model_len"):
                self.assertEqual(answer[name], expected[name], name)
            self.assertGreater(answer["available"], 0)

    def test_marks_are_for_what_is_asked(self):
        def reasons(query):
            status, model = self.server.get("/v1/catalog/smollm2" + query)
            self.assertEqual(status, 200, model)
            return {variant["tag"]: variant["reason"] for variant in model["engines"][0]["variants"]}
        self.assertIsNone(reasons("?max_model_len=2048&max_num_seqs=4&kv_cache_dtype=q8_0")["135m-q4_1"])
        self.assertIn("max_model_len", reasons("?max_model_len=1000000")["135m-q4_1"])
        self.assertIn("max_num_seqs", reasons("?max_num_seqs=65536")["135m-q4_1"])

    def test_refuses_by_name(self):
        for query, param in (("?max_size=many", "max_size"), ("?max_size=-1", "max_size"), ("?sort=name", "sort"),
                             ("?q=" + "a%20" * 9, "q"), ("?kind=" + "k" * 300, "kind")):
            self.refused(400, param, self.server.get("/v1/catalog" + query))
        for query, param in (("?max_num_seqs=0", "max_num_seqs"), ("?max_model_len=-1", "max_model_len"), ("?kv_cache_dtype=int3", "kv_cache_dtype"), ("?tag=x", "tag")):
            self.refused(400, param, self.server.get("/v1/catalog/smollm2" + query))
        for body, param in (({"model": "/etc/passwd"}, "model"), ({"model": "https://127.0.0.1/x.gguf"}, "model"),
                            ({"model": "smollm2", "max_num_seqs": 0}, "max_num_seqs"), ({"model": "smollm2", "context": 1}, "context"),
                            ({"model": "smollm2", "kv_cache_dtype": "int3"}, "kv_cache_dtype")):
            self.refused(400, param, self.server.post("/v1/estimate", body))
        self.assertEqual(self.server.post("/v1/estimate", {"model": "no-such-model"})[0], 404)
        self.assertEqual(self.server.post("/v1/estimate", [])[0], 400)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
