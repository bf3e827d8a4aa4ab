"""Black-box tests of `quern perplexity` and `quern bench`: python3 measure_test.py QUERN"""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
ENVIRONMENT = {**os.environ, "QUERN_HOME": FOLDER.name}
TEXT = HOME / "text.txt"
TEXT.write_text("The ferry left at six, and nobody on the quay could say who had untied it. "
                "By noon the harbour master had counted his ropes twice and written a letter to the owner.\n")


def quern(*arguments):
    return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)


class Case(unittest.TestCase):
    def assert_refused(self, result, *fragments):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)

    def json_of(self, *arguments):
        result = quern(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class Perplexity(Case):
    CONTEXT = 16

    def logits(self, model, ids):
        """Rows of logits, from the command whose results are compared with the official ones elsewhere."""
        out = HOME / "logits.safetensors"
        result = quern("logits", model, "--ids", ",".join(map(str, ids)), "-o", out, "--precision", "exact")
        self.assertEqual(result.returncode, 0, result.stderr)
        raw = out.read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        entry = json.loads(raw[8:8 + size])["logits"]
        rows, vocab = entry["shape"]
        begin = 8 + size + entry["data_offsets"][0]
        return [struct.unpack_from(f"<{vocab}f", raw, begin + 4 * vocab * row) for row in range(rows)]

    def expected(self, model, bos):
        ids = self.json_of("tokenize", model, "--file", TEXT)["ids"]
        scores = []
        for begin in range(0, len(ids) - self.CONTEXT + 1, self.CONTEXT):
            window = ids[begin:begin + self.CONTEXT]
            if bos is not None:
                window[0] = bos
            for i, row in enumerate(self.logits(model, window)[:-1]):
                if i >= self.CONTEXT // 2:
                    scores.append(math.log(sum(map(math.exp, row))) - row[window[i + 1]])
        return scores

    def check(self, model, bos):
        scores = self.expected(model, bos)
        answer = self.json_of("perplexity", model, "--file", TEXT, "--ctx", self.CONTEXT, "--precision", "exact")
        self.assertGreater(len(scores), 20)
        self.assertEqual(answer["tokens"], len(scores))
        self.assertAlmostEqual(answer["nll"], sum(scores) / len(scores), places=4)
        self.assertAlmostEqual(answer["perplexity"], math.exp(answer["nll"]), places=6)
        return answer["nll"]

    def test_second_half_of_each_window_is_scored(self):
        self.check(GOLDEN / "models" / "llama", None)

    def test_each_window_begins_with_bos_where_the_tokenizer_says_so(self):
        model = HOME / "with_bos"
        shutil.copytree(GOLDEN / "models" / "llama", model)
        config = json.loads((model / "tokenizer_config.json").read_text())
        (model / "tokenizer_config.json").write_text(json.dumps({**config, "tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True}))
        ids = self.json_of("tokenize", model, "--text", "")["ids"]
        self.assertEqual(ids, [1])
        self.assertNotAlmostEqual(self.check(model, ids[0]), self.check(GOLDEN / "models" / "llama", None), places=3)

    def test_chunks_and_divergence(self):
        model = GOLDEN / "models" / "llama"
        answer = self.json_of("perplexity", model, "--file", TEXT, "--ctx", 16, "--chunks", 2, "--kl-to", "exact")
        self.assertEqual(answer["chunks"], 2)
        self.assertEqual(answer["tokens"], 14)
        self.assertLess(answer["kl_divergence"], 0.01)
        self.assertGreater(answer["top1_agreement"], 0.8)

    def test_fewer_bits_of_the_kv_cache_cost_a_little(self):
        def divergence(dtype):
            return self.json_of("perplexity", GOLDEN / "models" / "llama", "--file", TEXT, "--ctx", self.CONTEXT, "--kl-to", "exact",
                                "--kv-cache-dtype", dtype)["kl_divergence"]
        eight, four = divergence("q8_0"), divergence("q4_0")
        self.assertLess(eight, four)
        self.assertLess(four, 0.1)

    def test_text_output(self):
        result = quern("perplexity", GOLDEN / "models" / "llama", "--file", TEXT, "--ctx", 16)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("perplexity "))

    def test_what_is_refused(self):
        model = GOLDEN / "models" / "llama"
        bad = HOME / "bad.txt"
        bad.write_bytes(b"a \xff b")
        self.assert_refused(quern("perplexity", model), "--file")
        self.assert_refused(quern("perplexity", model, "--file", HOME / "none.txt"), "none.txt")
        self.assert_refused(quern("perplexity", model, "--file", bad), "bad.txt", "UTF-8")
        self.assert_refused(quern("perplexity", model, "--file", TEXT, "--ctx", 3), "ctx: 3")
        self.assert_refused(quern("perplexity", model, "--file", TEXT, "--ctx", 512), "512")
        self.assert_refused(quern("perplexity", model, "--file", TEXT, "--kl-to", "best"), "best")
        self.assert_refused(quern("perplexity", HOME / "none.gguf", "--file", TEXT), "none.gguf")


class Bench(Case):
    MODEL = GOLDEN / "models" / "llama"

    def test_results(self):
        answer = self.json_of("bench", self.MODEL, "-p", "16,32", "-n", 8, "-b", "1,4", "-t", 1, "-r", 2)
        cases = [(row["n_prompt"], row["n_gen"], row["batch"]) for row in answer["results"]]
        self.assertEqual(cases, [(16, 0, 1), (32, 0, 1), (0, 8, 1), (0, 8, 4)])
        for row in answer["results"]:
            for field in ("avg_ts", "gbps", "gmacs"):
                self.assertGreater(row[field], 0, field)
            self.assertGreaterEqual(row["stddev_ts"], 0)
        self.assertEqual(answer["threads"], 1)
        self.assertNotIn("roofline", answer)

    def test_roofline(self):
        answer = self.json_of("bench", self.MODEL, "-p", 0, "-n", 2, "-r", 1, "--roofline")
        self.assertEqual([row["n_prompt"] for row in answer["results"]], [0])
        for field in ("read_gbps", "int8_gmacs", "f32_gmacs"):
            self.assertGreater(answer["roofline"][field], 0, field)

    def test_table(self):
        result = quern("bench", self.MODEL, "-p", 16, "-n", 2, "-r", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tokens/s", result.stdout)

    def test_what_is_refused(self):
        self.assert_refused(quern("bench", self.MODEL), "n-prompt: 512", "context of 512")
        self.assert_refused(quern("bench", self.MODEL, "-p", 0, "-b", 513, "-n", 1), "batch: 513")
        self.assert_refused(quern("bench", self.MODEL, "-p", 0, "-b", 0, "-n", 1), "batch: 0")
        self.assert_refused(quern("bench", self.MODEL, "-p", -1), "n-prompt: -1")
        self.assert_refused(quern("bench", self.MODEL, "-p", 0, "-n", 1000000), "n-gen", "1000000")
        self.assert_refused(quern("bench", self.MODEL, "-p", 0, "-n", 0), "nothing to measure")
        self.assert_refused(quern("bench", self.MODEL, "-r", 0), "repetitions: 0")
        self.assert_refused(quern("bench", self.MODEL, "-n", "x"), "x")
        self.assert_refused(quern("bench", self.MODEL, "--precision", "best"), "best")


if __name__ == "__main__":
    unittest.main()
