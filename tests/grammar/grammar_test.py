"""Texts drawn at random from grammars are judged by independent implementations: jsonschema for schemas, re for regular
expressions. What cannot be honoured must be refused by its name. SAMPLER is the program of sampler.cc."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

try:
    import jsonschema
except ImportError:
    sys.exit(77)  # skipped

SAMPLER = sys.argv[1]
HERE = pathlib.Path(__file__).resolve().parent
TOKENIZERS = HERE.parent / "golden/tokenizers/files"
VOCABULARIES = {"smollm2": ("smollm2.tokenizer.json", "<|im_end|>"), "qwen3": ("qwen3.tokenizer.json", "<|im_end|>"),
                "spm": ("tiny_spm_bpe.tokenizer.json", "</s>")}
SAMPLES = int(os.environ.get("QUERN_GRAMMAR_SAMPLES", "12"))


class Sampler:
    def __init__(self, vocabulary):
        name, end = VOCABULARIES[vocabulary]
        self.process = subprocess.Popen([SAMPLER, str(TOKENIZERS / name), end], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, **line):
        self.process.stdin.write(json.dumps({"samples": SAMPLES, **line}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the sampler died of {line}"
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=60)


def load(name):
    return json.loads((HERE / name).read_text())


class GrammarTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.samplers = {name: Sampler(name) for name in VOCABULARIES}

    @classmethod
    def tearDownClass(cls):
        for sampler in cls.samplers.values():
            assert sampler.close() == 0

    def drawn(self, vocabulary, **line):
        answer = self.samplers[vocabulary].ask(**line)
        self.assertNotIn("error", answer, line)
        self.assertLess(answer["unfinished"], max(line.get("samples", SAMPLES) * 3 // 4, 1), line)
        return [sample["text"] for sample in answer["samples"]]

    def test_schemas(self):
        checker = jsonschema.FormatChecker()
        for vocabulary in VOCABULARIES:
            for name, schema in load("schemas.json").items():
                with self.subTest(vocabulary=vocabulary, schema=name):
                    for seed in (1, 2):
                        for text in self.drawn(vocabulary, kind="json_schema", text=schema, seed=seed):
                            jsonschema.validate(json.loads(text), schema, format_checker=checker)
                            self.assertIsNone(re.search(r"[ \t\r\n]{12}", re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)), text)
                            self.assertEqual(text, text.strip())

    def test_json_object(self):
        for vocabulary in VOCABULARIES:
            for text in self.drawn(vocabulary, kind="json_object"):
                self.assertIsInstance(json.loads(text), dict)

    def test_regexes(self):
        for vocabulary in VOCABULARIES:
            for pattern in load("regexes.json"):
                with self.subTest(vocabulary=vocabulary, pattern=pattern):
                    for text in self.drawn(vocabulary, kind="regex", text=pattern):
                        self.assertIsNotNone(re.fullmatch(pattern, text), text)

    def test_choices(self):
        choices = ["red", "redder", "re", "gr\u00fcn", "\u84dd\u8272", "with \"quotes\" and \\ and /", "two\nlines", " leading"]
        for vocabulary in VOCABULARIES:
            texts = self.drawn(vocabulary, kind="choice", text=choices, samples=200)
            self.assertEqual(set(texts), set(choices))

    def test_grammars(self):
        for vocabulary in VOCABULARIES:
            for name, case in load("grammars.json").items():
                with self.subTest(vocabulary=vocabulary, grammar=name):
                    texts = self.drawn(vocabulary, kind="grammar", text=case["grammar"])
                    for text in texts:
                        if "regex" in case:
                            self.assertIsNotNone(re.fullmatch(case["regex"], text), text)
                        else:
                            json.loads(text)

    def test_frame(self):
        frame = 'start: ("<think>" head BLANKS?)? @body\nBLANKS: /[ \\n]{1,4}/\nhead[suffix="</think>"]: /(?s:.*)/\n'
        for vocabulary in VOCABULARIES:
            kinds = set()
            for text in self.drawn(vocabulary, kind="regex", text="[0-9]{2}", frame=frame, samples=60):
                self.assertIsNotNone(re.fullmatch(r"(<think>(?s:.*)</think>\s{0,4})?[0-9]{2}", text), text)
                kinds.add(text.startswith("<"))
            self.assertIn(False, kinds)

    def test_forced_text_takes_the_models_own_tokens(self):
        word = "\u4eba\u5de5\u667a\u80fd"
        answer = self.samplers["qwen3"].ask(kind="json_schema", text={"enum": [word]}, samples=1)
        sample = answer["samples"][0]
        self.assertEqual(sample["text"], json.dumps(word, ensure_ascii=False))
        self.assertLessEqual(len(sample["ids"]), 5)

    def test_refusals(self):
        for case in load("refusals.json"):
            with self.subTest(case=case):
                line = {key: case[key] for key in ("kind", "text", "raw") if key in case}
                answer = self.samplers["smollm2"].ask(**line)
                self.assertIn("error", answer)
                self.assertEqual(answer["code"], "invalid_argument", answer)
                self.assertIn(case["names"], answer["error"])
                self.assertNotIn("\n", answer["error"])

    def test_hostile_texts_end_soon(self):
        hostile = [
            {"kind": "json_schema", "raw": '{"items":' * 5000 + "{}" + "}" * 5000},
            {"kind": "json_schema", "text": {"allOf": [{"$ref": "#"}]}},
            {"kind": "json_schema", "text": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}},
            {"kind": "json_schema", "text": {"type": "string", "pattern": "(a{1,1000}){1,1000}"}},
            {"kind": "json_schema", "text": {"type": "array", "minItems": 10 ** 9}},
            {"kind": "json_schema", "text": {"type": "string", "minLength": 10 ** 12}},
            {"kind": "json_schema", "text": {"enum": [str(i) * 20 for i in range(5000)]}},
            {"kind": "json_schema", "text": {"properties": {str(i): {"anyOf": [{"type": "string"}, {"type": "null"}]} for i in range(3000)}}},
            {"kind": "regex", "text": "((((a*)*)*)*)*b"},
            {"kind": "regex", "text": "a?" * 8000},
            {"kind": "regex", "text": "(" * 5000 + ")" * 5000},
            {"kind": "regex", "text": "(x+x+)+y" * 100},
            {"kind": "grammar", "text": "root ::= root"},
            {"kind": "grammar", "text": "root ::= root root | \"a\""},
            {"kind": "grammar", "text": "root ::= " + "(" * 3000 + "\"a\"" + ")" * 3000},
            {"kind": "grammar", "text": "start: start start | \"\""},
            {"kind": "grammar", "text": "start: /" + "[^a]*" * 2000 + "/"},
            {"kind": "grammar", "text": "root ::= [a-z]{10000}"},
        ]
        for line in hostile:
            began = time.monotonic()
            answer = self.samplers["smollm2"].ask(**{**line, "samples": 1})
            self.assertNotEqual(answer.get("code"), "internal", answer)
            self.assertLess(time.monotonic() - began, 60, str(line)[:100])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
