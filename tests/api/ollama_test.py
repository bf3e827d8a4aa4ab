"""/api/… as Ollama's clients expect it."""
import sys
import unittest

from quern_server import BERT, LLAMA, Server, chat

GREEDY = {"temperature": 0, "num_predict": 12}


class OllamaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=(LLAMA, BERT))

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def chat(self, **fields):
        return {"model": "llama:latest", "messages": [{"role": "user", "content": "the tide"}], "options": GREEDY, **fields}

    def test_chat(self):
        whole = self.server.ok("/api/chat", self.chat(stream=False))
        other = self.server.ok("/v1/chat/completions", chat(ignore_eos=False))
        self.assertEqual(whole["message"], {"role": "assistant", "content": other["choices"][0]["message"]["content"]})
        self.assertEqual(whole["eval_count"], other["usage"]["completion_tokens"])
        self.assertEqual(whole["prompt_eval_count"], other["usage"]["prompt_tokens"])
        self.assertTrue(whole["done"])
        self.assertGreater(whole["total_duration"], 0)
        lines = self.server.lines("/api/chat", self.chat())
        self.assertEqual("".join(line["message"]["content"] for line in lines), whole["message"]["content"])
        self.assertEqual([line["done"] for line in lines], [False] * (len(lines) - 1) + [True])
        self.assertEqual(lines[-1]["done_reason"], whole["done_reason"])
        self.assertEqual(lines[-1]["eval_count"], whole["eval_count"])

    def test_generate(self):
        body = {"model": "llama", "prompt": "the mill", "options": GREEDY}
        templated = self.server.ok("/api/generate", {**body, "stream": False})
        chatted = self.server.ok("/api/chat", self.chat(messages=[{"role": "user", "content": "the mill"}], stream=False))
        self.assertEqual(templated["response"], chatted["message"]["content"])
        raw = self.server.ok("/api/generate", {**body, "raw": True, "stream": False})
        plain = self.server.ok("/v1/completions", {"model": "llama", "prompt": "the mill", "temperature": 0,
                                                   "max_tokens": 12})
        self.assertEqual(raw["response"], plain["choices"][0]["text"])
        lines = self.server.lines("/api/generate", body)
        self.assertEqual("".join(line["response"] for line in lines), templated["response"])
        system = self.server.ok("/api/generate", {**body, "system": "be brief", "stream": False})
        self.assertGreater(system["prompt_eval_count"], templated["prompt_eval_count"])

    def test_load_only(self):
        for path, body in (("/api/chat", {"model": "llama", "messages": []}), ("/api/generate", {"model": "llama"})):
            answer = self.server.ok(path, {**body, "keep_alive": "5m"})
            self.assertEqual((answer["done"], answer["done_reason"]), (True, "load"))

    def test_options(self):
        for options in ({"temperature": -1}, {"top_p": 0}, {"num_ctx": 10 ** 6}, {"stop": [""]}, {"mirostat": 2},
                        {"nonsense": 1}, {"num_predict": -3}, {"seed": 1.5}, {"num_ctx": 2}):
            status, answer = self.server.post("/api/chat", self.chat(options=options))
            self.assertEqual(status, 400, (options, answer))
            self.assertIn("options.", answer["error"])
        limited = self.server.ok("/api/chat", self.chat(options={"temperature": 0, "num_ctx": 64}, stream=False))
        self.assertLessEqual(limited["prompt_eval_count"] + limited["eval_count"], 64)
        self.server.ok("/api/chat", self.chat(options={**GREEDY, "num_gpu": 1, "num_thread": 4}, stream=False))

    def test_embed(self):
        one = self.server.ok("/api/embed", {"model": "bert", "input": "grain"})
        two = self.server.ok("/api/embed", {"model": "bert", "input": ["flour", "grain"]})
        other = self.server.ok("/v1/embeddings", {"model": "bert", "input": "grain"})
        self.assertEqual(one["embeddings"], [other["data"][0]["embedding"]])
        for x, y in zip(two["embeddings"][1], one["embeddings"][0]):
            self.assertAlmostEqual(x, y, places=5)
        self.assertEqual(one["prompt_eval_count"], other["usage"]["prompt_tokens"])
        self.assertEqual(self.server.ok("/api/embeddings", {"model": "bert", "prompt": "grain"})["embedding"],
                         one["embeddings"][0])
        self.assertEqual(self.server.ok("/api/embed", {"model": "bert", "input": []})["embeddings"], [])
        long = "mill " * 5000
        self.assertEqual(self.server.post("/api/embed", {"model": "bert", "input": long})[0], 200)
        self.assertEqual(self.server.post("/api/embed", {"model": "bert", "input": long, "truncate": False})[0], 400)

    def test_models(self):
        names = [m["name"] for m in self.server.get("/api/tags")[1]["models"]]
        self.assertEqual(names, ["llama", "bert"])
        running = self.server.get("/api/ps")[1]["models"]
        self.assertTrue(all(m["size"] > 0 and m["context_length"] > 0 for m in running))
        shown = self.server.ok("/api/show", {"model": "llama"})
        self.assertEqual(shown["model_info"]["general.architecture"], "llama")
        self.assertEqual(shown["capabilities"][0], "completion")
        self.assertEqual(self.server.ok("/api/show", {"name": "bert"})["capabilities"], ["embedding"])
        self.assertIn("version", self.server.get("/api/version")[1])

    def test_errors_have_its_shape(self):
        for path, body, status in (("/api/chat", {"model": "gpt"}, 404), ("/api/chat", {}, 400), ("/api/chat", "[", 400),
                                   ("/api/chat", self.chat(messages=[{"role": "x"}]), 400),
                                   ("/api/chat", self.chat(images=["x"]), 400),
                                   ("/api/generate", {"model": "bert", "prompt": "x"}, 400),
                                   ("/api/embed", {"model": "llama", "input": "x"}, 400),
                                   ("/api/show", {"model": "no"}, 404),
                                   ("/api/pull", {"model": "/etc/passwd"}, 400),
                                   ("/api/pull", {"model": "https://example.org/x.gguf"}, 400),
                                   ("/api/pull", {"model": "hf:../x"}, 400)):
            code, answer = self.server.post(path, body)
            self.assertEqual(code, status, (path, body, answer))
            self.assertIsInstance(answer["error"], str)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
