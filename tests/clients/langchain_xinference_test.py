"""langchain-xinference, which wants an older xinference-client, against our server. Run by xinference.sh."""
import pathlib
import sys
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from platform_server import FleetServer  # noqa: E402
from quern_server import BERT, LLAMA, RERANKER  # noqa: E402

SERVER = None
CONFIG = {"max_tokens": 6, "temperature": 0}


def setUpModule():
    global SERVER
    warnings.simplefilter("ignore", ResourceWarning)
    import xinference_client
    print("xinference-client", xinference_client.__version__, file=sys.stderr)
    SERVER = FleetServer()
    SERVER.launch("llama")
    SERVER.launch("bert", BERT, model_type="embedding")
    SERVER.launch("ranker", RERANKER, model_type="rerank")


def tearDownModule():
    assert SERVER.stop() == 0


class LangChainTest(unittest.TestCase):
    def test_chat(self):
        from langchain_xinference import ChatXinference
        chat = ChatXinference(server_url=SERVER.url, model_uid="llama")
        whole = chat.invoke("the tide", generate_config=CONFIG).content
        self.assertTrue(whole)
        self.assertEqual("".join(c.content for c in chat.stream("the tide", generate_config=CONFIG)), whole)

    def test_llm(self):
        from langchain_xinference import Xinference
        llm = Xinference(server_url=SERVER.url, model_uid="llama")
        whole = llm.invoke("the mill", generate_config=CONFIG)
        self.assertTrue(whole)
        self.assertEqual("".join(llm.stream("the mill", generate_config=CONFIG)), whole)

    def test_embeddings(self):
        from langchain_xinference import XinferenceEmbeddings
        embeddings = XinferenceEmbeddings(server_url=SERVER.url, model_uid="bert")
        self.assertEqual(len(embeddings.embed_documents(["a", "b"])), 2)
        self.assertEqual(embeddings.embed_query("a"), embeddings.embed_documents(["a"])[0])

    def test_rerank(self):
        from langchain_core.documents import Document
        from langchain_xinference import XinferenceRerank
        ranker = XinferenceRerank(server_url=SERVER.url, model_uid="ranker")
        documents = [Document(page_content="grain"), Document(page_content="flour")]
        self.assertEqual(len(ranker.compress_documents(documents, "mill")), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
