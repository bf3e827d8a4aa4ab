"""What an operator relies on: metrics, logs, keys, origins, prefixes, sockets, certificates, stopping."""
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from quern_server import BERT, LLAMA, QUERN, Server, chat


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=(LLAMA, BERT))

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_outcomes_and_tokens_add_up(self):
        before = self.server.metrics()
        prompt_tokens = output_tokens = 0
        for n in (1, 3, 5):
            usage = self.server.ok("/v1/chat/completions", chat(max_tokens=n))["usage"]
            prompt_tokens += usage["prompt_tokens"]
            output_tokens += usage["completion_tokens"]
        self.assertEqual(self.server.post("/v1/chat/completions", chat(temperature=-1))[0], 400)
        for _ in range(2):
            connection = self.server.connection()
            connection.request("POST", "/v1/chat/completions", json.dumps(chat(max_tokens=400, stream=True)))
            connection.getresponse().read(10)
            connection.sock.close()
            connection.close()
        aborted = 'vllm:request_success_total{engine="0",model_name="llama",finished_reason="abort"}'
        deadline = time.monotonic() + 10
        while self.server.metrics()[aborted] - before[aborted] < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        after = self.server.metrics()

        def grown(name):
            return after[name] - before[name]

        labels = 'engine="0",model_name="llama"'
        self.assertEqual(grown(aborted), 2)
        self.assertEqual(grown(f'vllm:request_success_total{{{labels},finished_reason="length"}}'), 3)
        self.assertEqual(grown(f"vllm:request_generation_tokens_sum{{{labels}}}"), output_tokens)
        self.assertEqual(grown(f"vllm:request_prompt_tokens_sum{{{labels}}}"), prompt_tokens)
        self.assertEqual(grown(f"vllm:e2e_request_latency_seconds_count{{{labels}}}"), 3)
        self.assertIn(grown(f"vllm:time_to_first_token_seconds_count{{{labels}}}"), (3, 4, 5))  # aborts may come before it
        self.assertGreaterEqual(grown(f"vllm:inter_token_latency_seconds_count{{{labels}}}"), 6)
        time.sleep(0.2)
        idle = self.server.metrics()
        for gauge in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            self.assertEqual(idle[f"vllm:{gauge}{{{labels}}}"], 0, gauge)
        self.assertGreater(idle["process_resident_memory_bytes"], 1 << 20)

    def test_histograms_are_cumulative(self):
        self.server.ok("/v1/chat/completions", chat(max_tokens=4))
        last = {}
        for series, value in self.server.metrics().items():
            if "_bucket{" in series:
                name = series[:series.index(",le=")]
                self.assertGreaterEqual(value, last.get(name, 0), series)
                last[name] = value

    def test_encoder_counters(self):
        before = self.server.metric("vllm:encoder_inputs_total", model_name="bert")
        self.server.ok("/v1/embeddings", {"model": "bert", "input": ["a", "b"]})
        self.assertEqual(self.server.metric("vllm:encoder_inputs_total", model_name="bert") - before, 2)

    def test_prefix_can_be_changed(self):
        server = Server("--metrics-prefix", "quern_")
        self.addCleanup(server.stop)
        text = server.request("GET", "/metrics")[1]
        self.assertIn("quern_num_requests_running{", text)
        self.assertNotIn("vllm:", text)


class LogTest(unittest.TestCase):
    def test_json_lines_with_ids(self):
        server = Server("--log-format", "json")
        trace = "0af7651916cd43dd8448eb211c80319c"
        status, _, headers = server.request("GET", "/v1/models", headers={
            "X-Request-Id": "my-id.7", "traceparent": f"00-{trace}-b7ad6b7169203331-01"})
        self.assertEqual((status, headers["x-request-id"]), (200, "my-id.7"))
        _, _, headers = server.request("GET", "/nowhere", headers={"X-Request-Id": "bad id\twith blanks"})
        made = headers["x-request-id"]
        self.assertRegex(made, "^[0-9a-f]{16}$")
        server.request("GET", "/version", headers={"traceparent": "00-zz-1-01"})
        self.assertEqual(server.stop(), 0)
        entries = {}
        for line in server.log:
            entry = json.loads(line)
            self.assertTrue({"time", "level", "message"} <= set(entry))
            entries[entry.get("request_id", entry["message"])] = entry
        self.assertEqual(entries["my-id.7"]["trace_id"], trace)
        self.assertEqual(entries["my-id.7"]["status"], 200)
        self.assertEqual(entries[made]["status"], 404)
        self.assertEqual([e.get("trace_id") for e in entries.values() if e.get("path") == "/version"], [None])

    def test_levels(self):
        server = Server("--log-level", "error")
        server.request("GET", "/version")
        server.stop()
        self.assertFalse([line for line in server.log if "/version" in line])


class KeysTest(unittest.TestCase):
    def test_hashed_and_plain_keys_in_both_headers(self):
        digest = hashlib.sha256(b"hidden-key").hexdigest()
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
            file.write(f"# keys\n\nplain-key\nsha256:{digest}\n")
            file.flush()
            server = Server("--api-key-file", file.name)
        self.addCleanup(server.stop)
        for key in ("plain-key", "hidden-key"):
            self.assertEqual(server.get("/v1/models", Authorization=f"Bearer {key}")[0], 200)
            self.assertEqual(server.get("/v1/models", **{"X-Api-Key": key})[0], 200)
        for headers in ({}, {"Authorization": "Bearer plain"}, {"Authorization": f"Bearer {digest}"},
                        {"Authorization": "Basic plain-key"}, {"X-Api-Key": f"sha256:{digest}"}):
            self.assertEqual(server.get("/v1/models", **headers)[0], 401, headers)

    def test_bad_key_files(self):
        for text in ("", "# nothing\n", "sha256:12\n", "sha256:" + "g" * 64):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                result = subprocess.run([QUERN, "serve", str(LLAMA), "--api-key-file", file.name], capture_output=True,
                                        text=True, timeout=60)
            self.assertEqual(result.returncode, 2)
            self.assertIn(file.name, result.stderr)


class CorsTest(unittest.TestCase):
    def test_off_by_default(self):
        server = Server()
        self.addCleanup(server.stop)
        for method in ("GET", "OPTIONS"):
            status, _, headers = server.request(method, "/v1/models", headers={"Origin": "https://a.example"})
            self.assertIn(status, (200, 204))
            self.assertNotIn("access-control-allow-origin", headers)

    def test_named_origins(self):
        server = Server("--cors", "https://a.example", QUERN_API_KEY="k")
        self.addCleanup(server.stop)
        ask = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST",
               "Access-Control-Request-Headers": "authorization, content-type"}
        status, _, headers = server.request("OPTIONS", "/v1/chat/completions", headers=ask)
        self.assertEqual(status, 204)
        self.assertEqual(headers["access-control-allow-origin"], "https://a.example")
        self.assertIn("POST", headers["access-control-allow-methods"])
        self.assertIn("authorization", headers["access-control-allow-headers"])
        status, _, headers = server.request("POST", "/v1/chat/completions", "{}", {"Origin": "https://a.example"})
        self.assertEqual((status, headers["access-control-allow-origin"]), (401, "https://a.example"))
        _, _, headers = server.request("OPTIONS", "/v1/chat/completions", headers={**ask, "Origin": "https://b.example"})
        self.assertNotIn("access-control-allow-origin", headers)


class PlacesTest(unittest.TestCase):
    def test_root_path(self):
        server = Server("--root-path", "/llm/", QUERN_API_KEY="k")
        self.addCleanup(server.stop)
        for prefix in ("", "/llm"):
            self.assertEqual(server.request("GET", prefix + "/health")[0], 200)
            self.assertEqual(server.request("GET", prefix + "/")[0], 200)
            self.assertEqual(server.get(prefix + "/v1/models")[0], 401)
            self.assertEqual(server.get(prefix + "/v1/models", Authorization="Bearer k")[0], 200)
        self.assertEqual(server.get("/llmv1/models", Authorization="Bearer k")[0], 404)

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "quern.sock")
            server = Server("--uds", path)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                self.assertIn(b"200 OK", connection.recv(4096))
            self.assertEqual(server.stop(), 0)
            self.assertFalse(os.path.exists(path))
            pathlib.Path(path).write_text("not a socket")
            result = subprocess.run([QUERN, "serve", str(LLAMA), "--uds", path], capture_output=True, timeout=60)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(pathlib.Path(path).read_text(), "not a socket")

    @unittest.skipUnless(shutil.which("openssl"), "needs the openssl command to make a certificate")
    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                            "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                           check=True, capture_output=True)
            server = Server("--ssl-certfile", certificate, "--ssl-keyfile", key)
            self.addCleanup(server.stop)
            context = ssl.create_default_context(cafile=certificate)
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
            for _ in range(2):
                connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True)))
                answer = connection.getresponse()
                self.assertEqual(answer.status, 200)
                self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
            connection.request("POST", "/v1/chat/completions", json.dumps(chat(max_tokens=400, stream=True)))
            connection.getresponse().read(10)
            connection.sock.close()
            connection.close()
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                probe = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
                probe.request("GET", "/metrics")
                text = probe.getresponse().read().decode()
                probe.close()
                if 'vllm:num_requests_running{engine="0",model_name="llama"} 0' in text:
                    break
                time.sleep(0.05)
            else:
                self.fail("the request of the client that left still runs")
            self.assertRaises((OSError, http.client.HTTPException), server.request, "GET", "/health")
            for arguments in (("--ssl-certfile", certificate), ("--ssl-certfile", key, "--ssl-keyfile", "/nowhere")):
                result = subprocess.run([QUERN, "serve", str(LLAMA), *arguments], capture_output=True, timeout=60)
                self.assertEqual(result.returncode, 2)


class LimitsTest(unittest.TestCase):
    def test_limits_can_be_set(self):
        server = Server("--max-body-bytes", "1000", "--max-header-bytes", "2000", "--max-connections", "3",
                        "--idle-timeout", "1")
        self.addCleanup(server.stop)
        self.assertEqual(server.post("/v1/chat/completions", chat(user="x" * 2000))[0], 413)
        self.assertEqual(server.request("GET", "/health", headers={"X-Long": "y" * 3000})[0], 431)
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as extra:
            self.assertEqual(extra.recv(10), b"")
        idle[0].settimeout(5)
        self.assertEqual(idle[0].recv(10), b"")  # idle for a second
        for connection in idle:
            connection.close()

    def raw_error(self, server, data):
        head, body = server.raw(data).split(b"\r\n\r\n", 1)
        return int(head.split()[1]), json.loads(body)

    def test_errors_before_a_route_have_the_shape_of_its_dialect(self):
        server = Server("--max-body-bytes", "1000", "--max-header-bytes", "2000")
        self.addCleanup(server.stop)
        shapes = {
            "anthropic": lambda error: error["type"] == "error" and set(error["error"]) == {"type", "message"},
            "ollama": lambda error: set(error) == {"error"} and isinstance(error["error"], str),
            "openai": lambda error: set(error["error"]) == {"message", "type", "param", "code"} and "detail" in error,
        }
        broken = {
            413: "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
            431: "POST {} HTTP/1.1\r\nHost: x\r\nX-Long: " + "y" * 3000 + "\r\n\r\n",
            400: "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        }
        paths = {"/v1/messages": "anthropic", "/v1/messages/count_tokens?beta=true": "anthropic", "/v1/messages/batches": "anthropic",
                 "/api/chat": "ollama", "/api/none": "ollama", "/v1/chat/completions": "openai", "/none": "openai",
                 "/v1/messagesx": "openai"}
        for path, dialect in paths.items():
            for status, request in broken.items():
                with self.subTest(path=path, status=status):
                    got, error = self.raw_error(server, request.format(path).encode())
                    self.assertEqual(got, status, error)
                    self.assertTrue(shapes[dialect](error), error)
        for line in (b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n"):
            got, error = self.raw_error(server, line)
            self.assertEqual(got, 400)
            self.assertTrue(shapes["openai"](error), error)
        for method, path, status, dialect in (
                ("GET", "/v1/messages", 405, "anthropic"), ("POST", "/v1/messages/none", 404, "anthropic"),
                ("GET", "/api/chat", 405, "ollama"), ("POST", "/api/none", 404, "ollama"), ("GET", "/none", 404, "openai")):
            got, text = server.request(method, path, {} if method == "POST" else None)[:2]
            self.assertEqual(got, status, path)
            self.assertTrue(shapes[dialect](json.loads(text)), text)

    def test_a_page_can_read_that_its_body_is_too_large(self):
        server = Server("--max-body-bytes", "1000", "--cors", "https://page.example")
        self.addCleanup(server.stop)
        head = server.raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://page.example\r\n"
                          b"Content-Length: 100000\r\n\r\n").split(b"\r\n\r\n")[0].lower()
        self.assertIn(b"access-control-allow-origin: https://page.example", head)
        self.assertIn(b"413", head.splitlines()[0])


class StopTest(unittest.TestCase):
    def start_stream(self, server, tokens):
        connection = server.connection()
        connection.request("POST", "/v1/chat/completions", json.dumps(chat(max_tokens=tokens, stream=True)))
        answer = connection.getresponse()
        answer.read(10)
        return connection, answer

    def test_running_answers_end_and_new_ones_hear_503(self):
        server = Server()
        streams = [self.start_stream(server, 300) for _ in range(3)]
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        refused = 0
        if server.process.poll() is None:
            try:
                refused = server.request("GET", "/v1/models")[0]
            except OSError:
                refused = None  # the answers were faster than we
        self.assertIn(refused, (503, None, 0))
        for connection, answer in streams:
            self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
            connection.close()
        self.assertEqual(server.process.wait(timeout=30), 0)

    def test_late_answers_are_told(self):
        server = Server("--drain-timeout", "0")
        connection, answer = self.start_stream(server, 490)
        server.process.send_signal(signal.SIGTERM)
        rest = answer.read().decode()
        connection.close()
        self.assertTrue("shutting down" in rest or rest.endswith("data: [DONE]\n\n"), rest[-200:])
        self.assertEqual(server.process.wait(timeout=30), 0)

    def test_second_signal_ends_at_once(self):
        server = Server()
        half = socket.create_connection(("127.0.0.1", server.port))
        half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        self.assertIsNone(server.process.poll())
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=5), 0)
        half.close()

    def test_ready_and_health(self):
        server = Server()
        for path in ("/health", "/ping", "/ready"):
            self.assertEqual(server.get(path)[0], 200)
        half = socket.create_connection(("127.0.0.1", server.port))
        half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.assertEqual(server.get("/health")[0], 200)
        self.assertEqual(server.get("/ready")[0], 503)
        status, _, headers = server.request("POST", "/v1/chat/completions", chat())
        self.assertEqual(status, 503)
        self.assertIn("retry-after", headers)
        half.close()
        self.assertEqual(server.process.wait(timeout=30), 0)

    def test_health_under_many_connections(self):
        server = Server()
        self.addCleanup(server.stop)
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        stop = threading.Event()

        def work():
            while not stop.is_set():
                server.post("/v1/chat/completions", chat(max_tokens=20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        worst = 0.0
        for _ in range(50):
            begin = time.monotonic()
            self.assertEqual(server.get("/health")[0], 200)
            worst = max(worst, time.monotonic() - begin)
        stop.set()
        for thread in threads:
            thread.join()
        for connection in idle:
            connection.close()
        self.assertLess(worst, 2.0)  # generous: the machine is shared; usually below 20 ms


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
