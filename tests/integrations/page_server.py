"""A server with SmolLM2 and all-MiniLM for the pages of docs/integrations/. A model of 135 million parameters answers nonsense
at times: the tests look at what arrives, not at what it says."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import RERANKER, Server  # noqa: E402

KEY = "sesame"
TEXTS = ["A quern is a hand mill for grain.", "The tide turns twice a day.", "Basalt makes good millstones."]


class PageTest(unittest.TestCase):
    """Tests of one page, with a server of their own."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--store", ":memory:", "--max-model-len", "2048", models=("smollm2", "all-MiniLM-L6-v2", RERANKER),
                            QUERN_API_KEY=KEY)
        cls.base_url = cls.server.url + "/v1"

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
