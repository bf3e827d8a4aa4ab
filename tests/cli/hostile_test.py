"""Files made to do harm: each is refused by exit 2 and one line that names the file, quickly and in little memory.

    python3 hostile_test.py QUERN
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest

import hostile_files as files

QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"
HOME = tempfile.TemporaryDirectory()
ROOT = pathlib.Path(HOME.name)
ENVIRONMENT = {**os.environ, "QUERN_HOME": HOME.name}
ADDRESSES_MAX = 2 << 30  # half of it is the stack that templates run on: addresses, not memory
CPU_SECONDS_MAX = 1.0
SANITIZED = os.environ.get("QUERN_SANITIZED") == "1"  # their address space is far larger


POOL = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
LIMITS = "" if SANITIZED else f"ulimit -v {ADDRESSES_MAX >> 10}; "


def quern(*arguments):
    """Returns exit status, stdout, stderr and the seconds of CPU time it took."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(["sh", "-c", LIMITS + 'ulimit -t 20; exec "$@"', "sh", QUERN, *map(str, arguments)],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=ENVIRONMENT)
        guard = threading.Timer(60, process.kill)
        guard.start()
        _, status, usage = os.wait4(process.pid, 0)
        guard.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return types.SimpleNamespace(returncode=process.returncode, stdout=out.read(), stderr=err.read().decode(),  # which checks that it is UTF-8
                                     seconds=usage.ru_utime + usage.ru_stime)


def inspect(path):
    return quern("inspect", path)


def logits(path):
    return quern("logits", path, "--ids", "1,2,3", "-o", ROOT / f"{path.name}.out")


def generate(path):
    return quern("generate", path, "--ids", "1,2,3", "--max-tokens", "2", "--json")


class Case(unittest.TestCase):
    def assert_refused(self, result, path, fragment):
        self.assertEqual(result.returncode, 2, result.stderr[-2000:])
        self.assertEqual(result.stdout, b"")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.endswith("\n") and result.stderr[:-1].isprintable(), ascii(result.stderr))
        self.assertLess(len(result.stderr), 1000)
        self.assertIn(path.name, result.stderr)
        self.assertIn(fragment, result.stderr)
        if not SANITIZED:
            self.assertLess(result.seconds, CPU_SECONDS_MAX, result.stderr)

    def check(self, path, fragment, commands, tolerant=()):
        """Starts each command; settle() looks at what they did. Those of `tolerant` may take the file."""
        for command in (*commands, *tolerant):
            self.running.append((path, fragment, command, command in tolerant, POOL.submit(command, path)))

    def settle(self):
        for path, fragment, command, is_tolerant, run in self.running:
            with self.subTest(path.name, command=command.__name__):
                result = run.result()
                if is_tolerant and result.returncode == 0:
                    self.assertEqual(result.stderr, "")
                else:
                    self.assert_refused(result, path, fragment)

    def setUp(self):
        self.running = []

    def write(self, name, content):
        path = ROOT / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


class Hostile(Case):
    def test_the_originals_are_sound(self):
        original = self.write("original.gguf", files.Gguf().bytes())
        copy = files.folder(ROOT / "original")
        for path in (original, copy):
            for command in (inspect, logits, generate):
                with self.subTest(path.name, command=command.__name__):
                    result = command(path)
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_gguf_files(self):
        for name, content, fragment in files.gguf_files():
            self.check(self.write(name, content), fragment, (inspect, logits, generate))
        self.settle()

    def test_gguf_models(self):
        for name, content, fragment in files.gguf_models():
            self.check(self.write(name, content), fragment, (logits, generate), tolerant=(inspect,))
        self.settle()

    def test_gguf_texts(self):
        for name, content, fragment in files.gguf_texts():
            self.check(self.write(name, content), fragment, (generate,), tolerant=(inspect,))
        self.settle()

    def test_weights_that_are_no_numbers(self):
        """`logits` says where the first of them shows; nothing is written."""
        original = files.Gguf()
        untied = any(tensor[0] == b"output.weight" for tensor in original.tensors)
        cases = [("token_embd.weight", 2, "embed: not finite at position 1"), ("token_embd.weight", 9, "embed: not finite at position 4"),
                 ("blk.0.attn_norm.weight", 0, "layer 0: not finite at position 0"),
                 ("blk.1.ffn_down.weight", 0, "layer 1: not finite at position 0"),
                 ("output_norm.weight", 0, "final: not finite at position 0"),
                 ("output.weight" if untied else "token_embd.weight", 100, "logits: not finite at position 0")]
        for number, (name, row, place) in enumerate(cases):
            for value in ("nan", "inf", "-inf"):
                for more in ((), ("--hidden",), ("--max-num-batched-tokens", "2"), ("--precision", "exact")):
                    with self.subTest(name, row=row, value=value, more=more):
                        path = self.write(f"numbers_{number}_{value}.gguf", files.weights_of(name, row, float(value)))
                        out = ROOT / "numbers.out"
                        self.assert_refused(quern("logits", path, "--ids", "1,2,3,4,9", "-o", out, *more), path, place)
                        self.assertFalse(out.exists())

    def test_safetensors_files(self):
        for name, content, fragment in files.safetensors_files():
            self.check(self.write(f"{name}.safetensors", content), fragment, (inspect,))
            self.check(files.folder(ROOT / f"weights_{name}", model__safetensors=content), fragment, (logits, generate))
        self.settle()

    def test_indexes(self):
        shard = files.safetensors({"a": files.entry()}, bytes(16))
        for name, content, fragment in files.index_files():
            path = files.folder(ROOT / f"index_{name}", model__safetensors=None)
            (path / "model-00001-of-00001.safetensors").write_bytes(shard)
            (path / "model.safetensors.index.json").write_text(content)
            self.check(path, fragment, (inspect, logits, generate))
        self.settle()

    def test_configs(self):
        for name, content, fragment in files.configs():
            path = files.folder(ROOT / f"config_{name}", config__json=content)
            self.check(path, fragment, (logits,), tolerant=(inspect,))
        self.settle()

    def test_no_config(self):
        path = files.folder(ROOT / "no_config", config__json=None)
        self.check(path, "config.json", (logits, generate), tolerant=(inspect,))
        self.settle()

    def test_not_files(self):
        for name in ("config.json", "model.safetensors", "chat_template.jinja", "tokenizer.json"):
            for kind, make in (("folder", pathlib.Path.mkdir), ("pipe", os.mkfifo)):
                path = files.folder(ROOT / f"{kind}_{name}")
                (path / name).unlink(missing_ok=True)
                make(path / name)
                self.check(path, name, (generate,), tolerant=(inspect,))
        pipe = ROOT / "pipe.gguf"
        os.mkfifo(pipe)
        self.check(pipe, "", (inspect, logits, generate))
        self.settle()

    def test_texts(self):
        for name, changes, fragment in files.texts():
            path = files.folder(ROOT / f"text_{name}", **changes)
            self.check(path, fragment, (generate,), tolerant=(inspect,))
        self.settle()


class Split(Case):
    def parts(self, name, *changes):
        """The golden split set with each part changed; None leaves a part out."""
        paths = []
        for number, change in enumerate(changes, 1):
            part = files.Gguf(files.GOLDEN / "gguf" / f"llama-split-f32-0000{number}-of-00002.gguf")
            paths.append(ROOT / f"{name}-0000{number}-of-00002.gguf")
            if change is not None:
                paths[-1].write_bytes(change(part).bytes())
        return paths

    def test_originals(self):
        paths = self.parts("whole", lambda part: part, lambda part: part)
        self.assertEqual(logits(paths[0]).returncode, 0)

    def test_split_sets(self):
        same = lambda part: part
        value = lambda key, number: lambda part: part.set(key, 2 if key != "split.tensors.count" else files.I32, number)
        without = lambda key: lambda part: part.remove(key)

        def repeated(part):
            part.tensors[0][0] = b"token_embd.weight"
            return part

        cases = [
            ("part_2_missing", same, None, "00002-of-00002"),
            ("count_3", value("split.count", 3), same, "of-00003"),
            ("count_65535", value("split.count", 65535), same, ""),
            ("no_5", value("split.no", 5), same, "split.no"),
            ("no_1", value("split.no", 1), same, "part 2"),
            ("no_missing", without("split.no"), same, "split.no"),
            ("tensors_fewer", value("split.tensors.count", 3), value("split.tensors.count", 3), "split.tensors.count"),
            ("tensors_negative", value("split.tensors.count", -1), value("split.tensors.count", -1), "split.tensors.count"),
            ("part_2_says_1", same, value("split.no", 0), "split"),
            ("part_2_of_3", same, value("split.count", 3), "split"),
            ("part_2_whole", same, without("split.count"), "split"),
            ("tensor_in_both", same, repeated, "token_embd.weight"),
        ]
        for name, first, second, fragment in cases:
            path = self.parts(name, first, second)[0]
            for command in (inspect, logits, generate):
                with self.subTest(name, command=command.__name__):
                    result = command(path)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                    self.assertIn(name, result.stderr)
                    self.assertIn(fragment, result.stderr)

    def test_second_part_without_the_first(self):
        path = self.parts("second", None, lambda part: part)[1]
        for command in (inspect, logits, generate):
            result = command(path)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result.stderr)
            self.assertIn("second-00001-of-00002.gguf", result.stderr)


class Templates(Case):
    """Whatever a template does, it ends: in text, or in one line on stderr."""

    def test_templates(self):
        messages = self.write("messages.json", '[{"role":"user","content":"hello"}]')
        render = lambda name, text: quern("template", "--template-file", self.write(f"{name}.jinja", text), "--messages", messages)
        for name, run in [(name, POOL.submit(render, name, text)) for name, text in files.templates()]:
            with self.subTest(name):
                result = run.result()
                self.assertIn(result.returncode, (0, 1, 2), result.stderr[-2000:])
                self.assertLess(len(result.stdout), 17 << 20)
                if result.returncode != 0:
                    self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                    self.assertLess(len(result.stderr), 1000)
                if not SANITIZED:
                    self.assertLess(result.seconds, 12.0)  # the limit on time is five seconds, looked at when text is written


if __name__ == "__main__":
    unittest.main()
