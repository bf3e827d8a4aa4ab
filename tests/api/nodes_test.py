"""Workers on other machines: who joins, what is placed where, and what follows when links are cut and processes die."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

from machines import KEY, NET, PREFIX, TOKEN, NodesTest
from quern_server import LLAMA, QUERN


class PlainTest(NodesTest):
    def test_machines(self):
        self.wait_for(self.all_here, "both join")
        local, node = self.nodes()["local"], self.nodes()["node-a"]
        self.assertTrue(local["local"] and not node["local"])
        self.assertEqual(node["labels"], {"room": "a", "kind": "worker"})
        self.assertEqual(node["address"], f"http://{NET}.2:9998")
        self.assertGreater(node["memory"]["budget"], 1 << 20)
        self.wait_for(lambda: self.nodes()["node-a"]["devices"], "devices are told")
        self.assertEqual(self.nodes()["node-a"]["devices"][0]["kind"], "cpu")
        workers = [entry["work-ip"] for entry in self.ask("GET", "/v1/workers")[1]]
        self.assertEqual(sorted(workers), ["local", "node-a", "node-b"])

        with self.subTest("a wrong token, or a key for something else, brings no machine"):
            wrong = subprocess.run(
                ["ip", "netns", "exec", f"{PREFIX}b", QUERN, "worker", "--join", f"http://{NET}.1:9997", "--name", "evil",
                 "--listen", ":0", "--token", "wrong-token-0123456789"], capture_output=True, text=True, timeout=60,
                env={**os.environ, "QUERN_HOME": self.machines["s"].home + "/evil"}, check=False)
            self.assertEqual(wrong.returncode, 1, wrong.stderr)
            self.assertEqual(self.ask("POST", "/v1/nodes/join", {"name": "x"}, "no-such-key")[0], 401)
            self.assertEqual(self.ask("POST", "/v1/nodes/node-a/heartbeat", {"machine": {}}, KEY)[0], 401)
            self.assertEqual(self.ask("GET", "/v1/models", key=TOKEN)[0], 403)
            self.assertNotIn("evil", self.nodes())
            connection = http.client.HTTPConnection(f"{NET}.2", 9998, timeout=30)
            connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {KEY}"})
            self.assertEqual(connection.getresponse().status, 401)
            connection.close()

        with self.subTest("labels choose the machine"):
            self.launch("only-a", node_labels={"room": "a"})
            self.wait_ready("only-a", "node-a")
            answer = self.chat("only-a")
            self.assertEqual((answer[0], answer[1]["model"]), (200, "only-a"))
            log = self.wait_for(lambda: self.ask("GET", "/v1/models/only-a/logs")[1], "its log")
            self.assertIn("listening on", log)
            status, answer = self.ask("POST", "/v1/models", {"uid": "x", "model_name": str(LLAMA),
                                                             "node_labels": {"room": "c"}})
            self.assertEqual(status, 400)
            self.assertIn("node_labels.room", answer["detail"])
            self.assertEqual(self.ask("DELETE", "/v1/models/only-a")[0], 200)
            self.wait_for(lambda: self.nodes()["node-a"]["replicas"] == [], "it ends")

        self.launch("llama", replicas=2, node_labels={"kind": "worker"})
        pids = self.wait_ready("llama", "node-a", "node-b")
        alike = {self.chat("llama")[1]["choices"][0]["message"]["content"] for _ in range(6)}
        self.assertEqual(len(alike), 1, "the same answer of both")
        self.check_cut(pids)
        self.check_drain()
        pids = self.wait_ready("llama", "node-a", "node-b")

        with self.subTest("the server is killed and started again"):
            self.machines["s"].kill()
            self.machines["s"].start()
            self.assertEqual(self.wait_ready("llama", "node-a", "node-b"), pids, "nothing was loaded again")
            self.assertEqual(self.chat("llama")[0], 200)

        with self.subTest("a worker is killed and started again"):
            self.machines["a"].kill()
            self.machines["a"].start()
            self.wait_for(self.all_here, "it joins again")
            self.assertEqual(self.wait_ready("llama", "node-a", "node-b"), pids, "its model was taken over")
            self.assertEqual(self.chat("llama")[0], 200)

        with self.subTest("a model's process dies there"):
            os.kill(pids["node-b"], signal.SIGKILL)
            self.wait_for(lambda: self.ready("llama").get("node-b", pids["node-b"]) != pids["node-b"], "it is back")
            self.assertEqual(self.wait_ready("llama", "node-a", "node-b")["node-a"], pids["node-a"])

        with self.subTest("a machine is removed"):
            self.machines["b"].kill()
            self.assertEqual(self.ask("DELETE", "/v1/nodes/node-b")[0], 200)
            self.assertEqual(self.nodes().keys(), {"local", "node-a"})
            self.wait_for(lambda: self.ready("llama").keys() == {"node-a"}, "its replica is gone")
            self.assertEqual(self.chat("llama")[0], 200)

    def check_cut(self, pids):
        outcomes, stop = [], threading.Event()

        def keep_asking():
            while not stop.is_set():
                begin, text = time.monotonic(), ""
                connection = self.connection()
                try:
                    connection.request("POST", "/v1/chat/completions", json.dumps(
                        {"model": "llama", "messages": [{"role": "user", "content": f"tide {begin}"}], "max_tokens": 300,
                         "ignore_eos": True, "stream": True}), {"Authorization": f"Bearer {KEY}"})
                    answer = connection.getresponse()
                    text = answer.read().decode()
                    outcomes.append((begin, time.monotonic(), answer.status, text.endswith("data: [DONE]\n\n")
                                     and '"error"' not in text))
                except OSError as error:
                    outcomes.append((begin, time.monotonic(), 0, str(error)))
                finally:
                    connection.close()

        clients = [threading.Thread(target=keep_asking) for _ in range(4)]
        for client in clients:
            client.start()
        time.sleep(1)
        self.network.cut("b")
        cut = time.monotonic()
        self.wait_for(lambda: self.nodes()["node-b"]["state"] == "lost", "the cut is seen", 30)
        lost = {one["node"]: one["state"] for one in self.replicas("llama")}
        self.assertEqual(lost.get("node-b"), "lost")
        time.sleep(1)
        for _ in range(4):
            begin = time.monotonic()
            self.assertEqual(self.chat("llama")[0], 200)
            self.assertLess(time.monotonic() - begin, 30, "not sent where nobody answers")
        stop.set()
        for client in clients:
            client.join(timeout=60)
            self.assertFalse(client.is_alive(), "a stream hangs on the cut link")
        self.assertTrue(all(status == 200 for _, _, status, _ in outcomes), outcomes)
        broken = [outcome for outcome in outcomes if outcome[3] is not True]
        self.assertLessEqual(len(broken), 4, "only what ran over the link when it was cut")
        self.assertTrue(any(begin > cut and whole is True for begin, _, _, whole in outcomes), "others go on")
        # Its replica has been started on another machine that suits, when there is room: here none does.
        self.network.heal("b")
        self.assertEqual(self.wait_ready("llama", "node-a", "node-b"), pids, "back without loading again")
        self.wait_for(lambda: len(self.replicas("llama")) == 2, "no more than are wished")

    def check_drain(self):
        self.launch("mover", node_labels={"kind": "worker"})
        node = next(iter(self.wait_for(lambda: self.ready("mover"), "mover is ready")))
        other = {"node-a": "node-b", "node-b": "node-a"}[node]
        failures, stop = [], threading.Event()

        def keep_asking():
            while not stop.is_set():
                status = self.chat("mover")[0]
                if status != 200:
                    failures.append(status)

        client = threading.Thread(target=keep_asking)
        client.start()
        command = [QUERN, "nodes", "--endpoint", f"http://{NET}.1:9997", "--api-key", KEY]
        subprocess.run([*command, "drain", node], check=True, timeout=60)
        self.wait_ready("mover", other)
        stop.set()
        client.join(timeout=60)
        self.assertEqual(failures, [], "it moved without a gap")
        listed = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout
        self.assertRegex(listed, re.compile(rf"^{node} +draining", re.MULTILINE))
        self.assertEqual(self.ask("DELETE", "/v1/models/mover")[0], 200)
        # The one of llama has nowhere else to go but there, beside its like: two on one machine are better than none.
        self.wait_for(lambda: self.nodes()[node]["replicas"] == [], "it is empty")
        subprocess.run([*command, "resume", node], check=True, timeout=60)
        self.assertEqual(self.ask("POST", "/v1/models/llama/replicas", {"replicas": 1})[0], 200)
        self.wait_for(lambda: len(self.ready("llama")) == 1 and len(self.replicas("llama")) == 1, "one is enough")
        self.assertEqual(self.ask("POST", "/v1/models/llama/replicas", {"replicas": 2})[0], 200)


class TlsTest(NodesTest):
    tls = True

    def test_machines(self):
        self.wait_for(self.all_here, "both join")
        self.assertEqual(self.nodes()["node-a"]["address"], f"https://{NET}.2:9998")
        self.launch("llama", replicas=2, node_labels={"kind": "worker"})
        self.wait_ready("llama", "node-a", "node-b")
        for _ in range(4):
            self.assertEqual(self.chat("llama")[0], 200)
        self.assertIn("listening on", self.wait_for(lambda: self.ask("GET", "/v1/models/llama/logs")[1], "its log"))
        # Somebody else answers at the machine's address: without its key he gets nothing.
        self.machines["a"].kill()
        for name in ("node.crt", "node.key"):
            os.unlink(f"{self.machines['a'].home}/worker/{name}")
        impostor = subprocess.Popen(
            ["ip", "netns", "exec", f"{PREFIX}a", sys.executable, "-c",
             "import http.server, ssl, sys\n"
             "class Answer(http.server.BaseHTTPRequestHandler):\n"
             "    def do_GET(self):\n"
             "        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers(); self.wfile.write(b'{}')\n"
             "    do_POST = do_GET\n"
             "server = http.server.ThreadingHTTPServer(('0.0.0.0', 9998), Answer)\n"
             "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
             "context.load_cert_chain(sys.argv[1], sys.argv[2])\n"
             "server.socket = context.wrap_socket(server.socket, server_side=True)\n"
             "server.serve_forever()", self.authority, self.authority.replace("cert.pem", "key.pem")],
            stderr=subprocess.DEVNULL)
        try:
            self.wait_for(lambda: self.nodes()["node-a"]["state"] == "lost", "it is not taken for the machine", 30)
            for _ in range(4):
                answer = self.chat("llama")
                self.assertEqual((answer[0], answer[1].get("object")), (200, "chat.completion"))
        finally:
            impostor.kill()
            impostor.wait(timeout=30)


del NodesTest

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
