"""The front door with the real program on both sides: replicas in processes of their own, killed under load."""
import sys
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from platform_server import FleetServer
from quern_server import LLAMA, chat

SERVER = None
STREAMS = 50


def setUpModule():
    global SERVER
    SERVER = FleetServer()


def tearDownModule():
    assert SERVER.stop() == 0


class Stream(threading.Thread):
    """One streamed chat, read event by event."""

    def __init__(self, model, user, **fields):
        super().__init__(daemon=True)
        self.events, self.error, self.done, self.status = [], None, False, None
        self.body = chat(model=model, user=user, stream=True, **fields)
        self.start()

    def run(self):
        connection = SERVER.connection(timeout=120)
        connection.request("POST", "/v1/chat/completions", json.dumps(self.body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        self.status = answer.status
        try:
            for line in answer:
                if not line.startswith(b"data: "):
                    continue
                if line.strip() == b"data: [DONE]":
                    self.done = True
                    continue
                event = json.loads(line[6:])  # every event is whole
                if "error" in event:
                    self.error = event["error"]
                else:
                    self.events.append(event)
        except http.client.IncompleteRead:
            pass
        connection.close()

    def text(self):
        return "".join(c["delta"].get("content") or "" for e in self.events for c in e["choices"])


def replicas(uid):
    return {r["id"]: r for r in SERVER.get(f"/v1/models/{uid}")[1]["replicas"]}


class DoorTest(unittest.TestCase):
    def test_the_same_answer_as_without_the_door(self):
        with SERVER.launched("llama"):
            whole = SERVER.ok("/v1/chat/completions", chat(model="llama"))
            self.assertEqual(whole["model"], "llama")
            stream = Stream("llama", "u")
            stream.join(60)
            self.assertTrue(stream.done)
            self.assertEqual(stream.text(), whole["choices"][0]["message"]["content"])
            again = SERVER.ok("/v1/chat/completions", chat(model="llama"))
            self.assertEqual(again["choices"][0]["message"]["content"], whole["choices"][0]["message"]["content"])
            message = SERVER.ok("/v1/messages", {"model": "llama", "max_tokens": 4, "messages": [{"role": "user", "content": "a"}]})
            self.assertEqual((message["type"], message["model"]), ("message", "llama"))
            line = SERVER.lines("/api/generate", {"model": "llama:latest", "prompt": "a", "options": {"num_predict": 3}})[-1]
            self.assertTrue(line["done"])
            self.assertGreater(SERVER.ok("/tokenize", {"model": "llama", "prompt": "the tide"})["count"], 0)
            status, answer = SERVER.post("/v1/chat/completions", chat(model="llama", temperature=-1))
            self.assertEqual((status, answer["error"]["param"]), (400, "temperature"))
            self.assertIn("llama", [m["name"] for m in SERVER.get("/api/ps")[1]["models"]])

    def test_responses_are_found_again(self):
        with SERVER.launched("llama"):
            made = SERVER.ok("/v1/responses", {"model": "llama", "input": "a", "max_output_tokens": 4})
            self.assertEqual(SERVER.get(f"/v1/responses/{made['id']}")[1]["output"], made["output"])
            follow = SERVER.ok("/v1/responses", {"model": "llama", "input": "b", "max_output_tokens": 4,
                                                "previous_response_id": made["id"]})
            self.assertEqual(follow["previous_response_id"], made["id"])

    def test_a_client_that_leaves_frees_the_worker(self):
        with SERVER.launched("llama"):
            connection = SERVER.connection()
            body = chat(model="llama", stream=True, max_tokens=400)
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            connection.getresponse().readline()
            connection.close()
            SERVER.wait_for(lambda: SERVER.metric("quern_door_requests_total", model_name="llama", outcome="abandoned"), "left")
            SERVER.wait_for(lambda: SERVER.metric("vllm:num_requests_running", model_name="llama") == 0, "freed")

    def test_kill_9_of_a_replica_under_streams(self):
        with SERVER.launched("pair", replica=2):
            SERVER.wait_for(lambda: all(r["state"] == "ready" for r in replicas("pair").values()), "both replicas")
            before = replicas("pair")
            self.assertEqual(len(before), 2)
            calm = Stream("pair", "calm")
            calm.join(60)
            # Each replica takes a few at once; the others wait in its queue, with nothing sent yet.
            streams = [Stream("pair", f"user {i}", max_tokens=300) for i in range(STREAMS)]
            SERVER.wait_for(lambda: sum(bool(s.events) for s in streams) >= 4, "streams begin")
            victim = max(before.values(), key=lambda r: SERVER.metric("quern_door_requests_in_flight", replica=r["id"]))
            self.assertGreater(SERVER.metric("quern_door_requests_in_flight", replica=victim["id"]), 0)
            os.kill(victim["pid"], signal.SIGKILL)
            for stream in streams:
                stream.join(120)
            whole = [s for s in streams if s.done and not s.error]
            broken = [s for s in streams if s.error]
            self.assertEqual(len(whole) + len(broken), STREAMS, [(s.status, s.done, len(s.events)) for s in streams])
            for stream in broken:
                self.assertEqual(stream.error["code"], "worker_died")
                self.assertTrue(stream.events, "a request of which nothing was sent goes to the other replica")
            self.assertEqual(len({s.text() for s in whole}), 1, "an answer is the same wherever it was made")
            self.assertGreater(len(whole), 0)
            # The survivor was not touched, and the victim comes back.
            other = next(r for r in before.values() if r["id"] != victim["id"])
            self.assertEqual(replicas("pair")[other["id"]]["pid"], other["pid"])
            begin = time.monotonic()
            self.assertTrue(SERVER.ok("/v1/chat/completions", chat(model="pair"))["choices"])
            self.assertLess(time.monotonic() - begin, 60)
            SERVER.wait_for(lambda: replicas("pair")[victim["id"]]["state"] == "ready", "the victim is back")
            self.assertNotEqual(replicas("pair")[victim["id"]]["pid"], victim["pid"])


class SlowWorker(threading.Thread):
    """Lets a process run a tenth of its time."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.stopping = pid, False
        self.start()

    def run(self):
        while not self.stopping:
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.18)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.02)


class FaultTest(unittest.TestCase):
    def test_a_slow_worker_is_waited_for_and_slows_nobody_else(self):
        with SERVER.launched("slow"), SERVER.launched("quick"):
            expected = SERVER.ok("/v1/chat/completions", chat(model="slow"))["choices"][0]["message"]["content"]
            before = SERVER.get("/v1/models/slow")[1]["replicas"][0]
            slowed = SlowWorker(before["pid"])
            streams = [Stream("slow", f"user {i}") for i in range(4)]
            served = 0
            while any(s.is_alive() for s in streams):
                self.assertTrue(SERVER.ok("/v1/chat/completions", chat(model="quick", max_tokens=2))["choices"])
                served += 1
            slowed.stopping = True
            slowed.join()
            self.assertEqual([(s.status, s.error, s.done, s.text()) for s in streams], [(200, None, True, expected)] * 4)
            self.assertGreater(served, 0)
            after = SERVER.get("/v1/models/slow")[1]["replicas"][0]
            self.assertEqual((after["pid"], after["restarts"]), (before["pid"], before["restarts"]), "slow is not stuck")

    def test_a_worker_that_hangs_is_replaced_and_its_requests_go_on(self):
        with SERVER.launched("hung", replica=2):
            SERVER.wait_for(lambda: all(r["state"] == "ready" for r in replicas("hung").values()), "both replicas")
            victim, other = sorted(replicas("hung").values(), key=lambda r: r["id"])
            os.kill(victim["pid"], signal.SIGSTOP)
            streams = [Stream("hung", f"user {i}") for i in range(6)]
            for stream in streams:
                stream.join(60)
            # Nothing of an answer had come from the one that hangs: the other one has given all of them.
            self.assertEqual([(s.status, s.error, s.done) for s in streams], [(200, None, True)] * 6)
            back = SERVER.wait_for(lambda: replicas("hung")[victim["id"]]["state"] == "ready" and replicas("hung"), "replaced")
            self.assertNotEqual(back[victim["id"]]["pid"], victim["pid"])
            self.assertEqual(back[other["id"]]["pid"], other["pid"])
            self.assertIn("stuck", [e["kind"] for e in SERVER.get("/v1/models/hung/events")[1]])

    def test_a_full_disk(self):
        home = tempfile.mkdtemp()
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", home], capture_output=True, text=True)
        self.addCleanup(os.rmdir, home)
        if mount.returncode != 0:
            self.skipTest(f"SKIPPED: no small disk can be made here: {mount.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", home], check=True)
        server = FleetServer(QUERN_HOME=home)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        server.launch("kept")
        ballast = pathlib.Path(home, "ballast")
        with open(ballast, "wb", buffering=0) as file, self.assertRaises(OSError):
            while True:
                file.write(b"x" * 4096)
        status, answer = server.post("/v1/models", {"uid": "late", "model_name": "llama", "model_path": str(LLAMA)})
        self.assertGreaterEqual(status, 500, answer)
        self.assertIn("fleet.db", answer["error"]["message"])
        self.assertEqual(server.get("/v1/models/late")[0], 404)
        # What runs goes on, and comes back when it dies: from what is in memory.
        self.assertTrue(server.ok("/v1/chat/completions", chat(model="kept"))["choices"])
        pid = server.get("/v1/models/kept")[1]["replicas"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        server.wait_for(lambda: server.get("/v1/models/kept")[1]["replicas"][0]["pid"] not in (None, pid), "a new process")
        self.assertTrue(server.ok("/v1/chat/completions", chat(model="kept"))["choices"])
        ballast.unlink()
        server.wait_for(lambda: any("is written again" in line for line in server.log), "the state is written again")
        server.launch("late")
        self.assertEqual(server.stop(), 0)
        again = FleetServer(QUERN_HOME=home)
        self.assertEqual({m["id"] for m in again.get("/v1/models")[1]["data"]}, {"kept", "late"})
        self.assertEqual(again.stop(), 0)

    def test_a_corrupt_state(self):
        with tempfile.TemporaryDirectory() as home:
            server = FleetServer(QUERN_HOME=home)
            server.launch("lost")
            self.assertEqual(server.stop(), 0)
            database = pathlib.Path(home, "fleet/fleet.db")
            whole = database.read_bytes()
            self.assertGreater(len(whole), 4096)
            wrong = {"noise": os.urandom(len(whole)), "half": whole[:len(whole) // 2 + 100],
                     "a page of noise": whole[:4096] + os.urandom(4096) + whole[8192:]}
            for number, (name, data) in enumerate(wrong.items(), 1):
                with self.subTest(name):
                    for other in database.parent.glob("fleet.db-*"):
                        other.unlink()
                    database.write_bytes(data)
                    server = FleetServer(QUERN_HOME=home)
                    self.assertTrue(pathlib.Path(home, f"fleet/fleet.db.broken-{number}").exists(), server.log)
                    self.assertTrue(any("broken" in line for line in server.log), server.log)
                    self.assertEqual(server.get("/v1/models")[1]["data"], [])
                    with server.launched("fresh"):
                        self.assertTrue(server.ok("/v1/chat/completions", chat(model="fresh"))["choices"])
                    self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
