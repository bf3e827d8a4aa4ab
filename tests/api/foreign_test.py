"""A model that is served by somebody else's server (engine openai, here a second quern) is asked in every dialect: what
comes through the door is what that server says when it is asked in the same dialect itself."""
import json
import pathlib
import sys
import tempfile
import unittest

from platform_server import FleetServer
from quern_server import BERT, PARIS, RERANKER, THINKING_TEMPLATE, WEATHER, Server, chat, thinker

# The thinker's template, without thinking.
CALLING_TEMPLATE = THINKING_TEMPLATE[:THINKING_TEMPLATE.rindex("<think>")] + "{% endif %}"
TURN = [{"role": "user", "content": "the tide"}]
# Nothing in OpenAI's API forbids thinking; so both are asked to do as they like.
ADAPTIVE = {"type": "adaptive"}
TOOL = {"name": "weather", "description": "of a city", "input_schema": WEATHER}


def caller(folder):
    model = thinker(folder).rename(pathlib.Path(folder) / "caller")
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": CALLING_TEMPLATE}))
    return model


class ForeignTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        models = (caller(cls.folder.name), thinker(cls.folder.name), BERT, RERANKER)
        cls.theirs = Server("--max-model-len", "512", models=models)
        cls.addClassCleanup(cls.theirs.stop)
        cls.ours = FleetServer()
        cls.addClassCleanup(cls.ours.stop)
        for uid in ("caller", "thinker", BERT.name, RERANKER.name):
            cls.ours.ok("/v1/models", {"uid": "far-" + uid, "model_name": uid, "engine": "openai",
                                       "model_path": cls.theirs.url + "/v1"})

    def both(self, path, body):
        """The same request here and there."""
        return (self.ours.ok(path, {**body, "model": "far-" + body["model"]}), self.theirs.ok(path, body))

    def test_messages(self):
        body = {"model": "thinker", "max_tokens": 40, "temperature": 0, "messages": TURN, "system": "be short",
                "thinking": ADAPTIVE}
        here, there = self.both("/v1/messages", body)
        self.assertEqual(here["content"], there["content"])
        self.assertEqual((here["stop_reason"], here["model"]), (there["stop_reason"], "far-thinker"))
        self.assertEqual(here["usage"]["output_tokens"], there["usage"]["output_tokens"])
        events = self.ours.events("/v1/messages", {**body, "model": "far-thinker", "stream": True})
        said = [json.loads(data) for _, data in events]
        text = "".join(event["delta"].get("text", "") for event in said if event["type"] == "content_block_delta")
        self.assertEqual(text, "".join(block.get("text", "") for block in there["content"]))
        thought = "".join(event["delta"].get("thinking", "") for event in said if event["type"] == "content_block_delta")
        self.assertEqual(thought, "".join(block.get("thinking", "") for block in there["content"]))
        self.assertEqual([event["type"] for event in said][-3:], ["content_block_stop", "message_delta", "message_stop"])
        self.assertEqual(said[-2]["usage"]["output_tokens"], there["usage"]["output_tokens"])

    def test_calls(self):
        body = {"model": "caller", "max_tokens": 200, "temperature": 0, "messages": TURN, "tools": [TOOL],
                "tool_choice": {"type": "tool", "name": "weather"}}
        here, there = self.both("/v1/messages", body)
        self.assertEqual(here["stop_reason"], "tool_use")
        call = here["content"][-1]
        self.assertEqual((call["type"], call["name"], call["input"]), ("tool_use", "weather", PARIS))
        self.assertEqual(there["content"][-1]["input"], PARIS)
        events = self.ours.events("/v1/messages", {**body, "model": "far-caller", "stream": True})
        pieces = [json.loads(data)["delta"].get("partial_json", "") for name, data in events
                  if name == "content_block_delta"]
        self.assertEqual(json.loads("".join(pieces)), PARIS)
        replay = {**body, "messages": TURN + [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}]}]}
        del replay["tool_choice"]
        here, there = self.both("/v1/messages", {**replay, "max_tokens": 9})
        self.assertEqual(here["content"], there["content"])

    def test_ollama(self):
        options = {"temperature": 0, "num_predict": 20}
        for path, more in (("/api/chat", {"messages": TURN}), ("/api/generate", {"prompt": "the tide"}),
                           ("/api/generate", {"prompt": "the tide", "raw": True}),
                           ("/api/chat", {"messages": TURN, "format": WEATHER})):
            body = {"model": "thinker", "stream": False, "options": options, **more}
            here, there = self.both(path, body)
            for name in ("message", "response", "thinking", "eval_count", "done_reason"):
                self.assertEqual(here.get(name), there.get(name), (name, more))
            lines = self.ours.lines(path, {**body, "model": "far-thinker:latest", "stream": True})
            key = (lambda line: line["message"]["content"]) if path == "/api/chat" else (lambda line: line["response"])
            self.assertEqual("".join(map(key, lines)), key(there))
            self.assertEqual(lines[-1]["eval_count"], there["eval_count"])
        self.assertEqual(self.ours.ok("/api/show", {"model": "far-thinker"})["capabilities"], ["completion"])

    def test_vectors_and_ranks(self):
        body = {"model": BERT.name, "input": ["the tide", "the moon"]}
        here, there = self.both("/api/embed", body)
        self.assertEqual(here["embeddings"], there["embeddings"])
        here, there = self.both("/api/embeddings", {"model": BERT.name, "prompt": "the tide"})
        self.assertEqual(here, there)
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            here, there = self.both(path, {"model": RERANKER.name, "query": "tide", "top_n": 1, "return_documents": True,
                                           "documents": ["the moon", {"text": "the tide"}]})
            self.assertEqual(here["results"], there["results"])

    def test_errors_in_the_clients_words(self):
        long = [{"role": "user", "content": "tide " * 900}]
        status, there = self.theirs.post("/v1/chat/completions", chat(model="thinker", messages=long))
        self.assertEqual(status, 400)
        words = there["error"]["message"]
        status, answer = self.ours.post("/v1/chat/completions", chat(model="far-thinker", messages=long))
        self.assertEqual((status, answer["error"]["message"], answer["detail"]), (400, words, words))
        status, answer = self.ours.post("/v1/messages", {"model": "far-thinker", "max_tokens": 9, "messages": long})
        self.assertEqual((status, answer["type"], answer["error"]["message"]), (400, "error", words))
        status, answer = self.ours.post("/api/chat", {"model": "far-thinker", "messages": long})
        self.assertEqual((status, answer), (400, {"error": words}))
        # What the engine cannot honour is refused by the client's own name of it, before it is asked.
        status, answer = self.ours.post("/v1/messages", {"model": "far-thinker", "max_tokens": 9, "top_k": 3,
                                                         "messages": TURN})
        self.assertEqual((status, answer["error"]["message"]), (400, "top_k: engine openai has nothing like it"))
        status, answer = self.ours.post("/api/chat", {"model": "far-thinker", "options": {"min_p": 0.1}, "messages": TURN})
        self.assertEqual((status, answer), (400, {"error": "options.min_p: engine openai has nothing like it"}))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
