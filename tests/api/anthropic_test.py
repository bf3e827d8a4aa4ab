"""/v1/messages as Anthropic's clients expect it: whole, streamed, counted, refused."""
import hashlib
import json
import sys
import unittest

from quern_server import PARIS, WEATHER, Server, ThinkerTest, chat

TOOLS = [{"name": "get_weather", "description": "Weather of a city", "input_schema": WEATHER},
         {"name": "add", "input_schema": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}]


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
        self.assertEqual(names, ["message_start", "ping", "content_block_start"] + ["content_block_delta"] * deltas +
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
                                     ({"tool_choice": {"type": "any"}}, 400, "invalid_request_error"),
                                     ({"thinking": {"type": "enabled", "budget_tokens": 4}}, 400,
                                      "invalid_request_error"),
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


class ToolsAndThinkingTest(ThinkerTest):
    def body(self, **fields):
        return message(**{"model": "thinker", "max_tokens": 200, **fields})

    def streamed(self, body):
        """The message that the events of a stream amount to."""
        result, block, pieces, thinking = None, None, "", ""
        for name, text in self.server.events("/v1/messages", {**body, "stream": True}):
            data = json.loads(text)
            self.assertEqual(name, data["type"])
            if name == "message_start":
                result = data["message"]
            elif name == "content_block_start":
                self.assertIsNone(block)
                self.assertEqual(data["index"], len(result["content"]))
                block, pieces = data["content_block"], ""
                empty = {"text": "text", "thinking": "thinking", "tool_use": "input"}[block["type"]]
                self.assertFalse(block[empty])
            elif name == "content_block_delta":
                self.assertEqual(data["index"], len(result["content"]))
                delta = data["delta"]
                if delta["type"] == "input_json_delta":
                    pieces += delta["partial_json"]
                elif delta["type"] == "signature_delta":
                    block["signature"] += delta["signature"]
                else:
                    self.assertEqual(delta["type"], block["type"] + "_delta")
                    block[block["type"]] += delta[block["type"]]
            elif name == "content_block_stop":
                if block["type"] == "tool_use" and pieces.rstrip().endswith("}"):  # else the limit cut it
                    block["input"] = json.loads(pieces)
                result["content"].append(block)
                block = None
            elif name == "message_delta":
                result.update(data["delta"])
        self.assertIsNone(block)
        self.assertEqual(name, "message_stop")
        return result

    def both(self, **fields):
        """The answer, whole and streamed, which must agree but for ids."""
        whole, streamed = self.server.ok("/v1/messages", self.body(**fields)), self.streamed(self.body(**fields))

        def shown(answer):
            blocks = [{k: v for k, v in block.items() if k != "id"} for block in answer["content"]]
            return blocks, answer["stop_reason"], answer["stop_sequence"]

        self.assertEqual(shown(whole), shown(streamed))
        return whole

    def test_any_calls(self):
        # Left to itself the tiny model goes on calling to the end of its context.
        answer = self.both(tools=TOOLS[1:], tool_choice={"type": "any"}, max_tokens=450)
        whole = answer["content"][:-1 if answer["stop_reason"] == "max_tokens" else None]
        self.assertGreater(len(whole), 1)
        self.assertEqual(len({block["id"] for block in whole}), len(whole))
        for block in whole:
            self.assertEqual(set(block), {"type", "id", "name", "input"})
            self.assertTrue(block["id"].startswith("toolu_"))
            self.assertEqual((block["type"], block["name"], block["input"]), ("tool_use", "add", {"a": 1}))
        one = self.both(tools=TOOLS, tool_choice={"type": "any", "disable_parallel_tool_use": True})
        (block,) = one["content"]
        self.assertEqual((one["stop_reason"], block["input"]), ("tool_use", {"get_weather": PARIS, "add": {"a": 1}}[block["name"]]))

    def test_named_tool_and_its_result(self):
        for name, value in (("get_weather", PARIS), ("add", {"a": 1})):
            answer = self.both(tools=TOOLS, tool_choice={"type": "tool", "name": name})
            (block,) = answer["content"]
            self.assertEqual((block["name"], block["input"]), (name, value))
        history = [{"role": "user", "content": "weather?"}, {"role": "assistant", "content": answer["content"]},
                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "21"}]}]

        def count(**result):
            history[2]["content"][0].update(result)
            body = {"model": "thinker", "messages": history, "tools": TOOLS}
            counted = self.server.ok("/v1/messages/count_tokens", body)["input_tokens"]
            usage = self.server.ok("/v1/messages", {**body, "max_tokens": 1})["usage"]
            self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], counted)
            return counted

        plain = count()
        self.assertEqual(count(content=[{"type": "text", "text": "21"}], is_error=False), plain)
        self.assertGreater(count(is_error=True), plain)
        error = self.server.post("/v1/messages", self.body(messages=[*history[:2], {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "image"}]}]}]))
        self.assertEqual(error[0], 400)
        self.assertIn("messages.2.content.0.content.0", error[1]["error"]["message"])

    def test_count_knows_tools_and_choices(self):
        def count(**fields):
            body = {"model": "thinker", "messages": message()["messages"], **fields}
            return self.server.ok("/v1/messages/count_tokens", body)["input_tokens"]

        without = count()
        self.assertGreater(count(tools=TOOLS[:1]), without)
        self.assertGreater(count(tools=TOOLS), count(tools=TOOLS[:1]))
        self.assertEqual(count(tools=TOOLS, tool_choice={"type": "tool", "name": "add"}), count(tools=TOOLS))
        self.assertEqual(count(tools=TOOLS, tool_choice={"type": "none"}), without)

    def test_auto_may_answer_in_words(self):
        answer = self.both(tools=TOOLS, tool_choice={"type": "auto"}, max_tokens=8)
        self.assertEqual([block["type"] for block in answer["content"]], ["text"])
        self.assertIn(answer["stop_reason"], ("max_tokens", "end_turn"))

    def test_thinking_comes_before_what_is_said(self):
        thinking = {"type": "enabled", "budget_tokens": 12}
        schema = {"type": "json_schema", "schema": {"const": "ebb"}}
        answer = self.both(thinking=thinking, output_config={"format": schema})
        thought, text = answer["content"]
        self.assertEqual((thought["type"], text), ("thinking", {"type": "text", "text": '"ebb"'}))
        self.assertTrue(thought["thinking"])
        self.assertEqual(thought["signature"], hashlib.sha256(thought["thinking"].encode()).hexdigest())
        self.assertEqual(answer["stop_reason"], "end_turn")
        called = self.both(thinking=thinking, tools=TOOLS, tool_choice={"type": "tool", "name": "get_weather"})
        self.assertEqual([block["type"] for block in called["content"]], ["thinking", "tool_use"])
        self.assertEqual(called["content"][1]["input"], PARIS)
        for off in (None, {"type": "disabled"}):
            answer = self.both(thinking=off, output_config={"format": schema})
            self.assertEqual(answer["content"], [{"type": "text", "text": '"ebb"'}])
        body = {"model": "thinker", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},
                                                 {"role": "user", "content": "z"}]}
        plain = self.server.ok("/v1/messages/count_tokens", body)["input_tokens"]
        body["messages"][1]["content"] = [thought, {"type": "text", "text": "y"}]
        self.assertGreater(self.server.ok("/v1/messages/count_tokens", body)["input_tokens"], plain)

    def test_thoughts_alone_when_the_limit_cuts(self):
        answer = self.both(thinking={"type": "adaptive"}, max_tokens=4)
        self.assertEqual([block["type"] for block in answer["content"]], ["thinking"])
        self.assertEqual(answer["stop_reason"], "max_tokens")

    def test_a_cut_call_has_no_input(self):
        body = self.body(tools=TOOLS[:1], tool_choice={"type": "any"})
        used = self.server.ok("/v1/messages", body)["usage"]["output_tokens"]
        answers = [self.server.ok("/v1/messages", {**body, "max_tokens": limit}) for limit in range(1, used)]
        cut = [answer for answer in answers if answer["content"][0]["type"] == "tool_use"]
        self.assertTrue(any(answer["content"][0]["input"] == {} for answer in cut))
        for answer in cut:
            self.assertEqual(answer["stop_reason"], "max_tokens")
            self.assertIn(answer["content"][0]["input"], ({}, PARIS))

    def test_refusals_name_the_field(self):
        enabled = {"type": "enabled", "budget_tokens": 12}
        for fields, name in (({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
                             ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools.0.name"),
                             ({"tools": [{"name": "a"}]}, "tools.0.input_schema"),
                             ({"tools": TOOLS + TOOLS[:1]}, "tools.2.name"),
                             ({"tools": [{"name": "a", "input_schema": {"properties": {"b": {"pattern": "(?=a)"}}}}],
                               "tool_choice": {"type": "any"}}, "tools: "),
                             ({"tools": TOOLS, "tool_choice": {"type": "sometimes"}}, "tool_choice.type"),
                             ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice.name"),
                             ({"tools": TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}},
                              "tool_choice.disable_parallel_tool_use"),
                             ({"thinking": {"type": "much"}}, "thinking.type"),
                             ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
                             ({"thinking": enabled, "max_tokens": 12}, "thinking.budget_tokens"),
                             ({"thinking": {**enabled, "display": "omitted"}}, "thinking.display"),
                             ({"thinking": {**enabled, "depth": 3}}, "depth"),
                             ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
                             ({"output_config": {"format": {"type": "json_schema", "schema": {"pattern": "(?=a)", "type": "string"}}}},
                              "output_config.format"),
                             ({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "x", "name": "add"}]}]},
                              "messages.0.content.0")):
            for stream in (False, True):
                status, answer = self.server.post("/v1/messages", self.body(stream=stream, **fields))
                self.assertEqual((status, answer["type"]), (400, "error"), (fields, answer))
                self.assertEqual(answer["error"]["type"], "invalid_request_error")
                self.assertIn(name, answer["error"]["message"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
