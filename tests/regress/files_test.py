"""Faults that users of comparable servers met with model files and adapters. Each class is one case of the field list."""
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "api"), str(HERE.parent / "cli")]
import hostile_files as files  # noqa: E402
import pull_test  # noqa: E402
from adapter_files import write_adapter, write_safetensors  # noqa: E402
from quern_server import GOLDEN, LLAMA, QUERN, Server  # noqa: E402

COMPLETIONS, LOAD, UNLOAD = "/v1/completions", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
SANITIZED = os.environ.get("QUERN_SANITIZED") == "1"  # its memory and time are not ours
BYTES_MAX, SECONDS_MAX = 100 << 20, 2.0


class Ran:
    """A command that ended: status, stderr, its largest resident size and the CPU time it took."""

    def __init__(self, *arguments):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen([QUERN, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            guard = threading.Timer(60, process.kill)
            guard.start()
            _, status, usage = os.wait4(process.pid, 0)
            guard.cancel()
            process.returncode = self.status = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            self.out, self.err = out.read(), err.read().decode()
        self.bytes, self.seconds = usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def generated(self, path, *more):
        ran = Ran("generate", path, "--ids", "1,2,3", "--max-tokens", "4", "--greedy", "--ignore-eos", "--json", *more)
        self.assertEqual(ran.status, 0, ran.err)
        return json.loads(ran.out)["ids"]

    def assert_refused(self, ran, *words):
        self.assertEqual((ran.status, ran.err.count("\n")), (2, 1), ran.err)
        for word in words:
            self.assertIn(word, ran.err)

    def assert_harmless(self, ran, name):
        """Refused or taken, but never a signal, much memory or much time."""
        self.assertIn(ran.status, (0, 2), (name, ran.err[-500:]))
        if ran.status == 2:
            self.assertEqual(ran.err.count("\n"), 1, (name, ran.err))
        if not SANITIZED:
            self.assertLess(ran.bytes, BYTES_MAX, name)
            self.assertLess(ran.seconds, SECONDS_MAX, name)


class SlowHub(pull_test.Hub):
    """As the pull tests' hub; files of `slow` stop after 30 % until `go` is set."""

    def file(self, repo, path):
        if repo != "slow" or self.server.go.is_set():
            return super().file(repo, path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(pull_test.CONTENT)))
        self.end_headers()
        self.wfile.write(pull_test.CONTENT[:len(pull_test.CONTENT) * 3 // 10])
        self.wfile.flush()
        self.server.go.wait(30)
        self.close_connection = True


class FC30InterruptedDownload(pull_test.HubCase):
    hub = SlowHub

    def setUp(self):
        super().setUp()
        self.server.go = threading.Event()

    def test_the_process_is_killed_and_started_again(self):
        process = subprocess.Popen([QUERN, "pull", "hf:org/slow", "--json"], env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not any(p.stat().st_size for p in self.home.rglob("*.part")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait()
        parts = list(self.home.rglob("*.part"))
        self.assertEqual(len(parts), 1)
        self.assertEqual(list(self.home.rglob("*.gguf")), [], "no half file under its own name")
        listed = subprocess.run([QUERN, "list"], env=self.environment(), capture_output=True, text=True)
        self.assertEqual(listed.stdout, "")
        self.server.go.set()
        self.assert_good(self.pull("hf:org/slow"))
        ranges = [headers["Range"] for _, headers in self.server.requests if "Range" in headers]
        self.assertTrue(ranges, "what had come was not asked for again")

    def test_a_part_that_is_not_the_files_beginning(self):
        self.server.go.set()
        self.assert_good(self.pull("hf:org/slow"))
        stored, = self.home.rglob("*.gguf")
        shutil.rmtree(stored.parent)
        stored.parent.mkdir()
        (stored.parent / (stored.name + ".part")).write_bytes(b"x" * 1000)
        self.assertEqual(self.pull("hf:org/slow").returncode, 1)  # the digest tells
        self.assert_good(self.pull("hf:org/slow"))


class FC30CutFiles(Folder):
    def test_the_tensor_that_reaches_past_the_end_is_named(self):
        whole = (GOLDEN / "gguf/llama-f32.gguf").read_bytes()
        for name, size in (("byte", len(whole) - 1), ("half", len(whole) // 2)):
            path = self.root / f"{name}.gguf"
            path.write_bytes(whole[:size])
            for command in (("inspect", path), ("logits", path, "--ids", "1", "-o", self.root / "out")):
                ran = Ran(*command)
                self.assert_refused(ran, path.name, "past the end")
                self.assertRegex(ran.err, r"(blk\.\d+\.\S+|output|token_embd)")


class FC31NamesAndPaths(pull_test.HubCase):
    HOSTILE = ["hf:../x", "hf:org/..", "hf:org/x@../../y", "hf:org/x:../../y.gguf", "hf:/etc/passwd", "hf:org\\..\\x/y", "hf:org/%2e%2e",
               "hf:org/x\0y", "hf:" + "a" * 5000 + "/b", "hf:org/", "hf:", "", "hf:org/.", "hf:org/x@", "modelscope:../x",
               "pypi:../x", "pypi:x==../../y", "hf:org/" + "b" * 300]

    def outside(self):
        return sorted(str(p.relative_to(self.home.parent)) for p in self.home.parent.rglob("*") if self.home not in p.parents and p != self.home)

    def test_names_by_command_and_by_http(self):
        before = self.outside()
        for name in self.HOSTILE:
            if "\0" not in name:
                result = self.pull(name)
                self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), (name[:80], result.stderr))
        server = Server("--store", ":memory:", **self.environment())
        self.addCleanup(server.stop)
        for name in [*self.HOSTILE, ".", "..", "/etc/passwd", "./x.gguf", "../x.gguf", "file:///etc/passwd", "https://127.0.0.1:1/x.gguf"]:
            for body in ({"model": name, "stream": False}, {"name": name}):
                status, text, _ = server.request("POST", "/api/pull", body)
                self.assertIn(status, (400, 404), (name[:80], text))
                for secret in (str(self.home), os.path.expanduser("~"), os.getcwd()):
                    self.assertNotIn(secret, text)
        for path in ("/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/%2e%2e", "/v1/files/..%2fserver.db", "/v1/responses/..%5cx"):
            self.assertEqual(server.request("GET", path)[0], 404, path)
        self.assertEqual(self.outside(), before)

    def test_links_in_the_store_lead_nowhere(self):
        outside = self.home.parent / "outside"
        outside.mkdir()
        self.assert_good(self.pull("hf:org/good"))
        folder = next(p for p in (self.home / "models").iterdir() if p.is_dir())
        shutil.rmtree(folder)
        folder.symlink_to(outside)
        result = self.pull("hf:org/good")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("out of the store", result.stderr)
        self.assertEqual(list(outside.iterdir()), [])
        server = Server("--store", ":memory:", **self.environment())
        self.addCleanup(server.stop)
        status, text, _ = server.request("POST", "/api/pull", {"model": "hf:org/good", "stream": False})
        self.assertEqual(status, 403, text)
        self.assertNotIn(str(self.home), text)
        folder.unlink()
        folder.mkdir()
        (folder / "model.gguf.part").symlink_to(outside / "written")
        self.assert_good(self.pull("hf:org/good"))
        self.assertEqual(list(outside.iterdir()), [])

    def test_the_store_itself_may_lie_elsewhere(self):
        elsewhere = self.home.parent / "disk"
        elsewhere.mkdir()
        self.home.mkdir()
        (self.home / "models").symlink_to(elsewhere)
        self.assert_good(self.pull("hf:org/good"))

    def test_a_disk_that_is_full_or_closed_tells_no_path(self):
        server = Server("--store", ":memory:", **self.environment())
        self.addCleanup(server.stop)
        (self.home / "models").mkdir(parents=True, exist_ok=True)
        for name in ("good", "redirect"):
            (self.home / "models" / f"hf--org--{name}--main").write_text("a file where a folder belongs")
            status, text, _ = server.request("POST", "/api/pull", {"model": f"hf:org/{name}", "stream": False})
            self.assertGreaterEqual(status, 400, text)
            self.assertNotIn(str(self.home), text)
            self.assertNotIn('"success"', text)


class FC32SplitGguf(Folder):
    def split(self, name="m", parts=3, tensors=None):
        """The golden llama as a set of parts; returns their paths."""
        whole = files.Gguf()
        groups = [whole.tensors[i::parts] for i in range(parts)]
        paths = []
        for number, group in enumerate(groups):
            part = files.Gguf()
            part.tensors, part.data = [], b""
            if number > 0:
                part.pairs = [pair for pair in part.pairs if pair[0] == b"general.architecture"]
            for tensor, dims, kind, offset in group:
                size = 4 * math.prod(dims)
                part.tensors.append([tensor, dims, kind, len(part.data)])
                part.data += whole.data[offset:offset + size]
                part.data += b"\0" * (-len(part.data) % 32)
            part.set("split.no", 2, number).set("split.count", 2, parts).set("split.tensors.count", files.I32, len(whole.tensors))
            paths.append(self.root / f"{name}-{number + 1:05}-of-{parts:05}.gguf")
            paths[-1].write_bytes(part.bytes())
        return paths

    def test_any_part_and_the_folder_lead_to_the_set(self):
        expected = self.generated(GOLDEN / "gguf/llama-f32.gguf")
        paths = self.split()
        for path in (*paths, self.root):
            self.assertEqual(self.generated(path), expected, path)
            self.assertEqual(Ran("tokenize", path, "--text", "x", "--json").status, 0)
            self.assertEqual(Ran("inspect", path).status, 0)
        for path in (paths[2], self.root):
            server = Server("--store", ":memory:", models=(path,))
            self.assertEqual([m["id"] for m in server.get("/v1/models")[1]["data"]], ["m"])
            self.assertEqual(server.stop(), 0)

    def test_what_is_wrong_is_named(self):
        def changed(name, change):
            paths = self.split(name)
            change(paths)
            return paths
        cases = {
            "missing": (lambda p: p[1].unlink(), "missing-00002-of-00003"),
            "first": (lambda p: p[0].unlink(), "first-00001-of-00003"),
            "renamed": (lambda p: p[2].rename(self.root / "renamed-00004-of-00003.gguf"), "renamed-00003-of-00003"),
            "swapped": (lambda p: (p[1].rename(self.root / "x"), p[2].rename(p[1]), (self.root / "x").rename(p[2])), "swapped-0000"),
            "duplicate": (lambda p: shutil.copy(p[1], p[2]), "duplicate-00003-of-00003"),
            "glued": (lambda p: p[0].write_bytes(b"".join(path.read_bytes() for path in p)) and [path.unlink() for path in p[1:]],
                      "glued-00002-of-00003"),
        }
        for name, (change, word) in cases.items():
            paths = changed(name, change)
            for path in paths:
                if path.exists():
                    self.assert_refused(Ran("generate", path, "--ids", "1", "--max-tokens", "1"), word)
        other = self.split("other", parts=2)
        mixed = self.split("mixed")
        shutil.copy(other[1], mixed[1])
        self.assert_refused(Ran("inspect", mixed[0]), "mixed-00002-of-00003", "split")
        glued = self.root / "glued.gguf"
        glued.write_bytes(b"".join(path.read_bytes() for path in self.split("g")))
        self.assert_refused(Ran("inspect", glued), "glued.gguf", "not joined")
        self.assert_refused(Ran("inspect", self.root), "several models", "'mixed'")

    def test_a_config_beside_the_gguf_changes_nothing(self):
        expected = self.generated(GOLDEN / "gguf/llama-f32.gguf")
        folder = self.root / "hub"
        folder.mkdir()
        for name in ("config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json"):
            if (LLAMA / name).exists():
                shutil.copy(LLAMA / name, folder)
        self.assertNotEqual(Ran("generate", folder, "--ids", "1", "--max-tokens", "1").status, 0)
        for path in self.split():
            path.rename(folder / path.name)
        self.assertEqual(self.generated(folder), expected)
        self.assertEqual(Ran("tokenize", folder, "--text", "x", "--json").status, 0)
        self.assertEqual(Ran("inspect", folder).status, 0)
        server = Server("--store", ":memory:", models=(folder,))
        self.assertEqual([m["id"] for m in server.get("/v1/models")[1]["data"]], ["m"])
        self.assertEqual(server.stop(), 0)
        shutil.copy(GOLDEN / "gguf/llama-f32.gguf", folder / "other.gguf")
        for command in ("inspect",), ("generate", "--ids", "1", "--max-tokens", "1"), ("tokenize", "--text", "x"):
            self.assert_refused(Ran(command[0], folder, *command[1:]), "several models", "'m'", "'other'")
        # Weights of its own: a Hugging Face folder again.
        shutil.copy(LLAMA / "model.safetensors", folder)
        own, hub = (json.loads(Ran("generate", path, "--ids", "5,6", "--max-tokens", "8", "--greedy", "--json").out)["ids"]
                    for path in (LLAMA, folder))
        self.assertEqual(hub, own)

    def test_names_that_only_look_like_parts(self):
        expected = self.generated(GOLDEN / "gguf/llama-f32.gguf")
        for name in ("best-of-breed", "m-00001-of-00001", "m-00001-of-00003", "m-00002-of-00003", "00001-of-00001", "x-of-y"):
            folder = self.root / name
            folder.mkdir()
            path = folder / f"{name}.gguf"
            shutil.copy(GOLDEN / "gguf/llama-f32.gguf", path)
            self.assertEqual(self.generated(path), expected, name)
            self.assertEqual(self.generated(folder), expected, name)


NUMBERS = (0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1)


class FC33HostileGguf(Folder):
    def cases(self):
        """(name, bytes): each number of the header at its limits, one at a time."""
        whole = files.Gguf()
        for value in NUMBERS:
            for field in ("num_tensors", "num_pairs"):
                yield f"{field}={value}", files.numbered(**{field: value})
            if value < 2**32:
                yield f"version={value}", files.numbered(version=value)
                yield f"alignment={value}", files.valued("general.alignment", files.U32, value)
                yield f"type={value}", files.changed(type=value)
                yield f"kind={value}", files.valued("x.value", value, b"\0" * 8) if value not in (files.STR, files.ARR) else b""
            yield f"offset={value}", files.changed(offset=value)
            yield f"dims={value}", files.changed(dims=[value, 64])
            yield f"dims=64,{value}", files.changed(dims=[64, value])
            yield f"dims={value},{value}", files.changed(dims=[value, value])
            yield f"string={value}", files.valued("x.text", files.STR, b"") .replace(
                files.text("x.text") + struct.pack("<IQ", files.STR, 0), files.text("x.text") + struct.pack("<IQ", files.STR, value))
            yield f"array={value}", files.valued("x.list", files.ARR, struct.pack("<IQ", files.U32, value))
            yield f"strings={value}", files.valued("x.list", files.ARR, struct.pack("<IQ", files.STR, value))
        for count in (0, 5, 8, 255, 2**31):
            broken = files.Gguf()
            head = broken.head()
            name, dims, kind, offset = broken.tensors[0]
            entry = files.text(name) + struct.pack("<I", len(dims))
            yield f"num_dims={count}", b"".join(head).replace(entry, files.text(name) + struct.pack("<I", count), 1)
        yield "empty key", files.Gguf().set("", files.U32, 1).bytes()
        yield "empty tensor name", files.changed(name=b"")
        for size in (0, 4, 8, 23, 24, 88):
            yield f"cut at {size}", whole.bytes()[:size]

    def test_every_field_at_its_limits(self):
        def run(case):
            number, (name, content) = case
            path = self.root / f"{number}.gguf"
            path.write_bytes(content)
            return [(name, Ran("inspect", path)), (name, Ran("logits", path, "--ids", "1,2", "-o", self.root / f"{number}.out"))]
        for name, ran in itertools.chain(*in_parallel(run, enumerate(self.cases()))):
            self.assert_harmless(ran, name)


class FC34HostileSafetensors(Folder):
    def cases(self):
        data = bytes(64)
        one = lambda **change: files.safetensors({"a": {**files.entry(), **change}}, data[:16])
        for value in (*NUMBERS, 8, 15, 100_000_001):
            yield f"length={value}", files.safetensors({"a": files.entry()}, data[:16], length=value)
            yield f"shape={value}", one(shape=[value])
            yield f"shape={value},{value}", one(shape=[value, value])
            yield f"begin={value}", one(data_offsets=[value, 16])
            yield f"end={value}", one(data_offsets=[0, value])
            yield f"both={value}", one(data_offsets=[value, value])
        for name, change in (("offsets missing", {"data_offsets": None}), ("offsets none", {"data_offsets": []}),
                             ("offsets three", {"data_offsets": [0, 8, 16]}), ("offsets reversed", {"data_offsets": [16, 0]}),
                             ("offsets negative", {"data_offsets": [-16, 0]}), ("offsets text", {"data_offsets": ["0", "16"]}),
                             ("offsets 1e3", {"data_offsets": [0, 1.6e1]}), ("type unknown", {"dtype": "F31"}), ("type null", {"dtype": None}),
                             ("shape text", {"shape": "4"}), ("shape negative", {"shape": [-4]}), ("shape none", {"shape": []})):
            yield name, one(**change)
        yield "overlap", files.safetensors({"a": files.entry(), "b": files.entry(offsets=(8, 24))}, data[:24])
        yield "twice", files.safetensors(("{" + ",".join(['"a":' + json.dumps(files.entry())] * 2) + "}").encode(), data[:16])
        yield "deep", files.safetensors(b'{"a":' * 5000 + b"1" + b"}" * 5000)
        yield "no json", files.safetensors(b"{")
        yield "list", files.safetensors(b"[]")
        for size in (0, 1, 7, 8, 9):
            yield f"cut at {size}", files.safetensors({"a": files.entry()}, data[:16])[:size]

    def test_every_field_at_its_limits(self):
        def run(case):
            number, (name, content) = case
            path = self.root / f"{number}.safetensors"
            path.write_bytes(content)
            return name, Ran("inspect", path)
        sound = 0
        for name, ran in in_parallel(run, enumerate(self.cases())):
            self.assert_harmless(ran, name)
            sound += ran.status == 0
        self.assertLessEqual(sound, 2)  # no bytes of an empty shape; the file as it is

    def test_adapters_go_through_the_same_reader(self):
        server = Server("--store", ":memory:")
        self.addCleanup(server.stop)
        before = server.ok(COMPLETIONS, {"prompt": "the", "temperature": 0, "max_tokens": 8})["choices"]
        for number, (name, content) in enumerate(self.cases()):
            folder = write_adapter(self.root / str(number), 1)
            (folder / "adapter_model.safetensors").write_bytes(content)
            status, text, _ = server.request("POST", LOAD, {"lora_name": "x", "lora_path": str(folder)})
            self.assertEqual(status, 400, (name, text))
            self.assertIn("adapter_model.safetensors", text)
        self.assertEqual(server.ok(COMPLETIONS, {"prompt": "the", "temperature": 0, "max_tokens": 8})["choices"], before)


class FC42Adapters(Folder):
    def setUp(self):
        super().setUp()
        self.server = Server("--store", ":memory:", "--precision", "exact", "--max-loras", "4")
        self.addCleanup(self.server.stop)

    def load(self, name, path, **fields):
        return self.server.request("POST", LOAD, {"lora_name": name, "lora_path": str(path), **fields})[:2]

    def unload(self, name):
        return self.server.request("POST", UNLOAD, {"lora_name": name})[0]

    def names(self):
        return [m["id"] for m in self.server.get("/v1/models")[1]["data"]]

    def text(self, model, **fields):
        body = {"model": model, "prompt": "the tide", "temperature": 0, "max_tokens": 24, "ignore_eos": True, **fields}
        return self.server.ok(COMPLETIONS, body)["choices"][0]["text"]

    def test_what_does_not_fit_is_no_success(self):
        empty, bad_json, rank = (self.root / name for name in ("empty", "json", "rank"))
        empty.mkdir()
        write_adapter(bad_json, 1)
        (bad_json / "adapter_config.json").write_text("{")
        write_adapter(rank, 2)
        (rank / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 7, "lora_alpha": 64}))
        damaged = write_adapter(self.root / "damaged", 3)
        weights = damaged / "adapter_model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-5])
        other = write_adapter(self.root / "other_base", 4, hidden=48)
        for path in (self.root / "nowhere", empty, bad_json, rank, damaged, other):
            status, text = self.load("bad", path)
            self.assertIn(status, (400, 404), (path.name, text))
            self.assertIn(path.name, json.loads(text)["error"]["message"])
            self.assertNotIn("bad", self.names())
            self.assertEqual(self.server.post(COMPLETIONS, {"model": "bad", "prompt": "x"})[0], 404)

    def test_listed_used_and_gone(self):
        plain = self.text("llama")
        path = write_adapter(self.root / "one", 5)
        self.assertEqual(self.load("one", path)[0], 200)
        entry = next(m for m in self.server.get("/v1/models")[1]["data"] if m["id"] == "one")
        self.assertEqual(entry["parent"], "llama")
        self.assertNotEqual(self.text("one"), plain)
        self.assertEqual(self.load("one", path)[0], 400)
        self.assertEqual((self.unload("one"), self.unload("one")), (200, 404))
        self.assertEqual(self.names(), ["llama"])
        self.assertEqual(self.text("llama"), plain)

    def test_unloaded_while_in_use(self):
        self.assertEqual(self.load("one", write_adapter(self.root / "one", 6))[0], 200)
        alone = self.text("one", max_tokens=200)
        seen = {}
        thread = threading.Thread(target=lambda: seen.update(text=self.text("one", max_tokens=200)))
        thread.start()
        while self.server.metric("vllm:num_requests_running") == 0 and thread.is_alive():
            time.sleep(0.005)
        self.assertEqual(self.unload("one"), 200)
        self.assertEqual(self.server.post(COMPLETIONS, {"model": "one", "prompt": "x"})[0], 404)
        thread.join()
        self.assertEqual(seen["text"], alone)

    def test_twenty_in_a_row(self):
        for i in range(20):
            self.assertEqual(self.load(f"a{i}", write_adapter(self.root / f"a{i}", 10 + i))[0], 200)
            self.assertIn(f"a{i}", self.names())
        self.assertEqual(self.names(), ["llama", "a16", "a17", "a18", "a19"])
        self.assertEqual(len({self.text(f"a{i}") for i in range(16, 20)}), 4)

    def test_equal_to_a_merged_model(self):
        adapter = write_adapter(self.root / "one", 7)
        self.assertEqual(self.load("one", adapter)[0], 200)
        merged = Server("--store", ":memory:", "--precision", "exact", models=(self.merged(adapter),))
        self.addCleanup(merged.stop)
        for prompt in ("the tide", "a mill by the river", "1 2 3"):
            body = {"prompt": prompt, "temperature": 0, "max_tokens": 24, "ignore_eos": True}
            self.assertEqual(self.server.ok(COMPLETIONS, {**body, "model": "one"})["choices"][0]["text"],
                             merged.ok(COMPLETIONS, body)["choices"][0]["text"], prompt)

    def merged(self, adapter):
        """The golden llama with scale * B · A added to its query projections."""
        def read(path):
            raw = path.read_bytes()
            size, = struct.unpack_from("<Q", raw)
            header = json.loads(raw[8:8 + size])
            header.pop("__metadata__", None)
            return {name: (entry["shape"], floats(raw[8 + size:], **entry)) for name, entry in header.items()}

        def floats(data, dtype, shape, data_offsets):
            data = data[data_offsets[0]:data_offsets[1]]
            if dtype == "BF16":
                data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
            return list(struct.unpack(f"<{math.prod(shape)}f", data))

        folder = self.root / "merged"
        shutil.copytree(LLAMA, folder)
        base, low = read(LLAMA / "model.safetensors"), read(adapter / "adapter_model.safetensors")
        config = json.loads((adapter / "adapter_config.json").read_text())
        scale = config["lora_alpha"] / config["r"]
        for name in [n for n in low if n.endswith("lora_A.weight")]:
            (rank, cols), a = low[name]
            (rows, _), b = low[name.replace("lora_A", "lora_B")]
            target = name.removeprefix("base_model.model.").replace(".lora_A.weight", ".weight")
            values = base[target][1]
            for i in range(rows):
                for j in range(cols):
                    values[i * cols + j] += scale * sum(b[i * rank + r] * a[r * cols + j] for r in range(rank))
        write_safetensors(folder / "model.safetensors", base)
        return folder


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if not a.endswith("quern")])
