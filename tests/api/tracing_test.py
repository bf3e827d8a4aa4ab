"""Spans of requests as a collector gets them: OTLP over HTTP, JSON."""
import http.server
import json
import socket
import threading
import time
import unittest

from quern_server import BERT, LLAMA, Server, chat

CHAT = "/v1/chat/completions"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CODES = []  # what the collector answers next; empty: 200


class Collector:
    """A collector on a free port that keeps what it gets."""

    def __init__(self):
        bodies = self.bodies = []
        paths = self.requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = CODES.pop(0) if CODES else 200
                paths.append((self.path, dict(self.headers)))
                if code == 200:
                    bodies.append(json.loads(body))
                self.send_response(code)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def spans(self):
        return [span for body in self.bodies for resource in body["resourceSpans"] for scope in resource["scopeSpans"]
                for span in scope["spans"]]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def value_of(value):
    (kind, inner), = value.items()
    if kind == "arrayValue":
        return [value_of(v) for v in inner["values"]]
    return int(inner) if kind == "intValue" else inner


def attributes(span):
    return {a["key"]: value_of(a["value"]) for a in span["attributes"]}


class TracingTest(unittest.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def serve(self, *options, **environment):
        server = Server("--store", ":memory:", *options, models=(LLAMA, BERT),
                        **{"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_SERVICE_NAME": "mill", **environment})
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def spans(self, count):
        deadline = time.monotonic() + 10
        while len(self.collector.spans()) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        spans = self.collector.spans()
        self.assertEqual(len(spans), count)
        return spans

    def test_whole_and_streamed_requests_hang_below_their_parents(self):
        server = self.serve("--otlp-traces-endpoint", self.collector.url + "/v1/traces")
        parents = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "mill=1"}
        begin = time.time_ns()
        usage = server.request("POST", CHAT, chat(max_tokens=5, n=2, temperature=0.5), parents)[1]
        usage = json.loads(usage)["usage"]
        server.request("POST", CHAT, chat(max_tokens=7, stream=True), parents)
        server.ok("/v1/embeddings", {"model": "bert", "input": ["grain", "flour"]})
        server.request("GET", "/v1/models", headers=parents)
        whole, streamed, embedded = self.spans(3)
        for span, tokens in ((whole, 10), (streamed, 7)):
            self.assertEqual((span["traceId"], span["parentSpanId"], span["traceState"]), (TRACE, PARENT, "mill=1"))
            self.assertEqual((span["name"], span["kind"], span["status"]), ("POST " + CHAT, 2, {}))
            about = attributes(span)
            self.assertEqual(about["http.response.status_code"], 200)
            self.assertEqual(about["http.route"], CHAT)
            self.assertEqual(about["gen_ai.request.model"], "llama")
            self.assertEqual(about["gen_ai.usage.completion_tokens"], tokens)
            self.assertEqual(set(about["gen_ai.response.finish_reasons"]), {"length"})
            self.assertLessEqual(0, about["gen_ai.latency.time_in_queue"])
            self.assertLess(0, about["gen_ai.latency.time_to_first_token"])
            self.assertLess(about["gen_ai.latency.time_to_first_token"], about["gen_ai.latency.e2e"])
            start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            self.assertTrue(begin <= start < end <= time.time_ns() + 10**9)
        about = attributes(whole)
        self.assertEqual(about["gen_ai.usage.prompt_tokens"], usage["prompt_tokens"])
        self.assertEqual((about["gen_ai.request.n"], about["gen_ai.request.max_tokens"]), (2, 5))
        self.assertEqual(about["gen_ai.request.temperature"], 0.5)
        self.assertNotIn("parentSpanId", embedded)
        self.assertNotIn(embedded["traceId"], (TRACE, "0" * 32))
        self.assertEqual(attributes(embedded)["gen_ai.request.model"], "bert")
        self.assertGreater(attributes(embedded)["gen_ai.usage.prompt_tokens"], 3)
        self.assertEqual(len({s["spanId"] for s in (whole, streamed, embedded)}), 3)
        resource = self.collector.bodies[0]["resourceSpans"][0]["resource"]
        self.assertEqual({a["key"]: value_of(a["value"]) for a in resource["attributes"]}["service.name"], "mill")
        self.assertEqual(server.metric("otlp_spans_total", result="sent"), 3)

    def test_other_dialects_and_refusals(self):
        server = self.serve(OTEL_EXPORTER_OTLP_ENDPOINT=self.collector.url, OTEL_EXPORTER_OTLP_HEADERS="x-key=a%20b")
        message = {"model": "llama", "messages": [{"role": "user", "content": "x"}]}
        server.ok("/v1/messages", {**message, "max_tokens": 3})
        server.ok("/api/chat", {**message, "stream": False, "options": {"num_predict": 3}})
        server.ok("/v1/responses", {"model": "llama", "input": "x", "max_output_tokens": 3})
        server.ok("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 2, "ignore_eos": True, "temperature": 0})
        server.ok("/v1/completions", {"prompt": "a", "n": 2, "use_beam_search": True, "max_tokens": 3, "ignore_eos": True})
        self.assertEqual(server.post(CHAT, chat(model="none"))[0], 404)
        spans = {span["name"]: attributes(span) for span in self.spans(6)}
        for route in ("/v1/messages", "/api/chat", "/v1/responses"):
            self.assertEqual(spans["POST " + route]["gen_ai.request.model"], "llama")
            self.assertLessEqual(spans["POST " + route]["gen_ai.usage.completion_tokens"], 3)
        completions = [attributes(s) for s in self.collector.spans() if s["name"].endswith("/v1/completions")]
        self.assertEqual([a["gen_ai.usage.completion_tokens"] for a in completions], [4, 6])
        self.assertEqual(spans["POST " + CHAT]["http.response.status_code"], 404)
        self.assertNotIn("gen_ai.usage.prompt_tokens", spans["POST " + CHAT])
        path, headers = self.collector.requests[0]
        self.assertEqual((path, headers["x-key"], headers["Content-Type"]), ("/v1/traces", "a b", "application/json"))

    def test_a_trace_that_the_caller_does_not_keep_is_not_ours_either(self):
        server = self.serve("--otlp-traces-endpoint", self.collector.url)
        server.request("POST", CHAT, chat(max_tokens=1), {"traceparent": f"00-{TRACE}-{PARENT}-00"})
        server.request("POST", CHAT, chat(max_tokens=1), {"traceparent": "00-nonsense-01"})
        span, = self.spans(1)
        self.assertNotEqual(span["traceId"], TRACE)

    def test_a_client_that_leaves(self):
        server = self.serve("--otlp-traces-endpoint", self.collector.url)
        connection = server.connection()
        connection.request("POST", CHAT, json.dumps(chat(max_tokens=400, stream=True)))
        connection.getresponse().read(10)
        connection.sock.close()
        connection.close()
        about = attributes(self.spans(1)[0])
        self.assertEqual(about["error.type"], "client_gone")
        self.assertLess(about["gen_ai.usage.completion_tokens"], 400)

    def test_what_waits_is_sent_when_the_server_stops(self):
        server = self.serve("--otlp-traces-endpoint", self.collector.url, OTEL_BSP_SCHEDULE_DELAY="60000")
        for _ in range(5):
            server.ok(CHAT, chat(max_tokens=1))
        self.assertEqual(self.collector.spans(), [])
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(self.collector.spans()), 5)

    def test_a_collector_that_is_busy_is_asked_again(self):
        server = self.serve("--otlp-traces-endpoint", self.collector.url)
        CODES.append(503)
        server.ok(CHAT, chat(max_tokens=1))
        self.spans(1)
        self.assertEqual(server.metric("otlp_spans_total", result="sent"), 1)
        CODES.append(400)  # not worth another try
        server.ok(CHAT, chat(max_tokens=1))
        deadline = time.monotonic() + 10
        while server.metric("otlp_spans_total", result="dropped") < 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(server.metric("otlp_spans_total", result="dropped"), 1)
        self.assertEqual(len(self.collector.spans()), 1)

    def test_a_dead_or_silent_collector_hurts_nobody(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        for url in ("http://127.0.0.1:9/v1/traces", f"http://127.0.0.1:{silent.getsockname()[1]}"):
            server = self.serve("--otlp-traces-endpoint", url)
            begin = time.monotonic()
            for _ in range(20):
                server.ok(CHAT, chat(max_tokens=1))
            self.assertEqual(server.post("/tokenize", {"model": "llama", "prompt": "x"})[0], 200)
            self.assertLess(time.monotonic() - begin, 10)
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begin, 8)


if __name__ == "__main__":
    unittest.main(argv=["tracing_test"])
