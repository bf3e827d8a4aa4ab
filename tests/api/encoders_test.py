"""Several models of several kinds in one server: embeddings, rerank, score, classify, tokenize."""
import base64
import math
import struct
import sys
import threading
import unittest

from quern_server import BERT, CLASSIFIER, LLAMA, RERANKER, Server


def norm(vector):
    return math.sqrt(sum(x * x for x in vector))


class EncodersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=(LLAMA, BERT, CLASSIFIER, RERANKER))

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def embed(self, value, **fields):
        return self.server.ok("/v1/embeddings", {"model": "bert", "input": value, **fields})

    def test_models_have_tasks(self):
        tasks = {m["id"]: m["task"] for m in self.server.get("/v1/models")[1]["data"]}
        self.assertEqual(tasks, {"llama": "generate", "bert": "embed", "bert_classify": "classify",
                                 "bert_rerank": "classify"})

    def test_embeddings_inputs(self):
        one = self.embed("the mill by the river")
        vector = one["data"][0]["embedding"]
        self.assertGreater(len(vector), 8)
        several = self.embed(["a", "the mill by the river", "b c d"])
        self.assertEqual([item["index"] for item in several["data"]], [0, 1, 2])
        for x, y in zip(several["data"][1]["embedding"], vector):
            self.assertAlmostEqual(x, y, places=5)
        tokens = self.server.ok("/tokenize", {"model": "bert", "prompt": "the mill by the river"})["tokens"]
        self.assertEqual(one["usage"], {"prompt_tokens": len(tokens), "total_tokens": len(tokens)})
        self.assertEqual(self.embed(tokens)["data"][0]["embedding"], vector)
        self.assertEqual(self.embed([tokens, tokens])["data"][1]["embedding"], vector)

    def test_base64_and_dimensions(self):
        vector = self.embed("grist")["data"][0]["embedding"]
        packed = base64.b64decode(self.embed("grist", encoding_format="base64")["data"][0]["embedding"])
        self.assertEqual(list(struct.unpack(f"<{len(packed) // 4}f", packed)), vector)
        half = len(vector) // 2
        cut = self.embed("grist", dimensions=half)["data"][0]["embedding"]
        self.assertEqual(len(cut), half)
        self.assertAlmostEqual(norm(cut), 1, places=5)
        scale = norm(vector[:half])
        for x, y in zip(cut, vector):
            self.assertAlmostEqual(x, y / scale, places=5)

    def test_embeddings_refusals(self):
        width = len(self.embed("x")["data"][0]["embedding"])
        for fields in ({"dimensions": width + 1}, {"dimensions": 0}, {"dimensions": -1}, {"encoding_format": "hex"},
                       {"input": []}, {"input": [""] * 2049}, {"input": 5}, {"input": [1.5]}, {"input": [10 ** 9]},
                       {"input": ["a", 5]}, {"input": None}, {"nonsense": 1}, {"truncate_prompt_tokens": 0}):
            status, answer = self.server.post("/v1/embeddings", {"model": "bert", "input": "a", **fields})
            self.assertEqual(status, 400, (fields, answer))
            self.assertTrue(answer["error"]["param"], answer)
        self.assertEqual(self.server.post("/v1/embeddings", {"model": "no", "input": "a"})[0], 404)
        status, answer = self.server.post("/v1/embeddings", {"model": "llama", "input": "a"})
        self.assertEqual((status, answer["error"]["param"]), (400, "model"))
        self.assertIn("llama", answer["error"]["message"])

    def test_long_inputs(self):
        limit = next(m["max_model_len"] for m in self.server.get("/v1/models")[1]["data"] if m["id"] == "bert")
        text = "mill " * (2 * limit)
        status, answer = self.server.post("/v1/embeddings", {"model": "bert", "input": ["a", text]})
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        self.assertIn("input 1", answer["error"]["message"])
        self.assertIn(str(limit), answer["error"]["message"])
        cut = self.embed(text, truncate_prompt_tokens=-1)
        self.assertEqual(cut["usage"]["prompt_tokens"], limit)
        self.assertEqual(self.embed(text, truncate_prompt_tokens=7)["usage"]["prompt_tokens"], 7)
        self.assertEqual(self.server.post("/v1/chat/completions", {"model": "bert", "messages": [
            {"role": "user", "content": "a"}]})[0], 400)

    def test_a_crowd_gets_what_one_gets(self):
        alone = [self.embed(f"text {i}")["data"][0]["embedding"] for i in range(12)]
        together = [None] * 12

        def ask(i):
            together[i] = self.embed([f"text {i}"] * (1 + i % 3))["data"][0]["embedding"]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_rerank(self):
        documents = ["the mill", "a boat on the tide", "grain and flour", "the river runs"]
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            whole = self.server.ok(path, {"model": "bert_rerank", "query": "the tide", "documents": documents})
            scores = [r["relevance_score"] for r in whole["results"]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertEqual(sorted(r["index"] for r in whole["results"]), [0, 1, 2, 3])
            self.assertTrue(all(0 <= s <= 1 for s in scores))
            self.assertNotIn("document", whole["results"][0])
        best = whole["results"][0]["index"]
        for turn in range(4):
            turned = documents[turn:] + documents[:turn]
            answer = self.server.ok("/rerank", {"model": "bert_rerank", "query": "the tide", "documents": turned,
                                                "top_n": 1, "return_documents": True})
            self.assertEqual(len(answer["results"]), 1)
            self.assertEqual(answer["results"][0]["document"], {"text": documents[best]})
            self.assertEqual(turned[answer["results"][0]["index"]], documents[best])
        objects = [{"text": text, "id": i} for i, text in enumerate(documents)]
        answer = self.server.ok("/rerank", {"model": "bert_rerank", "query": "the tide", "documents": objects,
                                            "top_n": 99, "return_documents": True})
        self.assertEqual(answer["results"][0]["document"]["id"], best)
        self.assertEqual(len(answer["results"]), 4)
        by_cosine = self.server.ok("/rerank", {"model": "bert", "query": "the mill", "documents": documents})
        self.assertEqual(by_cosine["results"][0]["index"], 0)
        self.assertAlmostEqual(by_cosine["results"][0]["relevance_score"], 1, places=5)

    def test_rerank_refusals(self):
        good = {"model": "bert_rerank", "query": "q", "documents": ["a"]}
        for fields in ({"top_n": 0}, {"top_n": -1}, {"documents": []}, {"documents": [5]}, {"documents": [{"no": 1}]},
                       {"documents": "a"}, {"query": None}, {"query": 5}, {"model": "llama"}, {"model": "bert_classify"}):
            status, answer = self.server.post("/rerank", {**good, **fields})
            self.assertEqual(status, 400, (fields, answer))
            self.assertTrue(answer["error"]["param"], answer)
        self.assertEqual(self.server.post("/rerank", {**good, "documents": ["", "a", "a"]})[0], 200)

    def test_score(self):
        one = self.server.ok("/score", {"model": "bert_rerank", "text_1": "the tide", "text_2": ["a boat", "a mill"]})
        self.assertEqual([d["index"] for d in one["data"]], [0, 1])
        ranked = self.server.ok("/rerank", {"model": "bert_rerank", "query": "the tide", "documents": ["a boat", "a mill"]})
        for result in ranked["results"]:
            self.assertAlmostEqual(one["data"][result["index"]]["score"], result["relevance_score"], places=6)
        pairs = self.server.ok("/v1/score", {"model": "bert_rerank", "text_1": ["x", "the tide"], "text_2": ["y", "a mill"]})
        self.assertAlmostEqual(pairs["data"][1]["score"], one["data"][1]["score"], places=6)
        self.assertEqual(self.server.post("/score", {"model": "bert_rerank", "text_1": ["x", "y"], "text_2": ["z"]})[0], 400)

    def test_classify(self):
        answer = self.server.ok("/classify", {"model": "bert_classify", "input": ["the tide", "a mill"]})
        self.assertEqual([d["index"] for d in answer["data"]], [0, 1])
        for item in answer["data"]:
            self.assertAlmostEqual(sum(item["probs"]), 1, places=5)
            self.assertEqual(len(item["probs"]), item["num_classes"])
            self.assertIsInstance(item["label"], str)
        raw = self.server.ok("/v1/classify", {"model": "bert_classify", "input": "the tide", "use_activation": False})
        logits = raw["data"][0]["probs"]
        self.assertEqual(logits.index(max(logits)),
                         answer["data"][0]["probs"].index(max(answer["data"][0]["probs"])))
        self.assertNotAlmostEqual(sum(logits), 1, places=3)
        self.assertEqual(self.server.post("/classify", {"model": "bert", "input": "a"})[0], 400)

    def test_tokenize_and_back(self):
        answer = self.server.ok("/tokenize", {"model": "llama", "prompt": "the mill", "return_token_strs": True})
        self.assertEqual(answer["count"], len(answer["tokens"]))
        self.assertEqual(len(answer["token_strs"]), answer["count"])
        bare = self.server.ok("/v1/tokenize", {"model": "llama", "prompt": "the mill", "add_special_tokens": False})
        self.assertIsNone(bare["token_strs"])
        self.assertEqual(self.server.ok("/detokenize", {"model": "llama", "tokens": bare["tokens"]})["prompt"], "the mill")
        messages = [{"role": "user", "content": "the tide"}]
        chat = self.server.ok("/tokenize", {"model": "llama", "messages": messages})
        whole = self.server.ok("/v1/chat/completions", {"model": "llama", "messages": messages, "max_tokens": 1})
        self.assertEqual(chat["count"], whole["usage"]["prompt_tokens"])
        for body in ({"tokens": [-1]}, {"tokens": [10 ** 8]}, {"tokens": "x"}, {}):
            self.assertEqual(self.server.post("/detokenize", {"model": "llama", **body})[0], 400, body)
        self.assertEqual(self.server.post("/tokenize", {"model": "llama", "prompt": 5})[0], 400)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
