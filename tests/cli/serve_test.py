"""`quern serve` over real HTTP on loopback: chat and completions, whole and streamed, errors, keys, disconnects."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

QUERN = os.environ["QUERN_BINARY"]
MODEL = pathlib.Path(__file__).resolve().parent.parent / "golden/models/llama"


class Server:
    def __init__(self, *arguments, model=MODEL, **environment):
        self.process = subprocess.Popen([QUERN, "serve", str(model), "--port", "0", *arguments], stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, **environment})
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            match = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if match:
                self.port = int(match.group(1))
                break
        else:
            raise AssertionError("server did not start: " + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, dict(answer.getheaders())

    def post(self, path, body, **headers):
        status, text, _ = self.request("POST", path, body, headers)
        return status, json.loads(text)

    def stream(self, path, body):
        status, text, _ = self.request("POST", path, {**body, "stream": True})
        assert status == 200, text
        events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        assert events[-1] == "[DONE]", events[-1]
        return [json.loads(event) for event in events[:-1]]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process.stderr.close()
        return code


def chat(**fields):
    return {"model": "llama", "messages": [{"role": "user", "content": "the tide"}], "temperature": 0, "max_tokens": 12,
            "ignore_eos": True, **fields}


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("-t", "1")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_models_and_health(self):
        self.assertEqual(self.server.request("GET", "/health")[0], 200)
        status, text, _ = self.server.request("GET", "/v1/models")
        self.assertEqual([m["id"] for m in json.loads(text)["data"]], ["llama"])
        self.assertEqual(self.server.request("GET", "/v1/models/llama")[0], 200)
        self.assertEqual(self.server.request("GET", "/v1/models/other")[0], 404)
        self.assertRegex(self.server.request("GET", "/")[1], r"""data-testid["']?[:=]\s*[`"']prompt[`"']""")

    def test_chat_streamed_is_whole(self):
        status, whole = self.server.post("/v1/chat/completions", chat())
        self.assertEqual(status, 200, whole)
        self.assertEqual(whole["usage"]["completion_tokens"], 12)
        self.assertEqual(whole["choices"][0]["finish_reason"], "length")
        chunks = self.server.stream("/v1/chat/completions", chat())
        self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for c in chunks),
                         whole["choices"][0]["message"]["content"])
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertNotIn("usage", chunks[-1])
        with_usage = self.server.stream("/v1/chat/completions", chat(stream_options={"include_usage": True}))
        self.assertEqual(with_usage[-1]["choices"], [])
        self.assertEqual(with_usage[-1]["usage"]["completion_tokens"], 12)
        self.assertTrue(all(chunk["usage"] is None for chunk in with_usage[:-1]))

    def test_max_tokens_sweep(self):
        for n in range(1, 6):
            for path, body in (("/v1/chat/completions", chat(max_tokens=n)),
                               ("/v1/completions", {"prompt": "the", "max_tokens": n, "temperature": 0, "ignore_eos": True})):
                self.assertEqual(self.server.post(path, body)[1]["usage"]["completion_tokens"], n)

    def test_completions_prompts(self):
        body = {"model": "llama", "temperature": 0, "max_tokens": 5, "ignore_eos": True}
        _, one = self.server.post("/v1/completions", {**body, "prompt": "the mill"})
        _, two = self.server.post("/v1/completions", {**body, "prompt": ["the mill", [1, 16, 136]], "n": 2})
        self.assertEqual([c["index"] for c in two["choices"]], [0, 1, 2, 3])
        self.assertEqual(two["choices"][0]["text"], one["choices"][0]["text"])
        _, echoed = self.server.post("/v1/completions", {**body, "prompt": "the mill", "echo": True})
        self.assertEqual(echoed["choices"][0]["text"], "the mill" + one["choices"][0]["text"])

    def test_seed_and_n(self):
        body = chat(temperature=1.0, seed=7, n=4)
        texts = [[c["message"]["content"] for c in self.server.post("/v1/chat/completions", body)[1]["choices"]] for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        self.assertGreater(len(set(texts[0])), 1)

    def test_bad_values_are_named(self):
        for field, values in {
            "temperature": ["1e999", "NaN", "-1", "\"hot\"", "1e30"], "top_p": ["0", "1.1", "-1"], "top_k": ["-2", "1.5"],
            "max_tokens": ["0", "-1", "1.5", "\"10\""], "n": ["0", "129"], "logit_bias": ["{\"x\": 1}", "{\"5\": 101}", "[]"],
            "stop": ["\"\"", "[\"\", \"x\"]", "5"], "seed": ["1.5"], "nonsense": ["1"], "logprobs": ["1", "\"yes\""],
            "top_logprobs": ["129", "2"],
            "response_format": ["{\"type\": \"yaml\"}"], "messages": ["[]", "5", "[{\"role\": \"x\", \"content\": \"\"}]"],
        }.items():
            for value in values:
                fields = json.dumps(chat())[1:-1]
                body = "{" + fields + f', "{field}": {value}' + "}"
                status, text, _ = self.server.request("POST", "/v1/chat/completions", body)
                self.assertEqual(status, 400, (field, value, text))
                error = json.loads(text)["error"]
                self.assertTrue(error["message"])
                if value not in ("NaN", "1e999"):
                    self.assertTrue(str(error["param"]).startswith(field), (field, value, error))

    def test_out_of_range_ids(self):
        for ids in ([-1], [320], [2**31], [2**63], [1.5], []):
            status, body = self.server.post("/v1/completions", {"prompt": ids, "max_tokens": 1})
            self.assertEqual(status, 400, (ids, body))
        status, body = self.server.post("/v1/chat/completions", chat(logit_bias={"320": 1}))
        self.assertEqual(status, 400, body)

    def test_context_overflow(self):
        body = {"prompt": [5] * 5000, "max_tokens": 1}
        status, answer = self.server.post("/v1/completions", body)
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        status, answer = self.server.post("/v1/completions", {**body, "stream": True})
        self.assertEqual(status, 400)

    def test_unknown_model_and_routes(self):
        status, body = self.server.post("/v1/chat/completions", chat(model="gpt-4"))
        self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
        self.assertEqual(self.server.request("GET", "/v1/chat/completions")[0], 405)
        self.assertEqual(self.server.request("GET", "/nothing")[0], 404)

    def test_broken_json(self):
        deep = "[" * 100000
        for body in ("", "{", "[]", "null", "\"x\"", deep, '{"a": "\\ud800"}', b"\xff\xfe", "{\"messages\": \"\x00\"}"):
            self.assertEqual(self.server.request("POST", "/v1/chat/completions", body)[0], 400, body[:40])
        self.assertEqual(self.server.post("/v1/chat/completions", chat())[0], 200)

    def test_malformed_http(self):
        for raw in (b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
                connection.sendall(raw)
                self.assertRegex(connection.recv(4096).decode(errors="replace"), r"^HTTP/1.1 4\d\d")

    def test_body_too_large(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
            connection.sendall(head)
            self.assertIn(b" 413 ", connection.recv(4096))

    def test_nul_in_message(self):
        counts = set()
        for tail in ("", "a longer tail of text"):
            _, body = self.server.post("/v1/chat/completions",
                                       chat(messages=[{"role": "user", "content": "before\u0000after" + tail}]))
            counts.add(body["usage"]["prompt_tokens"])
        self.assertEqual(len(counts), 2)

    def test_stop_string(self):
        _, whole = self.server.post("/v1/chat/completions", chat(max_tokens=16))
        text = whole["choices"][0]["message"]["content"]
        for begin in range(1, len(text) - 2, 3):
            stop = text[begin:begin + 2]
            if "\ufffd" in stop:
                continue
            _, body = self.server.post("/v1/chat/completions", chat(max_tokens=16, stop=[stop]))
            self.assertEqual(body["choices"][0]["message"]["content"], text[:text.index(stop)])
            self.assertEqual(body["choices"][0]["finish_reason"], "stop")
            chunks = self.server.stream("/v1/chat/completions", chat(max_tokens=16, stop=stop))
            self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for c in chunks), text[:text.index(stop)])

    def test_disconnects_free_the_engine(self):
        for streamed in (True, False):
            for _ in range(8):
                connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
                body = json.dumps(chat(max_tokens=400, stream=streamed)).encode()
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                if streamed:
                    connection.recv(100)
                connection.close()
        start = time.monotonic()
        self.assertEqual(self.server.post("/v1/chat/completions", chat(max_tokens=1))[0], 200)
        self.assertLess(time.monotonic() - start, 20)

    def test_crowd_equals_alone(self):
        alone = self.server.post("/v1/chat/completions", chat())[1]["choices"][0]["message"]["content"]
        results = []

        def ask(i):
            fields = chat() if i % 2 == 0 else chat(temperature=1.5, max_tokens=20)
            results.append((i, self.server.post("/v1/chat/completions", fields)[1]["choices"][0]["message"]["content"]))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({text for i, text in results if i % 2 == 0}, {alone})

    def test_keep_alive(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions", json.dumps(chat(max_tokens=2)))
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            answer.read()
        connection.close()


class KeyTest(unittest.TestCase):
    def test_every_route_but_health_wants_the_key(self):
        server = Server("-t", "1", QUERN_API_KEY="sesame")
        self.addCleanup(server.stop)
        for method, path in (("GET", "/v1/models"), ("GET", "/v1/models/llama"), ("POST", "/v1/chat/completions"),
                             ("POST", "/v1/completions"), ("GET", "/version"), ("GET", "/nothing"), ("GET", "//v1/models"),
                             ("GET", "/%761/models")):
            self.assertEqual(server.request(method, path, "{}")[0], 401, path)
            self.assertEqual(server.request(method, path, "{}", {"Authorization": "Bearer sesam"})[0], 401, path)
        self.assertEqual(server.request("GET", "/health")[0], 200)
        self.assertEqual(server.request("GET", "/v1/models", headers={"Authorization": "Bearer sesame"})[0], 200)


class StartTest(unittest.TestCase):
    def refused(self, *arguments):
        result = subprocess.run([QUERN, "serve", *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        return result.returncode

    def test_refusals(self):
        self.assertEqual(self.refused("--no-fleet"), 2)
        self.assertEqual(self.refused("/nowhere/model.gguf"), 2)
        self.assertEqual(self.refused(str(MODEL), "--precision", "sloppy"), 2)
        self.assertEqual(self.refused(str(MODEL), "--nonsense"), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
