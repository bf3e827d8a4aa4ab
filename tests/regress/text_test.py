"""Faults that users of comparable servers met in texts and sampling. Each class is one case of the field list, by number."""
import json
import pathlib
import re
import signal
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import BERT, LLAMA, RERANKER, Server, chat, share_server  # noqa: E402

SERVER = None
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
# Flags, a family joined by zero-width joiners, a combining mark, CJK, Cyrillic, Devanagari.
MIXED = "a🇩🇪b👨‍👩‍👧‍👦e\u0301中文字Привет नमस्ते!"


share_server(globals(), models=(LLAMA, BERT, RERANKER))


def forced(text, **fields):
    """A chat whose answer can only be `text`."""
    return chat(max_tokens=200, structured_outputs={"choice": [text]}, **fields)


def chunks_of(path, body):
    return [json.loads(data) for _, data in SERVER.events(path, {**body, "stream": True}) if data != "[DONE]"]


def deltas(body, path=CHAT):
    """Texts by choice index, and finish reasons, as a stream tells them."""
    texts, reasons = {}, {}
    for chunk in chunks_of(path, body):
        for choice in chunk["choices"]:
            piece = choice["delta"].get("content") or "" if path == CHAT else choice["text"]
            texts[choice["index"]] = texts.get(choice["index"], "") + piece
            reasons[choice["index"]] = choice["finish_reason"] or reasons.get(choice["index"])
    return texts, reasons


def whole(body, path=CHAT):
    answer = SERVER.ok(path, body)
    texts = {c["index"]: c["message"]["content"] if path == CHAT else c["text"] for c in answer["choices"]}
    return texts, {c["index"]: c["finish_reason"] for c in answer["choices"]}


class FC01HalfCharacters(unittest.TestCase):
    def test_every_cut_of_a_mixed_text(self):
        length = SERVER.ok(CHAT, forced(MIXED))["usage"]["completion_tokens"]
        self.assertEqual(whole(forced(MIXED))[0], {0: MIXED})
        self.assertGreater(length, 20)
        for limit in range(1, length + 1):
            body = {**forced(MIXED), "max_tokens": limit}
            self.assertEqual(deltas(body), whole(body), limit)
            self.assertTrue(MIXED.startswith(whole(body)[0][0]), limit)  # so no U+FFFD either
        completion = {"prompt": "x", "max_tokens": 200, "structured_outputs": {"choice": [MIXED]}}
        self.assertEqual(deltas(completion, COMPLETIONS), whole(completion, COMPLETIONS))
        self.assertEqual(whole(completion, COMPLETIONS)[0], {0: MIXED})


class FC04Nul(unittest.TestCase):
    def test_what_follows_a_nul_counts(self):
        def answered(path, **body):
            answer = SERVER.ok(path, body)
            return answer.get("tokens", answer.get("data"))
        message = lambda text: chat(messages=[{"role": "user", "content": text}], max_tokens=1)
        sizes = [SERVER.ok(CHAT, message("a\0" + tail))["usage"]["prompt_tokens"] for tail in ("", "b", "b c d e f")]
        self.assertEqual(sorted(set(sizes)), sizes)
        for path, model, field in (("/tokenize", "llama", "prompt"), ("/v1/embeddings", "bert", "input")):
            one, other = (answered(path, model=model, **{field: "a\0" + tail}) for tail in ("the sea", "a bird"))
            self.assertNotEqual(one, other, path)
        # A stop that begins like another before its NUL is a stop of its own.
        body = forced("abc", stop=["a\0x"])
        self.assertEqual(whole(body)[0][0], "abc")


class FC05RoleRules(unittest.TestCase):
    def test_shapes_of_history_are_answered_or_refused(self):
        for roles in (["user", "user"], ["system", "user"], ["assistant"], [], ["nobody"], ["user", "system"], ["tool"]):
            body = chat(messages=[{"role": role, "content": "x"} for role in roles], max_tokens=1)
            status, answer = SERVER.post(CHAT, body)
            self.assertIn(status, (200, 400), roles)
            if status == 400:
                self.assertEqual(answer["error"]["message"].count("\n"), 0, answer)
                self.assertLess(len(answer["error"]["message"]), 300)
        self.assertEqual(SERVER.post(CHAT, chat(messages=[]))[0], 400)
        size = lambda *m: SERVER.ok(CHAT, chat(messages=list(m), max_tokens=1))["usage"]["prompt_tokens"]
        user = {"role": "user", "content": "x"}
        self.assertGreater(size({"role": "system", "content": "a long word of advice"}, user), size(user))


class FC07ReplayedHistory(unittest.TestCase):
    def test_shapes_by_roles(self):
        shapes = [None, "", "text", [], [{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}] * 3, [[]], [None], {},
                  5, [{"type": "text"}], [{"type": "text", "text": None}], [{"type": "nothing", "text": "x"}]]
        for role in ("system", "developer", "user", "assistant", "tool"):
            for shape in shapes:
                for extra in ({}, {"name": "n"}, {"tool_calls": None}, {"unknown": 1}):
                    status, answer = SERVER.post(CHAT, chat(messages=[{"role": role, "content": shape, **extra}], max_tokens=1))
                    self.assertIn(status, (200, 400), (role, shape, extra, answer))
            self.assertIn(SERVER.post(CHAT, chat(messages=[{"role": role}], max_tokens=1))[0], (200, 400))
            self.assertEqual(SERVER.post(CHAT, chat(messages=[{"role": role, "content": [{"type": "text", "text": "x"}]}], max_tokens=1))[0], 200)

    def test_a_tool_call_comes_back(self):
        tools = [{"type": "function", "function": {"name": "add", "parameters": {
            "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["a"]}}}]
        body = chat(tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=200)
        message = SERVER.ok(CHAT, body)["choices"][0]["message"]
        self.assertEqual(message["tool_calls"][0]["function"]["name"], "add")
        history = body["messages"] + [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "4"}]
        self.assertEqual(SERVER.post(CHAT, {**body, "messages": history, "tool_choice": "none", "max_tokens": 2})[0], 200)
        history[-2] = json.loads(json.dumps(message))
        history[-2]["tool_calls"][0]["function"]["arguments"] = '{"a": '
        status, answer = SERVER.post(CHAT, {**body, "messages": history, "max_tokens": 2})
        self.assertEqual(status, 400)
        self.assertIn("messages[", answer["error"]["message"])


class FC08BadNumbers(unittest.TestCase):
    def test_a_bystander_does_not_notice(self):
        bystander = chat(max_tokens=120, seed=7, temperature=1)
        alone = whole(bystander)
        seen = {}
        thread = threading.Thread(target=lambda: seen.update(answer=deltas(bystander)))
        thread.start()
        for name in ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"):
            for value in ("1e999", "NaN", '"NaN"', "-1e30", '"abc"', "[]", "1e30"):
                raw = json.dumps(chat(max_tokens=1))[:-1] + f', "{name}": {value}}}'
                status, text, _ = SERVER.request("POST", CHAT, raw)
                self.assertEqual(status, 400, (name, value))
                if value not in ("1e999", "NaN"):  # no JSON at all
                    self.assertIn(name, text)
        vocab = 256
        while SERVER.post(CHAT, chat(max_tokens=1, logit_bias={str(vocab * 2): 1}))[0] == 200:
            vocab *= 2
        for token in ("-1", str(2 ** 31), str(2 ** 63), "abc", str(10 ** 9)):
            self.assertEqual(SERVER.post(CHAT, chat(max_tokens=1, logit_bias={token: 1}))[0], 400, token)
        for fields in ({"temperature": 0}, {"temperature": 2}, {"top_p": 1}, {"logit_bias": {"0": -100}},
                       {"presence_penalty": -2}, {"frequency_penalty": 2}):
            self.assertEqual(SERVER.post(CHAT, chat(max_tokens=1, **fields))[0], 200, fields)
        thread.join()
        self.assertEqual(seen["answer"], alone)


class FC09SeedsAndLists(unittest.TestCase):
    def test_one_seed_gives_different_draws_and_the_same_next_time(self):
        body = chat(n=4, temperature=1, seed=5, max_tokens=12)
        first = whole(body)[0]
        self.assertEqual(first, whole(body)[0])
        self.assertEqual(sorted(first), [0, 1, 2, 3])
        self.assertGreater(len(set(first.values())), 1)

    def test_prompts_times_samples(self):
        body = {"prompt": ["the sea", "a bird", "stones"], "n": 2, "temperature": 1, "seed": 5, "max_tokens": 6}
        texts = whole(body, COMPLETIONS)
        self.assertEqual(sorted(texts[0]), list(range(6)))
        self.assertEqual(deltas(body, COMPLETIONS), texts)
        for at, prompt in enumerate(body["prompt"]):
            alone = whole({**body, "prompt": prompt}, COMPLETIONS)[0]
            self.assertEqual([texts[0][2 * at], texts[0][2 * at + 1]], [alone[0], alone[1]])
        usage = SERVER.ok(COMPLETIONS, body)["usage"]
        ids = [SERVER.ok("/tokenize", {"model": "llama", "prompt": prompt})["tokens"] for prompt in body["prompt"]]
        self.assertEqual(usage["prompt_tokens"], sum(map(len, ids)))
        self.assertEqual(whole({**body, "prompt": ids}, COMPLETIONS), texts)
        self.assertEqual(whole({**body, "prompt": ids[0]}, COMPLETIONS)[0], whole({**body, "prompt": "the sea"}, COMPLETIONS)[0])


class FC10Stops(unittest.TestCase):
    def test_every_stop_of_a_text(self):
        text = "one two 中文🇩🇪 three, two"
        for begin in range(len(text)):
            for size in (1, 2, 5):
                stop = text[begin:begin + size]
                body = forced(text, stop=[stop])
                found = whole(body)
                self.assertEqual(found[0][0], text[:text.index(stop)], stop)
                self.assertEqual(found[1][0], "stop")
                self.assertEqual(deltas(body), found, stop)
        self.assertEqual(whole(forced(text, stop=["three", "two", "e tw", "zzz"]))[0][0], "on")


class FC20EndlessBlanks(unittest.TestCase):
    def test_no_run_of_blanks(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"type": "boolean"}},
                  "required": ["a", "b"], "additionalProperties": False}
        for seed in range(25):
            for form in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}):
                answer = SERVER.ok(CHAT, chat(response_format=form, temperature=1.5, seed=seed, max_tokens=100))["choices"][0]
                outside = re.sub(r'"(\\.|[^"\\])*"?', '""', answer["message"]["content"])
                self.assertIsNone(re.search(r"\s{11,}", outside), answer)
                self.assertEqual(answer["message"]["content"], answer["message"]["content"].rstrip())
                if form["type"] == "json_schema":
                    self.assertEqual(answer["finish_reason"], "stop")
                    json.loads(answer["message"]["content"])


class FC37HealthAndShutdown(unittest.TestCase):
    def test_health_beside_many_connections(self):
        idle = [socket.create_connection(("127.0.0.1", SERVER.port)) for _ in range(300)]
        threads = [threading.Thread(target=lambda: deltas(chat(max_tokens=100))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            self.assertEqual(SERVER.request("GET", "/health")[0], 200)
        for thread in threads:
            thread.join()
        for connection in idle:
            connection.close()

    def test_running_answers_end_and_new_ones_are_told(self):
        server = Server()
        bodies = [chat(max_tokens=400, seed=i, stream=True) for i in range(3)]
        seen = [None] * 3

        def read(i):
            seen[i] = server.request("POST", CHAT, bodies[i])
        threads = [threading.Thread(target=read, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(30), 0)
        for thread in threads:
            thread.join()
        for status, text, _ in seen:
            self.assertEqual(status, 200)
            self.assertTrue(text.endswith("data: [DONE]\n\n") or '"error"' in text, text[-200:])

    def test_a_second_signal_ends_at_once(self):
        server = Server()
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
        server.process.wait(10)
        connection.close()


class FC41LargerThanTheCache(unittest.TestCase):
    def test_below_at_and_above(self):
        server = Server("--max-model-len", 64)
        for count, expected in ((30, 200), (60, 200), (64, 400), (65, 400), (200, 400)):
            status, answer = server.post(COMPLETIONS, {"prompt": [5] * count, "max_tokens": 4 if count < 61 else 1})
            self.assertEqual(status, expected, (count, answer))
            self.assertEqual(server.post(COMPLETIONS, {"prompt": [5], "max_tokens": 1})[0], 200)
        self.assertEqual(server.stop(), 0)


class FC44Metrics(unittest.TestCase):
    def test_counters_agree_with_what_clients_saw(self):
        server = Server()
        prompts = completions = 0
        for i in range(6):
            usage = server.ok(CHAT, chat(max_tokens=4 + i))["usage"]
            prompts, completions = prompts + usage["prompt_tokens"], completions + usage["completion_tokens"]
        for _ in range(3):
            usage = server.ok(CHAT, forced("abc"))["usage"]
            prompts, completions = prompts + usage["prompt_tokens"], completions + usage["completion_tokens"]
        self.assertEqual(server.metric("vllm:prompt_tokens_total"), prompts)
        self.assertEqual(server.metric("vllm:generation_tokens_total"), completions)
        self.assertEqual(server.metric("vllm:request_success_total", finished_reason="length"), 6)
        self.assertEqual(server.metric("vllm:request_success_total", finished_reason="stop"), 3)
        for _ in range(5):  # clients that leave
            connection = socket.create_connection(("127.0.0.1", server.port))
            body = json.dumps(chat(max_tokens=400, stream=True)).encode()
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(body) + body)
            connection.recv(200)
            connection.close()
        self.assertEqual(server.post(CHAT, chat(temperature=-1))[0], 400)
        for _ in range(100):
            if server.metric("vllm:num_requests_running") == 0 and server.metric("vllm:num_requests_waiting") == 0:
                break
            time.sleep(0.05)
        self.assertEqual(server.metric("vllm:num_requests_running"), 0)
        self.assertEqual(server.metric("vllm:kv_cache_usage_perc"), 0)
        outcomes = server.metric("vllm:request_success_total")
        self.assertEqual(outcomes, 14)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if not a.endswith("quern")])
