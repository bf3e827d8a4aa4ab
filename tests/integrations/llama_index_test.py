"""docs/integrations/llamaindex.md. Run by run.sh, which brings clients and models."""
import asyncio
import os
import sys
import unittest

from page_server import KEY, TEXTS, PageTest


class LlamaIndexTest(PageTest):
    def setUp(self):
        from llama_index.embeddings.openai_like import OpenAILikeEmbedding
        from llama_index.llms.openai_like import OpenAILike
        self.llm = OpenAILike(model="smollm2", api_base=self.base_url, api_key=KEY, is_chat_model=True, context_window=2048,
                              temperature=0, max_tokens=24)
        self.embeddings = OpenAILikeEmbedding(model_name="all-MiniLM-L6-v2", api_base=self.base_url, api_key=KEY)

    def test_index_and_query(self):
        from llama_index.core import Document, VectorStoreIndex
        index = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS], embed_model=self.embeddings)
        nodes = index.as_retriever(similarity_top_k=1).retrieve("What grinds grain by hand?")
        self.assertEqual(nodes[0].get_content(), TEXTS[0])
        whole = str(index.as_query_engine(llm=self.llm, similarity_top_k=1).query("What is a quern?"))
        self.assertTrue(whole.strip())
        streamed = index.as_query_engine(llm=self.llm, similarity_top_k=1, streaming=True).query("What is a quern?")
        self.assertEqual("".join(streamed.response_gen).strip(), whole.strip())

    def test_complete_chat_and_their_streams(self):
        from llama_index.core.llms import ChatMessage
        self.assertTrue(self.llm.complete("The mill").text)
        messages = [ChatMessage(role="system", content="You are a miller."), ChatMessage(role="user", content="Who are you?")]
        whole = self.llm.chat(messages).message.content
        self.assertEqual("".join(part.delta for part in self.llm.stream_chat(messages)), whole)
        self.assertEqual(asyncio.run(self.llm.achat(messages)).message.content, whole)


if __name__ == "__main__":
    os.environ.update(ANONYMIZED_TELEMETRY="False", LANGSMITH_TRACING="false")
    unittest.main(argv=sys.argv[:1])
