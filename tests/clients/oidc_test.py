"""Signing in with an OpenID provider, and what Xinference's own client does with users."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

from cryptography.hazmat.primitives.asymmetric import rsa
from oidc_provider import CLIENT, SECRET, Provider
from xinference_client import RESTfulClient as Client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import QUERN, Server  # noqa: E402

CALLBACK = "https://quern.example/api/oidc/callback"


class OidcCase(unittest.TestCase):
    options = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.provider = Provider()
        self.addCleanup(self.provider.close)
        self.server = Server("--auth", "on", "--trusted-proxies", "127.0.0.1", *self.options, QUERN_HOME=folder.name,
                             QUERN_OIDC_ISSUER=self.provider.issuer, QUERN_OIDC_CLIENT_ID=CLIENT,
                             QUERN_OIDC_CLIENT_SECRET=SECRET, QUERN_OIDC_REDIRECT_URI=CALLBACK)
        self.addCleanup(self.server.stop)

    def begin(self):
        status, _, headers = self.server.request("GET", "/api/oidc/authorize")
        self.assertEqual(status, 302)
        self.assertRegex(headers["set-cookie"],
                         r"^quern_oidc=\S+; Path=/api/oidc; Max-Age=600; HttpOnly; SameSite=Lax; Secure$")
        return headers["location"], headers["set-cookie"].split(";")[0]

    def at_the_provider(self, location):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(location).query))
        self.assertEqual(query["redirect_uri"], CALLBACK)
        return self.provider.authorize(query).removeprefix("https://quern.example")

    def come_back(self, path, cookie):
        return self.server.request("GET", path, None, {"Cookie": f"a=b; {cookie}; c=d"})

    def sign_in(self):
        location, cookie = self.begin()
        return self.come_back(self.at_the_provider(location), cookie)

    def tokens(self):
        status, text, headers = self.sign_in()
        self.assertEqual(status, 302, text)
        code = re.fullmatch(r"/#oidc_code=([\w-]+)", headers["location"]).group(1)
        status, tokens = self.server.post("/token", {"code": code})
        self.assertEqual(status, 200, tokens)
        self.assertEqual(self.server.post("/token", {"code": code})[0], 401, "once")
        return tokens


class SigningIn(OidcCase):
    options = ("--oidc-role-map", "staff=user,bosses=admin")

    def test_both_algorithms_and_new_keys(self):
        self.provider.claims = {"groups": ["staff"]}
        tokens = self.tokens()
        self.assertEqual((tokens["user"]["username"], tokens["user"]["role"], tokens["user"]["oidc"]), ("alice", "user", True))
        head = {"Authorization": f"Bearer {tokens['access_token']}"}
        self.assertEqual(self.server.get("/v1/models", **head)[0], 200)
        read = self.provider.keys_read
        self.provider.rotate("ES256")
        self.provider.claims = {"groups": ["staff", "bosses"], "preferred_username": "alice cooper"}
        again = self.tokens()
        self.assertEqual(self.provider.keys_read, read + 1)
        self.assertEqual(again["user"]["id"], tokens["user"]["id"])
        self.assertEqual(again["user"]["role"], "admin")
        lines = self.server.get("/v1/audit/search?action=oidc", Authorization=f"Bearer {again['access_token']}")[1]["data"]
        self.assertEqual([(line["who"], line["outcome"]) for line in lines], [("alice", "ok")] * 2)
        self.assertIs(self.server.get("/v1/admin/setup/status")[1]["oidc"], True)

    def test_who_is_in_no_group_looks_only(self):
        tokens = self.tokens()
        self.assertEqual(tokens["user"]["role"], "viewer")

    def test_dishonest_tokens(self):
        stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        for fault in ({"key": stranger}, {"unsigned": True}, {"claims": {"nonce": "another"}}, {"claims": {"aud": "another"}},
                      {"claims": {"iss": "https://another.example"}}, {"claims": {"exp": 1}}, {"claims": {"azp": "another"}},
                      {"claims": {"sub": ""}}):
            self.provider.faults = fault
            status, text, _ = self.sign_in()
            self.assertEqual(status, 403, (fault, text))
        self.provider.faults = {}
        self.assertEqual(self.sign_in()[0], 302)

    def test_only_the_browser_that_began(self):
        location, cookie = self.begin()
        path = self.at_the_provider(location)
        self.assertEqual(self.come_back(path, "quern_oidc=")[0], 403)
        self.assertEqual(self.come_back(path, self.begin()[1])[0], 403, "another browser's cookie")
        self.assertEqual(self.come_back(path.replace("code=", "code=x"), cookie)[0], 403)
        self.assertEqual(self.come_back(path, cookie)[0], 403, "the state is used up")
        for query in ("", "?code=x", "?state=x", "?error=access_denied&state=x", "?code=x&state=x"):
            self.assertEqual(self.come_back("/api/oidc/callback" + query, cookie)[0], 403, query)


class Strict(OidcCase):
    options = ("--oidc-role-map", "realm=user", "--oidc-role-claim", "realm_access.roles", "--oidc-default-role", "none")

    def test_who_has_no_role_stays_out(self):
        self.assertEqual(self.sign_in()[0], 403)
        self.provider.claims = {"realm_access": {"roles": ["realm"]}}
        self.assertEqual(self.tokens()["user"]["role"], "user")

    def test_a_provider_of_another_name_or_none(self):
        self.provider.faults = {"issuer": "https://another.example"}
        self.assertEqual(self.server.request("GET", "/api/oidc/authorize")[0], 503)
        self.provider.close()
        self.assertEqual(self.server.request("GET", "/api/oidc/authorize")[0], 503)


class XinferenceClient(unittest.TestCase):
    def test_login(self):
        with tempfile.TemporaryDirectory() as home:
            subprocess.run([QUERN, "user", "add", "root", "--role", "admin"], input="a good password\n", text=True, check=True,
                           capture_output=True, env={**os.environ, "QUERN_HOME": home})
            server = Server("--auth", "on", QUERN_HOME=home)
            try:
                client = Client(server.url)
                with self.assertRaisesRegex(RuntimeError, "API key"):
                    client.list_models()
                client.login("root", "a good password")
                self.assertEqual(list(client.list_models()), ["llama"])
            finally:
                server.stop()


if __name__ == "__main__":
    unittest.main(argv=["oidc_test"])
