"""Models launched, changed, watched and stopped over HTTP, in our words and Xinference's."""
import sys
import json
import os
import pathlib
import signal
import tempfile
import threading
import unittest

from adapter_files import write_adapter
from platform_server import FleetServer
from quern_server import BERT, LLAMA, RERANKER, Server, chat

SERVER = None


def setUpModule():
    global SERVER
    SERVER = FleetServer()


def tearDownModule():
    assert SERVER.stop() == 0


class LaunchTest(unittest.TestCase):
    def test_launch_use_and_stop(self):
        with SERVER.launched("one"):
            status, model = SERVER.get("/v1/models/one")
            self.assertEqual(status, 200)
            self.assertEqual((model["id"], model["status"], model["model_type"], model["replica"]), ("one", "READY", "LLM", 1))
            self.assertEqual([r["id"] for r in model["replicas"]], ["one-0"])
            self.assertGreater(model["replicas"][0]["pid"], 0)
            self.assertIn("one", [m["id"] for m in SERVER.get("/v1/models")[1]["data"]])
            self.assertTrue(SERVER.ok("/v1/chat/completions", chat(model="one"))["choices"][0]["message"]["content"])
            pid = model["replicas"][0]["pid"]
        self.assertEqual(SERVER.get("/v1/models/one")[0], 404)
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_names(self):
        status, answer = SERVER.post("/v1/models", {"model_name": "no-such-model"})
        self.assertEqual(status, 404, answer)
        self.assertIn("no-such-model", answer["detail"])
        status, answer = SERVER.post("/v1/models", {"model_name": str(LLAMA), "replica": 65})
        self.assertEqual((status, answer["error"]["param"]), (400, "replica"))
        status, answer = SERVER.post("/v1/models", {"model_name": str(LLAMA), "model_engine": "mill"})
        self.assertEqual((status, answer["error"]["param"]), (400, "model_engine"))
        with SERVER.launched("org/name"):
            status, answer = SERVER.post("/v1/models", {"uid": "org/name", "model_name": str(LLAMA)})
            self.assertEqual((status, answer["error"]["code"]), (409, "model_exists"))
            self.assertEqual(SERVER.get("/v1/models/org/name/replicas")[1][0]["id"], "org/name-0")
            self.assertEqual(SERVER.get("/v1/models/org%2Fname")[1]["id"], "org/name")
        self.assertEqual(SERVER.delete("/v1/models/org/name"), 404)

    def test_what_cannot_load_is_told_and_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "model.gguf").write_bytes(b"GGUF\3\0\0\0")
            status, answer = SERVER.post("/v1/models", {"uid": "broken", "model_name": folder + "/model.gguf"})
            self.assertIn(status, (400, 503), answer)
            self.assertTrue(answer["detail"])
        SERVER.wait_for(lambda: SERVER.get("/v1/models/broken")[0] == 404, "the broken model is gone")

    def test_no_wait_and_progress(self):
        body = {"uid": "later", "model_name": str(LLAMA), "engine_options": {"threads": 1}}
        self.assertEqual(SERVER.ok("/v1/models?wait_ready=False", body), {"model_uid": "later"})
        self.addCleanup(SERVER.delete, "/v1/models/later")
        SERVER.wait_for(lambda: SERVER.get("/v1/models/later/progress")[1]["stage"] == "ready", "progress")
        self.assertEqual(SERVER.get("/v1/models/later/progress")[1]["progress"], 1)
        self.assertEqual(SERVER.get("/v1/models/nobody/progress")[1]["stage"], "pending")
        self.assertEqual(SERVER.post("/v1/models/later/cancel", {})[0], 409)
        self.assertEqual(SERVER.post("/v1/models?wait_ready=maybe", body)[0], 400)

    def test_embeddings_and_rerank(self):
        with SERVER.launched("bert", BERT, model_type="embedding"), SERVER.launched("ranker", RERANKER, model_type="rerank"):
            answer = SERVER.ok("/v1/embeddings", {"model": "bert", "input": ["a", "b"]})
            self.assertEqual(len(answer["data"]), 2)
            answer = SERVER.ok("/v1/rerank", {"model": "ranker", "query": "a", "documents": ["b", "c"], "top_n": None,
                                              "max_chunks_per_doc": None, "return_len": None, "return_documents": None,
                                              "kwargs": json.dumps({"return_documents": True})})
            self.assertEqual({r["document"]["text"] for r in answer["results"]}, {"b", "c"})
            for wrong in ("[1]", "{", 5):
                self.assertEqual(SERVER.post("/v1/rerank", {"model": "ranker", "query": "a", "documents": ["b"],
                                                            "kwargs": wrong})[0], 400, wrong)
            status, model = SERVER.get("/v1/models/bert")
            self.assertEqual((model["model_type"], model["model_ability"]), ("embedding", ["embed"]))


class ChangeTest(unittest.TestCase):
    def test_replicas(self):
        with SERVER.launched("copies"):
            status, added = SERVER.post("/v1/models/copies/replicas", {})
            self.assertEqual((status, added["replicas"]), (200, 2), added)
            ready = lambda count: lambda: [r["status"] for r in SERVER.get("/v1/models/copies/replicas")[1]].count("READY") == count
            SERVER.wait_for(ready(2), "two replicas")
            status, answer, _ = SERVER.request("DELETE", "/v1/models/copies/replicas/1")
            self.assertEqual((status, json.loads(answer)), (200, {"remaining_replicas": 1}))
            SERVER.wait_for(ready(1), "one replica")
            self.assertEqual(SERVER.delete("/v1/models/copies/replicas/9"), 404)
            status, answer = SERVER.post("/v1/models/copies/replicas", {"replica_config": {"devices": []}})
            self.assertEqual((status, answer["error"]["param"]), (400, "replica_config"))
            status, instances = SERVER.get("/v1/models/instances?model_uid=copies&model_name=")
            self.assertEqual([(i["model_uid"], i["replica"], i["status"]) for i in instances], [("copies", 1, "READY")])
            last = SERVER.get("/v1/models/copies/replicas")[1][0]["id"]
            self.assertEqual(SERVER.delete(f"/v1/models/copies/replicas/{last}"), 200)
            SERVER.wait_for(lambda: SERVER.get("/v1/models/copies")[0] == 404, "a model ends with its last replica")

    def test_update(self):
        with SERVER.launched("moved"):
            before = SERVER.get("/v1/models/moved")[1]
            self.assertEqual(before["launch"]["context"], 0)
            status, text, _ = SERVER.request("PUT", "/v1/models/moved", {"context": 64, "env": {"SECRET": "sesame"}})
            self.assertEqual(status, 200, text)
            def moved():
                model = SERVER.get("/v1/models/moved")[1]
                pids = [r["pid"] for r in model["replicas"] if r["status"] == "READY"]
                return pids and before["replicas"][0]["pid"] not in pids and model
            model = SERVER.wait_for(moved, "another worker")
            self.assertEqual((model["launch"]["context"], model["launch"]["engine_options"]), (64, {"threads": "1"}))
            self.assertNotIn("sesame", json.dumps(model))
            self.assertTrue(SERVER.ok("/v1/chat/completions", chat(model="moved", max_tokens=4)))
            status, text, _ = SERVER.request("PUT", "/v1/models/moved", {"context": -1})
            self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "context"))
        self.assertEqual(SERVER.request("PUT", "/v1/models/moved", {"context": 1})[0], 404)

    def test_unload(self):
        with SERVER.launched("sleepy"):
            status, model = SERVER.post("/v1/models/sleepy/unload", {})
            self.assertEqual(status, 200, model)
            SERVER.wait_for(lambda: SERVER.get("/v1/models/sleepy")[1]["idle"], "idle")
            self.assertTrue(SERVER.ok("/v1/chat/completions", chat(model="sleepy", max_tokens=4)))
            self.assertFalse(SERVER.get("/v1/models/sleepy")[1]["idle"])


class AdapterTest(unittest.TestCase):
    def test_adapters_are_models(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = {name: str(write_adapter(pathlib.Path(folder) / name, seed)) for seed, name in enumerate(("sql", "poem"))}
            adapters = [{"name": "sql", "path": paths["sql"]}]
            said = lambda model: SERVER.ok("/v1/chat/completions", chat(model=model))["choices"][0]["message"]["content"]
            for wrong in (adapters * 2, [{"name": "base", "path": paths["sql"]}]):
                status, answer = SERVER.post("/v1/models", {"uid": "base", "model_name": str(LLAMA), "adapters": wrong})
                self.assertEqual(status, 400, answer)
                self.assertIn("adapters", answer["error"]["message"])
            with SERVER.launched("base", adapters=adapters):
                shown = {m["id"]: m for m in SERVER.get("/v1/models")[1]["data"]}
                self.assertEqual((shown["sql"]["parent"], shown["sql"]["root"]), ("base", paths["sql"]))
                self.assertNotIn("parent", shown["base"])
                self.assertEqual(SERVER.get("/v1/models/sql")[1]["parent"], "base")
                self.assertNotEqual(said("sql"), said("base"))
                self.assertEqual(said("base:sql"), said("sql"))
                with SERVER.launched("twin", adapters=adapters):
                    names = {m["id"]: m.get("parent") for m in SERVER.get("/v1/models")[1]["data"]}
                    self.assertEqual((names["sql"], names["twin:sql"]), ("base", "twin"))
                    self.assertEqual(said("twin:sql"), said("sql"))
                status, text, _ = SERVER.request("PUT", "/v1/models/base", {"adapters": [{"name": n, "path": p} for n, p in paths.items()]})
                self.assertEqual(status, 200, text)
                self.assertNotIn(said("poem"), (said("base"), said("sql")), "waited for the replica that has it")
            self.assertEqual(SERVER.post("/v1/chat/completions", chat(model="sql"))[0], 404)


class WatchTest(unittest.TestCase):
    def test_events_and_logs(self):
        with SERVER.launched("watched"):
            status, events = SERVER.get("/v1/models/watched/events")
            kinds = [e["kind"] for e in events]
            self.assertIn("ready", kinds)
            self.assertEqual(sorted(e["id"] for e in events), [e["id"] for e in events])
            self.assertEqual({e["event_type"] for e in events}, {"INFO"})
            last = events[-1]["id"]
            self.assertEqual(SERVER.get(f"/v1/models/watched/events?after={last}")[1], [])
            self.assertEqual(SERVER.get("/v1/models/watched/events?after=x")[0], 400)
            status, text, headers = SERVER.request("GET", "/v1/models/watched/logs?replica=0")
            self.assertEqual((status, headers["content-type"]), (200, "text/plain; charset=utf-8"))
            self.assertIn("listening", text)
            self.assertEqual(len(SERVER.request("GET", "/v1/models/watched/logs?bytes=10")[1].encode()), 10)
            self.assertEqual(SERVER.request("GET", "/v1/models/watched/logs?replica=7")[0], 404)
        self.assertEqual(SERVER.get("/v1/models/nobody/events")[0], 404)

    def test_events_as_they_come(self):
        with SERVER.launched("streamed"):
            pid = SERVER.get("/v1/models/streamed")[1]["replicas"][0]["pid"]
            last = SERVER.get("/v1/models/streamed/events")[1][-1]["id"]
            connection = SERVER.connection()
            connection.request("GET", "/v1/models/streamed/events", None, {"Accept": "text/event-stream", "Last-Event-ID": str(last)})
            answer = connection.getresponse()
            self.assertEqual(answer.headers["content-type"], "text/event-stream")
            os.kill(pid, signal.SIGKILL)
            seen = []
            while "ready" not in seen:
                line = answer.readline().decode()
                self.assertTrue(line, seen)
                if line.startswith("event: "):
                    seen.append(line[7:].strip())
            self.assertIn("died", seen)
            connection.close()
            told = {e["kind"]: e["event_type"] for e in SERVER.get("/v1/models/streamed/events")[1]}
            self.assertEqual((told["died"], told["ready"]), ("ERROR", "INFO"))

    def test_log_as_it_comes(self):
        with SERVER.launched("logged"):
            connection = SERVER.connection()
            connection.request("GET", "/v1/models/logged/logs?follow=true&bytes=0")
            answer = connection.getresponse()
            self.assertTrue(SERVER.ok("/v1/chat/completions", chat(model="logged", max_tokens=2)))
            while b"/v1/chat/completions" not in (line := answer.readline()):
                self.assertTrue(line)  # of health checks
            connection.close()


class AbortTest(unittest.TestCase):
    def abort(self, uid, request_id, **body):
        return SERVER.post(f"/v1/models/{uid}/requests/{request_id}/abort", body)

    def run_long(self, stream, headers=None, **fields):
        """Starts answers that are more than a connection holds while nobody reads; returns the connection."""
        connection = SERVER.connection()
        body = chat(model="long", max_tokens=400, n=128, stream=stream, **fields)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        return connection

    def test_abort(self):
        with SERVER.launched("long"):
            self.assertEqual(self.abort("nobody", "x")[0], 404)
            self.assertEqual(self.abort("long", "x")[1]["msg"], "NOT_FOUND")
            self.assertEqual(self.abort("long", "x", block_duration=-1)[0], 400)
            stream = self.run_long(True, request_id="mine").getresponse()
            self.assertTrue(stream.readline().startswith(b"data: "))
            self.assertEqual(self.abort("long", "mine"), (200, {"msg": "DONE"}))
            rest = stream.read().decode()
            self.assertIn('"request_aborted"', rest)
            self.assertTrue(rest.rstrip().endswith("[DONE]"))
            whole = self.run_long(False, {"X-Request-Id": "other"})
            SERVER.wait_for(lambda: self.abort("long", "other")[1]["msg"] == "DONE", "the request runs")
            answer = whole.getresponse()
            self.assertEqual((answer.status, json.loads(answer.read())["error"]["code"]), (499, "request_aborted"))
            self.assertEqual(self.abort("long", "early", block_duration=60)[1]["msg"], "NOT_FOUND")
            self.assertEqual(self.run_long(False, request_id="early").getresponse().status, 499)
            SERVER.wait_for(lambda: SERVER.get("/v1/models/long/replicas")[1][0]["in_flight"] == 0, "nothing runs any more")


class RightsTest(unittest.TestCase):
    def test_keys_and_open_servers(self):
        with tempfile.TemporaryDirectory() as home:
            server = Server("--host", "0.0.0.0", "--auth", "off", models=(LLAMA,), QUERN_HOME=home)
            self.addCleanup(server.stop)
            for method, path in (("POST", "/v1/models"), ("DELETE", "/v1/models/llama"), ("PUT", "/v1/models/llama"),
                                 ("POST", "/v1/model_registrations/LLM"), ("DELETE", "/v1/cache/models?model_version=x"),
                                 ("GET", "/v1/models/llama/logs"), ("POST", "/v1/autostart/models")):
                body = {"model_name": "x", "model": "{}", "launch": {"model_name": "x"}}
                status, text, _ = server.request(method, path, body if method in ("POST", "PUT") else None)
                self.assertEqual(status, 403, (method, path, text))
            self.assertEqual(server.get("/v1/cluster/auth")[1], {"auth": False})
        with tempfile.TemporaryDirectory() as home:
            server = Server(models=(LLAMA,), QUERN_API_KEY="sesame", QUERN_HOME=home)
            self.addCleanup(server.stop)
            self.assertEqual(server.get("/v1/cluster/auth")[1], {"auth": True})
            self.assertEqual(server.post("/v1/models", {"model_name": "x"})[0], 401)
            key = {"Authorization": "Bearer sesame"}
            status, answer = server.post("/v1/models", {"model_name": "x"}, key)
            self.assertEqual((status, answer["error"]["code"]), (400, "no_fleet"))
            self.assertEqual(server.request("DELETE", "/v1/models/llama", None, key)[0], 400)


class XinferenceTest(unittest.TestCase):
    """What the client does not ask, but others do."""

    def test_catalogue(self):
        status, names = SERVER.get("/v1/model_registrations/LLM")
        self.assertGreater(len(names), 100)
        self.assertEqual([n["model_name"].lower() for n in names], sorted(n["model_name"].lower() for n in names))
        self.assertEqual(SERVER.get("/v1/model_registrations/video")[1], [])
        self.assertEqual(SERVER.get("/v1/model_registrations/flour")[0], 400)
        status, family = SERVER.get("/v1/model_registrations/llm/qwen2.5-coder")
        self.assertEqual(family["model_name"], "qwen2.5-coder")
        self.assertIn("chat", family["model_ability"])
        self.assertIn("ggufv2", {s["model_format"] for s in family["model_specs"]})
        self.assertIn("0_5", {s["model_size_in_billions"] for s in family["model_specs"]})
        self.assertEqual(SERVER.get("/v1/model_registrations/embedding/qwen2.5-coder")[0], 404)
        self.assertIn("qwen2.5-coder", SERVER.get("/v1/models/families")[1]["chat"])

    def test_a_version_is_a_variant(self):
        status, versions = SERVER.get("/v1/models/LLM/smollm2/versions")
        self.assertEqual(status, 200)
        names = [v["model_version"] for v in versions]
        self.assertEqual(len(set(names)), len(names))
        self.assertTrue(all(v["model_file_location"] is None and not v["cache_status"] for v in versions))
        status, answer = SERVER.post("/v1/models/instance", {"model_version": "smollm2--no"})
        self.assertEqual((status, answer["error"]["param"]), (404, "model_version"))

    def test_absent(self):
        for path in ("/v1/images/generations", "/v1/audio/speech", "/v1/video/generations", "/v1/flexible/infers"):
            status, answer = SERVER.post(path, {"model": "x", "prompt": "y"})
            self.assertEqual(status, 400)
            self.assertIn("not supported", answer["detail"])
        status, text, _ = SERVER.request("DELETE", "/v1/clusters")
        self.assertEqual(status, 400)

    def test_prompts_of_a_registration(self):
        document = {"name": "own-llama", "kind": "chat", "family": "llama", "description": "ours", "abilities": ["chat"],
                    "template": "{{ messages[0].content }}",
                    "variants": [{"tag": "default", "format": "safetensors", "sources": [{"path": str(LLAMA)}]}]}
        for wrong in ({}, {"model": "{"}, {"model": document, "persist": False}, {"model": document, "worker_ip": "x"}):
            self.assertEqual(SERVER.post("/v1/model_registrations/LLM", wrong)[0], 400, wrong)
        self.assertEqual(SERVER.post("/v1/model_registrations/LLM", {"model": document}), (200, None))
        self.addCleanup(SERVER.delete, "/v1/model_registrations/LLM/own-llama")
        self.assertEqual(SERVER.get("/v1/models/prompts")[1]["own-llama"]["chat_template"], document["template"])
        status, answer = SERVER.post("/v1/model_registrations/LLM", {"model": document})
        self.assertEqual(status, 400, answer)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
