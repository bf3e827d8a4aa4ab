"""Faults that users of comparable servers met at their HTTP doors. Each class is one case of the field list, by number."""
import base64
import json
import math
import os
import pathlib
import random
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import BERT, LLAMA, RERANKER, Server, chat, share_server  # noqa: E402

OPENAPI = json.loads((pathlib.Path(__file__).resolve().parents[2] / "docs/openapi.json").read_text())
SERVER = None
share_server(globals(), "--store", ":memory:", models=(LLAMA, BERT, RERANKER))


def text_of(chunks):
    return "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])


def stream(body):
    return [json.loads(data) for _, data in SERVER.events("/v1/chat/completions", {**body, "stream": True})
            if data != "[DONE]"]


class FC11EmptyStops(unittest.TestCase):
    def test_absent_null_and_empty_list_are_the_same(self):
        answers = [SERVER.ok("/v1/chat/completions", chat(**fields))["choices"][0]["message"]["content"]
                   for fields in ({}, {"stop": None}, {"stop": []})]
        self.assertEqual(len(set(answers)), 1)
        for stop in ("", ["", "x"]):
            self.assertEqual(SERVER.post("/v1/chat/completions", chat(stop=stop))[0], 400)


class FC12MaxTokens(unittest.TestCase):
    def test_sweep(self):
        for name in ("max_tokens", "max_completion_tokens"):
            for value in (0, -1, -2, 1.5, "10"):
                self.assertEqual(SERVER.post("/v1/chat/completions", chat(**{"max_tokens": None, name: value}))[0], 400)
            for value in (1, 2, 5):
                body = chat(**{"max_tokens": None, name: value})
                answer = SERVER.ok("/v1/chat/completions", body)
                self.assertEqual(answer["usage"]["completion_tokens"], value)
                self.assertEqual(answer["choices"][0]["finish_reason"], "length")
                self.assertEqual(text_of(stream(body)), answer["choices"][0]["message"]["content"])
            for value in (2 ** 31, 2 ** 62):
                answer = SERVER.ok("/v1/chat/completions", chat(**{"max_tokens": None, name: value}))
                self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        status, _ = SERVER.post("/v1/chat/completions", chat(max_tokens=2 ** 63))
        self.assertIn(status, (200, 400))


class FC13Context(unittest.TestCase):
    def test_the_advertised_length_is_what_one_request_can_use(self):
        limit = next(m["max_model_len"] for m in SERVER.get("/v1/models")[1]["data"] if m["id"] == "llama")
        body = {"model": "llama", "max_tokens": 1, "temperature": 0}
        self.assertEqual(SERVER.post("/v1/completions", {**body, "prompt": [5] * (limit - 1)})[0], 200)
        for streamed in (False, True):
            begin = time.monotonic()
            status, answer = SERVER.post("/v1/completions", {**body, "prompt": [5] * (limit + 1), "stream": streamed})
            self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
            self.assertIn(str(limit), answer["error"]["message"])
            self.assertLess(time.monotonic() - begin, 5)


class FC14StreamUsage(unittest.TestCase):
    def test_usage_only_when_asked_and_cached_tokens_told(self):
        prompt = "grain " * 40 + str(random.random())
        body = chat(messages=[{"role": "user", "content": prompt}], max_tokens=3)
        self.assertTrue(all(c["choices"] for c in stream(body)))
        first = SERVER.ok("/v1/chat/completions", {**body, "messages": [{"role": "user", "content": "x" + prompt}]})["usage"]
        again = SERVER.ok("/v1/chat/completions", {**body, "messages": [{"role": "user", "content": "x" + prompt}]})["usage"]
        self.assertEqual(first["prompt_tokens"], again["prompt_tokens"])
        self.assertGreater(again["prompt_tokens_details"]["cached_tokens"],
                           first["prompt_tokens_details"]["cached_tokens"])
        chunks = stream({**body, "n": 2, "stream_options": {"include_usage": True}})
        self.assertEqual([c["choices"] for c in chunks].count([]), 1)
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 6)
        self.assertTrue(all(c["usage"] is None for c in chunks[:-1]))


class FC16ClientGoesAway(unittest.TestCase):
    def test_200_drops_leave_nothing_behind(self):
        server = Server("--max-num-seqs", "1", "--store", ":memory:")
        self.addCleanup(server.stop)
        for i in range(200):
            body = json.dumps(chat(max_tokens=480, stream=i % 2 == 0)).encode()
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if i % 4 == 0:
                connection.recv(100)
            connection.close()
        begin = time.monotonic()
        self.assertEqual(server.post("/v1/chat/completions", chat(max_tokens=1))[0], 200)
        self.assertLess(time.monotonic() - begin, 10)
        time.sleep(0.3)
        self.assertEqual(server.metric("vllm:num_requests_running"), 0)
        self.assertEqual(server.metric("vllm:num_requests_waiting"), 0)
        self.assertEqual(server.metric("vllm:kv_cache_usage_perc"), 0)


class FC21EmbeddingForms(unittest.TestCase):
    def test_encodings_and_dimensions(self):
        def embed(**fields):
            return SERVER.post("/v1/embeddings", {"model": "bert", "input": ["the mill", "the tide"], **fields})
        plain = [item["embedding"] for item in embed()[1]["data"]]
        packed = [item["embedding"] for item in embed(encoding_format="base64")[1]["data"]]
        width = len(plain[0])
        for vector, text in zip(plain, packed, strict=True):
            unpacked = struct.unpack(f"<{width}f", base64.b64decode(text, validate=True))
            self.assertEqual([struct.unpack("<f", struct.pack("<f", x))[0] for x in vector], list(unpacked))
        for vector, cut in zip(plain, (item["embedding"] for item in embed(dimensions=width // 2)[1]["data"]), strict=True):
            norm = math.sqrt(sum(x * x for x in vector[:width // 2]))
            self.assertAlmostEqual(math.sqrt(sum(x * x for x in cut)), 1, places=5)
            for a, b in zip(cut, vector, strict=False):
                self.assertAlmostEqual(a, b / norm, places=5)
        self.assertEqual([item["embedding"] for item in embed(dimensions=width)[1]["data"]], plain)
        for fields in ({"dimensions": width + 1}, {"dimensions": 0}, {"dimensions": -1}, {"dimensions": 1.5}, {"encoding_format": "hex"},
                       {"encoding_format": 5}):
            status, answer = embed(**fields)
            self.assertEqual((status, answer["error"]["param"]), (400, *fields), fields)


class FC22LongEmbeddings(unittest.TestCase):
    def test_every_length_up_to_the_context_alone_and_in_a_list(self):
        limit = next(m["max_model_len"] for m in SERVER.get("/v1/models")[1]["data"] if m["id"] == "bert")
        ids = [5 + i % 50 for i in range(limit)]
        lengths = [n for n in (1, 15, 16, 17, limit - 1, limit) if n <= limit]
        whole = SERVER.ok("/v1/embeddings", {"model": "bert", "input": [ids[:n] for n in lengths]})["data"]
        for n, item in zip(lengths, whole):
            alone = SERVER.ok("/v1/embeddings", {"model": "bert", "input": ids[:n]})["data"][0]["embedding"]
            self.assertEqual(alone, item["embedding"], n)
        status, answer = SERVER.post("/v1/embeddings", {"model": "bert", "input": [[5], ids + [5]]})
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))


class FC23Rerank(unittest.TestCase):
    def test_order_follows_the_documents(self):
        documents = [f"document about {word}" for word in ("grain", "tides", "boats", "mills", "rivers", "flour")]
        winner = None
        for turn in range(10):
            shuffled = random.Random(turn).sample(documents, len(documents))
            for top_n in (1, 2, 99):
                results = SERVER.ok("/v1/rerank", {"model": "bert_rerank", "query": "the mill", "documents": shuffled,
                                                   "top_n": top_n})["results"]
                self.assertEqual(len(results), min(top_n, len(documents)))
                scores = [r["relevance_score"] for r in results]
                self.assertEqual(scores, sorted(scores, reverse=True))
                best = shuffled[results[0]["index"]]
                winner = winner or best
                self.assertEqual(best, winner)


class FC29UnknownModel(unittest.TestCase):
    def test_no_other_model_answers(self):
        bodies = {"/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]}, "/v1/completions": {"prompt": "x"},
                  "/v1/embeddings": {"input": "x"}, "/rerank": {"query": "x", "documents": ["y"]},
                  "/score": {"text_1": "x", "text_2": "y"}, "/tokenize": {"prompt": "x"}, "/detokenize": {"tokens": [5]},
                  "/v1/responses": {"input": "x"}, "/v1/messages": {"max_tokens": 1, "messages": [
                      {"role": "user", "content": "x"}]},
                  "/api/chat": {"messages": [{"role": "user", "content": "x"}]}, "/api/embed": {"input": "x"}}
        for path, body in bodies.items():
            for name in ("gpt-4", "LLAMA", " llama", "llama ", "../llama", "/etc/passwd", "a" * 5000):
                status, answer = SERVER.post(path, {**body, "model": name})
                self.assertEqual(status, 404, (path, name, answer))
            if not path.startswith(("/v1/messages", "/api")):
                status, answer = SERVER.post(path, {**body, "model": "gpt-4"})
                self.assertEqual(answer["error"]["code"], "model_not_found")
                self.assertIn("bert_rerank", answer["error"]["message"])


class FC35Keys(unittest.TestCase):
    OPEN = {("GET", path) for path in ("/", "/setup", "/docs", "/health", "/ping", "/ready", "/v1/cluster/auth")}
    # Where nobody has a key yet: signing in. They tell nothing without a password, a link or a provider's word.
    SIGN_IN = {("GET", "/v1/admin/setup/status"), ("POST", "/v1/admin/setup"), ("POST", "/token"), ("POST", "/v1/auth/refresh"),
               ("GET", "/api/oidc/authorize"), ("GET", "/api/oidc/callback")}

    def test_every_route_and_spelling_is_closed(self):
        server = Server("--store", ":memory:", QUERN_API_KEY="sesame")
        self.addCleanup(server.stop)
        for path in OPENAPI["paths"]:
            path = path.replace("{", "").replace("}", "")
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"):
                for spelled in (path, "/" + path, path + "/", path.replace("/v", "/%76"), path.upper()):
                    for headers in ({}, {"Authorization": "Bearer sesam"}):
                        status, text, _ = server.request(method, spelled, "{}", headers)
                        asked = ("GET" if method == "HEAD" else method, spelled.replace("/%76", "/v"))
                        if asked in self.SIGN_IN:
                            self.assertIn(status, (200, 400, 401, 404), (method, spelled))
                            continue
                        if asked in self.OPEN:
                            self.assertEqual(status, 200, spelled)
                            continue
                        self.assertEqual(status, 401, (method, spelled))
                        if method != "HEAD" and spelled.startswith("/v1/chat"):
                            self.assertEqual(json.loads(text)["error"]["code"], "invalid_api_key")


class FC36Browsers(unittest.TestCase):
    def test_preflight_on_each_route(self):
        server = Server("--cors", "*", "--store", ":memory:", QUERN_API_KEY="sesame")
        self.addCleanup(server.stop)
        for path, methods in OPENAPI["paths"].items():
            headers = {"Origin": "https://page.example", "Access-Control-Request-Method": list(methods)[0].upper(),
                       "Access-Control-Request-Headers": "authorization"}
            status, _, answer = server.request("OPTIONS", path.replace("{", "").replace("}", ""), None, headers)
            self.assertEqual(status, 204, path)
            self.assertEqual(answer["access-control-allow-origin"], "https://page.example")
            self.assertIn(list(methods)[0].upper(), answer["access-control-allow-methods"])


class FC38WrongTypes(unittest.TestCase):
    GOOD = {"/v1/chat/completions": chat(max_tokens=1), "/v1/completions": {"model": "llama", "prompt": "x", "max_tokens": 1},
            "/v1/embeddings": {"model": "bert", "input": "x"}, "/rerank": {"model": "bert_rerank", "query": "x", "documents": ["y"]},
            "/score": {"model": "bert_rerank", "text_1": "x", "text_2": "y"}, "/tokenize": {"model": "llama", "prompt": "x"},
            "/detokenize": {"model": "llama", "tokens": [5]}, "/v1/responses": {"model": "llama", "input": "x", "max_output_tokens": 1},
            "/v1/messages": {"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]},
            "/api/chat": {"model": "llama", "messages": [{"role": "user", "content": "x"}], "options": {"num_predict": 1}},
            "/api/generate": {"model": "llama", "prompt": "x", "options": {"num_predict": 1}},
            "/api/embed": {"model": "bert", "input": "x"}, "/api/show": {"model": "llama"}}
    VALUES = [None, True, 0, -1, 1.5, "x", [], {}, [[[]]], {"a": {"b": []}}, [None], [{}], [5, "x"], "\u0000", "\ud83d\ude00"]

    def fields_of(self, path):
        schema = OPENAPI["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            schema = OPENAPI["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return [name for name in schema["properties"] if name != "stream"]

    def test_each_field_takes_any_type(self):
        process = SERVER.process.pid
        for path, good in self.GOOD.items():
            self.assertEqual(SERVER.request("POST", path, good)[0], 200, path)
            for field in self.fields_of(path):
                limit = {"max_tokens": 1} if field != "max_tokens" and path.startswith(("/v1/chat", "/v1/comp")) else {}
                for value in self.VALUES:
                    status, text, _ = SERVER.request("POST", path, {**good, **limit, field: value})
                    self.assertIn(status // 100, (2, 4), (path, field, value, text))
        self.assertEqual(SERVER.process.pid, process)
        self.assertIsNone(SERVER.process.poll())

    def test_broken_bodies(self):
        bodies = ["", " ", "{", "[]", "null", "5", '"x"', "{\"a\":}", "[" * 100000, '{"a":' * 5000, '{"model": "\\ud800"}',
                  b"\xff\xfe", b'{"model": "\xc3\x28"}', "{" + '"a":1,' * 100000 + '"b":2}']
        for path in self.GOOD:
            for body in bodies:
                status, text, _ = SERVER.request("POST", path, body)
                self.assertEqual(status, 400, (path, body[:20], text[:200]))
                self.assertIn("error", json.loads(text))
        long = SERVER.request("POST", "/v1/chat/completions", {**chat(), "user": "y" * (1 << 20)})[0]
        self.assertEqual(long, 200)

    def test_chunked_and_odd_content_types(self):
        body = json.dumps(chat(max_tokens=1)).encode()
        chunked = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        self.assertIn(b" 200 ", SERVER.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked, 30))
        for kind in ("text/plain", "application/x-www-form-urlencoded", "nonsense"):
            self.assertIn(SERVER.request("POST", "/v1/chat/completions", chat(max_tokens=1), {"Content-Type": kind})[0],
                          (200, 400, 415))


class FC39Bodies(unittest.TestCase):
    def test_sizes_around_the_limit(self):
        for mebibytes, expected in ((0.9, 200), (5, 200), (20, 200), (33, 413)):
            body = json.dumps(chat(max_tokens=1, user="x" * int(mebibytes * (1 << 20)))).encode()
            try:
                status = SERVER.request("POST", "/v1/chat/completions", body)[0]
            except (BrokenPipeError, ConnectionResetError):
                status = 413  # refused while we were still sending
            self.assertEqual(status, expected, mebibytes)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", SERVER.port), timeout=30) as connection:
            connection.sendall(head)
            answer = b""
            try:
                for _ in range(40):
                    connection.sendall(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                answer = connection.recv(4096)
            except ConnectionResetError:
                pass
            self.assertTrue(answer == b"" or b" 413 " in answer, answer[:100])


class FC40MediaUrls(unittest.TestCase):
    def test_nothing_is_fetched(self):
        hits = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]

            def listen():
                try:
                    while True:
                        listener.accept()[0].close()
                        hits.append(1)
                except OSError:
                    pass
            threading.Thread(target=listen, daemon=True).start()
            with socket.create_server(("127.0.0.1", 0)) as other:
                closed = other.getsockname()[1]
            words = set()
            urls = ["http://127.0.0.1:{}/a", "http://[::1]:{}/a", "http://0.0.0.0:{}/a", "http://2130706433:{}/a", "http://0177.0.0.1:{}/a",
                    "http://localhost:{}/a", "ftp://127.0.0.1:{}/a", "gopher://127.0.0.1:{}/a", "file:///etc/passwd", "/etc/passwd",
                    "http://169.254.169.254/latest/meta-data"]
            for url in urls:
                for at in (port, closed):
                    for part in ({"type": "image_url", "image_url": {"url": url.format(at)}}, {"type": "input_audio", "input_audio": {"data": url.format(at)}},
                                 {"type": "video_url", "video_url": {"url": url.format(at)}}):
                        status, answer = SERVER.post("/v1/chat/completions", chat(messages=[{"role": "user", "content": [part]}]))
                        self.assertEqual(status, 400, (part, answer))
                        words.add((part["type"], answer["error"]["message"]))
                    status, answer = SERVER.post("/v1/messages", {"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": [
                        {"type": "image", "source": {"type": "url", "url": url.format(at)}}]}]})
                    self.assertEqual(status, 400, answer)
                    status, answer = SERVER.post("/api/chat", {"model": "llama", "messages": [{"role": "user", "content": "x", "images": [url.format(at)]}]})
                    self.assertEqual(status, 400, answer)
            self.assertEqual(len(words), 3, "the same words whether somebody listens or not")
            self.assertEqual(hits, [])


@unittest.skipUnless(os.path.exists("/proc/self/status"), "needs /proc")
class FC43Memory(unittest.TestCase):
    def test_a_plateau(self):
        server = Server("--store", ":memory:", "--log-level", "error")
        self.addCleanup(server.stop)

        def work(count):
            def ask(worker):
                for i in range(worker, count, 4):
                    body = chat(messages=[{"role": "user", "content": f"number {i} {random.random()}"}], max_tokens=2)
                    if i % 5 == 0:
                        body["temperature"] = -1  # refused
                    server.post("/v1/chat/completions", body)
            threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return server.metrics()

        before = work(900)  # by then most of the cache was written to once
        after = work(600)
        grown = after["process_anonymous_memory_bytes"] - before["process_anonymous_memory_bytes"]
        self.assertLess(grown, 8 << 20)
        self.assertLessEqual(after["process_open_fds"], before["process_open_fds"] + 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
