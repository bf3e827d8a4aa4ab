"""What a client of any dialect sees of a model that another engine serves. Each check is a function of (test, server,
model name, engine); `ALL` is run against every engine that is on the machine, so what they assert holds of all of them."""
import http.client
import json
import pathlib
import socket
import time

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
          "required": ["city"], "additionalProperties": False}
TOOL = {"name": "weather", "description": "the weather of a city", "parameters": SCHEMA, "strict": True}
QUESTION = "Name a city."


def chat_body(model, **fields):
    return {"model": model, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 24,
            **fields}


def openai_chat(test, server, model, engine):
    whole = server.ok("/v1/chat/completions", chat_body(model))
    text = whole["choices"][0]["message"]["content"]
    test.assertTrue(text)
    test.assertEqual(whole["model"], model)
    test.assertGreater(whole["usage"]["completion_tokens"], 0)
    events = server.events("/v1/chat/completions", chat_body(model, stream=True))
    test.assertEqual(events[-1][1], "[DONE]")
    said = "".join(c["delta"].get("content") or "" for _, data in events[:-1] for c in json.loads(data)["choices"])
    test.assertEqual(said, text)
    server.ok("/v1/chat/completions", chat_body(model, max_tokens=100000, stop=["."], messages=[
        {"role": "user", "content": "Say yes."}]))  # a limit over the context is one
    done = server.ok("/v1/completions", {"model": model, "prompt": "The sea is", "max_tokens": 4, "temperature": 0})
    test.assertTrue(done["choices"][0]["text"])


def logprobs(test, server, model, engine):
    answer = server.ok("/v1/chat/completions", chat_body(model, max_tokens=3, logprobs=True, top_logprobs=2))
    tokens = answer["choices"][0]["logprobs"]["content"]
    test.assertEqual(len(tokens), 3)
    test.assertEqual(len(tokens[0]["top_logprobs"]), 2)
    test.assertLessEqual(tokens[0]["logprob"], 0)


def structured(test, server, model, engine):
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
    bodies = [chat_body(model, response_format=form), chat_body(model, structured_outputs={"json": SCHEMA})]
    for body in bodies:
        answer = server.ok("/v1/chat/completions", body)
        test.assertIn(json.loads(answer["choices"][0]["message"]["content"])["city"], ("Paris", "Rome"))
    answer = server.ok("/v1/chat/completions", chat_body(model, structured_outputs={"choice": ["yes", "no"]}))
    test.assertIn(answer["choices"][0]["message"]["content"], ("yes", "no"))
    body = {"model": model, "max_tokens": 32, "temperature": 0, "messages": [{"role": "user", "content": QUESTION}],
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    test.assertIn(json.loads(server.ok("/v1/messages", body)["content"][0]["text"])["city"], ("Paris", "Rome"))
    body = {"model": model, "stream": False, "format": SCHEMA, "options": {"temperature": 0, "num_predict": 32},
            "messages": [{"role": "user", "content": QUESTION}]}
    test.assertIn(json.loads(server.ok("/api/chat", body)["message"]["content"])["city"], ("Paris", "Rome"))


def tokens(test, server, model, engine):
    for path in ("/tokenize", "/v1/tokenize"):
        answer = server.ok(path, {"model": model, "prompt": "the tide", "add_special_tokens": False})
        test.assertEqual(answer["count"], len(answer["tokens"]))
        test.assertGreater(answer["count"], 0)
        test.assertEqual(server.ok(path.replace("tok", "detok"), {"model": model, "tokens": answer["tokens"]}),
                         {"prompt": "the tide"})
    strings = server.ok("/tokenize", {"model": model, "prompt": "the tide", "return_token_strs": True})
    test.assertEqual(len(strings["token_strs"]), strings["count"])
    counted = server.ok("/v1/messages/count_tokens", {"model": model, "messages": [{"role": "user", "content": "tide"}]})
    test.assertGreater(counted["input_tokens"], 1)


def anthropic(test, server, model, engine):
    body = {"model": model, "max_tokens": 24, "temperature": 0, "system": "Be short.",
            "messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]}
    whole = server.ok("/v1/messages", body)
    test.assertEqual((whole["type"], whole["role"], whole["model"]), ("message", "assistant", model))
    text = whole["content"][0]["text"]
    test.assertTrue(text)
    test.assertIn(whole["stop_reason"], ("end_turn", "max_tokens"))
    test.assertGreater(whole["usage"]["output_tokens"], 0)
    events = server.events("/v1/messages", {**body, "stream": True})
    names = [name for name, _ in events]
    test.assertEqual(names[:3], ["message_start", "ping", "content_block_start"])
    test.assertEqual(names[-3:], ["content_block_stop", "message_delta", "message_stop"])
    said = "".join(json.loads(data)["delta"]["text"] for name, data in events if name == "content_block_delta")
    test.assertEqual(said, text)
    end = json.loads(events[-2][1])
    test.assertEqual(end["usage"]["output_tokens"], whole["usage"]["output_tokens"])
    test.assertEqual(end["delta"]["stop_reason"], whole["stop_reason"])


def tools(test, server, model, engine):
    """Calls that must be made, in both dialects, whole and streamed, and what follows one."""
    turn = [{"role": "user", "content": QUESTION}]
    body = chat_body(model, max_tokens=64, tools=[{"type": "function", "function": TOOL}], tool_choice="required")
    call = server.ok("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"][0]
    test.assertEqual(call["function"]["name"], "weather")
    test.assertIn(json.loads(call["function"]["arguments"])["city"], ("Paris", "Rome"))
    asked = {"model": model, "max_tokens": 64, "temperature": 0, "messages": turn, "tool_choice": {"type": "any"},
             "tools": [{"name": "weather", "description": "of a city", "input_schema": SCHEMA}]}
    answer = server.ok("/v1/messages", asked)
    test.assertEqual(answer["stop_reason"], "tool_use", answer)
    call = answer["content"][-1]
    test.assertEqual((call["type"], call["name"]), ("tool_use", "weather"))
    test.assertIn(call["input"]["city"], ("Paris", "Rome"))
    events = server.events("/v1/messages", {**asked, "stream": True})
    pieces = [json.loads(data)["delta"] for name, data in events if name == "content_block_delta"]
    arguments = "".join(piece["partial_json"] for piece in pieces if piece["type"] == "input_json_delta")
    test.assertEqual(json.loads(arguments), call["input"])
    del asked["tool_choice"]
    back = {**asked, "messages": turn + [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}]}]}
    test.assertTrue(server.ok("/v1/messages", back)["content"])


def ollama(test, server, model, engine):
    options = {"temperature": 0, "num_predict": 24, "top_k": 40, "repeat_penalty": 1.1}
    body = {"model": model + ":latest", "stream": False, "options": options,
            "messages": [{"role": "user", "content": QUESTION}]}
    whole = server.ok("/api/chat", body)
    test.assertTrue(whole["done"])
    text = whole["message"]["content"]
    test.assertTrue(text)
    test.assertGreater(whole["eval_count"], 0)
    test.assertGreater(whole["eval_duration"], 0)
    lines = server.lines("/api/chat", {**body, "stream": True})
    test.assertEqual("".join(line["message"]["content"] for line in lines), text)
    test.assertEqual([line["done"] for line in lines], [False] * (len(lines) - 1) + [True])
    test.assertEqual(lines[-1]["eval_count"], whole["eval_count"])
    for raw in (False, True):
        asked = {"model": model, "prompt": "The sea is", "raw": raw, "options": options}
        said = server.ok("/api/generate", {**asked, "stream": False})["response"]
        test.assertTrue(said)
        test.assertEqual("".join(line["response"] for line in server.lines("/api/generate", asked)), said)
    test.assertEqual(server.ok("/api/generate", {"model": model})["done_reason"], "load")
    shown = server.ok("/api/show", {"model": model})
    test.assertIn("completion", shown["capabilities"])
    test.assertIn(model, [entry["model"] for entry in server.get("/api/tags")[1]["models"]])


def responses(test, server, model, engine):
    answer = server.ok("/v1/responses", {"model": model, "input": QUESTION, "temperature": 0, "max_output_tokens": 24})
    test.assertEqual(answer["object"], "response")
    texts = [part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    test.assertTrue("".join(texts))


def errors(test, server, model, engine):
    """The engine's own refusals, in the words of the client's dialect."""
    long = "tide " * 6000
    status, answer = server.post("/v1/chat/completions", chat_body(model, messages=[{"role": "user", "content": long}]))
    test.assertEqual(status, 400, answer)
    test.assertTrue(answer["error"]["message"])
    test.assertIn("detail", answer)
    status, answer = server.post("/v1/messages", {"model": model, "max_tokens": 8,
                                                  "messages": [{"role": "user", "content": long}]})
    test.assertEqual((status, answer["type"], answer["error"]["type"]), (400, "error", "invalid_request_error"), answer)
    status, answer = server.post("/api/chat", {"model": model, "messages": [{"role": "user", "content": long}]})
    test.assertEqual((status, list(answer)), (400, ["error"]), answer)
    status, answer = server.post("/v1/messages", {"model": model, "messages": []})
    test.assertEqual((status, answer["type"]), (400, "error"), answer)
    test.assertIn("max_tokens", answer["error"]["message"])
    status, answer = server.post("/api/chat", {"model": model, "messages": [], "options": {"mirostat": 1}})
    test.assertEqual(status, 400)
    test.assertIn("mirostat", answer["error"])
    if engine == "llama.cpp":
        for name, value in (("stop_token_ids", [1]), ("structured_outputs", {"regex": "a+"})):
            status, answer = server.post("/v1/chat/completions", chat_body(model, **{name: value}))
            test.assertEqual(status, 400, answer)
            test.assertIn(name, answer["error"]["message"])
        status, answer = server.post("/v1/score", {"model": model, "text_1": "a", "text_2": "b"})
        test.assertEqual(status, 404, answer)
        test.assertIn("llama.cpp", answer["error"]["message"])


def cancel(test, server, model, engine):
    """A client that leaves in the middle of a stream: the engine stops computing."""
    body = json.dumps(chat_body(model, max_tokens=900, stream=True, ignore_eos=True)).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        connection.recv(1)
    server.wait_for(lambda: not busy(server, model, engine), "the engine to stop", 20)


def busy(server, model, engine):
    """Does the engine itself compute? Asked at its own door, with its own key."""
    pid = server.get(f"/v1/models/{model}")[1]["replicas"][0]["pid"]
    proc = pathlib.Path(f"/proc/{pid}")
    variables = dict(pair.split("=", 1) for pair in (proc / "environ").read_text().split("\0") if "=" in pair)
    words = (proc / "cmdline").read_text().split("\0")
    port = int(words[words.index("--port") + 1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    key = variables["LLAMA_API_KEY" if engine == "llama.cpp" else "VLLM_API_KEY"]
    connection.request("GET", "/slots" if engine == "llama.cpp" else "/metrics", headers={"Authorization": f"Bearer {key}"})
    text = connection.getresponse().read().decode()
    connection.close()
    if engine == "llama.cpp":
        return any(slot["is_processing"] for slot in json.loads(text))
    return any(float(line.rsplit(" ", 1)[1]) > 0 for line in text.splitlines()
               if line.startswith("vllm:num_requests_running"))


ALL = (openai_chat, logprobs, structured, tokens, anthropic, ollama, responses, errors, cancel)


def check(test, server, model, engine, more=()):
    for one in ALL + more:
        begin = time.monotonic()
        with test.subTest(one.__name__, engine=engine):
            one(test, server, model, engine)
        print(f"  {engine} {one.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
