"""The stock xinference-client and LangChain's Xinference classes against our server. Run by xinference.sh, which brings
them. What needs a model from elsewhere is skipped with a word where that cannot be pulled."""
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from platform_server import FleetServer  # noqa: E402
from quern_server import BERT, GOLDEN, LLAMA, QUERN, RERANKER  # noqa: E402

import xinference_client  # noqa: E402
from xinference_client import RESTfulClient  # noqa: E402

SERVER = CLIENT = None
MESSAGES = [{"role": "user", "content": "the tide"}]
SHORT = {"max_tokens": 6, "temperature": 0, "ignore_eos": True}
OWN = {"version": 2, "context_length": 128, "model_name": "own-llama", "model_lang": ["en"], "model_ability": ["chat", "generate"],
       "model_description": "a tiny model", "model_family": "own-llama",
       "model_specs": [{"model_format": "pytorch", "model_size_in_billions": 1, "quantization": "none",
                        "model_uri": f"file://{LLAMA}"}],
       "chat_template": None, "stop_token_ids": [], "stop": []}


def setUpModule():
    global SERVER, CLIENT
    warnings.simplefilter("ignore", ResourceWarning)
    SERVER = FleetServer()
    CLIENT = RESTfulClient(SERVER.url)
    print("xinference-client", xinference_client.__version__, file=sys.stderr)


def tearDownModule():
    CLIENT.close()
    assert SERVER.stop() == 0


def pull(model):
    """Brings a model into the server's home; a reason to skip where it cannot."""
    result = subprocess.run([QUERN, "pull", model], capture_output=True, text=True, timeout=600,
                            env={**os.environ, "QUERN_HOME": SERVER.home.name})
    return "" if result.returncode == 0 else f"SKIPPED: {model} cannot be pulled here: {result.stderr.strip()}"


class Launched(unittest.TestCase):
    launch = {}

    @classmethod
    def setUpClass(cls):
        cls.uid = CLIENT.launch_model(threads=1, **cls.launch)
        cls.model = CLIENT.get_model(cls.uid)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        CLIENT.terminate_model(cls.uid)
        assert cls.uid not in CLIENT.list_models()


class ChatTest(Launched):
    launch = {"model_name": "llama", "model_path": str(LLAMA), "model_engine": "quern", "model_uid": "chatty", "replica": 1}

    def test_list_and_describe(self):
        listed = CLIENT.list_models()[self.uid]
        described = CLIENT.describe_model(self.uid)
        self.assertEqual((listed["model_type"], described["model_type"], described["replica"]), ("LLM", "LLM", 1))
        for key in ("address", "accelerators", "model_name", "model_lang", "model_ability", "model_description",
                    "model_format", "model_size_in_billions", "model_family", "quantization", "model_hub", "revision",
                    "context_length"):
            self.assertIn(key, described)

    def test_chat(self):
        whole = self.model.chat(MESSAGES, generate_config=SHORT)
        parts = list(self.model.chat(MESSAGES, generate_config={**SHORT, "stream": True}))
        text = "".join(p["choices"][0]["delta"].get("content") or "" for p in parts if p["choices"])
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual(whole["usage"]["completion_tokens"], 6)
        self.assertTrue(self.model.chat(MESSAGES, enable_thinking=False, generate_config=SHORT))

    def test_generate(self):
        whole = self.model.generate("the mill", generate_config=SHORT)
        parts = list(self.model.generate("the mill", generate_config={**SHORT, "stream": True}))
        self.assertEqual("".join(p["choices"][0]["text"] for p in parts if p["choices"]), whole["choices"][0]["text"])

    def test_errors_are_told(self):
        with self.assertRaisesRegex(RuntimeError, "temperature"):
            self.model.chat(MESSAGES, generate_config={"temperature": -1})
        with self.assertRaisesRegex(RuntimeError, "nobody"):
            CLIENT.get_model("nobody")
        with self.assertRaisesRegex(RuntimeError, "nobody"):
            CLIENT.terminate_model("nobody")
        with self.assertRaisesRegex(RuntimeError, "chatty"):
            CLIENT.launch_model(**self.launch)
        with self.assertRaisesRegex(RuntimeError, "no-such-model"):
            CLIENT.launch_model("no-such-model", model_engine="quern")
        with self.assertRaisesRegex(RuntimeError, "replica"):
            CLIENT.launch_model("own", model_path=str(LLAMA), model_engine="quern", replica=1000)

    def test_abort(self):
        # More than a connection holds while nobody reads.
        config = {"max_tokens": 400, "n": 128, "stream": True, "request_id": "the-one", "ignore_eos": True}
        stream = self.model.chat(MESSAGES, generate_config=config)
        next(stream)
        self.assertEqual(CLIENT.abort_request(self.uid, "the-one", 0)["msg"], "DONE")
        with self.assertRaisesRegex(Exception, "abort"):
            list(stream)
        self.assertEqual(CLIENT.abort_request(self.uid, "the-one", 0)["msg"], "NOT_FOUND")

    def test_instances_and_progress(self):
        info, = CLIENT.get_instance_info("llama", self.uid)
        self.assertEqual((info["status"], info["replica"], info["replica_statuses"][0]["status"]), ("READY", 1, "READY"))
        self.assertEqual(CLIENT.get_instance_info("other", self.uid), [])
        self.assertEqual(CLIENT.get_launch_model_progress(self.uid)["progress"], 1)
        self.assertEqual(CLIENT.get_progress(f"launching-{self.uid}-0")["progress"], 1)

    def test_replicas(self):
        added = CLIENT.add_model_replica(self.uid)
        self.assertEqual(added["replica_model_uid"], f"{self.uid}-1")
        SERVER.wait_for(lambda: len([r for r in CLIENT.get_instance_info("", self.uid)[0]["replica_statuses"]
                                     if r["status"] == "READY"]) == 2, "two replicas")
        self.assertEqual(CLIENT.terminate_model_replica(self.uid, added["replica_id"]), 1)

    def test_async_client(self):
        from xinference_client import AsyncRESTfulClient

        async def run():
            client = AsyncRESTfulClient(SERVER.url)
            model = await client.get_model(self.uid)
            answer = await model.chat(MESSAGES, generate_config=SHORT)
            parts = [p async for p in await model.chat(MESSAGES, generate_config={**SHORT, "stream": True})]
            await model.close()
            await client.close()
            return answer, parts

        answer, parts = asyncio.run(run())
        text = "".join(p["choices"][0]["delta"].get("content") or "" for p in parts if p["choices"])
        self.assertEqual(text, answer["choices"][0]["message"]["content"])


class LaunchTest(unittest.TestCase):
    def test_registered_model_by_name(self):
        CLIENT.register_model("LLM", json.dumps(OWN), persist=True)
        self.addCleanup(CLIENT.unregister_model, "LLM", "own-llama")
        names = {r["model_name"]: r["is_builtin"] for r in CLIENT.list_model_registrations("LLM")}
        self.assertGreater(len(names), 100)
        self.assertEqual((names["own-llama"], names["smollm2"]), (False, True))
        detailed = {r["model_name"]: r for r in CLIENT.list_model_registrations("LLM", detailed=True)}
        self.assertEqual(detailed["own-llama"]["model_specs"][0]["model_format"], "pytorch")
        self.assertEqual(CLIENT.get_model_registration("LLM", "own-llama")["context_length"], 128)
        with self.assertRaisesRegex(RuntimeError, "own-llama"):
            CLIENT.register_model("LLM", json.dumps(OWN), persist=True)
        uid = CLIENT.launch_model("own-llama", model_engine="Transformers", model_format="pytorch", model_size_in_billions=1,
                                  quantization="none", threads=1)
        self.assertEqual(uid, "own-llama")
        model = CLIENT.get_model(uid)
        self.assertTrue(model.chat(MESSAGES, generate_config=SHORT)["choices"])
        model.close()
        self.assertEqual([m["launch"]["model_uid"] for m in CLIENT.get_autostart_config()["models"] if
                          m["launch"]["model_uid"] == uid], [uid])
        self.assertIn({"enabled": True, "model_uid": uid}, CLIENT.get_autostart_model_summary()["models"])
        with self.assertRaisesRegex(RuntimeError, "comes back"):
            CLIENT.remove_autostart_model(uid)
        CLIENT.terminate_model(uid)

    def test_gguf_by_path_with_a_name_of_the_catalogue(self):
        uid = CLIENT.launch_model("smollm2", model_engine="llama.cpp" if os.environ.get("QUERN_LLAMA_SERVER") else "quern",
                                  model_path=str(GOLDEN / "gguf/llama-f32.gguf"), model_format="ggufv2",
                                  model_size_in_billions=0.135, quantization="F32", model_uid="by-path", wait_ready=False)
        SERVER.wait_for(lambda: CLIENT.get_instance_info("", uid)[0]["status"] == "READY", "ready")
        described = CLIENT.describe_model(uid)
        self.assertEqual((described["model_name"], described["model_format"]), ("smollm2", "ggufv2"))
        self.assertEqual(described["model_size_in_billions"], "0_135")
        CLIENT.terminate_model(uid)

    def test_cancel(self):
        uid = CLIENT.launch_model("llama", model_path=str(LLAMA), model_engine="quern", model_uid="cut", wait_ready=False,
                                  threads=1)
        try:
            CLIENT.cancel_launch_model(uid)
        except RuntimeError as error:  # it was faster than we
            self.assertIn("running", str(error))
            CLIENT.terminate_model(uid)
        self.assertNotIn(uid, CLIENT.list_models())

    def test_a_cancelled_wait_ends(self):
        failure = []

        def launch():
            try:
                CLIENT.launch_model("llama", model_path=str(LLAMA), model_engine="quern", model_uid="waited", threads=1,
                                    max_num_seqs=2)
            except RuntimeError as error:
                failure.append(str(error))

        thread = threading.Thread(target=launch)
        thread.start()
        other = RESTfulClient(SERVER.url)
        SERVER.wait_for(lambda: "waited" in other.list_models(), "launched")
        other.terminate_model("waited")
        other.close()
        thread.join(60)
        self.assertFalse(thread.is_alive())
        for text in failure:  # unless it was ready before
            self.assertIn("cancelled", text)


class ClusterTest(unittest.TestCase):
    def test_cluster(self):
        self.assertIn(str(SERVER.port), CLIENT.get_supervisor_info()["supervisor_ip"])
        self.assertIn(str(SERVER.port), CLIENT._get_supervisor_internal_address())
        self.assertEqual(CLIENT.get_workers_info()[0]["work-ip"], "local")
        self.assertIn("chat", CLIENT.vllm_models())
        with self.assertRaisesRegex(RuntimeError, "process"):
            CLIENT.abort_cluster()
        CLIENT.login("nobody", "needed")  # without keys there is nobody to be
        self.assertEqual(SERVER.get("/v1/cluster/info?detailed=true")[1][0]["node_type"], "Supervisor")
        self.assertGreater(SERVER.get("/v1/cluster/info?detailed=true")[1][0]["mem_total"], 0)

    def test_engines(self):
        for type_ in ("LLM", None):
            engines = CLIENT.query_engine_by_model_name("smollm2", type_)
            self.assertEqual({"quern", "vllm", "sglang", "llama.cpp", "openai"}, set(engines))
            self.assertIn("ggufv2", {e["model_format"] for e in engines["quern"]})
            self.assertTrue(all(isinstance(reason, (str, list)) for reason in engines.values()))

    def test_cache(self):
        self.assertEqual(CLIENT.list_cached_models(), [])
        with self.assertRaisesRegex(RuntimeError, "nothing-here"):
            CLIENT.list_deletable_models("nothing-here")
        with self.assertRaisesRegex(RuntimeError, "nothing-here"):
            CLIENT.confirm_and_remove_model("nothing-here")


class EmbeddingTest(Launched):
    launch = {"model_name": "bert", "model_path": str(BERT), "model_type": "embedding", "model_uid": "embedder"}

    def test_embedding(self):
        answer = self.model.create_embedding(["grain", "flour"])
        self.assertEqual([d["index"] for d in answer["data"]], [0, 1])
        self.assertEqual((answer["model"], answer["object"]), (self.uid, "list"))
        self.assertIn("model_replica", answer)
        one = self.model.create_embedding("grain")["data"][0]["embedding"]
        self.assertEqual(one, answer["data"][0]["embedding"])
        self.assertEqual(len(self.model.convert_ids_to_tokens([5, 6])), 2)
        self.assertEqual([len(x) for x in self.model.convert_ids_to_tokens([[5], [6, 7]])], [1, 2])
        with self.assertRaisesRegex(RuntimeError, "input"):
            self.model.convert_ids_to_tokens([10**8])

    def test_langchain(self):
        from langchain_community.embeddings import XinferenceEmbeddings
        embeddings = XinferenceEmbeddings(server_url=SERVER.url, model_uid=self.uid)
        self.assertEqual(len(embeddings.embed_documents(["a", "b"])), 2)
        self.assertEqual(embeddings.embed_query("a"), embeddings.embed_documents(["a"])[0])


class RerankTest(Launched):
    launch = {"model_name": "reranker", "model_path": str(RERANKER), "model_type": "rerank", "model_uid": "ranker"}

    def test_rerank(self):
        documents = ["grain", "flour", "stone"]
        answer = self.model.rerank(documents, "mill", top_n=2, return_documents=True, return_len=True)
        self.assertEqual(len(answer["results"]), 2)
        for result in answer["results"]:
            self.assertEqual(result["document"]["text"], documents[result["index"]])
        self.assertGreater(answer["meta"]["tokens"]["input_tokens"], 0)
        self.assertEqual(len(self.model.rerank(documents, "mill", truncate_prompt_tokens=4)["results"]), 3)
        with self.assertRaisesRegex(RuntimeError, "max_chunks_per_doc"):
            self.model.rerank(documents, "mill", max_chunks_per_doc=2)


class LangChainTest(Launched):
    launch = {"model_name": "llama", "model_path": str(LLAMA), "model_engine": "quern", "model_uid": "chained"}

    def test_llm(self):
        from langchain_community.llms import Xinference
        llm = Xinference(server_url=SERVER.url, model_uid=self.uid, temperature=0, max_tokens=6, ignore_eos=True)
        whole = llm.invoke("the mill")
        self.assertEqual(whole, self.model.generate("the mill", generate_config=SHORT)["choices"][0]["text"])
        self.assertEqual("".join(llm.stream("the mill", generate_config={"stream": True})), whole)  # it does not ask by itself
        self.assertEqual(llm.invoke("the mill", generate_config={"max_tokens": 2}), llm.invoke("the mill", generate_config={
            "max_tokens": 2, "stream": True}))


class RealModelsTest(unittest.TestCase):
    """Models of the catalogue by their names."""

    def test_smollm2(self):
        if reason := pull("smollm2"):
            self.skipTest(reason)
        cached, = CLIENT.list_cached_models("smollm2")
        self.assertEqual(cached["model_format"], "ggufv2")
        uid = CLIENT.launch_model("smollm2", model_engine="quern", model_size_in_billions=0.135, max_num_seqs=4, context=2048)
        model = CLIENT.get_model(uid)
        answer = model.chat([{"role": "user", "content": "What city is the capital of France? Answer in one word."}],
                            generate_config={"max_tokens": 24, "temperature": 0})
        self.assertIn("Paris", answer["choices"][0]["message"]["content"])
        model.close()
        with self.assertRaisesRegex(RuntimeError, "in use"):
            CLIENT.confirm_and_remove_model(cached["model_version"])
        CLIENT.terminate_model(uid)
        self.assertTrue(CLIENT.list_deletable_models(cached["model_version"])["paths"])
        self.assertTrue(CLIENT.confirm_and_remove_model(cached["model_version"]))
        self.assertEqual(CLIENT.list_cached_models("smollm2"), [])

    def test_all_minilm(self):
        if reason := pull("all-MiniLM-L6-v2"):
            self.skipTest(reason)
        uid = CLIENT.launch_model("all-MiniLM-L6-v2", model_type="embedding")
        self.assertEqual(CLIENT.describe_model(uid)["dimensions"], 384)
        model = CLIENT.get_model(uid)
        self.assertEqual(len(model.create_embedding("grain")["data"][0]["embedding"]), 384)
        model.close()
        CLIENT.terminate_model(uid)


if __name__ == "__main__":
    unittest.main(verbosity=2)
