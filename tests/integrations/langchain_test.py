"""docs/integrations/langchain.md and openai.md. Run by run.sh, which brings clients and models."""
import os
import sys
import unittest

from page_server import KEY, TEXTS, PageTest


class LangChainTest(PageTest):
    def setUp(self):
        from langchain_openai import ChatOpenAI, OpenAIEmbeddings
        self.chat = ChatOpenAI(model="smollm2", base_url=self.base_url, api_key=KEY, temperature=0, max_tokens=96)
        # The server has the tokenizer: the client must not cut texts with one of its own.
        self.embeddings = OpenAIEmbeddings(model="all-MiniLM-L6-v2", base_url=self.base_url, api_key=KEY,
                                           check_embedding_ctx_length=False)

    def test_retrieval_chain(self):
        from langchain_core.output_parsers import StrOutputParser
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.runnables import RunnablePassthrough
        from langchain_core.vectorstores import InMemoryVectorStore
        store = InMemoryVectorStore.from_texts(TEXTS, self.embeddings)
        found = store.similarity_search("What grinds grain by hand?", k=1)
        self.assertEqual(found[0].page_content, TEXTS[0])
        prompt = ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
        chain = ({"context": store.as_retriever(search_kwargs={"k": 1}), "question": RunnablePassthrough()}
                 | prompt | self.chat | StrOutputParser())
        whole = chain.invoke("What is a quern?")
        self.assertTrue(whole.strip())
        self.assertEqual("".join(chain.stream("What is a quern?")), whole)

    def test_structured_output_holds(self):
        schema = {"title": "Mill", "type": "object", "additionalProperties": False, "required": ["stone", "turns"],
                  "properties": {"stone": {"enum": ["basalt", "granite"]}, "turns": {"type": "integer", "minimum": 1, "maximum": 9}}}
        answer = self.chat.with_structured_output(schema, method="json_schema").invoke("A mill of basalt that turns twice")
        self.assertIn(answer["stone"], ("basalt", "granite"))
        self.assertTrue(1 <= answer["turns"] <= 9)

    def test_tool_that_must_be_called(self):
        from langchain_core.tools import tool

        @tool
        def grind(kilograms: int) -> str:
            """Grinds grain."""
            return f"{kilograms} kg of flour"

        message = self.chat.bind_tools([grind], tool_choice="grind").invoke("Grind three kilograms")
        self.assertEqual(message.tool_calls[0]["name"], "grind")
        self.assertIsInstance(message.tool_calls[0]["args"]["kilograms"], int)

    def test_agent(self):
        from langchain.agents import create_agent
        state = create_agent(self.chat, tools=[], system_prompt="You are a miller.").invoke(
            {"messages": [{"role": "user", "content": "Who are you?"}]})
        self.assertTrue(state["messages"][-1].content)


class OpenAiTest(PageTest):
    def test_the_first_page(self):
        import openai
        client = openai.OpenAI(base_url=self.base_url, api_key=KEY)
        answer = client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "What is gravity?"}],
                                                max_tokens=24)
        self.assertTrue(answer.choices[0].message.content)
        vectors = client.embeddings.create(model="all-MiniLM-L6-v2", input=TEXTS)
        self.assertEqual([len(item.embedding) for item in vectors.data], [384] * 3)
        self.assertEqual({model.id for model in client.models.list()}, {"smollm2", "all-MiniLM-L6-v2", "bert_rerank"})


if __name__ == "__main__":
    os.environ.update(ANONYMIZED_TELEMETRY="False", LANGSMITH_TRACING="false")
    unittest.main(argv=sys.argv[:1])
