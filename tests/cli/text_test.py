"""Black-box test of `quern tokenize`, `detokenize` and `template`: python3 text_test.py QUERN"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from refusal import assert_refused

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
TOKENIZERS = GOLDEN / "tokenizers"
TEMPLATES = GOLDEN / "templates"
SMOLLM2 = TOKENIZERS / "files" / "smollm2.tokenizer.json"
QWEN3_TEMPLATE = TEMPLATES / "files" / "qwen3.jinja"
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"


def quern(*arguments):
    return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, timeout=120)


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Text(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text, encoding="utf-8")
        return path

    def write_lines(self, name, lines):
        return self.write(name, "".join(json.dumps(line) + "\n" for line in lines))

    def answers(self, *arguments):
        result = quern(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return [json.loads(line) for line in result.stdout.decode().splitlines()]

    assert_refused = assert_refused

    def test_golden_cases_of_stored_tokenizers(self):
        cases = read_lines(TOKENIZERS / "cases.jsonl")
        for name, source in json.loads((TOKENIZERS / "sources.json").read_text()).items():
            if not source.get("stored"):
                continue
            chosen = [case for case in cases if case["tokenizer"] == name]
            path = self.write_lines(name, chosen)
            answers = self.answers("tokenize", TOKENIZERS / source["stored"], "--cases", path)
            self.assertEqual(len(answers), len(chosen))
            for case, answer in zip(chosen, answers):
                with self.subTest(case["id"]):
                    expected = {key: case[key] for key in answer}
                    if "ids_alt" in case and answer["ids"] == case["ids_alt"]:
                        expected["ids"] = case["ids_alt"]
                    self.assertEqual(answer, expected)

    def test_golden_cases_of_templates(self):
        sources = json.loads((TEMPLATES / "sources.json").read_text())
        cases = read_lines(TEMPLATES / "cases.jsonl")
        for name, source in sources.items():
            if not source.get("stored"):
                continue
            chosen = [case for case in cases if case["template_source"] == name]
            path = self.write_lines(name, chosen)
            answers = self.answers("template", "--template-file", TEMPLATES / source["stored"], "--cases", path)
            for case, answer in zip(chosen, answers, strict=True):
                with self.subTest(case["id"]):
                    expected = case.get("rendered") or case["error"]["message"]
                    self.assertEqual(answer.get("rendered", answer.get("error")), expected)

    def test_a_line_may_carry_its_template_and_bad_lines_do_not_stop_the_others(self):
        good = {"template": "{{ strftime_now('%Y') }} {{ messages[0].role }}", "messages": [{"role": "user"}],
                "now": "1999-01-01T00:00:00"}
        path = self.write("cases", json.dumps(good) + "\n{\n[1]\n" + json.dumps({"messages": []}) + "\n" + json.dumps(good))
        answers = self.answers("template", "--cases", path)
        self.assertEqual([answers[0], answers[4]], [{"rendered": "1999 user"}] * 2)
        self.assertEqual([list(answer) for answer in answers[1:4]], [["error"]] * 3)
        answers = self.answers("template", "--cases", path, "--now", "2026-03-05T09:07:03")
        self.assertEqual(answers[0], {"rendered": "2026 user"})

    def test_tokenize_text(self):
        result = quern("tokenize", SMOLLM2, "--text", "<|im_start|>Hi", "--json")
        self.assertEqual("".join(json.loads(result.stdout)["pieces"]), "<|im_start|>Hi")
        self.assertNotIn(1, json.loads(result.stdout)["ids"])
        result = quern("tokenize", SMOLLM2, "--text", "<|im_start|>Hi", "--parse-special", "--json")
        self.assertEqual(json.loads(result.stdout), {"ids": [1, 26843], "pieces": ["<|im_start|>", "Hi"]})
        file = self.write("text", "Hi")
        self.assertEqual(json.loads(quern("tokenize", SMOLLM2, "--file", file, "--json").stdout)["ids"], [26843])

    def test_detokenize_prints_no_newline(self):
        self.assertEqual(quern("detokenize", SMOLLM2, "--ids", "1,26843").stdout, b"<|im_start|>Hi")
        self.assertEqual(quern("detokenize", SMOLLM2, "--ids", "1,26843", "--skip-special").stdout, b"Hi")

    def test_template_of_files(self):
        messages = self.write("messages.json", json.dumps([{"role": "user", "content": "Hi"}]))
        run = lambda *more: quern("template", "--template-file", QWEN3_TEMPLATE, "--messages", messages, *more).stdout.decode()
        self.assertEqual(run(), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(run("--no-generation-prompt"), "<|im_start|>user\nHi<|im_end|>\n")
        self.assertTrue(run("--set", "enable_thinking=false").endswith("<think>\n\n</think>\n\n"))
        messages.write_text(json.dumps([{"role": "assistant", "content": "An"}]))
        self.assertTrue(run("--continue-final").endswith("An"))

    def test_an_unknown_command_is_named(self):
        self.assert_refused(quern("bogus"), "'bogus' is no command")
        self.assert_refused(quern("bogus", "--json"), "'bogus' is no command")
        self.assert_refused(quern(), "COMMAND")

    def test_a_pair_needs_two_texts(self):
        cases = self.write_lines("cases.jsonl", [{"kind": "pair", "text": "a"}])
        self.assertIn("text_pair", self.answers("tokenize", SMOLLM2, "--cases", cases)[0]["error"])

    def test_bad_input_is_refused_in_one_line(self):
        messages = self.write("messages.json", "[]")
        broken = self.write("broken.jinja", "{% if %}")
        self.assert_refused(quern("tokenize", SMOLLM2), "--text")
        self.assert_refused(quern("tokenize", "/no/such/tokenizer.json", "--text", "x"), "/no/such/tokenizer.json")
        self.assert_refused(quern("tokenize", messages, "--text", "x"), "messages.json")
        self.assert_refused(quern("detokenize", SMOLLM2, "--ids", "1,49152"), "49152")
        self.assert_refused(quern("detokenize", SMOLLM2, "--ids", "1,x"), "--ids")
        self.assert_refused(quern("template", "--template-file", broken, "--messages", messages), "line 1")
        self.assert_refused(quern("template", "--template-file", broken), "--messages")
        self.assert_refused(quern("template", "--template-file", QWEN3_TEMPLATE, "--messages", broken), "broken.jinja")
        self.assert_refused(quern("template", "--template-file", QWEN3_TEMPLATE, "--messages", messages, "--set", "x"), "--set")


if __name__ == "__main__":
    unittest.main()
