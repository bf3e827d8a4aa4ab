"""/v1/responses: kept, continued, streamed, polled, cancelled; and files with batches that survive a restart."""
import json
import sys
import tempfile
import time
import unittest

from quern_server import BERT, LLAMA, PARIS, WEATHER, Server, ThinkerTest, chat

TOOLS = [{"type": "function", "name": "get_weather", "description": "Weather of a city", "parameters": WEATHER, "strict": True},
         {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}]


def response(**fields):
    return {"model": "llama", "input": "the tide", "temperature": 0, "max_output_tokens": 12, **fields}


class ResponsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.server = Server(QUERN_HOME=cls.home.name)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.home.cleanup()

    def delete(self, path):
        status, text, _ = self.server.request("DELETE", path)
        return status, json.loads(text)

    def test_whole(self):
        answer = self.server.ok("/v1/responses", response(metadata={"a": "b"}))
        other = self.server.ok("/v1/chat/completions", chat(ignore_eos=False))
        self.assertEqual(answer["output"][0]["content"][0]["text"], other["choices"][0]["message"]["content"])
        self.assertEqual(answer["usage"]["output_tokens"], other["usage"]["completion_tokens"])
        self.assertEqual(answer["usage"]["input_tokens"], other["usage"]["prompt_tokens"])
        self.assertEqual(answer["metadata"], {"a": "b"})
        cut = other["choices"][0]["finish_reason"] == "length"
        self.assertEqual(answer["status"], "incomplete" if cut else "completed")
        self.assertEqual(self.server.get("/v1/responses/" + answer["id"]), (200, answer))
        self.assertEqual(self.delete("/v1/responses/" + answer["id"]),
                         (200, {"id": answer["id"], "object": "response", "deleted": True}))
        self.assertEqual(self.server.get("/v1/responses/" + answer["id"])[0], 404)
        self.assertEqual(self.delete("/v1/responses/" + answer["id"])[0], 404)

    def test_stream(self):
        whole = self.server.ok("/v1/responses", response())
        events = [(name, json.loads(data)) for name, data in self.server.events("/v1/responses", response(stream=True))]
        names = [name for name, _ in events]
        self.assertTrue(all(name == data["type"] for name, data in events))
        self.assertEqual([data["sequence_number"] for _, data in events], list(range(len(events))))
        deltas = names.count("response.output_text.delta")
        self.assertEqual(names, ["response.created", "response.in_progress", "response.output_item.added",
                                 "response.content_part.added"] + ["response.output_text.delta"] * deltas +
                         ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response." + whole["status"]])
        text = "".join(data["delta"] for name, data in events if name == "response.output_text.delta")
        self.assertEqual(text, whole["output"][0]["content"][0]["text"])
        last = events[-1][1]["response"]
        self.assertEqual(last["usage"], {**whole["usage"], "input_tokens_details": last["usage"]["input_tokens_details"]})
        self.assertEqual(self.server.get("/v1/responses/" + last["id"])[1], last)

    def test_goes_on(self):
        first = self.server.ok("/v1/responses", response())
        second = self.server.ok("/v1/responses", response(input="and then", previous_response_id=first["id"]))
        text = first["output"][0]["content"][0]["text"]
        spelled = self.server.ok("/v1/responses", response(store=False, input=[
            {"role": "user", "content": "the tide"}, {"role": "assistant", "content": text},
            {"role": "user", "content": [{"type": "input_text", "text": "and then"}]}]))
        self.assertEqual(second["output"][0]["content"], spelled["output"][0]["content"])
        self.assertEqual(second["usage"]["input_tokens"], spelled["usage"]["input_tokens"])
        self.assertEqual(self.server.get("/v1/responses/" + spelled["id"])[0], 404)
        third = self.server.ok("/v1/responses", response(input=first["output"] + [{"role": "user", "content": "x"}]))
        self.assertIn(third["status"], ("completed", "incomplete"))
        items = self.server.get(f"/v1/responses/{second['id']}/input_items")[1]
        self.assertEqual([item["content"][0]["text"] for item in items["data"]], ["and then"])
        self.assertFalse(items["has_more"])
        status, error = self.server.post("/v1/responses", response(previous_response_id="resp_no"))
        self.assertEqual((status, error["error"]["param"]), (404, "previous_response_id"))

    def test_background_and_cancel(self):
        queued = self.server.ok("/v1/responses", response(background=True))
        self.assertEqual(queued["status"], "queued")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            polled = self.server.get("/v1/responses/" + queued["id"])[1]
            if polled["status"] != "queued":
                break
            time.sleep(0.05)
        self.assertIn(polled["status"], ("completed", "incomplete"))
        self.assertTrue(polled["output"])
        long = self.server.ok("/v1/responses", response(background=True, max_output_tokens=480))
        status, cancelled = self.server.post(f"/v1/responses/{long['id']}/cancel", None)
        self.assertEqual(status, 200)
        self.assertIn(cancelled["status"], ("cancelled", "completed", "incomplete"))
        status, error = self.server.post(f"/v1/responses/{self.server.ok('/v1/responses', response())['id']}/cancel", None)
        self.assertEqual(status, 400, error)

    def test_refusals(self):
        for fields in ({"input": []}, {"input": None}, {"input": 5}, {"input": [{"type": "nonsense"}]},
                       {"input": [{"role": "x", "content": "y"}]}, {"max_output_tokens": 0}, {"temperature": 3},
                       {"background": True, "store": False}, {"nonsense": 1}, {"truncation": "auto"},
                       {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
                       {"input": [{"type": "function_call", "call_id": "a", "name": "b", "arguments": "{"}]}):
            status, answer = self.server.post("/v1/responses", response(**fields))
            self.assertEqual(status, 400, (fields, answer))
            self.assertTrue(answer["error"]["param"])


class ToolsFormatsAndReasoningTest(ThinkerTest):
    options = ("--store", ":memory:")

    def body(self, **fields):
        return response(**{"model": "thinker", "max_output_tokens": 200, "reasoning": {"effort": "none"}, **fields})

    def streamed(self, body):
        """The response of a stream, once its events have been found to agree with it."""
        events = [(name, json.loads(data)) for name, data in self.server.events("/v1/responses", {**body, "stream": True})]
        self.assertEqual([data["sequence_number"] for _, data in events], list(range(len(events))))
        self.assertEqual([name for name, _ in events[:2]], ["response.created", "response.in_progress"])
        items, pieces, done = [], "", None
        for name, data in events[2:-1]:
            self.assertEqual(name, data["type"])
            self.assertEqual(data["output_index"], len(items))
            if name == "response.output_item.added":
                item, pieces, done = data["item"], "", None
                self.assertEqual(item["status"], "in_progress")
                self.assertFalse(item.get("content") or item.get("arguments"))
            elif name == "response.output_item.done":
                self.assertEqual(done, pieces)
                self.assertEqual(data["item"]["id"], item["id"])
                items.append(data["item"])
            else:
                self.assertEqual(data["item_id"], item["id"])
                kind = {"message": "output_text", "reasoning": "reasoning_text", "function_call": "function_call_arguments"}[item["type"]]
                if name == f"response.{kind}.delta":
                    pieces += data["delta"]
                elif name == f"response.{kind}.done":
                    done = data["text" if "text" in data else "arguments"]
                else:
                    self.assertIn(name, ("response.content_part.added", "response.content_part.done"))
                    self.assertEqual(data["part"]["type"], kind)
                    self.assertEqual(data["part"]["text"], pieces)
        name, data = events[-1]
        self.assertEqual(name, "response." + data["response"]["status"])
        self.assertEqual(data["response"]["output"], items)
        return data["response"]

    def both(self, **fields):
        """The answer, whole and streamed, which must agree but for ids."""
        whole, streamed = self.server.ok("/v1/responses", self.body(**fields)), self.streamed(self.body(**fields))

        def shown(answer):
            items = [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in answer["output"]]
            return items, answer["status"], answer["usage"]["output_tokens"], answer["usage"]["output_tokens_details"]

        self.assertEqual(shown(whole), shown(streamed))
        self.assertEqual(self.server.get("/v1/responses/" + streamed["id"])[1], streamed)
        return whole

    def test_reasoning_of_earlier_turns_has_three_names(self):
        def prompt_tokens(**fields):
            messages = [{"role": "user", "content": "the tide"}, {"role": "assistant", "content": "rises", **fields},
                        {"role": "user", "content": "why"}]
            return self.server.ok("/v1/chat/completions", chat(model="thinker", messages=messages, max_tokens=1))["usage"]["prompt_tokens"]
        none, some = prompt_tokens(), prompt_tokens(reasoning_content="the moon, I think")
        self.assertGreater(some, none)
        self.assertEqual(prompt_tokens(thinking="the moon, I think"), some)
        self.assertEqual(prompt_tokens(reasoning="the moon, I think"), some)
        self.assertEqual(prompt_tokens(reasoning_content=None, thinking=None, reasoning="the moon, I think"), some)
        self.assertEqual(prompt_tokens(reasoning="a", thinking="b", reasoning_content="the moon, I think"), some)
        self.assertEqual(prompt_tokens(reasoning=["the moon, I think"]), none)  # no text

    def test_formats(self):
        format = {"type": "json_schema", "name": "tide", "strict": True, "schema": {"const": "ebb"}}
        answer = self.both(text={"format": format})
        self.assertEqual(answer["output"][0]["content"][0]["text"], '"ebb"')
        self.assertEqual((answer["text"]["format"], answer["status"]), (format, "completed"))
        answer = self.both(text={"format": {"type": "json_object"}})
        self.assertTrue(answer["output"][0]["content"][0]["text"].startswith("{"))
        self.assertEqual(self.both(text={"format": {"type": "text"}})["output"][0]["content"], self.both()["output"][0]["content"])

    def test_calls(self):
        values = {"get_weather": PARIS, "add": {"a": 1}}
        # Left to itself the tiny model goes on calling to the end of its context.
        answer = self.both(tools=TOOLS[1:], tool_choice="required", max_output_tokens=450)
        self.assertEqual((answer["tools"], answer["tool_choice"]), (TOOLS[1:], "required"))
        whole = [item for item in answer["output"] if item["status"] == "completed"]
        self.assertGreater(len(whole), 1)
        self.assertEqual(len({item["call_id"] for item in whole}), len(whole))
        self.assertEqual(answer["output"][-1]["status"], answer["status"])
        for item in whole:
            self.assertEqual(set(item), {"type", "id", "call_id", "name", "arguments", "status"})
            self.assertEqual((item["type"], json.loads(item["arguments"]), item["status"]), ("function_call", {"a": 1}, "completed"))
        one = self.both(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        self.assertEqual((len(one["output"]), one["status"]), (1, "completed"))
        self.assertFalse(one["parallel_tool_calls"])
        for name, value in values.items():
            answer = self.both(tools=TOOLS, tool_choice={"type": "function", "name": name})
            (item,) = answer["output"]
            self.assertEqual((item["name"], json.loads(item["arguments"])), (name, value))
        self.assertEqual(self.both(tools=TOOLS, max_output_tokens=8)["output"][0]["type"], "message")

    def test_results_go_back(self):
        first = self.server.ok("/v1/responses", self.body(tools=TOOLS, tool_choice={"type": "function", "name": "add"}))
        (call,) = first["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "1"}
        fields = {"tools": TOOLS, "max_output_tokens": 6}
        kept = self.server.ok("/v1/responses", self.body(input=[result], previous_response_id=first["id"], **fields))
        spelled = self.server.ok("/v1/responses", self.body(input=[{"role": "user", "content": "the tide"}, call, result], **fields))
        parts = self.server.ok("/v1/responses", self.body(input=[{"role": "user", "content": "the tide"}, call, {
            **result, "output": [{"type": "input_text", "text": "1"}]}], **fields))
        chatted = self.server.ok("/v1/chat/completions", {
            "model": "thinker", "temperature": 0, "max_tokens": 6, "enable_thinking": False,
            "tools": [{"type": "function", "function": {k: v for k, v in tool.items() if k not in ("type", "strict")}} for tool in TOOLS],
            "messages": [{"role": "user", "content": "the tide"},
                         {"role": "assistant", "content": "", "tool_calls": [{"id": call["call_id"], "type": "function", "function": {
                             "name": "add", "arguments": call["arguments"]}}]},
                         {"role": "tool", "tool_call_id": call["call_id"], "content": "1"}]})
        for answer in (kept, spelled, parts):
            self.assertEqual(answer["output"][0]["content"][0]["text"], chatted["choices"][0]["message"]["content"])
            self.assertEqual(answer["usage"]["input_tokens"], chatted["usage"]["prompt_tokens"])

    def test_reasoning(self):
        answer = self.both(reasoning={"effort": "high", "summary": "auto"}, max_output_tokens=10)
        (item,) = answer["output"]
        self.assertEqual((item["type"], item["summary"], item["status"]), ("reasoning", [], "incomplete"))
        self.assertEqual([part["type"] for part in item["content"]], ["reasoning_text"])
        self.assertTrue(item["content"][0]["text"])
        self.assertEqual(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 10)
        chatted = self.server.ok("/v1/chat/completions", chat(model="thinker", max_tokens=10, reasoning_effort="high"))
        self.assertEqual(item["content"][0]["text"], chatted["choices"][0]["message"]["reasoning_content"])
        self.assertEqual(self.both()["usage"]["output_tokens_details"]["reasoning_tokens"], 0)
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
        with_item = turns[:1] + [item] + turns[1:]
        tokens = [self.server.ok("/v1/responses", self.body(input=i, max_output_tokens=1))["usage"]["input_tokens"]
                  for i in (turns, with_item)]
        self.assertGreater(tokens[1], tokens[0])

    def test_background_calls(self):
        body = self.body(tools=TOOLS, tool_choice={"type": "function", "name": "add"})
        queued = self.server.ok("/v1/responses", {**body, "background": True})
        deadline = time.monotonic() + 20
        while queued["status"] in ("queued", "in_progress") and time.monotonic() < deadline:
            time.sleep(0.05)
            queued = self.server.get("/v1/responses/" + queued["id"])[1]
        self.assertEqual([(item["type"], json.loads(item["arguments"])) for item in queued["output"]], [("function_call", {"a": 1})])

    def test_refusals_name_the_field(self):
        for fields, param in (({"tools": [{"type": "web_search"}]}, "tools[0].type"),
                              ({"tools": [{"type": "function"}]}, "tools[0].name"),
                              ({"tools": [{"type": "function", "name": "x", "parameters": 5}]}, "tools[0].parameters"),
                              ({"tools": TOOLS + TOOLS[:1]}, "tools[2].name"),
                              ({"tool_choice": "required"}, "tool_choice"),
                              ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice"),
                              ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
                              ({"tools": TOOLS, "tool_choice": "required", "text": {"format": {"type": "json_object"}}}, "text.format"),
                              ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
                              ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
                              ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {
                                  "type": "string", "pattern": "(?=a)"}}}}, "text.format"),
                              ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
                              ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
                              ({"reasoning": {"depth": 1}}, "reasoning.depth"),
                              ({"include": ["reasoning.encrypted_content"]}, "include"),
                              ({"input": [{"type": "function_call", "call_id": "a", "name": "b", "arguments": "5"}]},
                               "input[0].arguments")):
            for stream in (False, True):
                status, answer = self.server.post("/v1/responses", self.body(stream=stream, **fields))
                self.assertEqual((status, answer["error"].get("param")), (400, param), answer)


class BatchesTest(unittest.TestCase):
    def upload(self, server, text, purpose="batch", name="in.jsonl"):
        body = (f'--q\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n'
                f'--q\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n').encode()
        body += text.encode() + b"\r\n--q--\r\n"
        status, answer, _ = server.request("POST", "/v1/files", body, {"Content-Type": "multipart/form-data; boundary=q"})
        return status, json.loads(answer)

    def lines(self, bodies, url="/v1/chat/completions"):
        return "\n".join(json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": url, "body": body})
                         for i, body in enumerate(bodies)) + "\n"

    def wait(self, server, batch_id, statuses=("completed",), seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            batch = server.get("/v1/batches/" + batch_id)[1]
            if batch["status"] in statuses:
                return batch
            time.sleep(0.1)
        self.fail(f"still {batch}")

    def test_files(self):
        with tempfile.TemporaryDirectory() as home:
            server = Server(QUERN_HOME=home)
            self.addCleanup(server.stop)
            status, file = self.upload(server, "hällo\r\n\r\nx", "user_data")
            self.assertEqual(status, 200, file)
            self.assertEqual((file["filename"], file["bytes"]), ("in.jsonl", len("hällo\r\n\r\nx".encode())))
            self.assertEqual(server.get("/v1/files/" + file["id"]), (200, file))
            self.assertEqual(server.request("GET", f"/v1/files/{file['id']}/content")[1], "hällo\r\n\r\nx")
            self.assertEqual(server.get("/v1/files?purpose=batch")[1]["data"], [])
            self.assertEqual(server.get("/v1/files?limit=1")[1]["data"], [file])
            self.assertEqual(server.get("/v1/files?limit=0")[0], 400)
            self.assertEqual(server.request("DELETE", "/v1/files/" + file["id"])[0], 200)
            self.assertEqual(server.get("/v1/files/" + file["id"])[0], 404)
            self.assertEqual(self.upload(server, "x", "nonsense")[0], 400)
            self.assertEqual(server.post("/v1/files", {"file": "x"})[0], 400)

    def test_batch(self):
        with tempfile.TemporaryDirectory() as home:
            server = Server(models=(LLAMA, BERT), QUERN_HOME=home)
            self.addCleanup(server.stop)
            bodies = [chat(max_tokens=3), chat(temperature=-1), chat(max_tokens=5)]
            file = self.upload(server, self.lines(bodies))[1]
            status, batch = server.post("/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/chat/completions",
                                                        "completion_window": "24h"})
            self.assertEqual((status, batch["status"]), (200, "validating"))
            done = self.wait(server, batch["id"])
            self.assertEqual(done["request_counts"], {"total": 3, "completed": 2, "failed": 1})
            output = [json.loads(line) for line in
                      server.request("GET", f"/v1/files/{done['output_file_id']}/content")[1].splitlines()]
            self.assertEqual([line["custom_id"] for line in output], ["line-0", "line-2"])
            direct = server.ok("/v1/chat/completions", chat(max_tokens=5))["choices"]
            self.assertEqual(output[1]["response"]["body"]["choices"], direct)
            errors = json.loads(server.request("GET", f"/v1/files/{done['error_file_id']}/content")[1])
            self.assertEqual((errors["custom_id"], errors["response"]["status_code"]), ("line-1", 400))
            file = self.upload(server, self.lines([{"model": "bert", "input": "x"}], "/v1/embeddings"))[1]
            batch = server.ok("/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/embeddings"})
            self.assertEqual(self.wait(server, batch["id"])["request_counts"]["completed"], 1)
            self.assertEqual([b["id"] for b in server.get("/v1/batches?limit=1")[1]["data"]], [batch["id"]])
            self.assertEqual(server.post(f"/v1/batches/{batch['id']}/cancel", None)[0], 409)

    def test_survives_a_kill(self):
        with tempfile.TemporaryDirectory() as home:
            server = Server(QUERN_HOME=home)
            file = self.upload(server, self.lines([chat(max_tokens=200)] * 30))[1]
            batch = server.ok("/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/chat/completions"})
            time.sleep(0.3)
            server.process.kill()
            server.process.wait()
            server = Server(QUERN_HOME=home)
            self.addCleanup(server.stop)
            self.assertIn(server.get("/v1/batches/" + batch["id"])[1]["status"], ("validating", "in_progress", "completed"))
            done = self.wait(server, batch["id"], seconds=120)
            self.assertEqual(done["request_counts"], {"total": 30, "completed": 30, "failed": 0})
            text = server.request("GET", f"/v1/files/{done['output_file_id']}/content")[1]
            self.assertEqual([json.loads(line)["custom_id"] for line in text.splitlines()],
                             [f"line-{i}" for i in range(30)])

    def test_cancel(self):
        with tempfile.TemporaryDirectory() as home:
            server = Server(QUERN_HOME=home)
            self.addCleanup(server.stop)
            file = self.upload(server, self.lines([chat(max_tokens=100)] * 200))[1]
            batch = server.ok("/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/chat/completions"})
            self.assertEqual(server.ok(f"/v1/batches/{batch['id']}/cancel", None)["status"], "cancelling")
            done = self.wait(server, batch["id"], ("cancelled",))
            self.assertLess(done["request_counts"]["completed"], 200)

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as home:
            server = Server(QUERN_HOME=home)
            self.addCleanup(server.stop)
            good = self.lines([chat()])
            for text in ("", "x\n", "[]\n", good + good, good.replace("POST", "GET"), good.replace("/v1/chat", "/v1/cat"),
                         '{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": 5}\n'):
                file = self.upload(server, text)[1]
                status, answer = server.post("/v1/batches", {"input_file_id": file["id"],
                                                             "endpoint": "/v1/chat/completions"})
                self.assertEqual(status, 400, (text, answer))
                self.assertEqual(answer["error"]["param"], "input_file_id")
            file = self.upload(server, good)[1]
            for fields in ({"endpoint": "/v1/files"}, {"completion_window": "1h"}, {"nonsense": 1}):
                self.assertEqual(server.post("/v1/batches", {"input_file_id": file["id"],
                                                             "endpoint": "/v1/chat/completions", **fields})[0], 400)
            self.assertEqual(server.post("/v1/batches", {"input_file_id": "no", "endpoint": "/v1/completions"})[0], 404)
            self.assertEqual(server.get("/v1/batches/no")[0], 404)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
