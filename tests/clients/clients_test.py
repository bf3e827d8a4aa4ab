"""The official clients against our server: chat, streaming, embeddings, errors. Run by run.sh, which brings the clients."""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import BERT, LLAMA, PARIS, RERANKER, WEATHER, Server, ThinkerTest  # noqa: E402

KEY = "sesame"
MESSAGES = [{"role": "user", "content": "the tide"}]
SERVER = None
HOME = None


def setUpModule():
    global SERVER, HOME
    HOME = tempfile.TemporaryDirectory()
    SERVER = Server(models=(LLAMA, BERT, RERANKER), QUERN_API_KEY=KEY, QUERN_HOME=HOME.name)
    os.environ.update(OPENAI_API_KEY=KEY, LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False")


def tearDownModule():
    assert SERVER.stop() == 0
    HOME.cleanup()


class OpenAiTest(unittest.TestCase):
    def setUp(self):
        import openai
        self.openai = openai
        self.client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key=KEY, max_retries=0)

    def test_chat(self):
        whole = self.client.chat.completions.create(model="llama", messages=MESSAGES, temperature=0, max_tokens=8)
        text = whole.choices[0].message.content
        with self.client.chat.completions.create(model="llama", messages=MESSAGES, temperature=0, max_tokens=8,
                                                 stream=True, stream_options={"include_usage": True}) as stream:
            chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), text)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        several = self.client.chat.completions.create(model="llama", messages=MESSAGES, n=3, seed=5, max_tokens=4)
        self.assertEqual([c.index for c in several.choices], [0, 1, 2])

    def test_completions_and_models(self):
        answer = self.client.completions.create(model="llama", prompt=["the", "mill"], max_tokens=3)
        self.assertEqual(len(answer.choices), 2)
        self.assertEqual([m.id for m in self.client.models.list()], ["llama", "bert", "bert_rerank"])
        self.assertEqual(self.client.models.retrieve("bert").id, "bert")

    def test_embeddings_default_to_base64(self):
        packed = self.client.embeddings.create(model="bert", input=["grain", "flour"])
        plain = self.client.embeddings.create(model="bert", input=["grain", "flour"], encoding_format="float")
        for x, y in zip(packed.data, plain.data):
            self.assertEqual(len(x.embedding), len(y.embedding))
            for a, b in zip(x.embedding, y.embedding):
                self.assertAlmostEqual(a, b, places=6)

    def test_responses(self):
        first = self.client.responses.create(model="llama", input="the tide", temperature=0, max_output_tokens=8)
        self.assertTrue(first.output_text)
        second = self.client.responses.create(model="llama", input="more", previous_response_id=first.id,
                                              max_output_tokens=4)
        self.assertEqual(self.client.responses.retrieve(second.id).id, second.id)
        self.assertEqual(len(self.client.responses.input_items.list(second.id).data), 1)
        with self.client.responses.stream(model="llama", input="the tide", temperature=0, max_output_tokens=8) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        self.assertEqual(text, first.output_text)
        self.client.responses.delete(first.id)
        with self.assertRaises(self.openai.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_files_and_batches(self):
        line = ('{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "llama", '
                '"max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}}\n')
        file = self.client.files.create(file=("in.jsonl", line.encode()), purpose="batch")
        batch = self.client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        for _ in range(300):
            batch = self.client.batches.retrieve(batch.id)
            if batch.status == "completed":
                break
            import time
            time.sleep(0.1)
        self.assertEqual((batch.status, batch.request_counts.completed), ("completed", 1))
        self.assertIn('"custom_id":"a"', self.client.files.content(batch.output_file_id).text)
        self.assertEqual([f.id for f in self.client.files.list(purpose="batch")], [file.id])
        self.assertTrue(self.client.files.delete(file.id).deleted)

    def test_errors(self):
        with self.assertRaises(self.openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt", messages=MESSAGES)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="llama", messages=MESSAGES, temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(self.openai.AuthenticationError):
            self.openai.OpenAI(base_url=SERVER.url + "/v1", api_key="no").models.list()


class AnthropicTest(unittest.TestCase):
    def setUp(self):
        import anthropic
        self.anthropic = anthropic
        self.client = anthropic.Anthropic(base_url=SERVER.url, api_key=KEY, max_retries=0)

    def test_messages(self):
        arguments = {"model": "llama", "messages": MESSAGES, "max_tokens": 8, "system": "be brief",
                     "extra_body": {"temperature": 0}}
        whole = self.client.messages.create(**arguments)
        with self.client.messages.stream(**arguments) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.stop_reason, whole.stop_reason)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)
        counted = self.client.messages.count_tokens(model="llama", messages=MESSAGES, system="be brief")
        self.assertEqual(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)

    def test_errors(self):
        with self.assertRaises(self.anthropic.NotFoundError):
            self.client.messages.create(model="claude", messages=MESSAGES, max_tokens=1)
        with self.assertRaises(self.anthropic.BadRequestError) as caught:
            self.client.messages.create(model="llama", messages=[], max_tokens=1)
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")


class OllamaTest(unittest.TestCase):
    def setUp(self):
        import ollama
        self.ollama = ollama
        self.client = ollama.Client(host=SERVER.url, headers={"Authorization": f"Bearer {KEY}"})

    def test_chat_and_generate(self):
        options = {"temperature": 0, "num_predict": 8}
        whole = self.client.chat(model="llama", messages=MESSAGES, options=options)
        parts = self.client.chat(model="llama", messages=MESSAGES, options=options, stream=True)
        self.assertEqual("".join(p.message.content for p in parts), whole.message.content)
        self.assertTrue(self.client.generate(model="llama", prompt="the", options=options).done)

    def test_models_and_embeddings(self):
        self.assertEqual([m.model for m in self.client.list().models], ["llama", "bert", "bert_rerank"])
        self.assertEqual(len(self.client.ps().models), 3)
        self.assertIn("completion", self.client.show("llama").capabilities)
        self.assertEqual(len(self.client.embed(model="bert", input=["a", "b"]).embeddings), 2)
        self.assertTrue(self.client.embeddings(model="bert", prompt="a").embedding)

    def test_errors(self):
        with self.assertRaises(self.ollama.ResponseError) as caught:
            self.client.chat(model="no", messages=MESSAGES)
        self.assertEqual(caught.exception.status_code, 404)


class ToolsAndThinkingTest(ThinkerTest):
    """Calls, structure and reasoning as the clients' own readers of streams see them."""

    options = ("--store", ":memory:")

    def test_anthropic(self):
        import anthropic
        client = anthropic.Anthropic(base_url=self.server.url, api_key=KEY, max_retries=0)
        arguments = {"model": "thinker", "messages": MESSAGES, "max_tokens": 250, "extra_body": {"temperature": 0},
                     "tools": [{"name": "get_weather", "input_schema": WEATHER}],
                     "tool_choice": {"type": "tool", "name": "get_weather"},
                     "thinking": {"type": "enabled", "budget_tokens": 12}}
        whole = client.messages.create(**arguments)
        with client.messages.stream(**arguments) as stream:
            events = list(stream)
            final = stream.get_final_message()
        for answer in (whole, final):
            thought, call = answer.content
            self.assertEqual((thought.type, call.type, answer.stop_reason), ("thinking", "tool_use", "tool_use"))
            self.assertEqual((call.name, call.input), ("get_weather", PARIS))
            self.assertEqual((thought.thinking, thought.signature), (whole.content[0].thinking, whole.content[0].signature))
        self.assertEqual("".join(e.thinking for e in events if e.type == "thinking"), whole.content[0].thinking)
        self.assertEqual([e.snapshot for e in events if e.type == "input_json"][-1], PARIS)
        history = [*MESSAGES, {"role": "assistant", "content": final.content},
                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "21"}]}]
        after = client.messages.create(model="thinker", messages=history, tools=arguments["tools"], max_tokens=4)
        self.assertEqual(after.content[0].type, "text")

    def test_ollama(self):
        import json
        import ollama
        client = ollama.Client(host=self.server.url)
        call = {"const": {"name": "get_weather", "arguments": PARIS}}
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
        arguments = {"model": "thinker", "messages": MESSAGES, "options": {"temperature": 0, "num_predict": 200}}
        whole = client.chat(**arguments, think=False, format=call)
        self.assertEqual(json.loads(whole.message.content), call["const"])
        parts = list(client.chat(**arguments, think=False, format=call, stream=True))
        self.assertEqual("".join(part.message.content for part in parts), whole.message.content)
        arguments["options"]["num_predict"] = 8
        thought = client.chat(**arguments, think=True).message
        self.assertTrue(thought.thinking)
        parts = list(client.chat(**arguments, think=True, stream=True))
        self.assertEqual("".join(part.message.thinking or "" for part in parts), thought.thinking)
        generated = client.generate(model="thinker", prompt="x", think=True, options=arguments["options"])
        self.assertTrue(generated.thinking)
        plain = Server("--store", ":memory:")
        self.addCleanup(plain.stop)
        client = ollama.Client(host=plain.url)
        arguments = {"model": "llama", "messages": MESSAGES, "tools": [tool], "format": call, "options": {"temperature": 0}}
        for answer in (client.chat(**arguments), *client.chat(**arguments, stream=True)):
            for told in answer.message.tool_calls or []:
                self.assertEqual((told.function.name, told.function.arguments), ("get_weather", PARIS))
        answers = [client.chat(**arguments), *client.chat(**arguments, stream=True)]
        self.assertEqual(sum(len(answer.message.tool_calls or []) for answer in answers), 2)

    def test_openai_responses(self):
        import json
        import openai
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key=KEY, max_retries=0)
        arguments = {"model": "thinker", "input": "the tide", "temperature": 0, "max_output_tokens": 200,
                     "tools": [{"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}],
                     "tool_choice": {"type": "function", "name": "get_weather"}, "reasoning": {"effort": "none"}}
        whole = client.responses.create(**arguments)
        with client.responses.stream(**arguments) as stream:
            events = list(stream)
            final = stream.get_final_response()
        for answer in (whole, final):
            (call,) = answer.output
            self.assertEqual((call.type, call.name, json.loads(call.arguments)), ("function_call", "get_weather", PARIS))
        deltas = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
        self.assertEqual((deltas, whole.output[0].arguments), (call.arguments, call.arguments))
        after = client.responses.create(model="thinker", previous_response_id=final.id, tools=arguments["tools"],
                                        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "21"}],
                                        max_output_tokens=4, reasoning={"effort": "none"})
        self.assertEqual(after.output[0].type, "message")
        with client.responses.stream(model="thinker", input="the tide", temperature=0, max_output_tokens=8) as stream:
            thought = "".join(e.delta for e in stream if e.type == "response.reasoning_text.delta")
        self.assertTrue(thought)
        format = {"type": "json_schema", "name": "tide", "schema": {"const": "ebb"}, "strict": True}
        said = client.responses.create(model="thinker", input="x", text={"format": format}, reasoning={"effort": "none"})
        self.assertEqual(said.output_text, '"ebb"')


class LangChainTest(unittest.TestCase):
    def test_chat_stream_and_embeddings(self):
        from langchain_openai import ChatOpenAI, OpenAIEmbeddings
        chat = ChatOpenAI(model="llama", base_url=SERVER.url + "/v1", api_key=KEY, temperature=0, max_tokens=8)
        whole = chat.invoke("the tide")
        self.assertEqual("".join(part.content for part in chat.stream("the tide")), whole.content)
        self.assertEqual(whole.usage_metadata["output_tokens"], 8)
        embeddings = OpenAIEmbeddings(model="bert", base_url=SERVER.url + "/v1", api_key=KEY, check_embedding_ctx_length=False)
        self.assertEqual(len(embeddings.embed_documents(["a", "b"])), 2)


class LiteLlmTest(unittest.TestCase):
    def test_chat_stream_embeddings_and_rerank(self):
        import litellm
        common = {"api_base": SERVER.url + "/v1", "api_key": KEY}
        arguments = {"model": "openai/llama", "messages": MESSAGES, "temperature": 0, "max_tokens": 8, **common}
        whole = litellm.completion(**arguments).choices[0].message.content
        text = "".join(c.choices[0].delta.content or "" for c in litellm.completion(**arguments, stream=True))
        self.assertEqual(text, whole)
        self.assertEqual(len(litellm.embedding(model="openai/bert", input=["a", "b"], **common).data), 2)
        ranked = litellm.rerank(model="cohere/bert_rerank", query="x", documents=["a", "b"], top_n=1,
                                api_base=SERVER.url, api_key=KEY)
        self.assertEqual(len(ranked.results), 1)
        with self.assertRaises(litellm.exceptions.NotFoundError):
            litellm.completion(model="openai/gpt", messages=MESSAGES, **common)


class OpenApiTest(unittest.TestCase):
    def test_the_description_is_valid(self):
        from openapi_spec_validator import validate
        status, document = SERVER.get("/openapi.json", Authorization=f"Bearer {KEY}")
        self.assertEqual(status, 200)
        validate(document)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
