"""Black-box tests of `quern generate`, `quern logits` and `quern run`: python3 generate_test.py QUERN"""
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
LLAMA = GOLDEN / "models" / "llama"
PROMPTS = {prompt["name"]: prompt for prompt in json.loads((LLAMA / "golden.json").read_text())["prompts"]}
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"
HOME = tempfile.TemporaryDirectory()
ENVIRONMENT = {**os.environ, "QUERN_HOME": HOME.name}


def quern(*arguments, stdin=""):
    return subprocess.run([QUERN, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)


def ids_text(ids):
    return ",".join(map(str, ids))


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        assert entry["dtype"] == "F32", name
        tensors[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", raw[begin:end]))
    return tensors


class Case(unittest.TestCase):
    def assert_refused(self, result, *fragments):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)

    def generate(self, *arguments, model=LLAMA):
        result = quern("generate", model, "--json", "--precision", "exact", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class Generate(Case):
    def test_greedy_ids_are_the_official_ones(self):
        for name, prompt in PROMPTS.items():
            for more in (["-t", 1], ["-t", 2], ["--max-num-batched-tokens", 3]):
                with self.subTest(name, more=more):
                    answer = self.generate("--ids", ids_text(prompt["ids"]), "--greedy", "--ignore-eos", "--max-tokens", 16, *more)
                    self.assertEqual(answer["prompt_ids"], prompt["ids"])
                    self.assertEqual(answer["ids"], prompt["greedy"])
                    self.assertEqual(answer["finish_reason"], "length")
                    self.assertEqual(answer["timings"]["output_tokens"], 16)

    def test_stop_ids_end_the_answer_and_are_in_it(self):
        prompt = PROMPTS["p7"]
        stop = prompt["greedy"][4]
        answer = self.generate("--ids", ids_text(prompt["ids"]), "--greedy", "--ignore-eos", "--stop-ids", stop)
        self.assertEqual(answer["ids"], prompt["greedy"][:5])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_stop_text_ends_the_answer_and_is_not_in_it(self):
        prompt = PROMPTS["p7"]
        arguments = ("--ids", ids_text(prompt["ids"]), "--greedy", "--ignore-eos", "--max-tokens", 16)
        text = self.generate(*arguments)["text"]
        stop = next(text[i:i + 2] for i in range(2, len(text) - 2) if text.isascii() or "\ufffd" not in text[i:i + 2])
        answer = self.generate(*arguments, "--stop", stop)
        self.assertEqual(answer["text"], text[:text.index(stop)])
        self.assertEqual((answer["finish_reason"], answer["stop"]), ("stop", stop))

    def test_seeds(self):
        arguments = ("--prompt", "the mill", "--temperature", 1.5, "--max-tokens", 20, "--ignore-eos", "--n", 3)
        first, second = self.generate(*arguments, "--seed", 7), self.generate(*arguments, "--seed", 7)
        ids = [choice["ids"] for choice in first["choices"]]
        self.assertEqual(ids, [choice["ids"] for choice in second["choices"]])
        self.assertEqual(len({tuple(i) for i in ids}), 3)
        self.assertNotEqual(ids, [choice["ids"] for choice in self.generate(*arguments)["choices"]])

    def test_prompt_and_messages(self):
        self.assertEqual(self.generate("--prompt", "The miller waited for the tide.", "--max-tokens", 1)["prompt_ids"],
                         [298, 313, 270, 311, 300, 295, 266, 265, 282, 76, 21])
        messages = pathlib.Path(HOME.name) / "messages.json"
        messages.write_text(json.dumps([{"role": "user", "content": "the the"}]))
        answer = self.generate("--messages", messages, "--max-tokens", 1)
        self.assertEqual(answer["prompt_ids"][0], 4)  # <|im_start|>, as one token
        self.assertIn(5, answer["prompt_ids"])        # <|im_end|>

    def test_text_without_json_is_the_same(self):
        arguments = ("--prompt", "the", "--greedy", "--max-tokens", 12)
        result = quern("generate", LLAMA, "--precision", "exact", *arguments)
        self.assertEqual(result.stdout, self.generate(*arguments)["text"] + "\n")

    def test_logit_bias_forces_a_token(self):
        answer = self.generate("--prompt", "the", "--greedy", "--logit-bias", "100=1000", "--max-tokens", 3)
        self.assertEqual(answer["ids"], [100, 100, 100])

    def test_lines(self):
        prompt = PROMPTS["p40"]
        lines = [
            {"id": "a", "ids": prompt["ids"], "greedy": True, "max_tokens": 16, "ignore_eos": True},
            {"ids": prompt["ids"], "temprature": 1},
            {"id": 3, "prompt": "the", "temperature": 1.0, "seed": 5, "n": 2, "max_tokens": 4, "ignore_eos": True},
            {"ids": [320]},
            {"ids": [1], "max_tokens": -1},
            {"ids": prompt["ids"], "greedy": True, "max_tokens": 16, "ignore_eos": True, "stop": None},
        ]
        text = "\n".join(map(json.dumps, lines)) + "\nnot json\n"
        result = quern("generate", LLAMA, "--jsonl", "--precision", "exact", stdin=text)
        self.assertEqual(result.returncode, 0, result.stderr)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(answers), 7)
        self.assertEqual((answers[0]["id"], answers[0]["ids"]), ("a", prompt["greedy"]))
        self.assertIn("temprature", answers[1]["error"]["message"])
        self.assertEqual([len(choice["ids"]) for choice in answers[2]["choices"]], [4, 4])
        self.assertIn("320", answers[3]["error"]["message"])
        self.assertIn("max_tokens", answers[4]["error"]["message"])
        self.assertEqual(answers[5]["ids"], prompt["greedy"])
        self.assertIn("error", answers[6])

    def test_lines_are_answered_before_the_input_ends(self):
        process = subprocess.Popen([QUERN, "generate", str(LLAMA), "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=ENVIRONMENT)
        for seed in range(3):
            process.stdin.write(json.dumps({"prompt": "the", "max_tokens": 2, "seed": seed}) + "\n")
            process.stdin.flush()
            self.assertEqual(json.loads(process.stdout.readline())["seed"], seed)
        process.stdin.close()
        self.assertEqual(process.wait(30), 0)
        process.stdout.close()

    def test_refusals(self):
        generate = lambda *arguments: quern("generate", LLAMA, *arguments)
        self.assert_refused(generate("--ids", "1,320"), "--ids", "320")
        self.assert_refused(generate("--ids", "-1"), "--ids")
        self.assert_refused(generate("--ids", "1,,2"), "--ids")
        self.assert_refused(generate("--ids", ""), "--ids")
        self.assert_refused(generate("--ids", "99999999999"), "--ids")
        self.assert_refused(generate("--prompt", ""), "--prompt")
        self.assert_refused(generate("--ids", ids_text([1] * 5000)), "--ids", "5000")
        self.assert_refused(generate("--ids", "1", "--prompt", "x"), "--prompt")
        self.assert_refused(generate("--ids", "1", "--temperature", "-1"), "temperature")
        self.assert_refused(generate("--ids", "1", "--temperature", "nan"), "temperature")
        self.assert_refused(generate("--ids", "1", "--precision", "half"), "--precision", "half")
        self.assert_refused(generate("--ids", "1", "--kv-cache-dtype", "q2"), "--kv-cache-dtype", "q2")
        self.assert_refused(generate("--ids", "1", "--max-num-batched-tokens", 0), "--max-num-batched-tokens")
        self.assert_refused(generate("--ids", "1", "--max-tokens", -1), "--max-tokens")
        self.assert_refused(generate("--ids", "1", "--logit-bias", "1000=1"), "1000")
        self.assert_refused(generate("--ids", "1", "--n", 0), "--n")
        self.assert_refused(generate("--messages", GOLDEN / "no.json"), "no.json")
        self.assert_refused(generate("--messages", GOLDEN / "README.md"), "README.md")
        self.assert_refused(quern("generate", GOLDEN / "nothing.gguf", "--ids", "1"), "nothing.gguf")
        self.assert_refused(quern("generate", GOLDEN / "malformed" / "gguf_bad_magic.gguf", "--ids", "1"), "gguf_bad_magic.gguf")


class Logits(Case):
    def test_logits_and_hidden_states(self):
        golden = read_safetensors(LLAMA / "golden.safetensors")
        prompt = PROMPTS["p7"]
        for more in ([], ["--max-num-batched-tokens", 3], ["-t", 1]):
            with self.subTest(more=more), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "out.safetensors"
                result = quern("logits", LLAMA, "--ids", ids_text(prompt["ids"]), "-o", path, "--hidden", "--precision", "exact", *more)
                self.assertEqual(result.returncode, 0, result.stderr)
                tensors = read_safetensors(path)
                self.assertEqual(set(tensors), {"logits", *prompt["hidden"]})
                self.assert_close(tensors["logits"], golden["p7.logits"], 2e-4)
                for name in prompt["hidden"]:
                    key = next(key for key in (name, f"p7.{name}") if key in golden)
                    self.assert_close(tensors[name], golden[key], 2e-5 * max(map(abs, golden[key][1])) + 1e-6)

    def assert_close(self, got, wanted, tolerance):
        self.assertEqual(got[0], wanted[0])
        self.assertLessEqual(max(abs(a - b) for a, b in zip(got[1], wanted[1])), tolerance)

    def test_refusals(self):
        out = pathlib.Path(HOME.name) / "out.safetensors"
        self.assert_refused(quern("logits", LLAMA, "--ids", "1,400", "-o", out), "--ids", "400")
        self.assert_refused(quern("logits", LLAMA, "--ids", "", "-o", out), "--ids")
        self.assert_refused(quern("logits", LLAMA, "--ids", ids_text([1] * 5000), "-o", out), "5000")
        self.assert_refused(quern("logits", LLAMA, "--ids", "1"), "--output")
        self.assertFalse(out.exists())


class Run(Case):
    def test_answers_once(self):
        arguments = ("--greedy", "--max-tokens", 8, "--precision", "exact")
        result = quern("run", LLAMA, "the mill", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        piped = quern("run", LLAMA, *arguments, "--quiet", stdin="the mill\n")
        self.assertEqual((piped.stdout, piped.stderr), (result.stdout, ""))
        self.assert_refused(quern("run", LLAMA), "PROMPT")

    def test_an_open_pipe_is_not_waited_for(self):
        reading, writing = os.pipe()
        result = subprocess.run([QUERN, "run", str(LLAMA), "the", "--max-tokens", "2"], stdin=reading, capture_output=True, timeout=60,
                                env=ENVIRONMENT)
        os.close(reading)
        os.close(writing)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_pieces_are_flushed(self):
        process = subprocess.Popen([QUERN, "run", str(LLAMA), "the", "--ignore-eos", "--max-tokens", "400", "--device", "reference"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
        reads = 0
        while os.read(process.stdout.fileno(), 1 << 16):
            reads += 1
        process.stdout.close()
        self.assertEqual(process.wait(30), 0)
        self.assertGreater(reads, 1)


class Terminal:
    """A child on a pseudo terminal."""

    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(QUERN, [QUERN, *map(str, arguments)], {**ENVIRONMENT, "TERM": "xterm"})
        self.seen = ""

    def wait_for(self, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"{text!r} did not come; seen: {self.seen!r}")
            try:
                self.seen += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"the program ended before {text!r}; seen: {self.seen!r}") from None
        before, self.seen = self.seen.split(text, 1)
        return before

    def wait_for_prompt(self):
        """The prompt comes a moment before keys are read one by one; Ctrl-C in that moment goes to the terminal."""
        self.wait_for(">>> ")
        time.sleep(0.2)

    def send(self, text):
        os.write(self.fd, text.encode())

    def exit_code(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 4096)
                except OSError:
                    pass
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("the program did not end")


class Chat(Case):
    def test_talks_and_leaves(self):
        terminal = Terminal("run", LLAMA, "--max-tokens", 5, "--ignore-eos")
        terminal.wait_for(">>> ")
        terminal.send("the mill\n")
        self.assertNotIn("48 prompt tokens", terminal.wait_for("tokens/s"))
        terminal.wait_for(">>> ")
        terminal.send('"""two\n')
        terminal.wait_for("... ")
        terminal.send('lines"""\n')
        terminal.wait_for("of them cached")  # the first turn is not computed again
        terminal.wait_for(">>> ")
        terminal.send("/set temperature 0.5\n/show\n")
        terminal.wait_for("4 messages")
        terminal.wait_for("temperature 0.5")
        terminal.send("/clear\n/show\n")
        terminal.wait_for("0 messages")
        terminal.send("/set\n")
        terminal.wait_for("0 messages")
        terminal.wait_for("top_p (not set)")
        terminal.send("/set top_p 5\n")
        terminal.wait_for("top_p: 5 is outside")
        terminal.send("/set nonsense 1\n")
        terminal.wait_for("nonsense")
        terminal.send("/bye\n")
        self.assertEqual(terminal.exit_code(), 0)

    def test_ctrl_c_stops_the_answer_then_leaves(self):
        # The reference device is slow enough for the answer to be under way when Ctrl-C comes.
        terminal = Terminal("run", LLAMA, "--ignore-eos", "--device", "reference")
        terminal.wait_for_prompt()
        terminal.send("the mill\\\n")
        terminal.wait_for("... ")
        terminal.send("again\n")
        time.sleep(0.02)
        terminal.send("\x03")
        terminal.wait_for_prompt()
        terminal.send("half a line\x03")
        terminal.wait_for_prompt()
        terminal.send("\x03")
        self.assertEqual(terminal.exit_code(), 0)


if __name__ == "__main__":
    unittest.main()
