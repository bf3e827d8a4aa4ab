"""Structured output, tool calls and reasoning over real HTTP. A tiny model with random weights says anything a grammar
allows; real models are driven when QUERN_TEST_MODELS names their folder. jsonschema judges where it is installed."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import serve_test  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

MODELS = pathlib.Path(os.environ.get("QUERN_TEST_MODELS", "/nonexistent"))
SMOLLM2 = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
QWEN = MODELS / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
SCHEMAS = json.loads((pathlib.Path(__file__).resolve().parent.parent / "grammar/schemas.json").read_text())

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
             "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"$ref": "#/$defs/unit"}},
             "required": ["city", "unit"], "$defs": {"unit": {"enum": ["celsius", "fahrenheit"]}}}}},
         {"type": "function", "function": {"name": "add", "parameters": {
             "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"type": "integer", "minimum": 0, "maximum": 99}},
             "required": ["a", "b"]}}}]


def check(value, schema):
    if jsonschema is not None:
        jsonschema.validate(value, schema, format_checker=jsonschema.FormatChecker())


def json_format(schema, name="answer"):
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


class Case(unittest.TestCase):
    server = None

    def chat(self, path="/v1/chat/completions", expect=200, **fields):
        body = {"messages": [{"role": "user", "content": "the tide"}], "max_tokens": 300, "temperature": 1, "seed": 1, **fields}
        status, answer = self.server.post(path, body)
        self.assertEqual(status, expect, answer)
        return answer

    def streamed(self, **fields):
        """The message and finish reason that the deltas of a stream amount to."""
        body = {"messages": [{"role": "user", "content": "the tide"}], "max_tokens": 300, "temperature": 1, "seed": 1, **fields}
        message, calls, reason = {"content": ""}, [], None
        for chunk in self.server.stream("/v1/chat/completions", body):
            choice = chunk["choices"][0]
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            if "reasoning_content" in delta:
                self.assertEqual(delta["reasoning_content"], delta["reasoning"])
                message["reasoning_content"] = message.get("reasoning_content", "") + delta["reasoning_content"]
            for call in delta.get("tool_calls", []):
                if call["index"] == len(calls):
                    self.assertEqual(set(call), {"index", "id", "type", "function"})
                    self.assertTrue(call["function"]["name"])
                    calls.append({"name": call["function"]["name"], "arguments": "", "id": call["id"]})
                else:
                    self.assertEqual(set(call), {"index", "function"})
                    self.assertEqual(set(call["function"]), {"arguments"})
                    self.assertEqual(call["index"], len(calls) - 1)
                calls[-1]["arguments"] += call["function"].get("arguments", "")
            reason = choice["finish_reason"] or reason
        return message, calls, reason

    def calls_of(self, answer):
        choice = answer["choices"][0]
        calls = choice["message"].get("tool_calls", [])
        self.assertEqual(len({call["id"] for call in calls}), len(calls))
        for call in calls[:-1] if choice["finish_reason"] == "length" else calls:  # the limit may cut the last one
            self.assertEqual(call["type"], "function")
            schema = next(t["function"]["parameters"] for t in TOOLS if t["function"]["name"] == call["function"]["name"])
            check(json.loads(call["function"]["arguments"]), schema)
        return [call["function"] for call in calls]


class TinyModel(Case):
    @classmethod
    def setUpClass(cls):
        # The golden model, with a template that knows tools and Hermes' marks.
        cls.folder = tempfile.TemporaryDirectory()
        model = pathlib.Path(cls.folder.name) / "llama"
        shutil.copytree(serve_test.MODEL, model)
        config = json.loads((model / "tokenizer_config.json").read_text())
        config["chat_template"] = ("{%- for m in messages -%}{{ m.role }}:{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
                                   "<tool_call>{{ c.function.arguments.keys() | list | length }}</tool_call>{% endfor %}\n{%- endfor -%}"
                                   "{{ tools | length if tools else '' }}")
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        cls.server = serve_test.Server("-t", "1", model=model)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        assert cls.server.stop() == 0

    def test_json_schema(self):
        for seed in range(5):
            answer = self.chat(response_format=json_format(PERSON), seed=seed)
            choice = answer["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop")
            value = json.loads(choice["message"]["content"])
            check(value, PERSON)
            self.assertEqual(list(value), ["name", "age"])
            message, _, reason = self.streamed(response_format=json_format(PERSON), seed=seed)
            self.assertEqual((message["content"], reason), (choice["message"]["content"], "stop"))

    def test_logprobs_tell_of_every_token(self):
        """Of a grammar's text, of calls and of reasoning, whole and streamed alike."""
        fields = {"logprobs": True, "top_logprobs": 2, "max_tokens": 120}
        for more in ({"response_format": json_format(PERSON)}, {"tools": TOOLS, "tool_choice": "required"},
                     {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "add"}}}):
            answer = self.chat(**fields, **more)
            choice = answer["choices"][0]
            told = choice["logprobs"]["content"]
            ended = 1 if len(told) < answer["usage"]["completion_tokens"] else 0  # the end token is no part of the text
            self.assertEqual(len(told), answer["usage"]["completion_tokens"] - ended)
            self.assertTrue(all(len(entry["top_logprobs"]) == 2 and entry["logprob"] <= 0 for entry in told))
            if "tools" in more:
                self.assertTrue(self.calls_of(answer))
            else:
                self.assertEqual(b"".join(bytes(entry["bytes"]) for entry in told).decode(), choice["message"]["content"])
            chunks = self.server.stream("/v1/chat/completions", {"messages": [{"role": "user", "content": "the tide"}], "temperature": 1,
                                                                 "seed": 1, **fields, **more})
            streamed = [entry for chunk in chunks for entry in (chunk["choices"][0]["logprobs"] or {}).get("content") or []]
            self.assertEqual(streamed, told)

    def test_speculation_changes_no_grammar_and_no_call(self):
        for more in ({"response_format": json_format({"type": "array", "items": {"enum": ["ebb", "flow"]}, "minItems": 12, "maxItems": 16})},
                     {"tools": TOOLS, "tool_choice": "required"}, {"structured_outputs": {"regex": "(ab|ba){40}"}, "n": 3}):
            def told(**fields):
                choices = self.chat(**fields, **more)["choices"]
                for choice in choices:
                    for call in choice["message"].get("tool_calls", []):
                        call.pop("id")
                return choices

            plain = told(speculation="off")
            for method in ("ngram", "suffix", "suffix"):
                self.assertEqual(told(speculation=method), plain, (method, more))
        usage = self.chat(structured_outputs={"regex": "(ab){60}"}, speculation="ngram")["usage"]
        self.assertGreater(usage["completion_tokens_details"]["accepted_prediction_tokens"], 10)

    def test_each_of_n_has_a_grammar_of_its_own(self):
        for fields in ({"n": 4}, {"n": 2, "best_of": 4}):
            answer = self.chat(structured_outputs={"regex": "[0-9]{3}[a-z]{1,6}!"}, **fields)
            self.assertEqual(len(answer["choices"]), fields["n"])
            for choice in answer["choices"]:
                self.assertRegex(choice["message"]["content"], r"^[0-9]{3}[a-z]{1,6}!$")

    def test_beams_take_no_grammar(self):
        for more, name in (({"response_format": json_format(PERSON)}, "response_format"), ({"structured_outputs": {"choice": ["a"]}}, "structured_outputs"),
                           ({"tools": TOOLS, "tool_choice": "required"}, "tools"), ({"logit_bias": {"5": 1}}, "logit_bias"),
                           ({"logprobs": True}, "logprobs"), ({"thinking_token_budget": 4}, "thinking_token_budget")):
            error = self.chat(expect=400, use_beam_search=True, **more)["error"]
            self.assertEqual(error["param"], "use_beam_search")
            self.assertIn(name, error["message"])
        answer = self.chat(use_beam_search=True, n=2, max_tokens=6, tools=TOOLS, presence_penalty=0, repetition_penalty=1, logprobs=False)
        self.assertEqual([choice["message"]["role"] for choice in answer["choices"]], ["assistant"] * 2)

    def test_forms(self):
        for fields, fits in (
            ({"structured_outputs": {"json": PERSON}}, json.loads),
            ({"structured_outputs": {"json": json.dumps(PERSON)}}, json.loads),
            ({"guided_json": PERSON}, json.loads),
            ({"structured_outputs": {"regex": "[0-9]{2}-[a-c]"}}, re.compile("[0-9]{2}-[a-c]").fullmatch),
            ({"guided_regex": "[0-9]{2}-[a-c]"}, re.compile("[0-9]{2}-[a-c]").fullmatch),
            ({"structured_outputs": {"choice": ["ebb", "flow"]}}, ["ebb", "flow"].index),
            ({"guided_choice": ["ebb", "flow"]}, ["ebb", "flow"].index),
            ({"structured_outputs": {"grammar": "root ::= \"a\" [bc]{2}"}}, re.compile("a[bc]{2}").fullmatch),
            ({"guided_grammar": "start: \"a\" /[bc]{2}/"}, re.compile("a[bc]{2}").fullmatch),
            ({"response_format": {"type": "text"}}, str),
        ):
            content = self.chat(**fields)["choices"][0]["message"]["content"]
            self.assertIsNotNone(fits(content), (fields, content))
            body = {"prompt": "the", "max_tokens": 300, "seed": 2, **fields}
            text = self.server.post("/v1/completions", body)[1]["choices"][0]["text"]
            self.assertIsNotNone(fits(text), (fields, text))

    def test_n_and_prompts(self):
        answer = self.chat(structured_outputs={"regex": "[a-z]{6}"}, n=4)
        texts = [choice["message"]["content"] for choice in answer["choices"]]
        self.assertTrue(all(re.fullmatch("[a-z]{6}", text) for text in texts), texts)
        self.assertGreater(len(set(texts)), 1)

    def test_refusals_name_the_field(self):
        for fields, param in (
            ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
            ({"response_format": {"type": "yaml"}}, "response_format.type"),
            ({"response_format": json_format({"type": "array", "uniqueItems": True})}, "response_format.json_schema.schema"),
            ({"response_format": json_format({"pattern": "(?=a)", "type": "string"})}, "response_format.json_schema.schema"),
            ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
            ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
            ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
            ({"structured_outputs": {"choice": "x"}}, "structured_outputs.choice"),
            ({"structured_outputs": {"grammar": "root ::= x"}}, "structured_outputs.grammar"),
            ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
            ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs.choice"),
            ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
            ({"guided_json": "{"}, "guided_json"),
            ({"guided_decoding_backend": "outlines"}, "guided_decoding_backend"),
            ({"tool_choice": "required"}, "tool_choice"),
            ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice"),
            ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
            ({"tools": TOOLS + TOOLS[:1]}, "tools[2].function.name"),
            ({"tools": [{"type": "function"}]}, "tools[0].function"),
            ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
            ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
            ({"tools": TOOLS, "tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format"),
            ({"thinking_token_budget": -1}, "thinking_token_budget"),
            ({"reasoning_effort": "huge"}, "reasoning_effort"),
            ({"messages": [{"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":"}}]}]},
             "messages[0].tool_calls[0].function.arguments"),
        ):
            for stream in (False, True):
                error = self.chat(expect=400, **{**fields, "stream": stream})["error"]
                self.assertEqual(error["param"], param, error)
                self.assertTrue(error["message"])

    def test_uncompilable_while_a_stream_runs(self):
        body = {"max_tokens": 200, "ignore_eos": True, "temperature": 0, "messages": [{"role": "user", "content": "x"}]}
        alone = self.server.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"]
        results = []
        thread = threading.Thread(target=lambda: results.append(self.server.post("/v1/chat/completions", body)))
        thread.start()
        deep = {"type": "object"}
        for _ in range(40):
            deep = {"type": "object", "properties": {"a": deep}}
        for schema in ({"type": "string", "pattern": "(a{1,1000}){1,1000}"}, {"$ref": "#"}, {"properties": {"a": "string"}}, deep):
            status, answer = self.server.post("/v1/chat/completions", {**body, "ignore_eos": False, "max_tokens": 20, "response_format": json_format(schema)})
            self.assertIn(status, (200, 400), answer)
        thread.join()
        self.assertEqual(results[0][1]["choices"][0]["message"]["content"], alone)

    def test_required_calls(self):
        several = 0
        for seed in range(60):
            if seed >= 6 and several > 0:  # how soon chance makes a second call depends on the machine's arithmetic
                break
            answer = self.chat(tools=TOOLS, tool_choice="required", seed=seed, max_tokens=450)
            calls = self.calls_of(answer)
            choice = answer["choices"][0]
            if choice["finish_reason"] == "length":
                continue
            self.assertEqual(choice["finish_reason"], "tool_calls")
            self.assertGreaterEqual(len(calls), 1)
            self.assertIsNone(choice["message"]["content"])
            several += len(calls) > 1
            message, streamed, reason = self.streamed(tools=TOOLS, tool_choice="required", seed=seed, max_tokens=450)
            self.assertEqual([(c["name"], c["arguments"]) for c in streamed], [(c["name"], c["arguments"]) for c in calls])
            self.assertEqual((message["content"], reason), ("", "tool_calls"))
            one = self.chat(tools=TOOLS, tool_choice="required", seed=seed, parallel_tool_calls=False, max_tokens=450)
            self.assertEqual(len(self.calls_of(one)), 1)
        self.assertGreater(several, 0)

    def test_named_call_and_its_answer(self):
        answer = self.chat(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "add"}}, max_tokens=450)
        call, = self.calls_of(answer)
        self.assertEqual(call["name"], "add")
        message = answer["choices"][0]["message"]
        history = [{"role": "user", "content": "1+2?"}, message,
                   {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "3"}]
        self.chat(messages=history, tools=TOOLS, max_tokens=5)
        self.chat(messages=history, tools=TOOLS, tool_choice="none", max_tokens=5)
        self.chat(messages=history, max_tokens=5)

    def test_generate(self):
        base = [serve_test.QUERN, "generate", str(serve_test.MODEL), "--prompt", "the", "--max-tokens", "200", "--seed", "3", "-t", "1"]

        def run(*arguments, stdin=""):
            return subprocess.run([*base, *arguments], input=stdin, capture_output=True, text=True, timeout=60)

        check(json.loads(run("--json-schema", "-", stdin=json.dumps(PERSON)).stdout), PERSON)
        self.assertRegex(run("--regex", "[ab]{5}").stdout, r"^[ab]{5}\n$")
        self.assertIn(run("--choice", "ebb", "--choice", "flow").stdout, ("ebb\n", "flow\n"))
        self.assertRegex(run("--grammar", "-", stdin="root ::= [ab]{5}").stdout, r"^[ab]{5}\n$")
        for arguments in (("--regex", "("), ("--regex", "a", "--choice", "b"), ("--json-schema", "/nowhere")):
            result = run(*arguments)
            self.assertEqual((result.returncode, len(result.stderr.strip().splitlines())), (2, 1), result.stderr)


class TinyThinker(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = serve_test.Server("-t", "1", "--reasoning-parser", "think")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_reasoning_before_a_grammar(self):
        seen = set()
        for seed in range(12):
            answer = self.chat(structured_outputs={"choice": ["yes", "no"]}, seed=seed, thinking_token_budget=20)
            message = answer["choices"][0]["message"]
            self.assertIn(message["content"], ("yes", "no"), message)
            streamed, _, _ = self.streamed(structured_outputs={"choice": ["yes", "no"]}, seed=seed, thinking_token_budget=20)
            self.assertEqual(streamed["content"], message["content"])
            self.assertEqual(streamed.get("reasoning_content"), message.get("reasoning_content"))
            seen.add("reasoning" in message)
            hidden = self.chat(structured_outputs={"choice": ["yes", "no"]}, seed=seed, thinking_token_budget=20, include_reasoning=False)
            self.assertNotIn("reasoning", hidden["choices"][0]["message"])
        self.assertIn(True, seen)


@unittest.skipUnless(SMOLLM2.exists(), "QUERN_TEST_MODELS names no folder with SmolLM2")
class SmolLM2(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = serve_test.Server(model=SMOLLM2)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_schemas(self):
        """Every schema, hot: what ends is valid, and most ends."""
        ended = total = 0
        for name, schema in SCHEMAS.items():
            answer = self.chat(messages=[{"role": "user", "content": f"Give me an example: {name}"}], n=3, temperature=1.2, max_tokens=150,
                               response_format=json_format(schema) if isinstance(schema, dict) else None)
            for choice in answer["choices"]:
                total += 1
                text = choice["message"]["content"]
                blanks = re.search(r"[ \t\r\n]{12}", re.sub(r'"(?:[^"\\]|\\.)*("|$)', '""', text))  # an answer may be cut within a string
                self.assertIsNone(blanks, text)
                if choice["finish_reason"] == "stop":
                    ended += 1
                    self.assertEqual(text, text.strip())
                    check(json.loads(text), schema)
        self.assertGreater(ended, total * 0.8)

    def test_tools_for_a_template_without_them(self):
        answer = self.chat(messages=[{"role": "user", "content": "What is 3 plus 4?"}], tools=TOOLS, tool_choice="required", temperature=0)
        self.assertGreaterEqual(len(self.calls_of(answer)), 1)


@unittest.skipUnless(QWEN.exists(), "QUERN_TEST_MODELS names no folder with Qwen2.5 Coder")
class Qwen(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = serve_test.Server(model=QWEN)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_required(self):
        for question, name in (("What is the weather in Paris, in celsius?", "get_weather"), ("Add 3 and 4.", "add")):
            answer = self.chat(messages=[{"role": "user", "content": question}], tools=TOOLS, tool_choice="required", temperature=0)
            calls = self.calls_of(answer)
            self.assertEqual(answer["choices"][0]["finish_reason"], "tool_calls")
            self.assertEqual(calls[0]["name"], name)
            _, streamed, reason = self.streamed(messages=[{"role": "user", "content": question}], tools=TOOLS, tool_choice="required", temperature=0)
            self.assertEqual(reason, "tool_calls")
            self.assertEqual([(c["name"], c["arguments"]) for c in streamed], [(c["name"], c["arguments"]) for c in calls])

    def test_hot_calls_are_valid(self):
        for seed in range(5):
            answer = self.chat(messages=[{"role": "user", "content": "Call something."}], tools=TOOLS, tool_choice="required", temperature=1.5, seed=seed)
            if answer["choices"][0]["finish_reason"] != "length":
                self.assertGreaterEqual(len(self.calls_of(answer)), 1)

    def test_round_trip(self):
        messages = [{"role": "user", "content": "What is the weather in Paris, in celsius?"}]
        message = self.chat(messages=messages, tools=TOOLS, tool_choice="required", temperature=0, parallel_tool_calls=False)["choices"][0]["message"]
        messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "21 degrees and sunny"}]
        answer = self.chat(messages=messages, tools=TOOLS, temperature=0, max_tokens=40)["choices"][0]["message"]
        self.assertIn("21", answer["content"])

    def test_schema(self):
        answer = self.chat(messages=[{"role": "user", "content": "Anna is 31 years old. Give the person as JSON."}], temperature=0, response_format=json_format(PERSON))
        self.assertEqual(json.loads(answer["choices"][0]["message"]["content"]), {"name": "Anna", "age": 31})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
