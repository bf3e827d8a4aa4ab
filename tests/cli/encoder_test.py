"""Black-box tests of encoders: `quern logits`, `embed` and `rerank`: python3 encoder_test.py QUERN"""
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
BERT, BERT_GGUF = GOLDEN / "models" / "bert", GOLDEN / "gguf" / "bert-f32.gguf"
RERANKER = GOLDEN / "models" / "xlm_roberta_rerank"
QUERN = sys.argv.pop(1) if len(sys.argv) > 1 else "quern"


def quern(*arguments):
    return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def ids_text(ids):
    return ",".join(map(str, ids))


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", raw[begin:end]))
    return tensors


class Encoders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name) / "out.safetensors"

    def logits(self, model, *arguments):
        result = quern("logits", model, "-o", self.out, "--precision", "exact", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return read_safetensors(self.out)

    def json_of(self, *arguments):
        result = quern(*arguments, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def assert_close(self, got, wanted, tolerance=1e-4):
        self.assertEqual(got[0], wanted[0])
        self.assertLessEqual(max(abs(a - b) for a, b in zip(got[1], wanted[1])), tolerance)

    def assert_refused(self, result, *fragments):
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)

    def test_states_and_embedding(self):
        golden = read_safetensors(BERT / "golden.safetensors")
        for entry in json.loads((BERT / "golden.json").read_text())["inputs"]:
            for model in (BERT, BERT_GGUF):
                with self.subTest(entry["name"], model=model.name):
                    got = self.logits(model, "--ids", ids_text(entry["ids"]), "--type-ids", ids_text(entry["token_type_ids"]), "--hidden")
                    self.assert_close(got["last_hidden_state"], golden[entry["outputs"]["last_hidden_state"]])
                    self.assert_close(got["embedding"], golden[entry["outputs"]["mean_normalized"]])
                    for name in entry.get("hidden", []):
                        self.assert_close(got[name], golden[name])

    def test_without_hidden_only_the_results(self):
        self.assertEqual(set(self.logits(BERT, "--ids", "2,60,3")), {"last_hidden_state", "embedding"})
        self.assertEqual(set(self.logits(RERANKER, "--ids", "0,60,2")), {"logits"})

    def test_logits_of_a_classifier(self):
        golden = read_safetensors(RERANKER / "golden.safetensors")
        for entry in json.loads((RERANKER / "golden.json").read_text())["inputs"]:
            self.assert_close(self.logits(RERANKER, "--ids", ids_text(entry["ids"]))["logits"], golden[entry["logits"]])

    def test_refusals(self):
        refuse = lambda *arguments: self.assert_refused(quern("logits", *arguments[:-1], "-o", self.out), arguments[-1])
        refuse(BERT, "--ids", "2,3", "--type-ids", "0", "--type-ids")
        refuse(BERT, "--ids", "2,3", "--type-ids", "0,2", "type id 2")
        refuse(BERT, "--ids", "2,9999", "9999")
        refuse(BERT, "--ids", ids_text([2] * 5000), "5000")
        refuse(GOLDEN / "models" / "llama", "--ids", "1,2", "--type-ids", "0,0", "--type-ids")
        self.assertFalse(self.out.exists())

    def test_both_kinds_of_files_see_the_same_ids(self):
        text = "The mill, the miller and 12 kinds of grain"
        folder, gguf = (self.json_of("tokenize", model, "--text", text)["ids"] for model in (BERT, BERT_GGUF))
        self.assertEqual(folder, gguf)
        self.assertEqual((folder[0], folder[-1]), (2, 3))

    def test_embedding_of_a_text_is_that_of_its_ids(self):
        text = "the mill by the river"
        got = self.json_of("embed", BERT, "--text", text, "--precision", "exact")["data"][0]
        ids = self.json_of("tokenize", BERT, "--text", text)["ids"]
        self.assert_close(([48], got["embedding"]), self.logits(BERT, "--ids", ids_text(ids))["embedding"], 1e-6)

    def test_long_texts_are_cut_to_what_the_model_was_made_for(self):
        limit = json.loads((BERT / "sentence_bert_config.json").read_text())["max_seq_length"]
        words = "river " * 500
        ids = self.json_of("tokenize", BERT, "--text", words)["ids"]
        cut = ids[:limit - 1] + ids[-1:]
        got = self.json_of("embed", BERT, "--text", words, "--precision", "exact", "--truncate-prompt-tokens", -1)["data"][0]
        self.assert_close(([48], got["embedding"]), self.logits(BERT, "--ids", ids_text(cut))["embedding"], 1e-6)
        shorter = pathlib.Path(self.folder.name) / "shorter"
        shutil.copytree(BERT, shorter)
        (shorter / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
        got = self.json_of("embed", shorter, "--text", words, "--precision", "exact", "--truncate-prompt-tokens", -1)["data"][0]
        cut = ids[:7] + ids[-1:]
        self.assert_close(([48], got["embedding"]), self.logits(BERT, "--ids", ids_text(cut))["embedding"], 1e-6)

    def test_rerank_orders_by_the_sigmoid_of_the_pair(self):
        documents = ["the mill", "the tide and the sea", "grain " * 300]
        results = self.json_of("rerank", RERANKER, "--query", "water", *(part for d in documents for part in ("--document", d)), "--precision", "exact",
                               "--truncate-prompt-tokens", -1)["results"]
        scores = [r["relevance_score"] for r in results]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(sorted(r["index"] for r in results), [0, 1, 2])
        cases = pathlib.Path(self.folder.name) / "cases.jsonl"
        cases.write_text(json.dumps({"id": "x", "tokenizer": "x", "kind": "pair", "text": "water", "text_pair": documents[1]}) + "\n")
        pair = json.loads(quern("tokenize", RERANKER, "--cases", cases).stdout)
        inputs = ("--ids", ids_text(pair["ids"]), "--type-ids", ids_text(pair["type_ids"]))
        logit = self.logits(RERANKER, *inputs)["logits"][1][0]
        score = next(r["relevance_score"] for r in results if r["index"] == 1)
        self.assertAlmostEqual(score, 1 / (1 + math.exp(-logit)), places=5)


if __name__ == "__main__":
    unittest.main()
