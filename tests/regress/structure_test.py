"""Faults that users of comparable servers met in structured output and tool calls. Each class is one case of the field list."""
import json
import pathlib
import re
import sys
import threading
import time
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import GOLDEN, chat, share_server, thinker  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

warnings.filterwarnings("ignore", category=FutureWarning)  # [[a] is to Python a set one day; to JSON Schema it is not
CHAT = "/v1/chat/completions"
GRAMMARS = GOLDEN.parent / "grammar"
SERVER = None
share_server(globals(), "--store", ":memory:", models=lambda folder: (thinker(folder),))


def ask(**fields):
    body = chat(**{"model": "thinker", "temperature": 1, "max_tokens": 400, "ignore_eos": False, "enable_thinking": False, **fields})
    return SERVER.post(CHAT, body)


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def streamed(**fields):
    body = chat(**{"model": "thinker", "temperature": 1, "max_tokens": 400, "ignore_eos": False, "enable_thinking": False, **fields})
    return [json.loads(data) for _, data in SERVER.events(CHAT, {**body, "stream": True}) if data != "[DONE]"]


def text_of(chunks):
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


def fits(value, schema):
    if jsonschema is not None:
        jsonschema.validate(value, schema, format_checker=jsonschema.FormatChecker())


class FC15ToolCallDeltas(unittest.TestCase):
    TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["a"]}}} for name in ("add", "sub")]

    def calls_of_stream(self, chunks):
        calls = []
        for chunk in chunks:
            for call in chunk["choices"][0]["delta"].get("tool_calls") or []:
                if call["index"] == len(calls):
                    self.assertEqual(set(call), {"index", "id", "type", "function"})
                    self.assertTrue(call["id"] and call["function"]["name"])
                    calls.append([call["function"]["name"], "", call["id"]])
                else:
                    self.assertEqual((call["index"], set(call), set(call["function"])), (len(calls) - 1, {"index", "function"}, {"arguments"}))
                    self.assertIsInstance(call["function"]["arguments"], str)
                calls[-1][1] += call["function"].get("arguments") or ""
        self.assertEqual(len({call[2] for call in calls}), len(calls))
        return [tuple(call[:2]) for call in calls], next(c["choices"][0]["finish_reason"] for c in reversed(chunks) if c["choices"])

    def test_deltas_amount_to_the_whole(self):
        several = 0
        for seed in range(60):
            if seed >= 5 and several:
                break
            fields = {"tools": self.TOOLS, "tool_choice": "required", "seed": seed}
            choice = ask(**fields)[1]["choices"][0]
            calls = [(c["function"]["name"], c["function"]["arguments"]) for c in choice["message"]["tool_calls"]]
            self.assertEqual(self.calls_of_stream(streamed(**fields)), (calls, choice["finish_reason"]))
            if choice["finish_reason"] == "tool_calls":
                for _, arguments in calls:
                    self.assertIn(json.loads(arguments)["a"], range(10))
            several += len(calls) > 1
            for one in (ask(**fields, parallel_tool_calls=False)[1]["choices"][0]["message"]["tool_calls"],
                        self.calls_of_stream(streamed(**fields, parallel_tool_calls=False))[0]):
                self.assertEqual(len(one), 1)
        self.assertGreater(several, 0)

    def test_a_call_that_the_limit_cut_is_no_content(self):
        for seed in range(60):
            fields = {"tools": self.TOOLS, "tool_choice": "required", "seed": seed}
            answer = ask(**fields)[1]
            if len(answer["choices"][0]["message"]["tool_calls"]) > 1:
                break
        whole = [(c["function"]["name"], c["function"]["arguments"]) for c in answer["choices"][0]["message"]["tool_calls"]]
        for limit in range(1, answer["usage"]["completion_tokens"]):
            choice = ask(**fields, max_tokens=limit)[1]["choices"][0]
            message, calls = choice["message"], choice["message"].get("tool_calls") or []
            self.assertEqual(choice["finish_reason"], "length")
            self.assertIn(message["content"] or "", ("", "<", "<t", "<to"), (limit, message))  # any text may begin so
            chunks = streamed(**fields, max_tokens=limit)
            self.assertEqual(text_of(chunks), message["content"] or "", limit)
            told = [(c["function"]["name"], c["function"]["arguments"]) for c in calls]
            self.assertEqual(self.calls_of_stream(chunks), (told, "length"))
            for (name, arguments), (whole_name, whole_arguments) in zip(told, whole):
                self.assertEqual(name, whole_name)
                self.assertTrue(whole_arguments.startswith(arguments), (limit, arguments))


class FC17FailClosed(unittest.TestCase):
    def test_what_cannot_be_compiled_is_refused(self):
        refusals = json.loads((GRAMMARS / "refusals.json").read_text())
        field = {"json_schema": "json", "regex": "regex", "grammar": "grammar", "choice": "choice"}
        for case in refusals:
            if case["kind"] not in field:
                continue
            value = case.get("raw", case.get("text"))
            for stream in (False, True):
                status, answer = ask(structured_outputs={field[case["kind"]]: value}, stream=stream, max_tokens=8)
                self.assertEqual(status, 400, (case, answer))
                self.assertTrue(answer["error"]["message"] and answer["error"]["param"].startswith("structured_outputs"), answer)

    def test_hard_ones_are_refused_or_hold(self):
        patterns = [r"^\d{1,3}(\.\d{1,3}){3}$", r"(?=a)b", r"(a+)+$", r"\bword\b", r"[\w.]+@[\w.]+", r"\p{Lu}\p{Ll}{2}", r"(?i)abc", r"(?<x>a)\k<x>",
                    r"a{3}\{b\}", r"[^\x00-\x7f]{2}", r"(", r"[z-a]", r"a{4,2}", r"\\", r"^$", r"x*+y", r"(?:ab|cd){2}", r"^[[:alpha:]]{2}$", r"^[[a]{3}$", r"^[a&&b]{3}$", r"^[+--]{3}$", r"^[^[\]]{3}$", "a\nb"]
        for pattern in patterns:
            schema = {"type": "string", "pattern": pattern, "maxLength": 40}
            for seed in range(3):
                status, answer = ask(response_format=schema_format(schema), seed=seed, max_tokens=200)
                self.assertIn(status, (200, 400), (pattern, answer))
                if status == 400:
                    break
                choice = answer["choices"][0]
                if choice["finish_reason"] == "stop":
                    value = json.loads(choice["message"]["content"])
                    self.assertIsInstance(value, str)
                    try:
                        self.assertRegex(value, pattern)
                    except re.error:
                        pass  # Python knows no \p{Lu}
                self.assertEqual(text_of(streamed(response_format=schema_format(schema), seed=seed, max_tokens=200)), choice["message"]["content"])


class FC18InputThatCrashes(unittest.TestCase):
    def test_streams_do_not_notice(self):
        deep = {"type": "object"}
        for _ in range(5000):
            deep = f'{{"type":"object","properties":{{"a":{deep if isinstance(deep, str) else json.dumps(deep)}}}}}'
        hostile = [json.dumps(schema) for schema in (
            {"properties": {"a": "string"}}, {"type": 5}, {"items": []}, {"enum": "x"}, {"required": "a"}, {"$ref": "#"}, {"$ref": "#/$defs/none"},
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, {"$defs": {"a": 1}, "$ref": "#/$defs/a"},
            {"type": "string", "pattern": "("}, {"type": "string", "pattern": r"a\{1,2\}"}, {"type": "string", "pattern": "(a{1,1000}){1,1000}"},
            {"type": "array", "minItems": 10**9}, {"type": "string", "minLength": 10**12}, {"type": "integer", "multipleOf": 0},
            {"anyOf": []}, {"allOf": [{"type": "string"}, {"type": "integer"}]}, {"enum": []}, {"const": {"a": [None] * 3000}},
            {"type": "number", "minimum": 5, "maximum": 1}, {"properties": {str(i): {"type": "string"} for i in range(3000)}})] + [deep, "[" * 100000, '"x"', "5", "null"]
        bystander = chat(model="thinker", max_tokens=300, seed=7, temperature=1, enable_thinking=False)
        alone = SERVER.ok(CHAT, bystander)["choices"][0]["message"]["content"]
        pid, results, stop = SERVER.process.pid, [], threading.Event()

        def keep_streaming():
            while not stop.is_set():
                chunks = [json.loads(d) for _, d in SERVER.events(CHAT, {**bystander, "stream": True}) if d != "[DONE]"]
                results.append(text_of(chunks))
        threads = [threading.Thread(target=keep_streaming) for _ in range(2)]
        for thread in threads:
            thread.start()
        head = json.dumps(chat(model="thinker", max_tokens=30, enable_thinking=False))[:-1]
        for schema in hostile:
            begin = time.monotonic()
            raw = head + ', "structured_outputs": {"json": ' + schema + "}}"
            status, text, _ = SERVER.request("POST", CHAT, raw)
            self.assertIn(status, (200, 400), (schema[:80], text[:200]))
            self.assertLess(time.monotonic() - begin, 20, schema[:80])
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(set(results), {alone})
        self.assertIsNone(SERVER.process.poll())
        self.assertEqual(SERVER.process.pid, pid)

    def test_a_tree_is_legal(self):
        tree = {"$ref": "#/$defs/node", "$defs": {"node": {
            "type": "object", "properties": {"name": {"enum": ["a", "b"]}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}},
            "required": ["name", "children"], "additionalProperties": False}}}
        ended = 0
        for seed in range(12):
            choice = ask(response_format=schema_format(tree), seed=seed)[1]["choices"][0]
            if choice["finish_reason"] == "stop":
                fits(json.loads(choice["message"]["content"]), tree)
                ended += 1
        self.assertGreater(ended, 0)


class FC19WeakerThanWritten(unittest.TestCase):
    KEYWORDS = {
        "enum behind a reference": {"$ref": "#/$defs/c", "$defs": {"c": {"enum": ["red", "green"]}}},
        "bounds": {"type": "integer", "minimum": 3, "maximum": 17}, "exclusive": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
        "multipleOf": {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 700},
        "fractions": {"type": "number", "minimum": 0.5, "maximum": 0.75},
        "uniqueItems": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2, "uniqueItems": True},
        "properties": {"type": "object", "additionalProperties": {"enum": [1]}, "minProperties": 2, "maxProperties": 3},
        "items": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 4},
        "prefixItems": {"type": "array", "prefixItems": [{"const": 1}, {"type": "boolean"}], "items": False, "minItems": 2},
        "lengths": {"type": "string", "minLength": 2, "maxLength": 5}, "pattern": {"type": "string", "pattern": "^[a-c]{2}[0-9]$"},
        "date": {"type": "string", "format": "date"}, "ipv4": {"type": "string", "format": "ipv4"}, "uuid": {"type": "string", "format": "uuid"},
        "email": {"type": "string", "format": "email", "maxLength": 40}, "const": {"const": {"a": [1, "ä", None]}},
        "no more": {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False},
        "patternProperties": {"type": "object", "patternProperties": {"^x[0-9]$": {"enum": [1]}}, "additionalProperties": False, "minProperties": 1, "maxProperties": 2},
        "oneOf": {"oneOf": [{"enum": [1]}, {"enum": ["a"]}]}, "anyOf": {"anyOf": [{"enum": [1]}, {"enum": ["a"]}]},
        "allOf": {"allOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]},
        "not": {"not": {"type": "string"}}, "if": {"if": {"type": "string"}, "then": {"minLength": 3}},
        "contains": {"type": "array", "contains": {"const": 1}}, "dependentRequired": {"type": "object", "dependentRequired": {"a": ["b"]}},
        "propertyNames": {"type": "object", "propertyNames": {"pattern": "^a"}}, "unknown format": {"type": "string", "format": "iban"},
    }

    def test_each_keyword_holds_or_is_refused(self):
        honoured = 0
        for name, schema in self.KEYWORDS.items():
            status, answer = ask(response_format=schema_format(schema), n=20, seed=5, temperature=1.5, max_tokens=150)
            if status == 400:
                keyword = name.split()[-1]
                self.assertTrue(answer["error"]["message"], name)
                self.assertIn(keyword if keyword in schema else "format", answer["error"]["message"], name)
                continue
            self.assertEqual(status, 200, (name, answer))
            honoured += 1
            for choice in answer["choices"]:
                if choice["finish_reason"] == "stop":
                    value = json.loads(choice["message"]["content"])
                    fits(value, schema)
                    if name == "enum behind a reference":
                        self.assertIn(value, ("red", "green"))
                    if name == "bounds":
                        self.assertTrue(3 <= value <= 17)
        self.assertGreaterEqual(honoured, 18)

    def test_words_of_other_scripts_are_plain(self):
        words = ["蓝色", "красный"]
        plain = SERVER.ok("/tokenize", {"model": "thinker", "prompt": '"蓝色"'})["count"]
        for seed in range(10):
            answer = ask(response_format=schema_format({"enum": words}), seed=seed)[1]
            content = answer["choices"][0]["message"]["content"]
            self.assertIn(json.loads(content), words)
            self.assertNotIn("\\u", content)
            if json.loads(content) == words[0]:
                self.assertLessEqual(answer["usage"]["completion_tokens"], plain + 2)


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if not a.endswith("quern")])
