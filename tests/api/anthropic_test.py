"""/v1/messages as Anthropic's clients expect it: whole, streamed, counted, refused."""
import json
import sys
import unittest

from quern_server import Server, chat


def message(**fields):
    return {"model": "llama", "messages": [{"role": "user", "content": "the tide"}], "temperature": 0, "max_tokens": 12,
            **fields}


class MessagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_whole_equals_openai(self):
        answer = self.server.ok("/v1/messages", message())
        other = self.server.ok("/v1/chat/completions", chat(ignore_eos=False))
        self.assertEqual(answer["content"], [{"type": "text", "text": other["choices"][0]["message"]["content"]}])
        self.assertEqual((answer["type"], answer["role"], answer["model"]), ("message", "assistant", "llama"))
        usage = answer["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], other["usage"]["prompt_tokens"])
        self.assertEqual(usage["output_tokens"], other["usage"]["completion_tokens"])
        self.assertIn(answer["stop_reason"], ("max_tokens", "end_turn"))
        self.assertIsNone(answer["stop_sequence"])

    def test_stream_order_and_text(self):
        whole = self.server.ok("/v1/messages", message())
        events = [(name, json.loads(data)) for name, data in self.server.events("/v1/messages", message(stream=True))]
        names = [name for name, _ in events]
        self.assertTrue(all(name == data["type"] for name, data in events))
        deltas = names.count("content_block_delta")
        self.assertEqual(names, ["message_start", "content_block_start", "ping"] + ["content_block_delta"] * deltas +
                         ["content_block_stop", "message_delta", "message_stop"])
        text = "".join(data["delta"]["text"] for name, data in events if name == "content_block_delta")
        self.assertEqual(text, whole["content"][0]["text"])
        start, end = events[0][1]["message"], events[-2][1]
        self.assertEqual((start["content"], start["stop_reason"]), ([], None))
        self.assertEqual(end["delta"], {"stop_reason": whole["stop_reason"], "stop_sequence": None})
        self.assertEqual(end["usage"]["output_tokens"], whole["usage"]["output_tokens"])

    def test_system_blocks_and_prefill(self):
        plain = self.server.ok("/v1/messages/count_tokens", {"messages": message()["messages"]})["input_tokens"]
        text = self.server.ok("/v1/messages/count_tokens",
                              {"messages": message()["messages"], "system": "be brief"})["input_tokens"]
        self.assertGreater(text, plain)
        blocks = self.server.ok("/v1/messages/count_tokens",
                                {"messages": [{"role": "user", "content": [{"type": "text", "text": "the tide"}]}],
                                 "system": [{"type": "text", "text": "be brief"}]})["input_tokens"]
        self.assertEqual(blocks, text)
        answered = self.server.ok("/v1/messages", message(system="be brief"))["usage"]
        self.assertEqual(answered["input_tokens"] + answered["cache_read_input_tokens"], text)
        twice = self.server.ok("/v1/messages/count_tokens", {"messages": message()["messages"] * 2})["input_tokens"]
        self.assertGreater(twice, plain)

    def test_stop_sequence(self):
        text = self.server.ok("/v1/messages", message(max_tokens=16))["content"][0]["text"]
        stop = next(text[i:i + 2] for i in range(1, len(text) - 2) if "\ufffd" not in text[i:i + 2])
        answer = self.server.ok("/v1/messages", message(max_tokens=16, stop_sequences=[stop]))
        self.assertEqual((answer["stop_reason"], answer["stop_sequence"]), ("stop_sequence", stop))
        self.assertEqual(answer["content"][0]["text"], text[:text.index(stop)])

    def test_errors_have_its_shape(self):
        for fields, status, kind in (({"max_tokens": None}, 400, "invalid_request_error"),
                                     ({"max_tokens": 0}, 400, "invalid_request_error"),
                                     ({"temperature": 1.5}, 400, "invalid_request_error"),
                                     ({"messages": []}, 400, "invalid_request_error"),
                                     ({"messages": [{"role": "system", "content": "x"}]}, 400, "invalid_request_error"),
                                     ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, 400,
                                      "invalid_request_error"),
                                     ({"stop_sequences": [""]}, 400, "invalid_request_error"),
                                     ({"nonsense": 1}, 400, "invalid_request_error"),
                                     ({"model": "gpt"}, 404, "not_found_error"),
                                     ({"messages": [{"role": "user", "content": "x " * 5000}]}, 400,
                                      "invalid_request_error")):
            code, answer = self.server.post("/v1/messages", message(**fields))
            self.assertEqual(code, status, (fields, answer))
            self.assertEqual((answer["type"], answer["error"]["type"]), ("error", kind))
            self.assertTrue(answer["error"]["message"])
        for body in ("", "{", "[]", "5"):
            self.assertEqual(self.server.post("/v1/messages", body)[0], 400)
        self.assertEqual(self.server.get("/v1/messages")[0], 405)

    def test_keys(self):
        server = Server(QUERN_API_KEY="k")
        self.addCleanup(server.stop)
        status, answer = server.post("/v1/messages", message())
        self.assertEqual((status, answer["error"]["type"]), (401, "authentication_error"))
        self.assertEqual(server.post("/v1/messages", message(max_tokens=1), {"X-Api-Key": "k"})[0], 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
