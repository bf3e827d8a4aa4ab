"""/api/… as Ollama's clients expect it."""
import json
import sys
import unittest

from quern_server import BERT, LLAMA, PARIS, WEATHER, Server, ThinkerTest, chat

GREEDY = {"temperature": 0, "num_predict": 12}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": WEATHER}}


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
                                   ("/api/chat", self.chat(think=True), 400),
                                   ("/api/chat", self.chat(format="xml"), 400),
                                   ("/api/generate", {"model": "bert", "prompt": "x"}, 400),
                                   ("/api/embed", {"model": "llama", "input": "x"}, 400),
                                   ("/api/show", {"model": "no"}, 404),
                                   ("/api/pull", {"model": "/etc/passwd"}, 400),
                                   ("/api/pull", {"model": "https://example.org/x.gguf"}, 400),
                                   ("/api/pull", {"model": "hf:../x"}, 400)):
            code, answer = self.server.post(path, body)
            self.assertEqual(code, status, (path, body, answer))
            self.assertIsInstance(answer["error"], str)


class StructureToolsAndThinkingTest(ThinkerTest):
    models = (LLAMA,)

    def both(self, path, **fields):
        """What an answer says, whole and streamed, which must agree: text, thinking, calls, and how it ended."""
        body = {"model": "thinker", "options": {"temperature": 0, "num_predict": 200}, **fields}
        body.update({"messages": [{"role": "user", "content": "the tide"}]} if path == "/api/chat" else {"prompt": "the tide"})
        body.update(fields)

        def said(lines):
            text, thinking, calls = "", "", []
            for line in lines:
                part = line.get("message", line)
                text += part["content" if path == "/api/chat" else "response"]
                thinking += part.get("thinking", "")
                calls += part.get("tool_calls", [])
            self.assertEqual([call["function"]["index"] for call in calls], list(range(len(calls))))
            self.assertEqual(len({call["id"] for call in calls}), len(calls))
            return text, thinking, [call["function"] for call in calls], lines[-1]["done_reason"]

        whole = said([self.server.ok(path, {**body, "stream": False})])
        self.assertEqual(said(self.server.lines(path, body)), whole)
        return whole

    def test_format(self):
        schema = {"type": "object", "properties": {"tide": {"const": "ebb"}}, "required": ["tide"], "additionalProperties": False}
        for path in ("/api/chat", "/api/generate"):
            text, thinking, _, reason = self.both(path, format=schema, think=False)
            self.assertEqual((json.loads(text), thinking, reason), ({"tide": "ebb"}, "", "stop"))
            text, _, _, reason = self.both(path, format="json", think=False, options={"temperature": 0, "num_predict": 450})
            self.assertTrue(text.startswith("{"))
            if reason == "stop":
                self.assertIsInstance(json.loads(text), dict)
            self.assertEqual(self.both(path, format="", think=False), self.both(path, think=False))
        raw = self.both("/api/generate", format={"const": "ebb"}, raw=True)
        self.assertEqual(raw, ('"ebb"', "", [], "stop"))
        for format in ("xml", 5, [], {"type": "string", "pattern": "(?=a)"}):
            for path in ("/api/chat", "/api/generate"):
                status, answer = self.server.post(path, {"model": "thinker", "prompt": "x", "format": format} if "gen" in path else
                                                  {"model": "thinker", "messages": [{"role": "user", "content": "x"}], "format": format})
                self.assertEqual(status, 400, answer)
                self.assertTrue(answer["error"].startswith("format: "), answer)

    def test_think(self):
        # The reasoning has no limit here, so the answer's own ends it.
        for path in ("/api/chat", "/api/generate"):
            text, thinking, _, reason = self.both(path, think=True, options=GREEDY)
            self.assertEqual((text, bool(thinking), reason), ("", True, "length"))
            self.assertEqual(self.both(path, options=GREEDY), (text, thinking, [], reason))
            self.assertEqual(self.both(path, think="high", options=GREEDY)[1], thinking)
            text, thinking, _, _ = self.both(path, think=False, options=GREEDY)
            self.assertEqual((bool(text), thinking), (True, ""))
            body = {"model": "llama", "messages": [{"role": "user", "content": "x"}], "prompt": "x", "think": True}
            body.pop("prompt" if path == "/api/chat" else "messages")
            self.assertEqual(self.server.post(path, body), (400, {"error": '"llama" does not support thinking'}))
            self.assertEqual(self.server.post(path, {**body, "model": "thinker", "think": "much"})[0], 400)
        self.assertIn("thinking", self.server.ok("/api/show", {"model": "thinker"})["capabilities"])
        self.assertNotIn("thinking", self.server.ok("/api/show", {"model": "llama"})["capabilities"])

    def test_tool_calls(self):
        # The wire has no way to force a call; a format that says the call in the model's own words does.
        call = {"const": {"name": "get_weather", "arguments": PARIS}}
        for model, format in (("llama", call),):
            text, _, calls, reason = self.both("/api/chat", model=model, format=format, tools=[TOOL])
            self.assertEqual((text, reason), ("", "stop"))
            self.assertEqual(calls, [{"index": 0, "name": "get_weather", "arguments": PARIS}])
            text, _, calls, _ = self.both("/api/chat", model=model, format=format)
            self.assertEqual((json.loads(text), calls), (call["const"], []))

    def test_calls_and_results_in_the_history(self):
        def count(*more, **fields):
            body = {"model": "thinker", "stream": False, "think": False, "options": GREEDY,
                    "messages": [{"role": "user", "content": "weather?"}, *more], **fields}
            return self.server.ok("/api/chat", body)["prompt_eval_count"]

        call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": PARIS}}]}
        result = {"role": "tool", "tool_name": "get_weather", "content": "21"}
        user = {"role": "user", "content": "so?"}
        self.assertGreater(count(call, result, user), count(user))
        self.assertGreater(count({**call, "thinking": "hm"}, result, user), count(call, result, user))
        self.assertGreater(count(tools=[TOOL]), count())
        for broken in ([5], [{}], [{"function": {"name": 5}}], [{"function": {"name": "x", "arguments": [1]}}]):
            status, answer = self.server.post("/api/chat", {"model": "llama", "messages": [{**call, "tool_calls": broken}, user]})
            self.assertEqual(status, 400)
            self.assertIn("messages[0].tool_calls[0]", answer["error"])
        for tools in ([5], [{"type": "web"}], [{"type": "function"}], [TOOL, TOOL]):
            status, answer = self.server.post("/api/chat", {"model": "llama", "messages": [user], "tools": tools})
            self.assertEqual(status, 400)
            self.assertIn("tools[", answer["error"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
