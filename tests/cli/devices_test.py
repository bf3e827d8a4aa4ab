"""quern devices: what is here, and a hostile vendor's tool on the path."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

QUERN = os.environ.get("QUERN_BINARY", "quern")
SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "hardware"


def run(*arguments, path=None):
    environment = dict(os.environ) if path is None else {**os.environ, "PATH": f"{path}:/usr/bin:/bin"}
    return subprocess.run([QUERN, "devices", *arguments], env=environment, capture_output=True, text=True, timeout=120)


class DevicesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def add_tool(self, name, script):
        (self.path / name).write_text("#!/bin/sh\n" + script)
        (self.path / name).chmod(0o755)

    def test_json_tells_the_processor_and_every_kind(self):
        done = run("--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        document = json.loads(done.stdout)
        self.assertEqual(document["data"][0]["id"], "cpu")
        self.assertEqual(document["cpu"]["usable_threads"], len(os.sched_getaffinity(0)))
        with open("/proc/meminfo") as file:
            total = int(next(line for line in file if line.startswith("MemTotal")).split()[1]) * 1024
        self.assertEqual(document["memory"]["total"], total)
        self.assertLessEqual(document["memory"]["usable_available"], total)
        kinds = {probe["kind"] for probe in document["probes"]}
        self.assertEqual(kinds, {"cuda", "rocm", "xpu", "metal", "npu", "dcu", "mlu", "musa", "maca", "iluvatar"})

    def test_tools_on_the_path_are_asked(self):
        self.add_tool("nvidia-smi", f"cat {SAMPLES}/nvidia-smi.txt")
        self.add_tool("npu-smi", "echo nonsense")
        self.add_tool("mx-smi", "sleep 100")
        done = run("--json", "--timeout", "2", "--engine", "vllm", path=self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        devices = {device["id"]: device for device in document["data"]}
        self.assertEqual(devices["cuda:0"]["name"], "NVIDIA A100-SXM4-80GB")
        self.assertEqual(devices["cuda:0"]["memory_free"], 81044 << 20)
        probes = {probe["tool"]: probe for probe in document["probes"]}
        self.assertEqual(probes["nvidia-smi"]["result"], "ok")
        self.assertEqual(probes["npu-smi"]["result"], "unreadable")
        self.assertEqual((probes["mx-smi"]["result"], probes["mx-smi"]["message"]), ("timeout", "mx-smi: no answer in 2000 ms"))
        fits = {fit["id"]: fit["runs"] for fit in document["engine"]["devices"]}
        self.assertTrue(fits["cuda:0"] and fits["cpu"])
        text = run("--timeout", "2", "--engine", "quern", path=self.path).stdout
        self.assertIn("NVIDIA A100-SXM4-80GB", text)
        self.assertIn("engine quern computes on cpu", text)
        self.assertIn("mx-smi: no answer in 2000 ms", text)

    def test_bad_options_are_refused_in_one_line(self):
        for arguments, word in ((["--engine", "tgi"], "--engine: 'tgi'"), (["--timeout", "0"], "--timeout")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        QUERN = sys.argv.pop(1)
    unittest.main()
