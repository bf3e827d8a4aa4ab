"""What Dify's plugin OpenAI-API-compatible does with a server, by the classes of Dify's SDK that it is made of; prints JSON.
A program of its own: the SDK replaces Python's threads. Arguments: URL, KEY."""
import json
import sys

import dify_plugin.interfaces.model.ai_model as ai_model
from dify_plugin.entities.model.message import PromptMessageTool, SystemPromptMessage, UserPromptMessage
from dify_plugin.interfaces.model.openai_compatible.llm import OAICompatLargeLanguageModel
from dify_plugin.interfaces.model.openai_compatible.rerank import OAICompatRerankModel
from dify_plugin.interfaces.model.openai_compatible.text_embedding import OAICompatEmbeddingModel

# Its estimate of tokens wants a file from the internet.
ai_model.AIModel._get_num_tokens_by_gpt2 = lambda self, text: len(text) // 4 + 1


def text_of(chunks):
    return "".join(chunk.delta.message.content for chunk in chunks)


def main(url, key):
    settings = {"endpoint_url": url, "api_key": key, "mode": "chat", "context_size": "2048", "max_tokens_to_sample": "64",
                "function_calling_type": "tool_call"}
    messages = [SystemPromptMessage(content="Be brief."), UserPromptMessage(content="What is a quern?")]
    parameters = {"temperature": 0, "max_tokens": 24}
    model = OAICompatLargeLanguageModel([])
    for more in ({}, {"mode": "completion"}, {"stream_mode_auth": "use"}):
        model.validate_credentials("smollm2", {**settings, **more})
    results = {}
    results["whole"] = text_of(model.invoke("smollm2", settings, messages, dict(parameters), stream=False))
    results["streamed"] = text_of(model.invoke("smollm2", settings, messages, dict(parameters), stream=True, user="abc"))
    tool = PromptMessageTool(name="clock", description="tells the time", parameters={"type": "object", "properties": {}})
    results["with_tools"] = len(list(model.invoke("smollm2", settings, messages, dict(parameters), tools=[tool], stream=True)))
    embeddings = OAICompatEmbeddingModel([])
    embeddings.validate_credentials("all-MiniLM-L6-v2", settings)
    results["vectors"] = [len(vector) for vector in
                          embeddings.invoke("all-MiniLM-L6-v2", settings, ["grain", "flour"]).embeddings]
    ranked = OAICompatRerankModel([]).invoke("bert_rerank", settings, "grain", ["flour", "tide"])
    results["ranked"] = sorted(document.index for document in ranked.docs)
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
