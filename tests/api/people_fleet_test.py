"""Keys and models in other processes: what an answer costs that the front door carries."""
import json
import sys
import unittest

from people_test import PeopleCase, bearer
from quern_server import BERT, LLAMA, chat


class FleetQuotaTest(PeopleCase):
    def test_what_other_processes_answer_counts_as_well(self):
        self.admin()
        server = self.serve("--auth", "on", "--fleet", "--stop-workers", models=())
        admin = self.sign_in(server)["access_token"]
        for uid, model in (("far", LLAMA), ("bert-far", BERT)):
            launch = {"uid": uid, "model_name": str(model), "engine_options": {"threads": 1}}
            self.assertEqual(server.post("/v1/models", launch, bearer(admin))[0], 200)
        key = self.key(server, admin, quotas={"tokens_per_day": 10**6, "tokens_per_minute": 10**6})
        head = bearer(key["key"])
        today = lambda: server.get(f"/v1/admin/keys/{key['id']}", **bearer(admin))[1]["today"]["tokens"]
        spent = 0

        def costs(tokens, what):
            nonlocal spent
            spent += tokens
            self.assertGreater(tokens, 0, what)
            self.wait_for(today, lambda counted: counted >= spent)
            self.assertEqual(today(), spent, what)

        whole = server.post("/v1/chat/completions", chat(model="far"), head)[1]
        costs(whole["usage"]["total_tokens"], "chat")
        text = server.request("POST", "/v1/chat/completions", chat(model="far", stream=True), head)[1]
        self.assertTrue(text.endswith("data: [DONE]\n\n") and "usage" not in text, "what was not asked for is not seen")
        plain = server.request("POST", "/v1/chat/completions", chat(model="far", stream=True), bearer(admin))[1]
        events = lambda stream: [json.loads(line[6:])["choices"] for line in stream.splitlines() if line.startswith("data: {")]
        self.assertEqual("".join(c[0]["delta"].get("content") or "" for c in events(text)),
                         "".join(c[0]["delta"].get("content") or "" for c in events(plain)))
        costs(whole["usage"]["total_tokens"], "a stream")
        asked = chat(model="far", stream=True, stream_options={"include_usage": True})
        self.assertIn('"total_tokens"', server.request("POST", "/v1/chat/completions", asked, head)[1])
        costs(whole["usage"]["total_tokens"], "a stream with usage")
        message = {"model": "far", "max_tokens": 4, "messages": [{"role": "user", "content": "a"}]}
        usage = server.post("/v1/messages", message, head)[1]["usage"]
        message_tokens = usage["input_tokens"] + usage.get("cache_read_input_tokens", 0) + usage["output_tokens"]
        costs(message_tokens, "a message")
        server.request("POST", "/v1/messages", {**message, "stream": True}, head)
        costs(message_tokens, "a streamed message")
        response = {"model": "far", "input": "a", "max_output_tokens": 4}
        response_tokens = server.post("/v1/responses", response, head)[1]["usage"]["total_tokens"]
        costs(response_tokens, "a response")
        server.request("POST", "/v1/responses", {**response, "stream": True}, head)
        costs(response_tokens, "a streamed response")
        ollama = {"model": "far", "prompt": "a", "options": {"num_predict": 3}}
        last = json.loads(server.request("POST", "/api/generate", ollama, head)[1].splitlines()[-1])
        costs(last["prompt_eval_count"] + last["eval_count"], "lines of Ollama")
        costs(server.post("/v1/embeddings", {"model": "bert-far", "input": ["x y", "z"]}, head)[1]["usage"]["total_tokens"], "vectors")
        connection = server.connection()
        connection.request("POST", "/v1/chat/completions", json.dumps(chat(model="far", stream=True, max_tokens=400)),
                           {"Content-Type": "application/json", **head})
        connection.getresponse().readline()
        connection.close()
        self.wait_for(today, lambda counted: counted > spent)
        self.assertLess(today(), spent + 400, "a client that leaves pays for what came")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
