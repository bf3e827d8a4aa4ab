"""Requests that applications send which cannot run here, as their documentation and sources have them: docs/integrations/.
Each is sent as it is and read as the application reads the answer."""
import json
import sys
import unittest

from quern_server import BERT, LLAMA, RERANKER, Server

KEY = "sesame"
SERVER = None


def setUpModule():
    global SERVER
    SERVER = Server("--store", ":memory:", models=(LLAMA, BERT, RERANKER), QUERN_API_KEY=KEY)
    unittest.addModuleCleanup(SERVER.stop)


def post(path, body, **headers):
    return SERVER.post(path, body, {"Authorization": f"Bearer {KEY}", **headers})


def stream(path, body, **headers):
    """The data lines of a server-sent stream, as a client that splits at them sees it."""
    status, text, answer = SERVER.request("POST", path, body, {"Authorization": f"Bearer {KEY}", **headers})
    assert status == 200, text
    assert answer["content-type"].startswith("text/event-stream")
    return [line[len("data: "):] for line in text.splitlines() if line.startswith("data: ")]


class DifyTest(unittest.TestCase):
    """The plugin OpenAI-API-compatible: models/llm, text_embedding and rerank of its SDK."""

    def test_credentials_of_a_chat_model(self):
        status, body = post("/v1/chat/completions", {"model": "llama", "max_tokens": 5,
                                                     "messages": [{"role": "user", "content": "ping"}]})
        self.assertEqual((status, body["object"]), (200, "chat.completion"))
        status, body = post("/v1/completions", {"model": "llama", "max_tokens": 5, "prompt": "ping"})
        self.assertEqual((status, body["object"]), (200, "text_completion"))

    def test_a_chat_as_its_apps_send_it(self):
        tool = {"type": "function", "function": {"name": "clock", "description": "tells the time",
                                                 "parameters": {"type": "object", "properties": {}, "required": []}}}
        body = {"model": "llama", "stream": True, "temperature": 0.7, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0,
                "max_tokens": 8, "stop": ["\n\n"], "user": "abc-123", "stream_options": {"include_usage": True},
                "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "the tide"}]}
        lines = stream("/v1/chat/completions", body, **{"Accept-Charset": "utf-8"})
        self.assertEqual(lines[-1], "[DONE]")
        chunks = [json.loads(line) for line in lines[:-1]]
        self.assertTrue(any(chunk["choices"] and chunk["choices"][0]["delta"].get("content") for chunk in chunks))
        self.assertGreater(chunks[-1]["usage"]["completion_tokens"], 0)
        self.assertEqual(post("/v1/chat/completions", {**body, "stream": False, "stream_options": None, "tools": [tool],
                                                       "tool_choice": "auto"})[0], 200)

    def test_embeddings(self):
        status, body = post("/v1/embeddings", {"input": "ping", "model": "bert"})
        self.assertEqual(status, 200)
        self.assertIn("model", body)
        status, body = post("/v1/embeddings", {"input": ["grain", "flour"], "model": "bert", "user": "abc",
                                               "encoding_format": "float"})
        self.assertEqual(len(body["data"]), 2)
        self.assertGreater(body["usage"]["total_tokens"], 0)

    def test_rerank(self):
        documents = ["Carson City is the capital city of Nevada.", "The Commonwealth is a group of islands."]
        body = {"model": "bert_rerank", "query": "What is the capital?", "documents": documents, "top_n": None,
                "return_documents": True}
        status, answer = post("/v1/rerank", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(sorted(result["index"] for result in answer["results"]), [0, 1])
        for result in answer["results"]:
            self.assertTrue(0 <= result["relevance_score"] <= 1)
            self.assertEqual(result["document"]["text"], documents[result["index"]])


class RagFlowTest(unittest.TestCase):
    """The factory OpenAI-API-Compatible: rag/llm/chat_model.py, embedding_model.py, rerank_model.py."""

    def test_embeddings_carry_a_field_of_its_proxy(self):
        plain = post("/v1/embeddings", {"input": ["grain", "flour"], "model": "bert", "encoding_format": "float"})[1]
        status, body = post("/v1/embeddings", {"input": ["grain", "flour"], "model": "bert", "encoding_format": "float",
                                               "drop_params": True})
        self.assertEqual(status, 200, body)
        self.assertEqual(body["data"], plain["data"])
        self.assertGreater(body["usage"]["total_tokens"], 0)

    def test_rerank(self):
        status, body = post("/v1/rerank", {"model": "bert_rerank", "query": "grain", "documents": ["flour", "tide"], "top_n": 2})
        self.assertEqual(status, 200)
        self.assertEqual({result["index"] for result in body["results"]}, {0, 1})

    def test_chat_stream(self):
        body = {"model": "llama", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "the tide"}],
                "stream": True, "temperature": 0.1, "top_p": 0.3, "presence_penalty": 0.4, "frequency_penalty": 0.7,
                "max_tokens": 8}
        self.assertEqual(stream("/v1/chat/completions", body)[-1], "[DONE]")


class OpenWebUiTest(unittest.TestCase):
    def test_models_and_chat(self):
        status, body = SERVER.get("/v1/models", Authorization=f"Bearer {KEY}")
        self.assertEqual(status, 200)
        self.assertIn("llama", [model["id"] for model in body["data"]])
        chat = {"stream": True, "model": "llama", "messages": [{"role": "user", "content": [{"type": "text", "text": "the tide"}]}],
                "stream_options": {"include_usage": True}, "max_tokens": 6}
        self.assertEqual(stream("/v1/chat/completions", chat)[-1], "[DONE]")
        title = {"model": "llama", "messages": [{"role": "user", "content": "Make a title"}], "stream": False,
                 "max_completion_tokens": 6}
        self.assertEqual(post("/v1/chat/completions", title)[0], 200)

    def test_documents_are_embedded(self):
        self.assertEqual(len(post("/v1/embeddings", {"input": ["a", "b"], "model": "bert"})[1]["data"]), 2)


class ContinueTest(unittest.TestCase):
    """core/llm/llms/OpenAI.ts."""
    headers = {"api-key": KEY}

    def test_chat(self):
        body = {"messages": [{"role": "user", "content": "the tide"}], "model": "llama", "max_tokens": 6, "temperature": 0.5,
                "stream": True, "stop": ["a b c d e", "\t\t"]}
        self.assertEqual(stream("/v1/chat/completions", body, **self.headers)[-1], "[DONE]")

    def test_autocomplete_by_the_older_route(self):
        body = {"model": "llama", "max_tokens": 6, "temperature": 0.01, "stream": True, "prompt": "int main(",
                "stop": ["<fim_prefix>", "\n\n", "/src/"]}
        lines = stream("/v1/completions", body, **self.headers)
        self.assertEqual(lines[-1], "[DONE]")
        self.assertIn("text", json.loads(lines[0])["choices"][0])


class N8nTest(unittest.TestCase):
    """The nodes OpenAI Chat Model and Embeddings OpenAI, which are LangChain for JavaScript."""

    def test_chat_model(self):
        body = {"model": "llama", "temperature": 0.7, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "n": 1,
                "stream": False, "max_tokens": 6, "messages": [{"role": "user", "content": "the tide"}]}
        status, answer = post("/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertTrue(answer["choices"][0]["message"]["content"])

    def test_chat_model_by_responses(self):
        body = {"model": "llama", "input": [{"type": "message", "role": "user", "content": "the tide"}], "temperature": 0.7,
                "top_p": 1, "stream": False, "max_output_tokens": 6}
        status, answer = post("/v1/responses", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["output"][0]["type"], "message")

    def test_credential_and_embeddings(self):
        self.assertEqual(SERVER.get("/v1/models", Authorization=f"Bearer {KEY}")[0], 200)
        self.assertEqual(SERVER.get("/v1/models", Authorization="Bearer wrong")[0], 401)
        self.assertEqual(post("/v1/embeddings", {"model": "bert", "input": ["grain"]})[0], 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
