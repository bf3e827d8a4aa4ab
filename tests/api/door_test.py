"""The front door with the real program on both sides: replicas in processes of their own, killed under load."""
import sys
import http.client
import json
import os
import signal
import threading
import time
import unittest

from platform_server import FleetServer
from quern_server import chat

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
