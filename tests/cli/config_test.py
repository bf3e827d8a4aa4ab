"""Black-box tests of `quern serve --config` and of --quantization: python3 config_test.py QUERN"""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "api"))
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else os.environ["QUERN_BINARY"]
os.environ["QUERN_BINARY"] = QUERN

from adapter_files import write_adapter  # noqa: E402
from folder_case import FolderCase  # noqa: E402

LLAMA = ROOT / "golden/models/llama"
LLAMA_F32 = ROOT / "golden/gguf/llama-f32.gguf"
USERS_FORM = """compute:
  device: cpu            # also auto, cuda:0, metal, vulkan:0
quantization:
  mode: int8             # fp16, int4, hybrid (then config: attention: fp16, ffn: int8)
adapters:
  - path: lora/adapter1
    alpha: 0.7
"""


class Case(FolderCase):
    def config(self, text, name="quern.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def quern(self, *arguments):
        return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env=self.environment, cwd="/")

    def refused(self, *arguments):
        """The one line that `quern serve` says before it ends with 2."""
        result = self.quern("serve", *arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def serve(self, *arguments):
        process = subprocess.Popen([QUERN, "serve", *map(str, arguments)], stderr=subprocess.PIPE, text=True,
                                   env=self.environment, cwd="/")
        log = []
        for line in process.stderr:
            log.append(line)
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if found:
                break
        else:
            process.wait()
            process.stderr.close()
            self.fail("server did not start: " + "".join(log))
        drain = threading.Thread(target=lambda: log.extend(process.stderr), daemon=True)
        drain.start()

        def stop():
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=30), 0)
            drain.join()
            process.stderr.close()

        self.addCleanup(stop)
        return int(found.group(1)), log

    def ask(self, port, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text)

    def completion(self, port, model):
        status, body = self.ask(port, "POST", "/v1/completions", {
            "model": model, "prompt": [5, 6, 7, 8], "max_tokens": 8, "temperature": 0, "logprobs": 1,
            "ignore_eos": True})
        self.assertEqual(status, 200, body)
        return body["choices"][0]["text"], body["choices"][0]["logprobs"]["token_logprobs"]


class ConfigTest(Case):
    def test_the_form_that_users_write(self):
        write_adapter(self.folder / "lora/adapter1", 1)
        port, log = self.serve(LLAMA, "--config", self.config(USERS_FORM), "--port", 0)
        status, models = self.ask(port, "GET", "/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual({model["id"] for model in models["data"]}, {"llama", "adapter1"})
        self.assertNotEqual(self.completion(port, "llama")[1], self.completion(port, "adapter1")[1])

    def test_the_options_that_users_write(self):
        port, _ = self.serve("--model", LLAMA, "--tensor-parallel-size", 1, "--gpu-memory-utilization", 0.9,
                             "--max-num-batched-tokens", 4096, "--max-num-seqs", 64, "--kv-cache-dtype", "auto",
                             "--port", 0)
        self.assertEqual(self.ask(port, "GET", "/v1/models")[1]["data"][0]["id"], "llama")

    def test_alpha_multiplies_the_adapters_own_scale(self):
        folder = write_adapter(self.folder / "lora/full", 1)
        half = write_adapter(self.folder / "lora/half", 1)
        settings = json.loads((folder / "adapter_config.json").read_text())
        (half / "adapter_config.json").write_text(json.dumps({**settings, "lora_alpha": settings["lora_alpha"] / 2}))
        port, _ = self.serve(LLAMA, "--port", 0, "--config", self.config(
            "adapters:\n- {path: lora/full, name: by_alpha, alpha: 0.5}\n- {path: lora/half}\n- {path: lora/full}\n"))
        self.assertEqual(self.completion(port, "by_alpha"), self.completion(port, "half"))
        self.assertNotEqual(self.completion(port, "by_alpha")[1], self.completion(port, "full")[1])

    def test_models_and_options_come_from_the_file(self):
        (self.folder / "m.gguf").symlink_to(LLAMA_F32)
        (self.folder / "keys").write_text("sesame\n")
        port, log = self.serve("--config", self.config(
            "model: m.gguf\nserve:\n  port: 0\n  api_key_file: keys\n  cors: ['https://a.example']\n"
            "  max_num_seqs: 3\n  allow_runtime_lora_updating: true\n  store: ':memory:'\n"))
        self.assertEqual(self.ask(port, "GET", "/v1/models")[0], 401)

    def test_the_command_line_wins(self):
        text = ("model: nowhere.gguf\ncompute: {device: 'cuda:0'}\nquantization: {mode: int4}\n"
                "serve: {port: 1, served_model_name: file}\n")
        port, _ = self.serve(LLAMA_F32, "--config", self.config(text), "--port", 0, "--device", "cpu",
                             "--quantization", "none", "--served-model-name", "mine")
        plain, _ = self.serve(LLAMA_F32, "--port", 0)
        self.assertEqual(self.completion(port, "mine"), self.completion(plain, "llama-f32"))

    def test_refusals_name_file_line_and_path(self):
        for text, words in [
            ("compute:\n  devise: cpu\n", "quern.yaml:2: compute.devise: unknown key"),
            ("compute:\n  device: cuda:0\n", "quern.yaml:2: compute.device: 'cuda:0': this build has no CUDA device"),
            ("compute:\n  device: metal\n", "compute.device: 'metal': this build has no Metal device"),
            ("compute:\n  device: vulkan:0\n", "compute.device: 'vulkan:0': this build has no Vulkan device"),
            ("compute:\n  device: tpu\n", "compute.device: 'tpu' is not one of auto, cpu, reference"),
            ("quantization:\n  mode: int2\n", "quern.yaml:2: quantization.mode: 'int2' is not one of"),
            ("quantization:\n  mode: hybrid\n", "quantization.config: is missing"),
            ("adapters:\n  - path: lora/none\n", "lora/none"),
            ("serve:\n  prot: 1\n", "quern.yaml:2: serve.prot: unknown key"),
            ("serve:\n  port: many\n", "quern.yaml:2: serve.port: 'many' is refused"),
            ("serve:\n  port: [1, 2]\n", "serve.port: is a list, must be a value"),
            ("serve:\n  device: cpu\n", "serve.device: write compute.device"),
            ("serve:\n  http_threads: 1000\n", "serve.http_threads: '1000' is refused"),
            ("serve:\n  tensor_parallel_size: 2\n", "only 1 can be honoured"),
            ("serve: {\n", "quern.yaml:"),
        ]:
            with self.subTest(text):
                port = () if "port:" in text else ("--port", 0)  # the command line would win
                self.assertIn(words, self.refused(LLAMA, *port, "--config", self.config(text)))
        self.assertIn("nothing.yaml", self.refused(LLAMA, "--config", self.folder / "nothing.yaml"))

    def test_what_cannot_be_honoured_is_refused_with_the_reason(self):
        self.assertIn("--tensor-parallel-size: 2", self.refused(LLAMA, "--tensor-parallel-size", 2))
        self.assertIn("--tensor-parallel-size: 0", self.refused(LLAMA, "--tensor-parallel-size", 0))
        for device, words in [("cuda:0", "CUDA"), ("metal", "Metal"), ("vulkan:0", "Vulkan"), ("cuda", "CUDA")]:
            line = self.refused(LLAMA, "--device", device)
            self.assertIn(f"--device: '{device}': this build has no {words} device", line)
        self.assertIn("--quantization: 'int3'", self.refused(LLAMA, "--quantization", "int3"))


class QuantizationTest(Case):
    def ids(self, *options):
        result = self.quern("generate", LLAMA_F32, "--ids", "5,6,7,8", "--max-tokens", 12, "--greedy", "--ignore-eos",
                            "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["ids"], result.stderr

    def test_every_command_takes_it(self):
        text = self.folder / "text"
        text.write_text("The ferry left at six, and nobody on the quay could say who had untied it. " * 4)
        for mode in ("none", "fp16", "int8", "int4", "hybrid:attention=fp16,ffn=int8"):
            with self.subTest(mode):
                self.assertEqual(len(self.ids("--quantization", mode)[0]), 12)
        measured = self.quern("perplexity", LLAMA, "--file", text, "--ctx", 32, "--json", "--quantization", "int8",
                              "--kl-to", "exact")
        self.assertEqual(measured.returncode, 0, measured.stderr)
        self.assertGreater(json.loads(measured.stdout)["kl_divergence"], 0)

    def test_bench_and_inspect_show_what_it_saves(self):
        def read(mode):
            result = self.quern("bench", LLAMA_F32, "-p", 8, "-n", 4, "-r", 1, "--json", "--quantization", mode)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)["weight_bytes_per_token"]

        def inspected(mode):
            result = self.quern("inspect", LLAMA_F32, "--json", "--quantization", mode)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)

        full, fp16, int8, int4 = map(read, ("none", "fp16", "int8", "int4"))
        self.assertEqual(fp16 * 2, full)
        self.assertEqual(int8 * 32 * 4, full * 34)
        self.assertLess(int4, int8)
        report = inspected("int4")
        self.assertEqual(report["weight_bytes_per_token"], int4)
        self.assertEqual(report["rounded"], len(report["tensors"]))
        self.assertEqual({tensor["held_as"] for tensor in report["tensors"]}, {"Q4_1", "Q8_0"})
        for tensor in report["tensors"]:
            self.assertGreater(tensor["max_error"], tensor["rms_error"])
        self.assertIn("a token reads", self.quern("inspect", LLAMA_F32, "--quantization", "int8").stdout)

    def test_a_file_that_is_quantised_already_says_so(self):
        mixed = ROOT / "golden/gguf/llama_mixed.gguf"
        plain = self.quern("generate", mixed, "--ids", "5,6", "--max-tokens", 4, "--greedy", "--json")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        asked = self.quern("generate", mixed, "--ids", "5,6", "--max-tokens", 4, "--greedy", "--json",
                           "--quantization", "fp16")
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn("quantised already", asked.stderr)
        self.assertNotIn("quantization", plain.stderr)
        self.assertEqual(json.loads(asked.stdout)["ids"], json.loads(plain.stdout)["ids"])

    def test_refused_by_name(self):
        for value in ("int3", "hybrid", "hybrid:attention=fp16", ""):
            result = self.quern("generate", LLAMA_F32, "--ids", "5", "--quantization", value, "--json")
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (2, "", 1), result.stderr)
            self.assertIn("quantization", result.stderr)


if __name__ == "__main__":
    unittest.main()
