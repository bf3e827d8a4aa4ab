"""Black-box test of `quern inspect`: python3 inspect_test.py QUERN"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
MALFORMED = GOLDEN / "malformed"
WELL_FORMED = {"gguf_head_count_zero.gguf", "gguf_block_count_huge.gguf", "gguf_wrong_shape.gguf"}  # impossible models, sound containers
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"


def inspect(*arguments):
    return subprocess.run([QUERN, "inspect", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + size]), raw[8 + size:]


class Inspect(unittest.TestCase):
    def assert_refused(self, result, *fragments):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("quern: "), result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)

    def test_malformed_files_are_refused_in_one_line(self):
        for entry in json.loads((MALFORMED / "manifest.json").read_text())["files"]:
            with self.subTest(entry["file"]):
                result = inspect(MALFORMED / entry["file"])
                if entry["file"] in WELL_FORMED:
                    self.assertEqual(result.returncode, 0, result.stderr)
                else:
                    self.assert_refused(result, entry["file"].rstrip("/"))

    def test_json_of_a_gguf(self):
        result = inspect(MALFORMED / "valid.gguf", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        report = json.loads(result.stdout)
        self.assertEqual(report["container"], "gguf")
        self.assertEqual((report["version"], report["parts"]), (3, 1))
        self.assertEqual(report["metadata"]["general.architecture"], "llama")
        self.assertEqual(report["metadata"]["llama.block_count"], 1)
        self.assertEqual(report["num_tensors"], 12)
        self.assertIn({"name": "blk.0.attn_k.weight", "dtype": "F32", "shape": [4, 8], "bytes": 128}, report["tensors"])
        self.assertEqual(report["bytes"], 4 * report["parameters"])
        self.assertEqual(report["dtypes"]["F32"]["tensors"], 12)

    def test_json_of_other_containers(self):
        split = json.loads(inspect(GOLDEN / "gguf" / "llama-split-f32-00001-of-00002.gguf", "--json").stdout)
        whole = json.loads(inspect(GOLDEN / "gguf" / "llama-f32.gguf", "--json").stdout)
        self.assertEqual((split["parts"], split["parameters"]), (2, whole["parameters"]))
        folder = json.loads(inspect(GOLDEN / "models" / "mixtral", "--json").stdout)
        self.assertEqual(folder["container"], "safetensors")
        self.assertEqual(folder["config"]["model_type"], "mixtral")
        self.assertEqual(folder["dtypes"]["BF16"]["tensors"], folder["num_tensors"])
        self.assertEqual(folder["bytes"], 2 * folder["parameters"])

    def test_text_shows_every_tensor_and_shortens_the_vocabulary(self):
        result = inspect(GOLDEN / "gguf" / "llama_mixed.gguf")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(inspect(GOLDEN / "gguf" / "llama_mixed.gguf", "--json").stdout)
        for tensor in report["tensors"]:
            self.assertIn(tensor["name"], result.stdout)
        self.assertIn(f"{report['parameters']} parameters", result.stdout)
        self.assertIn("in all]", result.stdout)
        self.assertLess(max(map(len, result.stdout.splitlines())), 250)

    def test_a_tensor_is_written_as_float32(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "out.safetensors"
            result = inspect(GOLDEN / "gguf" / "llama_mixed.gguf", "--json", "--tensor", "token_embd.weight", "-o", output)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(json.loads(result.stdout)["name"], "token_embd.weight")
            header, data = read_safetensors(output)
            shape = header["token_embd.weight"]["shape"]
            self.assertEqual(header["token_embd.weight"]["dtype"], "F32")
            self.assertEqual(len(data), 4 * shape[0] * shape[1])

            source_header, source = read_safetensors(MALFORMED / "valid.safetensors")
            inspect(MALFORMED / "valid.safetensors", "--tensor", "b", "-o", output)
            begin, end = source_header["b"]["data_offsets"]
            self.assertEqual(read_safetensors(output)[1], source[begin:end])

    def test_bytes_of_kv_cache_per_token(self):
        for path, of_layer in ((GOLDEN / "models" / "llama", 2 * 2 * 16), (GOLDEN / "gguf" / "llama-f32.gguf", 2 * 2 * 16),
                               (GOLDEN / "models" / "deepseek_v3", 16 + 8), (GOLDEN / "gguf" / "deepseek_v3-f32.gguf", 16 + 8)):
            with self.subTest(path.name):
                report = json.loads(inspect(path, "--json").stdout)
                cache = report["kv_cache"]
                self.assertEqual(cache["values_per_token_and_layer"], of_layer)
                self.assertEqual(cache["bytes_per_token"], report["model"]["layers"] * of_layer * 2)
                self.assertEqual(cache["bytes_per_token_as"]["f32"], 2 * cache["bytes_per_token"])
                self.assertEqual("latent" in cache, "deepseek" in path.name)
                self.assertIn(f"kv cache {cache['bytes_per_token']} bytes per token", inspect(path).stdout)
                self.assertNotIn("bytes_per_token_behind_windows", cache)
        for name, share in (("gemma2", 0.5), ("mistral", 0)):  # every second layer has a window; every one
            cache = json.loads(inspect(GOLDEN / "models" / name, "--json").stdout)["kv_cache"]
            self.assertEqual(cache["bytes_per_token_behind_windows"], cache["bytes_per_token"] * share)
            self.assertIn(f"{cache['bytes_per_token_behind_windows']} (f16) behind the windows",
                          inspect(GOLDEN / "models" / name).stdout)
        self.assertNotIn("kv_cache", json.loads(inspect(GOLDEN / "models" / "bert", "--json").stdout))
        self.assertNotIn("kv_cache", json.loads(inspect(MALFORMED / "gguf_head_count_zero.gguf", "--json").stdout))

    def test_bad_usage_names_the_option_or_the_file(self):
        valid = MALFORMED / "valid.gguf"
        self.assert_refused(inspect(), "MODEL")
        self.assert_refused(inspect(valid, "--tensor", "output.weight"), "-o")
        self.assert_refused(inspect(valid, "-o", "out.safetensors"), "--tensor")
        self.assert_refused(inspect(valid, "--tensor", "absent", "-o", "out.safetensors"), "absent")
        self.assert_refused(inspect(MALFORMED / "absent.gguf"), "absent.gguf")
        self.assert_refused(inspect(GOLDEN / "templates"), "templates")
        self.assert_refused(inspect(valid, "--colour"), "--colour")


if __name__ == "__main__":
    unittest.main()
