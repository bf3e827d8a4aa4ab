"""One name, several engines: real llama-server and real vLLM behind the front door beside our own engine, and a model
that moves from one to the other while clients ask it. Skips each engine that is not on this machine, by its name:
QUERN_LLAMA_SERVER or llama-server on PATH, QUERN_VLLM or vllm on PATH; the model is SmolLM2 of QUERN_TEST_MODELS (a GGUF
file, and for vLLM a folder smollm2* with safetensors)."""
import json
import os
import pathlib
import shutil
import signal
import sys
import threading
import time
import unittest

import engine_dialects
from adapter_files import write_gguf_adapter
from platform_server import FleetServer

MODELS = pathlib.Path(os.environ.get("QUERN_TEST_MODELS", "/nonexistent"))
LOAD_SECONDS = 600  # vLLM on two cores takes minutes


def program(variable, name):
    path = os.environ.get(variable) or shutil.which(name)
    return path if path and os.access(path, os.X_OK) else None


def gguf():
    return next(iter(sorted(MODELS.glob("SmolLM2*.gguf"))), None)


def folder():
    return next((f.parent for f in sorted(MODELS.glob("[sS]mol[lL][mM]2*/*.safetensors"))), None)


class Client(threading.Thread):
    """Asks without a pause, by turns whole and streamed, and notes all that is no answer."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.errors, self.whole, self.streamed, self.stopping = server, [], 0, 0, False
        self.start()

    def ask(self, stream):
        body = {"model": "mover", "max_tokens": 24, "temperature": 0, "stream": stream,
                "messages": [{"role": "user", "content": "Count to twenty."}]}
        connection = self.server.connection(timeout=LOAD_SECONDS)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status != 200:
            return f"{answer.status}: {text}"
        if not stream:
            return None if json.loads(text)["choices"][0]["message"]["content"] else f"empty: {text}"
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        if events[-1:] != ["[DONE]"] or '"error"' in text:
            return f"no end: {text}"
        said = "".join(c["delta"].get("content") or "" for e in events[:-1] for c in json.loads(e)["choices"])
        return None if said else f"empty: {text}"

    def run(self):
        while not self.stopping:
            stream = self.whole > self.streamed
            try:
                error = self.ask(stream)
            except Exception as broken:  # whatever it is, a client has noticed
                error = repr(broken)
            if error:
                self.errors.append(error)
            elif stream:
                self.streamed += 1
            else:
                self.whole += 1

    def answers(self):
        return self.whole + self.streamed


class SlowServer(FleetServer):
    def connection(self, timeout=LOAD_SECONDS):
        return super().connection(timeout)


class MoveTest(unittest.TestCase):
    def setUp(self):
        self.server = SlowServer()
        self.addCleanup(self.server.stop)

    def shown(self):
        return self.server.get("/v1/models/mover")[1]

    def wait_ready(self, engine, before):
        """Until every replica runs on `engine` and none of the processes `before` is left."""
        def moved():
            model = self.shown()
            pids = {r["pid"] for r in model["replicas"]}
            self.assertNotEqual(model["status"], "ERROR", model["message"])
            ready = all(r["status"] == "READY" for r in model["replicas"])
            return model["model_engine"] == engine and pids and not pids & before and ready and pids
        return self.server.wait_for(moved, f"engine {engine}", LOAD_SECONDS)

    def move(self, clients, engine, before, **fields):
        """Changes the one option, and returns the new processes once clients have been answered by them."""
        status, text, _ = self.server.request("PUT", "/v1/models/mover", {"engine": engine, **fields})
        self.assertEqual(status, 200, text)
        pids = self.wait_ready(engine, before)
        counts = [client.answers() for client in clients]
        self.server.wait_for(lambda: all(c.answers() >= n + 2 or c.errors for c, n in zip(clients, counts)),
                             f"answers of {engine}", LOAD_SECONDS)
        self.assertEqual([e for c in clients for e in c.errors], [], f"a client noticed the move to {engine}")
        return pids

    def there_and_back(self, engine, model, **fields):
        body = {"uid": "mover", "model_name": str(model), "engine": engine, "context": 1024, **fields}
        answer = self.server.ok("/v1/models?wait_ready=false", body)
        self.assertEqual(answer, {"model_uid": "mover"})
        pids = self.wait_ready(engine, set())
        # llama-server does not hold to a call that must be made.
        more = (engine_dialects.tools,) if engine == "vllm" else ()
        engine_dialects.check(self, self.server, "mover", engine, more)
        clients = [Client(self.server) for _ in range(2)]
        self.addCleanup(lambda: [setattr(c, "stopping", True) for c in clients])
        pids = self.move(clients, "quern", pids, engine_options={"threads": 1})
        pids = self.move(clients, engine, pids, **fields)
        for client in clients:
            client.stopping = True
        for client in clients:
            client.join(LOAD_SECONDS)
        self.assertEqual([e for c in clients for e in c.errors], [])
        for client in clients:
            self.assertGreater(min(client.whole, client.streamed), 1)
        print(f"{engine} to quern and back: {sum(c.answers() for c in clients)} answers, no error", file=sys.stderr)

    def test_llama_server_and_back(self):
        if not program("QUERN_LLAMA_SERVER", "llama-server"):
            self.skipTest("SKIPPED: no llama-server (QUERN_LLAMA_SERVER, PATH)")
        if gguf() is None:
            self.skipTest("SKIPPED: no SmolLM2*.gguf in QUERN_TEST_MODELS")
        self.there_and_back("llama.cpp", gguf(), engine_options={"threads": 1, "parallel": 2})

    def test_vllm_and_back(self):
        if not program("QUERN_VLLM", "vllm"):
            self.skipTest("SKIPPED: no vllm (QUERN_VLLM, PATH)")
        if folder() is None:
            self.skipTest("SKIPPED: no folder SmolLM2* with safetensors in QUERN_TEST_MODELS")
        env = {"VLLM_CPU_OMP_THREADS_BIND": "0,1", "VLLM_CPU_KVCACHE_SPACE": "2"}
        options = {"max_num_seqs": 4, "enable_auto_tool_choice": True, "tool_call_parser": "hermes"}
        self.there_and_back("vllm", folder(), env=env, engine_options=options)


class LlamaServerTest(unittest.TestCase):
    """What a launch may say to llama-server, and what becomes of its process."""

    def setUp(self):
        if not program("QUERN_LLAMA_SERVER", "llama-server"):
            self.skipTest("SKIPPED: no llama-server (QUERN_LLAMA_SERVER, PATH)")
        if gguf() is None:
            self.skipTest("SKIPPED: no SmolLM2*.gguf in QUERN_TEST_MODELS")
        self.server = FleetServer()
        self.addCleanup(self.server.stop)

    def launch(self, uid, **fields):
        self.server.launch(uid, gguf(), engine="llama.cpp", **fields)

    def replica(self, uid):
        return self.server.get(f"/v1/models/{uid}")[1]["replicas"][0]

    def say(self, model, **fields):
        return self.server.ok("/v1/chat/completions", engine_dialects.chat_body(model, max_tokens=12, **fields))

    def proc(self, uid, name):
        return pathlib.Path(f"/proc/{self.replica(uid)['pid']}/{name}").read_text().split("\0")

    def test_options_and_adapters(self):
        paths = [write_gguf_adapter(pathlib.Path(self.server.home.name) / f"{seed}.gguf", seed, 30, 576) for seed in (1, 2)]
        self.launch("m", context=512, kv_cache_dtype="q8_0", env={"QUERN_MARKED": "yes"},
                    engine_options={"threads": 1, "parallel": 2, "slots": True, "flash_attn": "on"},
                    adapters=[{"name": "one", "path": str(paths[0])}, {"name": "two", "path": str(paths[1])}])
        words = self.proc("m", "cmdline")
        self.assertEqual(words[words.index("--cache-type-k") + 1], "q8_0")
        self.assertIn("QUERN_MARKED=yes", self.proc("m", "environ"))
        # Each of the two slots has the whole context: a prompt of more than half of it is taken.
        long = self.say("m", messages=[{"role": "user", "content": "tide " * 300}])
        self.assertGreater(long["usage"]["prompt_tokens"], 256)
        # The base model means none of them, whoever was asked before.
        said = [self.say(name, cache_prompt=False)["choices"][0]["message"]["content"] for name in ("m", "one", "two", "m:one", "m")]
        self.assertEqual(len({said[0], said[1], said[2]}), 3, said)
        self.assertEqual((said[3], said[4]), (said[1], said[0]))
        told = self.server.ok("/v1/messages", {"model": "two", "max_tokens": 12, "temperature": 0,
                                               "messages": [{"role": "user", "content": engine_dialects.QUESTION}]})
        self.assertEqual(told["model"], "two")
        self.assertTrue(told["content"][0]["text"])

    def test_embeddings(self):
        self.launch("e", model_type="embedding", context=256, engine_options={"threads": 1, "pooling": "mean"})
        answer = self.server.ok("/v1/embeddings", {"model": "e", "input": ["tide", "moon"]})
        self.assertEqual([len(item["embedding"]) for item in answer["data"]], [576, 576])
        ollama = self.server.ok("/api/embed", {"model": "e", "input": ["tide", "moon"]})
        self.assertEqual(ollama["embeddings"], [item["embedding"] for item in answer["data"]])
        old = self.server.ok("/api/embeddings", {"model": "e", "prompt": "tide"})
        self.assertEqual(len(old["embedding"]), 576)
        status, error = self.server.post("/v1/rerank", {"model": "e", "query": "a", "documents": ["b"]})
        self.assertEqual(status, 400, error)
        self.assertIn("reranking", error["error"]["message"])

    def test_idle_crash_and_hang(self):
        self.launch("m", context=1024, keep_alive=2)
        self.launch("other", context=1024)
        first = self.replica("m")["pid"]
        self.server.wait_for(lambda: not self.replica("m")["pid"], "the idle model's end")
        self.assertTrue(self.say("m")["choices"][0]["message"]["content"])  # loaded again by the request
        self.assertNotEqual(self.replica("m")["pid"], first)

        stream = self.server.connection()
        stream.request("POST", "/v1/messages", json.dumps({
            "model": "other", "max_tokens": 900, "stream": True, "messages": [{"role": "user", "content": "Tell a tale."}]}),
            {"Content-Type": "application/json"})
        answer = stream.getresponse()
        head = answer.read(200)
        killed = self.replica("other")["pid"]
        os.kill(killed, signal.SIGKILL)
        rest = (head + answer.read()).decode()
        self.assertIn("event: error", rest)
        self.assertTrue(self.say("m")["choices"][0]["message"]["content"])  # nobody else noticed
        self.assertTrue(self.say("other")["choices"][0]["message"]["content"])
        stuck = self.replica("other")["pid"]
        self.assertNotEqual(stuck, killed)

        os.kill(stuck, signal.SIGSTOP)
        self.assertTrue(self.say("other")["choices"][0]["message"]["content"])  # by the one in its place
        self.assertNotEqual(self.replica("other")["pid"], stuck)
        kinds = [event["kind"] for event in self.server.get("/v1/models/other/events")[1]]
        self.assertIn("died", kinds)
        self.assertIn("stuck", kinds)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
