"""Black-box tests of how commands take their arguments: names in refusals, strict lists, stdin: python3 arguments_test.py QUERN"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from refusal import assert_refused

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
LLAMA = GOLDEN / "models" / "llama"
BERT = GOLDEN / "models" / "bert"
RERANKER = GOLDEN / "models" / "xlm_roberta_rerank"
GGUF = GOLDEN / "gguf" / "llama-f32.gguf"
PARTS = [GOLDEN / "gguf" / f"llama-split-f32-0000{part}-of-00002.gguf" for part in (1, 2)]
SMOLLM2 = GOLDEN / "tokenizers" / "files" / "smollm2.tokenizer.json"
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else os.environ.get("QUERN_BINARY", "quern")
USER = [{"role": "user", "content": "Hi"}]
BAD_UTF8 = b"\xff"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def quern(self, *arguments, stdin=b"", **options):
        arguments = [argument if isinstance(argument, bytes) else str(argument) for argument in arguments]
        environment = {**os.environ, "QUERN_HOME": str(self.folder / "home")}
        return subprocess.run([QUERN, *arguments], input=stdin, capture_output=True, timeout=120, env=environment, **options)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    assert_refused = assert_refused

    def output(self, *arguments, **options):
        result = self.quern(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout


class Lists(Case):
    def test_ids_are_strict_and_the_same_everywhere(self):
        out = self.folder / "out.safetensors"
        for ids in ("", " ", "1,2,", ",1", "1,,2", "1;2", "1.5", "99999999999"):
            for command in (["detokenize", SMOLLM2, "--ids", ids], ["logits", LLAMA, "-o", out, "--ids", ids],
                            ["generate", LLAMA, "--ids", ids], ["generate", LLAMA, "--ids", "1", "--allowed-ids", ids],
                            ["generate", LLAMA, "--ids", "1", "--stop-ids", ids]):
                with self.subTest(command=command):
                    self.assert_refused(self.quern(*command), f"{command[-2]}: ")
        self.assert_refused(self.quern("logits", BERT, "-o", out, "--ids", "1,2", "--type-ids", ""), "--type-ids")
        self.assertEqual(self.output("detokenize", SMOLLM2, "--ids", "1, 26843"), b"<|im_start|>Hi")

    def test_numbers_are_not_empty(self):
        for option in ("--max-tokens", "--temperature", "--top-k", "--seed", "-t"):
            self.assert_refused(self.quern("generate", LLAMA, "--ids", "1", option, ""), option.lstrip("-")[:1])
        for option in ("-p", "-n", "-b"):
            self.assert_refused(self.quern("bench", LLAMA, option, "1,"), {"-p": "--n-prompt", "-n": "--n-gen", "-b": "--batch"}[option])


class Names(Case):
    def test_no_command(self):
        self.assert_refused(self.quern(), "COMMAND", "quern --help")

    def test_perplexity(self):
        text = self.write("seven.txt", "one two three four")
        self.assert_refused(self.quern("perplexity", GGUF, "--file", text, "--ctx", "500"), "--ctx", "seven.txt", "500")
        self.assert_refused(self.quern("perplexity", GGUF, "--file", text, "--ctx", "3"), "--ctx: 3")
        self.assert_refused(self.quern("perplexity", GGUF, "--file", text, "--chunks", "-1"), "--chunks: -1")
        self.assert_refused(self.quern("perplexity", GGUF, "--file", text, "--kl-to", "foo"), "--kl-to: 'foo'")

    def test_bench(self):
        for option, value in (("--n-prompt", "-1"), ("--n-gen", "-1"), ("--batch", "0"), ("--repetitions", "0"),
                              ("--n-prompt", "9999999")):
            self.assert_refused(self.quern("bench", LLAMA, *[other for other in ("--n-prompt=8", "--n-gen=8") if not other.startswith(option)],
                                           f"{option}={value}"), f"{option}: {value}")

    def test_template(self):
        messages = self.write("messages.json", json.dumps(USER))
        template = self.write("raise.jinja", "{{ raise_exception('no sys') }}")
        self.assert_refused(self.quern("template", "--template-file", template, "--messages", messages), "raise.jinja: no sys")
        clock = self.write("now.jinja", "{{ strftime_now('%Y') }}")
        self.assert_refused(self.quern("template", "--template-file", clock, "--messages", messages, "--now", "foo"), "--now: ", "foo")

    def test_text_that_is_not_utf8(self):
        file = self.folder / "bad.txt"
        file.write_bytes(BAD_UTF8)
        self.assert_refused(self.quern("tokenize", SMOLLM2, "--text", BAD_UTF8), "--text: not UTF-8")
        self.assert_refused(self.quern("tokenize", SMOLLM2, "--file", file), "bad.txt: not UTF-8")
        self.assert_refused(self.quern("generate", LLAMA, "--prompt", BAD_UTF8), "--prompt: not UTF-8")
        self.assert_refused(self.quern("run", LLAMA, BAD_UTF8), "PROMPT: not UTF-8")
        self.assert_refused(self.quern("embed", BERT, "--text", BAD_UTF8), "--text: not UTF-8")
        self.assert_refused(self.quern("embed", BERT, "--text", "a", "--file", file), "bad.txt:1: not UTF-8")
        self.assert_refused(self.quern("rerank", RERANKER, "--query", "a", "--document", BAD_UTF8), "--document: ")
        self.assert_refused(self.quern("perplexity", GGUF, "--file", file), "bad.txt: not UTF-8")

    def test_ids(self):
        out = self.folder / "out.safetensors"
        self.assert_refused(self.quern("detokenize", SMOLLM2, "--ids", "99999999"), "--ids: token id 99999999")
        self.assert_refused(self.quern("logits", BERT, "-o", out, "--ids", "1,2", "--type-ids", "0,9"), "--type-ids: type id 9")
        self.assert_refused(self.quern("logits", BERT, "-o", out, "--ids", "1,99999999"), "--ids: token id 99999999")

    def test_serve(self):
        self.assert_refused(self.quern("serve", LLAMA, "--tool-call-parser", "foo", "--port", "0"), "--tool-call-parser: 'foo'")
        self.assert_refused(self.quern("serve", LLAMA, "--speculative-method", "draft", "--port", "0"),
                            "--speculative-method", "--speculative-model")


class Bounds(Case):
    def test_as_over_http(self):
        for option, value in (("--temperature", "101"), ("--temperature", "-0.1"), ("--temperature", "nan"), ("--top-p", "0"),
                              ("--top-p", "1.5"), ("--repetition-penalty", "101"), ("--presence-penalty", "3"),
                              ("--top-k", "-2"), ("--max-tokens", "-1"), ("--mirostat-tau", "1001")):
            self.assert_refused(self.quern("generate", LLAMA, "--ids", "1", f"{option}={value}"), f"{option}: ")
        self.assert_refused(self.quern("generate", LLAMA, "--ids", "1", "--stop", ""), "--stop: ")

    def test_a_seed_is_any_number_of_64_bits(self):
        answer = lambda seed: json.loads(self.output("generate", LLAMA, "--ids", "1,2", "--max-tokens", "8", "--json", f"--seed={seed}"))
        self.assertEqual(answer(-1)["ids"], answer(2**64 - 1)["ids"])


class Inputs(Case):
    def test_stdin_and_pipes(self):
        messages, text = json.dumps(USER).encode(), b"Hi there"
        template = self.write("t.jinja", "{{ messages[0].content }}")
        cases = json.dumps({"kind": "encode", "text": "Hi"}).encode() + b"\n"
        rendered = json.dumps({"messages": USER}).encode() + b"\n"
        for name in ("-", "/dev/stdin"):
            with self.subTest(name):
                run = lambda *arguments, stdin: self.output(*arguments, stdin=stdin)
                self.assertEqual(run("template", "--template-file", template, "--messages", name, stdin=messages), b"Hi")
                self.assertEqual(run("template", "--template-file", name, "--messages", self.write("m", messages.decode()),
                                     stdin=b"{{ messages[0].content }}"), b"Hi")
                self.assertEqual(run("template", "--template-file", template, "--messages", self.write("m", messages.decode()),
                                     "--tools", name, stdin=b"[]"), b"Hi")
                self.assertEqual(run("template", "--template-file", template, "--cases", name, stdin=rendered), b'{"rendered":"Hi"}\n')
                self.assertIn(b"ids", run("tokenize", SMOLLM2, "--file", name, "--json", stdin=text))
                self.assertEqual(run("tokenize", SMOLLM2, "--cases", name, stdin=cases), b'{"ids":[26843]}\n')
                self.assertEqual(len(json.loads(run("embed", BERT, "--file", name, "--json", stdin=b"a\nb\r\n"))["data"]), 2)
                self.assertEqual(len(json.loads(run("rerank", RERANKER, "--query", "q", "--document", "c", "--file", name, "--json",
                                                    stdin=b"a\nb"))["results"]), 3)
                self.assertIn(b"perplexity", run("perplexity", GGUF, "--file", name, "--ctx", "4", "--chunks", "1", "--json",
                                                 stdin=b"one two three four five six seven"))

    def test_process_substitution(self):
        template = self.write("t.jinja", "{{ messages[0].content }}")
        script = f"'{QUERN}' template --template-file '{template}' --messages <(echo '{json.dumps(USER)}')"
        result = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (0, b"Hi"), result.stderr)

    def test_what_is_no_text(self):
        template = self.write("t.jinja", "x")
        self.assert_refused(self.quern("template", "--template-file", template, "--messages", "-", "--tools", "-", stdin=b"[]"), "stdin")
        self.assert_refused(self.quern("template", "--template-file", template, "--messages", self.folder), str(self.folder))
        self.assert_refused(self.quern("template", "--template-file", template, "--messages", "-", stdin=b"{"), "stdin")
        self.assert_refused(self.quern("tokenize", SMOLLM2, "--file", "/dev/zero"), "/dev/zero", "256 MiB")


class LongTexts(Case):
    def test_are_refused_unless_they_may_be_cut(self):
        long = "word " * 5000
        for model, command in ((BERT, ["embed", BERT, "--text", long]),
                               (RERANKER, ["rerank", RERANKER, "--query", "q", "--document", long])):
            with self.subTest(command[0]):
                self.assert_refused(self.quern(*command), command[-2], "tokens", "at most", "--truncate-prompt-tokens")
                json.loads(self.output(*command, "--json", "--truncate-prompt-tokens", "-1"))
                json.loads(self.output(*command, "--json", "--truncate-prompt-tokens", "8"))
                for length in ("0", "-2", "999999"):
                    self.assert_refused(self.quern(*command, f"--truncate-prompt-tokens={length}"), f"--truncate-prompt-tokens: {length}")
        file = self.write("lines", "short\n" + long)
        self.assert_refused(self.quern("embed", BERT, "--text", "a", "--file", file), "lines:2: ")
        self.assert_refused(self.quern("embed", BERT, "--text", "a", "--text", long), "--text (index 1): ")


class Models(Case):
    def test_split_sets(self):
        greedy = ["--ids", "1,2,3", "--max-tokens", "4", "--greedy", "--json"]
        wanted = json.loads(self.output("generate", GGUF, *greedy))["ids"]
        (self.folder / "set").mkdir()
        for path in PARTS:
            shutil.copy(path, self.folder / "set")
        for model in (*PARTS, self.folder / "set"):
            self.assertEqual(json.loads(self.output("generate", model, *greedy))["ids"], wanted)
            self.assertEqual(self.output("detokenize", model, "--ids", "5"), self.output("detokenize", GGUF, "--ids", "5"))
        for missing, other in ((0, 1), (1, 0)):
            lone = self.folder / f"lone{missing}"
            lone.mkdir()
            shutil.copy(PARTS[other], lone)
            for model in (lone, lone / PARTS[other].name):
                self.assert_refused(self.quern("generate", model, *greedy), PARTS[missing].name)

    def test_show_and_inspect(self):
        self.assert_refused(self.quern("show", GGUF), str(GGUF), "quern inspect")
        self.assert_refused(self.quern("show", self.folder / "none.gguf"), "none.gguf")
        self.assert_refused(self.quern("inspect", "nosuchmodel"), "nosuchmodel", "quern search")
        pulled = json.loads(self.quern("pull", GGUF, "--json").stdout)
        self.assertEqual(json.loads(self.output("inspect", pulled["path"], "--json"))["container"], "gguf")

    def test_rm_answers_in_json_and_removes_all_or_none(self):
        name = json.loads(self.quern("pull", GGUF, "--json").stdout)["name"]
        self.assert_refused(self.quern("rm", name, "nosuchmodel"), "nosuchmodel")
        removed = json.loads(self.output("rm", name, name, "--json"))["removed"]
        self.assertEqual([model["name"] for model in removed], [name])
        self.assertEqual(list((self.folder / "home" / "models").iterdir()), [])


class Output(Case):
    def test_a_full_disk_is_a_failure(self):
        for command in (["list", "--all"], ["inspect", GGUF], ["show", "smollm2"], ["detokenize", SMOLLM2, "--ids", "1"]):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([QUERN, *map(str, command)], stdout=full, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual((result.returncode, result.stderr), (1, b"quern: cannot write to stdout\n"), command)

    def test_a_reader_that_leaves_ends_the_command(self):
        for command in ("list --all", f"inspect '{GGUF}'", "show smollm2"):
            result = subprocess.run(["bash", "-c", f"'{QUERN}' {command} | head -1 | wc -l"], capture_output=True, timeout=60)
            self.assertEqual((result.stdout.strip(), result.stderr), (b"1", b""))


class Serve(Case):
    def test_nothing_is_said_of_good_models_beside_a_bad_one(self):
        bad = self.write("bad.gguf", "GGUF")
        bare = self.folder / "bare"
        shutil.copytree(LLAMA, bare)
        (bare / "tokenizer.json").unlink()
        shutil.copytree(LLAMA, self.folder / "more" / "llama")
        for model, word in ((self.folder / "none.gguf", "none.gguf"), ("nosuchmodel", "nosuchmodel"), (bad, "bad.gguf"),
                            (bare, "tokenizer"), (LLAMA, "llama"), (self.folder / "more" / "llama", "llama")):
            self.assert_refused(self.quern("serve", LLAMA, model, "--port", "0"), word)

    def test_names(self):
        self.assert_refused(self.quern("serve", LLAMA, "--served-model-name", "", "--port", "0"), "--served-model-name")
        self.assert_refused(self.quern("serve", "--no-fleet"), "MODEL")
        bad = self.folder / "bad"
        for task in ("other=embed", "=embed", "llama2=generate"):
            self.assert_refused(self.quern("serve", LLAMA, "--task", task, "--port", "0"), "--task", task)
        # The id and the path are both known: what is refused is something else.
        for name in ("llama", str(LLAMA), "mine"):
            more = ["--served-model-name", "mine"] if name == "mine" else []
            self.assert_refused(self.quern("serve", LLAMA, *more, "--task", f"{name}=embed", "--api-key-file", bad), "bad")


if __name__ == "__main__":
    unittest.main()
