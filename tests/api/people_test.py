"""Users, keys, roles, quotas, bans and the audit log, against the real binary. What is bound to the network is asked on
loopback only."""
import base64
import concurrent.futures
import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from quern_server import BERT, LLAMA, QUERN, Server, chat

PASSWORD = "a good password"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def quern(home, *arguments, stdin=""):
    return subprocess.run([QUERN, *arguments], input=stdin, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "QUERN_HOME": str(home)})


class PeopleCase(unittest.TestCase):
    template = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def serve(self, *arguments, **options):
        options.setdefault("QUERN_HOME", str(self.home))
        server = Server(*arguments, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def admin(self):
        """The home of a server whose administrator is root; a password takes half a second to hash, so it is made once."""
        if PeopleCase.template is None:
            PeopleCase.template = tempfile.TemporaryDirectory()
            done = quern(self.template.name, "user", "add", "root", "--role", "admin", stdin=PASSWORD + "\n")
            self.assertEqual(done.returncode, 0, done.stderr)
        shutil.copytree(self.template.name, self.home, dirs_exist_ok=True)

    def sign_in(self, server, name="root", password=PASSWORD):
        status, tokens = server.post("/token", {"username": name, "password": password})
        self.assertEqual(status, 200, tokens)
        return tokens

    def wait_for(self, look, wanted):
        """What follows an answer (a count, a line of the log) may come just after it."""
        deadline = time.time() + 30
        while not wanted(look()):
            self.assertLess(time.time(), deadline, look())
            time.sleep(0.05)
        return look()

    def key(self, server, admin, **fields):
        status, key = server.post("/v1/admin/keys", {"name": "test", "owner": "root", **fields}, bearer(admin))
        self.assertEqual(status, 200, key)
        return key


class WhenAsked(PeopleCase):
    def test_off_by_default_on_loopback(self):
        server = self.serve()
        self.assertEqual(server.get("/v1/cluster/auth"), (200, {"auth": False}))
        self.assertEqual(server.get("/v1/admin/setup/status")[1],
                         {"auth": False, "users": False, "needs_setup": False, "oidc": False})
        self.assertEqual(server.get("/v1/models")[0], 200)
        self.assertEqual(server.get("/v1/auth/me")[1]["kind"], "anybody")
        status, error = server.post("/token", {"username": "root", "password": PASSWORD})
        self.assertEqual((status, error["error"]["code"]), (404, "auth_off"))
        self.assertFalse((self.home / "people.db").exists())

    def test_on_when_bound_to_the_network_unless_refused(self):
        server = self.serve("--host", "0.0.0.0")
        self.assertEqual(server.get("/v1/cluster/auth"), (200, {"auth": True}))
        self.assertEqual(server.get("/v1/models")[0], 401)
        self.assertEqual(server.get("/health")[0], 200)
        server.stop()
        server = self.serve("--host", "0.0.0.0", "--auth", "off")
        self.assertEqual(server.get("/v1/models")[0], 200)
        self.assertEqual(server.get("/v1/cluster/auth"), (200, {"auth": False}))

    def test_off_on_a_unix_socket(self):
        server = self.serve("--uds", str(self.home / "q.sock"))
        self.assertFalse((self.home / "people.db").exists())
        server.stop()

    def test_static_keys_stay(self):
        server = self.serve("--auth", "on", QUERN_API_KEY="sesame")
        self.assertEqual(server.get("/v1/models", **bearer("sesame"))[0], 200)
        self.assertEqual(server.get("/v1/admin/users", **bearer("sesame"))[0], 200)
        self.assertEqual(server.get("/v1/auth/me", **bearer("sesame"))[1]["kind"], "static_key")
        self.assertEqual(server.get("/v1/models")[0], 401)

    def test_what_cannot_be_honoured_is_refused(self):
        for arguments in (("--auth", "maybe"), ("--trusted-proxies", "10.0.0.0/99"),
                          ("--oidc-issuer", "https://issuer.example"),
                          ("--auth", "on", "--oidc-issuer", "http://issuer.example", "--oidc-client-id", "us"),
                          ("--auth", "on", "--oidc-issuer", "https://issuer.example", "--oidc-client-id", "us",
                           "--oidc-redirect-uri", "https://us.example/api/oidc/callback", "--oidc-role-map", "a=root")):
            done = quern(self.home, "serve", str(LLAMA), "--port", "0", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class FirstAdmin(PeopleCase):
    def link(self, server):
        found = re.findall(r"(http://127\.0\.0\.1:(\d+))/setup\?token=(\S+)", "".join(server.log))
        self.assertEqual(len(found), 1, server.log)
        self.assertEqual(int(found[0][1]), server.port)
        return found[0][2]

    def test_one_link_once(self):
        server = self.serve("--host", "0.0.0.0")
        old = self.link(server)
        self.assertTrue(server.get("/v1/admin/setup/status")[1]["needs_setup"])
        server.stop()
        server = self.serve("--host", "0.0.0.0")
        token = self.link(server)
        self.assertNotEqual(token, old)
        body = {"token": old, "username": "root", "password": PASSWORD}
        self.assertEqual(server.post("/v1/admin/setup", body)[0], 403)
        self.assertEqual(server.post("/v1/admin/setup", {**body, "token": token, "password": "short"})[0], 400)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda name: server.post("/v1/admin/setup", {**body, "token": token, "username": name}),
                                    ("root", "second", "third")))
        self.assertEqual(sorted(status for status, _ in answers), [200, 403, 403])
        tokens = next(answer for status, answer in answers if status == 200)
        self.assertEqual(server.get("/v1/auth/me", **bearer(tokens["access_token"]))[1]["role"], "admin")
        self.assertFalse(server.get("/v1/admin/setup/status")[1]["needs_setup"])
        server.stop()
        self.assertNotIn("setup?token", "".join(self.serve("--auth", "on").log))

    def test_guessing_is_ended(self):
        server = self.serve("--auth", "on")
        answers = [server.post("/v1/admin/setup", {"token": f"guess{i}", "username": "root", "password": PASSWORD})[0]
                   for i in range(12)]
        self.assertEqual(answers[:10], [403] * 10)
        self.assertEqual(answers[10:], [429] * 2)


class SigningIn(PeopleCase):
    def setUp(self):
        super().setUp()
        self.admin()

    def test_token_refresh_and_logout(self):
        server = self.serve("--auth", "on")
        tokens = self.sign_in(server)
        self.assertEqual(tokens["token_type"], "bearer")
        self.assertIs(tokens["must_change_password"], False)
        head = bearer(tokens["access_token"])
        self.assertEqual(server.get("/v1/models", **head)[0], 200)
        status, body, headers = server.request("GET", "/v1/models")
        self.assertEqual((status, headers["www-authenticate"]), (401, "Bearer"))
        self.assertIn("detail", json.loads(body))
        status, next_tokens = server.post("/v1/auth/refresh", {"refresh_token": tokens["refresh_token"]})
        self.assertEqual(status, 200)
        status, error = server.post("/v1/auth/refresh", {"refresh_token": tokens["refresh_token"]})
        self.assertEqual(status, 401)
        self.assertIn("used before", error["error"]["message"])
        self.assertEqual(server.get("/v1/models", **bearer(next_tokens["access_token"]))[0], 401)
        tokens = self.sign_in(server)
        head = bearer(tokens["access_token"])
        self.assertEqual(server.post("/v1/auth/logout", {}, head)[0], 200)
        self.assertEqual(server.get("/v1/models", **head)[0], 401)
        self.assertEqual(server.post("/v1/auth/refresh", {"refresh_token": tokens["refresh_token"]})[0], 401)

    def test_sessions_survive_a_restart(self):
        server = self.serve("--auth", "on")
        tokens = self.sign_in(server)
        server.stop()
        server = self.serve("--auth", "on")
        self.assertEqual(server.get("/v1/models", **bearer(tokens["access_token"]))[0], 200)

    def test_forged_tokens(self):
        server = self.serve("--auth", "on", "--trusted-proxies", "127.0.0.1")
        good = self.sign_in(server)["access_token"]
        encode = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=").decode()
        header, claims, signature = good.split(".")
        none = encode(b'{"alg":"none","typ":"JWT"}')
        content = json.loads(base64.urlsafe_b64decode(claims + "=="))
        later = encode(json.dumps({**content, "exp": content["exp"] + 10**6}).encode())
        with_key = lambda key, part: f"{header}.{part}." + encode(hmac.new(key, f"{header}.{part}".encode(), hashlib.sha256).digest())
        forged = [f"{none}.{claims}.", f"{none}.{claims}.{signature}", f"{header}.{later}.{signature}", f"{header}.{claims}.",
                  with_key(b"", claims), with_key(b"secret", claims), with_key(b"\0" * 32, later), f"{header}.{claims}", "a.b.c", "..",
                  good[:-2] + ("AA" if good[-2:] != "AA" else "BB"), "x" * 20000]
        for number, token in enumerate(forged):
            # Each from an address of its own: together they would be banned.
            head = {**bearer(token), "X-Forwarded-For": f"192.0.2.{number}"}
            self.assertEqual(server.get("/v1/models", **head)[0], 401, token[:80])
        self.assertEqual(server.get("/v1/models", **bearer(good))[0], 200)
        secret = (self.home / "people.key").read_bytes()
        self.assertEqual(len(secret), 32)
        expired = encode(json.dumps({**content, "exp": int(time.time()) - 1}).encode())
        self.assertEqual(server.get("/v1/models", **bearer(with_key(secret, expired)))[0], 401)
        self.assertEqual(server.get("/v1/models", **bearer(with_key(secret, later)))[0], 200, "the secret is what counts")
        for _ in range(12):  # an old page that asks again and again is no attack
            self.assertEqual(server.get("/v1/models", **bearer(with_key(secret, expired)))[0], 401)

    def test_wrong_passwords_ban(self):
        server = self.serve("--auth", "on", "--trusted-proxies", "127.0.0.0/8")
        wrong = lambda name, address: server.request("POST", "/token", {"username": name, "password": "wrong password"},
                                                     {"X-Forwarded-For": address})
        for _ in range(5):
            status, text, _ = wrong("root", "192.0.2.1")
            self.assertEqual(status, 401)
        self.assertEqual(json.loads(text)["detail"], json.loads(wrong("nobody", "192.0.2.2")[1])["detail"])
        status, text, headers = server.request("POST", "/token", {"username": "root", "password": PASSWORD},
                                               {"X-Forwarded-For": "192.0.2.3"})
        self.assertEqual(status, 429, text)
        self.assertTrue(3000 < int(headers["retry-after"]) <= 3600, headers)
        for i in range(5):
            wrong(f"user{i}", "192.0.2.1")
        self.assertEqual(server.request("GET", "/v1/models", None, {"X-Forwarded-For": "192.0.2.1"})[0], 429)
        self.assertEqual(server.request("GET", "/health", None, {"X-Forwarded-For": "192.0.2.1"})[0], 200)
        self.assertEqual(server.request("GET", "/v1/models", None, {"X-Forwarded-For": "192.0.2.4"})[0], 401)

    def test_a_client_cannot_choose_its_address(self):
        server = self.serve("--auth", "on")
        for i in range(10):
            head = {**bearer(f"qk-wrong{i}"), "X-Forwarded-For": f"192.0.2.{i}"}
            self.assertEqual(server.request("GET", "/v1/models", None, head)[0], 401)
        status, text, _ = server.request("GET", "/v1/models", None, {"X-Forwarded-For": "192.0.2.200"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (429, "banned"))

    def test_a_new_password_is_asked_for(self):
        server = self.serve("--auth", "on")
        admin = bearer(self.sign_in(server)["access_token"])
        user = {"username": "eve", "password": "eve's first one", "role": "user"}
        self.assertEqual(server.post("/v1/admin/users", user, admin)[0], 200)
        tokens = self.sign_in(server, "eve", "eve's first one")
        self.assertIs(tokens["must_change_password"], True)
        head = bearer(tokens["access_token"])
        status, error = server.get("/v1/models", **head)
        self.assertEqual((status, error["error"]["code"]), (403, "password_change_needed"))
        self.assertEqual(server.get("/v1/auth/me", **head)[0], 200)
        change = {"old_password": "eve's first one", "new_password": "eve's next one"}
        self.assertEqual(server.post("/v1/auth/password", {**change, "old_password": "wrong password"}, head)[0], 403)
        status, tokens = server.post("/v1/auth/password", change, head)
        self.assertEqual(status, 200, tokens)
        self.assertEqual(server.get("/v1/models", **bearer(tokens["access_token"]))[0], 200)
        self.assertEqual(server.get("/v1/models", **head)[0], 401)

    def test_hostile_bodies(self):
        server = self.serve("--auth", "on")
        for body in ("", "[]", "7", "{", '{"username":1,"password":2}', '{"username":"","password":""}', '{"username":"root"}',
                     json.dumps({"username": "root\0", "password": "x"}), json.dumps({"username": "' OR 1=1 --", "password": "x" * 8})):
            status, text, _ = server.request("POST", "/token", body)
            self.assertIn(status, (400, 401), body)
        self.assertIn(server.post("/token", {"username": "root", "password": "x" * 10**6})[0], (401, 429))
        for path in ("/v1/auth/refresh", "/v1/admin/setup"):
            for body in ("", "[]", "{}", '{"refresh_token":7,"token":7}'):
                self.assertEqual(server.request("POST", path, body)[0], 400, (path, body))

    def test_secrets_are_not_in_the_log(self):
        server = self.serve("--auth", "on", "--log-level", "debug")
        tokens = self.sign_in(server)
        key = self.key(server, tokens["access_token"])["key"]
        self.assertEqual(server.get("/v1/models", **bearer(key))[0], 200)
        server.post("/token", {"username": "root", "password": "a wrong password"})
        server.stop()
        log = "".join(server.log)
        self.assertIn("/token", log)
        for secret in (PASSWORD, "a wrong password", key, tokens["access_token"], tokens["refresh_token"]):
            self.assertNotIn(secret, log)
        for file in self.home.iterdir():
            content = file.read_bytes() if file.is_file() else b""
            for secret in (PASSWORD, key, tokens["access_token"], tokens["refresh_token"]):
                self.assertNotIn(secret.encode(), content, file)
        self.assertEqual({oct(file.stat().st_mode & 0o77) for file in self.home.glob("people.*")}, {"0o0"})


class Keys(PeopleCase):
    def setUp(self):
        super().setUp()
        self.admin()
        self.server = self.serve("--auth", "on", models=(LLAMA, BERT))
        self.token = self.sign_in(self.server)["access_token"]

    def make(self, **fields):
        return self.key(self.server, self.token, **fields)

    def test_scopes(self):
        key = self.make(scopes=["models:read"])
        self.assertTrue(key["key"].startswith("qk-"))
        self.assertNotIn(key["key"][10:], json.dumps(self.server.get("/v1/admin/keys", **bearer(self.token))[1]))
        head = bearer(key["key"])
        self.assertEqual(self.server.post("/v1/chat/completions", chat(), head)[0], 200)
        self.assertEqual(self.server.request("POST", "/v1/chat/completions", chat(), {"X-Api-Key": key["key"]})[0], 200)
        for method, path in (("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/v1/files"), ("GET", "/v1/admin/users"),
                             ("GET", "/v1/audit/search"), ("POST", "/v1/load_lora_adapter"), ("GET", "/v1/admin/keys")):
            status, text, _ = self.server.request(method, path, None if method == "GET" else {}, head)
            self.assertEqual((status, json.loads(text)["error"]["code"]), (403, "insufficient_scope"), path)
        self.assertEqual(self.server.request("GET", "/metrics", None, bearer(self.make(scopes=["monitor:view"])["key"]))[0], 200)
        status, error = self.server.post("/v1/admin/keys", {"name": "n", "scopes": ["models:fly"]}, bearer(self.token))
        self.assertEqual((status, error["error"]["param"]), (400, "scopes"))

    def test_every_route_has_a_decision(self):
        """With no scope at all a key gets 403 from every route but those for whoever is known."""
        document = self.server.get("/openapi.json", **bearer(self.token))[1]
        nothing = self.make(scopes=["cache:write"])  # a scope that one route needs
        everybody = {("delete", "/v1/cache/models"), ("get", "/status"), ("get", "/v1/address"), ("get", "/v1/cluster/version"), ("get", "/v1/supervisor"),
                     ("get", "/openapi.json"), ("get", "/version"), ("get", "/api/version"), ("get", "/v1/auth/me"),
                     ("post", "/v1/auth/logout"), ("post", "/v1/auth/password")}
        count = 0
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation.get("security") == [] or (method, path) in everybody:
                    continue
                status, text, _ = self.server.request(method.upper(), re.sub(r"{\w+}", "x", path), {} if method != "get" else None,
                                                      bearer(nothing["key"]))
                self.assertEqual((status, "scope" in text), (403, True), (method, path, text))
                count += 1
        self.assertGreater(count, 40)

    def test_models(self):
        key = self.make(scopes=["models:list", "models:read", "jobs:*"], models=["lla*"])
        head = bearer(key["key"])
        listed = [model["id"] for model in self.server.get("/v1/models", **head)[1]["data"]]
        self.assertEqual(listed, ["llama"])
        self.assertEqual([model["name"] for model in self.server.get("/api/tags", **head)[1]["models"]], ["llama"])
        self.assertEqual(self.server.get("/v1/models/llama", **head)[0], 200)
        self.assertEqual(self.server.post("/v1/chat/completions", chat(), head)[0], 200)
        for method, path, body in (
                ("GET", "/v1/models/bert", None), ("POST", "/v1/embeddings", {"model": "bert", "input": "x"}),
                ("POST", "/v1/embeddings", {"input": "x"}), ("POST", "/api/embed", {"model": "bert:latest", "input": "x"}),
                ("POST", "/api/show", {"name": "bert"}), ("POST", "/v1/rerank", {"model": "bert", "query": "q", "documents": ["d"]}),
                ("POST", "/v1/embeddings", '{"model":"bert","model":"llama","input":"x"}'),
                ("POST", "/v1/embeddings", '{"model":"llama","\\u006dodel":"bert","input":"x"}'),
                ("POST", "/v1/chat/completions", "{")):
            status, text, _ = self.server.request(method, path, body, head)
            self.assertEqual(status, 403, (path, body, text))
            if path.startswith("/v1/") :
                self.assertEqual(json.loads(text)["error"]["param"], "model", text)
        status, text, _ = self.server.request("POST", "/v1/batches", {}, head)
        self.assertEqual(status, 403, text)

    def test_files_of_the_server_are_the_admins(self):
        head = bearer(self.make(scopes=["jobs:*"])["key"])
        self.assertEqual(self.server.get("/v1/jobs", **head)[0], 200)
        status, answer = self.server.post("/v1/jobs", {"input_path": "in.jsonl"}, head)
        self.assertEqual((status, answer["error"]["param"]), (403, "input_path"), answer)
        head = bearer(self.make(scopes=["models:read"])["key"])
        self.assertEqual(self.server.get("/v1/jobs", **head)[0], 403)

    def test_expiry_ban_and_revocation(self):
        key = self.make(expires=int(time.time()) + 2)
        head, path = bearer(key["key"]), f"/v1/admin/keys/{key['id']}"
        self.assertEqual(self.server.get("/v1/models", **head)[0], 200)
        deadline = time.time() + 30
        while self.server.get("/v1/models", **head)[0] == 200:
            self.assertLess(time.time(), deadline)
            time.sleep(0.2)
        status, error = self.server.get("/v1/models", **head)
        self.assertEqual((status, error["detail"]), (401, "the API key has expired"))
        patch = lambda body: self.server.request("PATCH", path, body, bearer(self.token))
        self.assertEqual(patch({"expires": 0})[0], 200)
        self.assertEqual(self.server.get("/v1/models", **head)[0], 200)
        self.assertEqual(patch({"expires": 1})[0], 400)
        self.assertEqual(patch({"scopes": ["logs:list"]})[0], 200)
        self.assertEqual(self.server.get("/v1/models", **head)[0], 403)
        self.assertEqual(patch({"scopes": ["models:list"], "colour": "red"})[0], 400)
        self.assertEqual(patch({"scopes": "models:list"})[0], 200)
        self.assertEqual(self.server.post(path + "/ban", {}, bearer(self.token))[0], 200)
        self.assertEqual(self.server.get("/v1/models", **head)[0], 401)
        self.assertEqual(self.server.post(path + "/unban", {}, bearer(self.token))[0], 200)
        self.assertEqual(self.server.get("/v1/models", **head)[0], 200)
        self.assertEqual(self.server.request("DELETE", path, None, bearer(self.token))[0], 200)
        self.assertEqual(self.server.get("/v1/models", **head)[0], 401)
        self.assertEqual(self.server.request("DELETE", path, None, bearer(self.token))[0], 404)

    def test_request_quota(self):
        key = self.make(quotas={"requests_per_minute": 2})
        head = bearer(key["key"])
        left = []
        for _ in range(2):
            status, _, headers = self.server.request("POST", "/v1/chat/completions", chat(max_tokens=1), head)
            self.assertEqual((status, headers["x-ratelimit-limit-requests"]), (200, "2"))
            left.append(headers["x-ratelimit-remaining-requests"])
        self.assertEqual(left, ["1", "0"])
        status, text, headers = self.server.request("POST", "/v1/chat/completions", chat(), head)
        self.assertEqual((status, json.loads(text)["error"]["code"]), (429, "rate_limit_exceeded"))
        self.assertTrue(1 <= int(headers["retry-after"]) <= 30, headers)
        self.assertRegex(headers["x-ratelimit-reset-requests"], r"^\d+(m\d+)?s$")
        self.assertEqual(self.server.get("/v1/models", **head)[0], 200, "looking is free")

    def test_token_quotas_count_what_was_computed(self):
        key = self.make(quotas={"tokens_per_day": 1000, "tokens_per_minute": 10**6})
        head = bearer(key["key"])
        shown = lambda: self.server.get(f"/v1/admin/keys/{key['id']}", **bearer(self.token))[1]["today"]
        status, answer = self.server.post("/v1/chat/completions", chat(), head)
        total = answer["usage"]["total_tokens"]
        self.wait_for(shown, lambda today: today == {"requests": 1, "tokens": total})
        text = self.server.request("POST", "/v1/chat/completions", chat(stream=True), head)[1]
        self.assertIn("[DONE]", text)
        self.wait_for(shown, lambda today: today["tokens"] == 2 * total)
        answer = self.server.post("/v1/embeddings", {"model": "bert", "input": "x y z"}, head)[1]
        self.wait_for(shown, lambda today: today["tokens"] == 2 * total + answer["usage"]["total_tokens"])
        self.assertEqual(self.server.request("PATCH", f"/v1/admin/keys/{key['id']}", {"quotas": {"tokens_per_day": 2 * total}},
                                             bearer(self.token))[0], 200)
        status, text, headers = self.server.request("POST", "/v1/chat/completions", chat(), head)
        self.assertEqual(status, 429, text)
        self.assertIn("tokens per day", text)
        self.assertEqual(headers["x-ratelimit-remaining-tokens"], "0")

    def test_a_client_that_leaves_pays_for_what_it_got(self):
        key = self.make(quotas={"tokens_per_day": 10**6, "concurrent": 1})
        connection = self.server.connection()
        connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True, max_tokens=60)),
                           {"Content-Type": "application/json", **bearer(key["key"])})
        answer = connection.getresponse()
        answer.readline()
        status, text, _ = self.server.request("POST", "/v1/chat/completions", chat(), bearer(key["key"]))
        if status == 429:  # the first may have ended by now
            self.assertIn("requests at once", text)
        answer.close()
        connection.close()
        deadline = time.time() + 30
        while self.server.post("/v1/chat/completions", chat(max_tokens=1), bearer(key["key"]))[0] != 200:
            self.assertLess(time.time(), deadline, "the place is given back")
            time.sleep(0.1)
        self.assertGreater(self.server.get(f"/v1/admin/keys/{key['id']}", **bearer(self.token))[1]["today"]["tokens"], 0)

    def test_users_have_keys_of_their_own(self):
        for name in ("eve", "bob"):
            user = {"username": name, "password": PASSWORD, "must_change_password": False}
            self.assertEqual(self.server.post("/v1/admin/users", user, bearer(self.token))[0], 200)
        eve, bob = (bearer(self.sign_in(self.server, name)["access_token"]) for name in ("eve", "bob"))
        status, key = self.server.post("/v1/admin/keys", {"name": "mine"}, eve)
        self.assertEqual((status, key["owner"]), (200, "eve"))
        self.assertEqual(len(self.server.get("/v1/admin/keys", **eve)[1]["data"]), 1)
        self.assertEqual(self.server.get("/v1/admin/keys", **bob)[1]["data"], [])
        path = f"/v1/admin/keys/{key['id']}"
        self.assertEqual(self.server.get(path, **bob)[0], 404)
        self.assertEqual(self.server.request("PATCH", path, {"name": "his"}, bob)[0], 404)
        self.assertEqual(self.server.request("DELETE", path, None, bob)[0], 404)
        for body, param in (({"name": "n", "owner": "bob"}, "owner"), ({"name": "n", "scopes": ["admin"]}, "scopes"),
                            ({"name": "n", "scopes": ["users:manage"]}, "scopes")):
            status, error = self.server.post("/v1/admin/keys", body, eve)
            self.assertEqual((status, error["error"]["param"]), (403, param))
        self.assertEqual(self.server.request("PATCH", path, {"scopes": "*"}, eve)[0], 403)
        own = self.server.post("/v1/admin/keys", {"name": "n", "scopes": ["keys:create", "models:read"], "models": "x"}, eve)[1]
        self.assertEqual(self.server.post("/v1/admin/keys", {"name": "n"}, bearer(own["key"]))[0], 403,
                         "a limited key makes itself no unlimited one")
        self.assertEqual(self.server.request("PATCH", f"/v1/admin/keys/{own['id']}", {"models": []}, bearer(own["key"]))[0], 403)
        for method, where in (("GET", "/v1/admin/users"), ("GET", "/v1/audit/search"), ("POST", path + "/ban")):
            self.assertEqual(self.server.request(method, where, None, eve)[0], 403)


class Operating(PeopleCase):
    def setUp(self):
        super().setUp()
        self.admin()
        self.server = self.serve("--auth", "on")
        self.token = self.sign_in(self.server)["access_token"]

    def test_users(self):
        head = bearer(self.token)
        user = {"username": "eve", "password": PASSWORD, "role": "viewer", "must_change_password": False}
        status, eve = self.server.post("/v1/admin/users", user, head)
        self.assertEqual((status, eve["role"]), (200, "viewer"))
        self.assertEqual(self.server.post("/v1/admin/users", user, head)[0], 400)
        token = bearer(self.sign_in(self.server, "eve")["access_token"])
        self.assertEqual(self.server.get("/v1/models", **token)[0], 200)
        self.assertEqual(self.server.post("/v1/chat/completions", chat(), token)[0], 403)
        path = f"/v1/admin/users/{eve['id']}"
        self.assertEqual(self.server.request("PATCH", path, {"role": "user"}, head)[0], 200)
        self.assertEqual(self.server.post("/v1/chat/completions", chat(), token)[0], 200)
        self.assertEqual(self.server.request("PATCH", path, {"role": "root"}, head)[0], 400)
        self.assertEqual(self.server.request("PATCH", "/v1/admin/users/root", {"role": "user"}, head)[0], 403)
        self.assertEqual(self.server.request("DELETE", "/v1/admin/users/root", None, head)[0], 403)
        self.assertEqual(self.server.post(path + "/password", {"password": "another one"}, head)[0], 200)
        self.assertEqual(self.server.get("/v1/models", **token)[0], 401)
        self.assertIs(self.sign_in(self.server, "eve", "another one")["must_change_password"], True)
        self.assertEqual(self.server.request("PATCH", path, {"disabled": True}, head)[0], 200)
        self.assertEqual(self.server.post("/token", {"username": "eve", "password": "another one"})[0], 401)
        self.assertEqual(self.server.request("DELETE", path, None, head)[0], 200)
        self.assertEqual(self.server.get(path, **head)[0], 404)
        self.assertNotIn("scrypt", json.dumps(self.server.get("/v1/admin/users", **head)[1]))

    def test_the_audit_log(self):
        head = bearer(self.token)
        self.server.post("/token", {"username": "root", "password": "wrong password"})
        self.server.post("/v1/admin/users", {"username": "eve", "password": PASSWORD, "must_change_password": False}, head)
        key = self.key(self.server, self.token, name="laptop", scopes=["models:read"])
        self.server.request("POST", "/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "y"}, bearer(key["key"]))
        self.server.request("DELETE", f"/v1/admin/keys/{key['id']}", None, head)
        self.server.get("/v1/models", **bearer("qk-unknown"))
        expected = {("command line", "user add", "ok"), ("root", "login", "401"), ("root", "login", "ok"),
                         ("root", "POST /v1/admin/users", "ok"), ("root", "POST /v1/admin/keys", "ok"),
                         ("root/laptop", "POST /v1/load_lora_adapter", "403"), ("nobody", "unknown key", "401"),
                         ("root", "DELETE /v1/admin/keys/{key}", "ok")}
        page = self.wait_for(lambda: self.server.get("/v1/audit/search?limit=500", **head)[1],
                             lambda page: expected <= {(line["who"], line["action"], line["outcome"]) for line in page["data"]})
        self.assertEqual(page["total"], len(page["data"]))
        text = json.dumps(page)
        for secret in (PASSWORD, key["key"], "wrong password", "qk-unknown"):
            self.assertNotIn(secret, text)
        made = self.server.get("/v1/audit/search?action=admin/users", **head)[1]["data"][0]
        self.assertEqual((made["target"], made["address"]), ("username=eve", "127.0.0.1"))
        first = self.server.get("/v1/audit/search?limit=2", **head)[1]
        second = self.server.get(f"/v1/audit/search?limit=2&before={first['next_before']}", **head)[1]
        self.assertEqual([line["id"] for line in first["data"] + second["data"]], [line["id"] for line in page["data"][:4]])
        for query in ("limit=0", "limit=501", "limit=x", "since=-1", "before=1e9"):
            self.assertEqual(self.server.get("/v1/audit/search?" + query, **head)[0], 400, query)

    def test_bans_are_shown_made_and_ended(self):
        head = bearer(self.token)
        status, security = self.server.post("/v1/admin/security/bans", {"address": "192.0.2.7", "seconds": 60}, head)
        self.assertEqual((status, [ban["subject"] for ban in security["bans"]]), (200, ["192.0.2.7"]))
        self.assertEqual(self.server.post("/v1/admin/security/bans", {"address": "everybody"}, head)[0], 400)
        for _ in range(5):
            self.server.post("/token", {"username": "eve", "password": "wrong password"})
        subjects = [ban["subject"] for ban in self.server.get("/v1/admin/security", **head)[1]["bans"]]
        self.assertEqual(subjects, ["192.0.2.7", "user:eve"])
        self.assertEqual(self.server.request("DELETE", "/v1/admin/security/bans/user:eve", None, head)[0], 200)
        self.assertEqual(self.server.request("DELETE", "/v1/admin/security/bans/user:eve", None, head)[0], 404)
        self.assertEqual(self.server.post("/token", {"username": "eve", "password": "wrong password"})[0], 401)

    def test_the_command_line_beside_a_running_server(self):
        done = quern(self.home, "key", "create", "laptop", "--owner", "root", "--models", "lla*,x", "--days", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        key = json.loads(done.stdout)
        self.assertEqual(key["models"], ["lla*", "x"])
        deadline = time.time() + 30
        while self.server.get("/v1/models", **bearer(key["key"]))[0] != 200:
            self.assertLess(time.time(), deadline)
            time.sleep(1)
        self.assertIn(key["hint"], quern(self.home, "key", "list").stdout)
        self.assertEqual(quern(self.home, "key", "revoke", key["id"]).returncode, 0)
        while self.server.get("/v1/models", **bearer(key["key"]))[0] != 401:
            self.assertLess(time.time(), deadline)
            time.sleep(1)
        done = quern(self.home, "user", "reset", "root")
        self.assertEqual(done.returncode, 0, done.stderr)
        time.sleep(1.1)  # what another process changed is seen within a second
        self.assertIs(self.sign_in(self.server, "root", done.stdout.strip())["must_change_password"], True)
        self.assertEqual(quern(self.home, "user", "passwd", "root", stdin="yet another\n").returncode, 0)
        listed = json.loads(quern(self.home, "user", "list", "--json").stdout)["data"]
        self.assertEqual([(user["username"], user["must_change_password"]) for user in listed], [("root", False)])
        for arguments in (("user", "disable", "root"), ("user", "rm", "root")):
            done = quern(self.home, *arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        for arguments, stdin in ((("user", "add", "eve"), "short\n"), (("user", "add", "eve"), ""), (("user", "add", "e ve"), PASSWORD),
                                 (("user", "add", "eve", "--role", "king"), PASSWORD), (("key", "create", "n", "--owner", "nobody"), ""),
                                 (("key", "create", "n", "--owner", "root", "--scopes", "fly"), ""), (("key", "revoke", "k-none"), ""),
                                 (("user",), ""), (("key", "make"), "")):
            done = quern(self.home, *arguments, stdin=stdin)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), (arguments, done.stderr))


if __name__ == "__main__":
    unittest.main(argv=["people_test"])
