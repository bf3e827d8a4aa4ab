"""A small OpenID provider on loopback: the authorization code flow with PKCE, tokens signed by PyJWT. Strict, and
dishonest where a test asks for it."""
import base64
import hashlib
import http.server
import json
import secrets
import threading
import time
import urllib.parse

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

CLIENT, SECRET = "quern", "a secret:with/odd+signs"


class Provider:
    def __init__(self):
        self.codes, self.faults, self.claims, self.keys_read = {}, {}, {}, 0
        self.rotate("RS256")
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *arguments):
                pass

            def answer(self, status, body=None, **headers):
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                if url.path == "/.well-known/openid-configuration":
                    self.answer(200, {"issuer": provider.faults.get("issuer", provider.issuer),
                                      "authorization_endpoint": provider.issuer + "/authorize",
                                      "token_endpoint": provider.issuer + "/token", "jwks_uri": provider.issuer + "/keys"})
                elif url.path == "/keys":
                    provider.keys_read += 1
                    self.answer(200, {"keys": [provider.jwk]})
                elif url.path == "/authorize":
                    location = provider.authorize(dict(urllib.parse.parse_qsl(url.query)))
                    self.answer(302, None, Location=location)
                else:
                    self.answer(404)

            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                self.answer(*provider.token(form, self.headers.get("Authorization", "")))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def rotate(self, algorithm):
        self.algorithm, self.kid = algorithm, secrets.token_hex(4)
        if algorithm == "RS256":
            self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            jwk = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        else:
            self.key = ec.generate_private_key(ec.SECP256R1())
            jwk = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.jwk = {**jwk, "kid": self.kid, "use": "sig", "alg": algorithm}

    def authorize(self, query):
        assert query["response_type"] == "code" and query["client_id"] == CLIENT, query
        assert query["code_challenge_method"] == "S256" and query["state"] and query["nonce"], query
        assert "openid" in query["scope"].split(), query
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        return query["redirect_uri"] + "?" + urllib.parse.urlencode({"code": code, "state": query["state"]})

    def token(self, form, authorization):
        user, _, password = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if (urllib.parse.unquote(user), urllib.parse.unquote(password)) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form.get("code"), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": "42", "nonce": asked["nonce"], "iat": int(time.time()),
                  "exp": int(time.time()) + 300, "preferred_username": "alice", **self.claims, **self.faults.get("claims", {})}
        if self.faults.get("unsigned"):
            return 200, {"id_token": jwt.encode(claims, None, algorithm="none")}
        key = self.faults.get("key", self.key)
        return 200, {"access_token": "x", "token_type": "Bearer",
                     "id_token": jwt.encode(claims, key, algorithm=self.algorithm, headers={"kid": self.kid})}
