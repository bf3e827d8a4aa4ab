"""Models of other machines beyond their requests: adapters, logs, metrics, files."""
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from adapter_files import write_adapter
from machines import KEY, NET, NodesTest
from quern_server import GOLDEN, LLAMA, QUERN

GGUF = GOLDEN / "gguf/llama-f32.gguf"


class Hub(http.server.BaseHTTPRequestHandler):
    """org/tiny, with one file."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        content = GGUF.read_bytes()
        self.server.asked.append((self.client_address[0], self.path))
        if self.path.startswith("/api/models/"):
            sha = hashlib.sha256(content).hexdigest()
            content = json.dumps({"sha": "c0ffee", "siblings": [
                {"rfilename": GGUF.name, "size": len(content), "lfs": {"sha256": sha, "size": len(content)}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class ModelsTest(NodesTest):
    serve_options = ("--allow-runtime-lora-updating",)

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.hidden = pathlib.Path(cls.folder) / "hidden"
        shutil.copytree(LLAMA, cls.hidden / "model")
        cls.adapters = {name: str(write_adapter(pathlib.Path(cls.folder) / name, seed)) for seed, name in enumerate(("sql", "poem"))}
        hub = {"HF_ENDPOINT": f"http://{NET}.254:8099", "HF_HOME": f"{cls.folder}/hf", "NO_PROXY": "*"}
        cls.machine_options = {"s": hub, "b": hub, "a": {"hides": str(cls.hidden), **hub}}
        super().setUpClass()
        cls.hub = http.server.ThreadingHTTPServer((f"{NET}.254", 8099), Hub)
        cls.hub.asked = []
        threading.Thread(target=cls.hub.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.hub.server_close)
        cls.addClassCleanup(cls.hub.shutdown)

    def said(self, model, times=4):
        """The one answer of all replicas, and under which name."""
        answers = [self.chat(model) for _ in range(times)]
        self.assertEqual({status for status, _ in answers}, {200}, answers)
        self.assertEqual(len({a["choices"][0]["message"]["content"] for _, a in answers}), 1, "replicas agree")
        return answers[0][1]["choices"][0]["message"]["content"], {a["model"] for _, a in answers}

    def listed(self):
        return [model["id"] for model in self.ask("GET", "/v1/models")[1]["data"]]

    def test_models(self):
        self.wait_for(self.all_here, "both join")
        self.launch("base", replicas=2, node_labels={"kind": "worker"}, adapters=[{"name": "sql", "path": self.adapters["sql"]}])
        pids = self.wait_ready("base", "node-a", "node-b")
        self.check_adapters(pids)
        self.check_metrics()
        self.check_log()
        self.check_files()

    def check_adapters(self, pids):
        self.assertEqual(self.listed().count("sql"), 1)
        base, sql = self.said("base")[0], self.said("sql")
        self.assertNotEqual(base, sql[0])
        self.assertEqual(sql[1], {"sql"})
        self.assertEqual(self.said("base:sql")[0], sql[0])
        load, unload = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
        status, answer = self.ask("POST", load, {"lora_name": "poem", "lora_path": "/no/such/adapter", "model": "base"})
        self.assertEqual(status, 400, answer)
        self.assertIn("on node-", answer["error"]["message"])
        self.assertIn("/no/such/adapter", answer["error"]["message"])
        self.assertEqual(self.chat("poem")[0], 404)
        poem = {"lora_name": "poem", "lora_path": self.adapters["poem"], "model": "base"}
        self.assertEqual(self.ask("POST", load, poem)[0], 200)
        self.assertEqual(self.ask("POST", load, poem)[0], 400, "it is there already")
        self.assertNotIn(self.said("poem")[0], (base, sql[0]))
        self.assertEqual(self.said("poem")[1], {"poem"})
        self.assertEqual(self.listed().count("poem"), 1)
        self.assertEqual(self.ready("base"), pids, "nothing was started anew")
        with self.subTest("a replica that is started anew has it"):
            os.kill(pids["node-b"], 9)
            self.wait_for(lambda: self.ready("base").get("node-b", pids["node-b"]) != pids["node-b"], "it is back")
            self.said("poem")
            self.said("sql")
        self.assertEqual(self.ask("POST", unload, {"lora_name": "sql", "model": "base"})[0], 200)
        self.assertEqual(self.chat("sql")[0], 404)
        self.assertEqual(self.ask("POST", unload, {"lora_name": "sql", "model": "base"})[0], 404)
        self.assertNotIn("sql", self.listed())
        self.said("poem")
        self.assertEqual(self.ready("base")["node-a"], pids["node-a"])

    def check_metrics(self):
        def nodes():
            lines = [line for line in self.ask("GET", "/metrics")[1].splitlines() if line.startswith("vllm:")]
            return {part for line in lines for part in line.split("{")[-1].split("}")[0].split(",") if part.startswith("node=")
                    and 'model_name="base"' in line and 'replica="base-' in line}
        self.wait_for(lambda: nodes() == {'node="node-a"', 'node="node-b"'}, "metrics of both machines")
        self.network.cut("b")
        self.wait_for(lambda: nodes() == {'node="node-a"'}, "a machine that does not answer is left out")
        self.network.heal("b")
        self.wait_ready("base", "node-a", "node-b")

    def check_log(self):
        replica = next(one for one in self.replicas("base") if one["node"] == "node-b")
        follower = subprocess.Popen([QUERN, "logs", "-f", "base", "--replica", replica["id"], "--endpoint", f"http://{NET}.1:9997",
                                     "--api-key", KEY], stdout=subprocess.PIPE, text=True)
        self.addCleanup(follower.stdout.close)
        self.addCleanup(follower.kill)
        lines = []
        threading.Thread(target=lambda: lines.extend(follower.stdout), daemon=True).start()
        def grows(before):
            self.chat("base")
            return len(lines) > before
        self.wait_for(lambda: any("listening on" in line for line in lines), "the log so far")
        before = len(lines)
        self.wait_for(lambda: grows(before), "it is followed")
        starts = sum("listening on" in line for line in lines)
        self.network.cut("b")
        self.wait_for(lambda: self.nodes()["node-b"]["state"] == "lost", "the cut is seen")
        self.network.heal("b")
        self.wait_ready("base", "node-a", "node-b")
        before = len(lines)
        self.wait_for(lambda: grows(before), "it is followed again")
        self.assertEqual(sum("listening on" in line for line in lines), starts, "from where it broke")
        self.assertEqual(self.ask("DELETE", "/v1/models/base")[0], 200)
        self.assertEqual(follower.wait(timeout=60), 0, "it ends with the model")

    def check_files(self):
        path = str(self.hidden / "model")
        status, answer = self.ask("POST", "/v1/models?wait_ready=false", {
            "uid": "hidden", "model_name": "hidden", "model_path": path, "node_labels": {"room": "a"}, "engine_options": {"threads": 1}})
        self.assertEqual(status, 200, answer)
        message = self.wait_for(lambda: self.replicas("hidden")[0]["message"], "the reason")
        self.assertIn("node-a", message)
        self.assertIn(path, message)
        self.assertEqual(self.ask("DELETE", "/v1/models/hidden")[0], 200)
        status, answer = self.ask("POST", "/v1/models", {"uid": "tiny", "model_name": "hf:org/tiny", "node_labels": {"room": "b"},
                                                         "engine_options": {"threads": 1}})
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.ready("tiny").keys(), {"node-b"})
        self.assertIn(GGUF.name, "".join(path for _, path in self.hub.asked))
        self.assertEqual({address for address, _ in self.hub.asked}, {f"{NET}.3"}, "the machine that runs it pulls it")


del NodesTest

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
