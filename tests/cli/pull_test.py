"""`quern pull` against a hub on loopback that misbehaves: cuts, redirects, lies about lengths and hashes, says 429."""
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

QUERN = os.environ["QUERN_BINARY"]
CONTENT = bytes(range(256)) * 4096  # 1 MiB
DIGEST = hashlib.sha256(CONTENT).hexdigest()


PARTS = {f"m-{i:05}-of-00003.gguf": CONTENT[i:] + bytes([i] * 1000) for i in (1, 2, 3)}  # of a split set


class Hub(http.server.BaseHTTPRequestHandler):
    """Repository org/NAME: NAME says how the hub misbehaves. State is per server: which requests came."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        parts = self.path.split("/")
        if self.path.startswith("/api/models/org/"):
            return self.listing(parts[4])
        if self.path.startswith("/api/v1/models/org/"):
            return self.modelscope_listing(parts[5])
        repo = parts[3] if parts[1] == "models" else parts[2]
        return self.file(repo, self.path)

    def parts_of(self, repo):
        """(name, size, hash) of what the repositories with a split set list."""
        files = [(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in PARTS.items()]
        if repo == "splithash":
            files[2] = (files[2][0], files[2][1], "0" * 64)
        if repo == "splitmissing":
            del files[1]
        if repo == "splittwice":
            files.append(files[1])
        if repo == "splitmixed":
            files += [("m-00001-of-00002.gguf", len(CONTENT), DIGEST), ("m.gguf", len(CONTENT), DIGEST)]
        return files

    def modelscope_listing(self, repo):
        files = [{"Path": name, "Size": size, "Sha256": sha, "Type": "blob"} for name, size, sha in self.parts_of(repo)]
        self.answer(200, json.dumps({"Data": {"Files": files}}).encode())

    def listing(self, repo):
        if repo == "missing":
            return self.answer(404)
        if repo == "private" and self.headers.get("Authorization") != "Bearer secret":
            return self.answer(401)
        if repo.startswith("split"):
            files = [{"rfilename": name, "size": size, "lfs": {"sha256": sha, "size": size}} for name, size, sha in self.parts_of(repo)]
            return self.answer(200, json.dumps({"sha": "c0ffee", "siblings": files}).encode())
        name = "../escape.gguf" if repo == "escape" else "model.gguf"
        sha = "0" * 64 if repo == "wronghash" else DIGEST
        size = len(CONTENT) + 7 if repo == "tooshort" else len(CONTENT) - 7 if repo == "toolong" else len(CONTENT)
        files = [{"rfilename": name, "size": size, "lfs": {"sha256": sha, "size": size}}]
        self.answer(200, json.dumps({"sha": "c0ffee", "siblings": files}).encode())

    def file(self, repo, path):
        count = sum(1 for p, _ in self.server.requests if p == path)
        content = PARTS.get(path.split("?")[0].rsplit("/", 1)[1], CONTENT)
        if repo == "splitgone" and "00002" in path:
            return self.answer(404)
        if repo == "busy" and count < 3:
            return self.answer(429, headers=[("Retry-After", "0")])
        if repo == "redirect" and "/elsewhere" not in path:
            return self.answer(302, headers=[("Location", f"/elsewhere/redirect/{path}")])
        if repo == "loop":
            return self.answer(302, headers=[("Location", path)])
        if repo == "down":
            return self.answer(503)
        begin = 0
        if self.headers.get("Range") and repo != "norange":
            begin = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if begin:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        rest = content[begin:]
        if repo in ("cut", "norange", "splitcut") and count < 4:
            self.wfile.write(rest[: len(rest) // 3])
            self.close_connection = True
            return
        self.wfile.write(rest)


class HubCase(unittest.TestCase):
    hub = Hub

    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.hub)
        self.server.requests = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name) / "home"

    def environment(self, **more):
        endpoint = f"http://127.0.0.1:{self.server.server_port}"
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        return {**clean, "QUERN_HOME": str(self.home), "HF_ENDPOINT": endpoint, "HF_HOME": str(self.home / "hf"), **more}

    def pull(self, name, **more):
        return subprocess.run([QUERN, "pull", name, "--json"], env=self.environment(**more), capture_output=True, text=True,
                              timeout=120)

    def assert_good(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(pathlib.Path(json.loads(result.stdout)["path"]).read_bytes(), CONTENT)

    def assert_refused(self, result, code, word):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(word, result.stderr.strip().splitlines()[-1])
        self.assertEqual(subprocess.run([QUERN, "list"], env=self.environment(), capture_output=True, text=True).stdout, "")
        outside = [p for p in self.home.parent.rglob("*.gguf") if self.home not in p.parents]
        self.assertEqual(outside, [])


class PullTest(HubCase):
    def test_good(self):
        self.assert_good(self.pull("hf:org/good"))

    def test_second_pull_asks_nothing(self):
        self.pull("hf:org/good")
        before = len(self.server.requests)
        self.assert_good(self.pull("hf:org/good"))
        self.assertEqual(len(self.server.requests), before)

    def test_cut_is_resumed_by_range(self):
        self.assert_good(self.pull("hf:org/cut"))
        ranges = [headers["Range"] for path, headers in self.server.requests if "Range" in headers]
        self.assertTrue(ranges)
        self.assertGreater(int(ranges[-1].removeprefix("bytes=").removesuffix("-")), len(CONTENT) // 3)

    def test_cut_without_range_support_starts_anew(self):
        self.assert_good(self.pull("hf:org/norange"))

    def test_redirect(self):
        self.assert_good(self.pull("hf:org/redirect"))

    def test_redirect_loop(self):
        self.assert_refused(self.pull("hf:org/loop"), 1, "redirect")

    def test_busy_then_good(self):
        self.assert_good(self.pull("hf:org/busy"))

    def test_wrong_hash(self):
        self.assert_refused(self.pull("hf:org/wronghash"), 1, "SHA-256")

    def test_too_short(self):
        self.assert_refused(self.pull("hf:org/tooshort"), 1, "model.gguf")

    def test_too_long(self):
        self.assert_refused(self.pull("hf:org/toolong"), 1, "more than")

    def test_path_escape(self):
        self.assert_refused(self.pull("hf:org/escape"), 1, "outside")

    def test_missing(self):
        self.assert_refused(self.pull("hf:org/missing"), 2, "not found")

    def test_token(self):
        self.assert_refused(self.pull("hf:org/private"), 1, "token")
        self.assert_good(self.pull("hf:org/private", HF_TOKEN="secret"))

    def test_names_that_lead_outside(self):
        for name in ("hf:../x", "hf:org/..", "hf:org/a/b", "hf:org/x:../../y", "pypi:../x", "hf:org/x@../y", "a:b:c/", ""):
            result = self.pull(name)
            self.assertEqual(result.returncode, 2, name)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_two_pulls_at_once(self):
        command = [QUERN, "pull", "hf:org/cut", "--json"]
        both = [subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for _ in range(2)]
        for process in both:
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            self.assertEqual(pathlib.Path(json.loads(out)["path"]).read_bytes(), CONTENT)

    def assert_set(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        path = pathlib.Path(json.loads(result.stdout)["path"])
        self.assertEqual(path.name, "m-00001-of-00003.gguf")
        self.assertEqual({p.name: p.read_bytes() for p in path.parent.glob("*.gguf")}, PARTS)
        return path

    def test_any_part_brings_the_whole_set(self):
        url = f"http://127.0.0.1:{self.server.server_port}/x/split/resolve/"
        for prefix in ("hf:org/split:", "hf:org/splitcut:", "modelscope:org/split:", url, url.replace("split", "splitcut")):
            first = None
            for name in reversed(PARTS):
                query = "?download=true" if prefix == url else ""
                path = self.assert_set(self.pull(prefix + name + query, MODELSCOPE_ENDPOINT=self.environment()["HF_ENDPOINT"]))
                first = first or path
                self.assertEqual(path, first)  # kept once
                asked = asked if name != "m-00003-of-00003.gguf" else len(self.server.requests)
                self.assertEqual(len(self.server.requests), asked)  # and fetched once
        listed = subprocess.run([QUERN, "list", "--json"], env=self.environment(), capture_output=True, text=True)
        self.assertEqual(len(json.loads(listed.stdout)["data"]), 5)
        removed = subprocess.run([QUERN, "rm", "hf:org/split:m-00002-of-00003.gguf"], env=self.environment(), capture_output=True)
        self.assertEqual(removed.returncode, 0)
        self.assert_set(self.pull("hf:org/splitmixed:m-00002-of-00003.gguf"))

    def test_a_set_that_is_not_whole(self):
        part = ":m-00003-of-00003.gguf"
        self.assert_refused(self.pull("hf:org/splithash" + part), 1, "SHA-256")
        self.assert_refused(self.pull("hf:org/splitmissing" + part), 2, "m-00002-of-00003.gguf")
        self.assert_refused(self.pull("hf:org/splitmissing"), 2, "m-00002-of-00003.gguf")
        self.assert_refused(self.pull("hf:org/splittwice" + part), 1, "m-00002-of-00003.gguf twice")
        self.assert_refused(self.pull("hf:org/splitgone" + part), 2, "not found")
        url = f"http://127.0.0.1:{self.server.server_port}/x/splitgone/resolve/m-00003-of-00003.gguf"
        self.assert_refused(self.pull(url), 2, "m-00002-of-00003.gguf")

    def test_a_local_part_brings_its_set(self):
        source = self.home.parent / "set"
        source.mkdir()
        for name, data in PARTS.items():
            (source / name).write_bytes(data)
        self.assert_set(self.pull(str(source / "m-00002-of-00003.gguf")))

    def test_url_and_rm(self):
        url = f"http://127.0.0.1:{self.server.server_port}/x/plain/resolve/model.gguf"
        self.assert_good(self.pull(url))
        listed = subprocess.run([QUERN, "list", "--json"], env=self.environment(), capture_output=True, text=True)
        self.assertEqual([m["name"] for m in json.loads(listed.stdout)["data"]], [url])
        self.assertEqual(subprocess.run([QUERN, "rm", url], env=self.environment(), capture_output=True).returncode, 0)
        self.assertEqual(subprocess.run([QUERN, "rm", url], env=self.environment(), capture_output=True).returncode, 2)

    def test_a_pull_that_fails_leaves_nothing(self):
        for name in ("hf:org/missing", "hf:org/loop", f"http://127.0.0.1:{self.server.server_port}/x/loop/resolve/model.gguf"):
            self.assertNotEqual(self.pull(name).returncode, 0)
            self.assertEqual(list((self.home / "models").iterdir()), [], name)

    def test_lock_files_go_with_their_holders(self):
        self.test_two_pulls_at_once()
        models = self.home / "models"
        self.assertEqual([path.name for path in models.iterdir() if path.name.endswith(".lock")], [])
        (models / "hf--org--good--main.lock").touch()  # of one that was killed
        self.assert_good(self.pull("hf:org/good"))
        self.assertEqual([path.name for path in models.iterdir() if path.name.endswith(".lock")], [])

    def test_local(self):
        source = self.home.parent / "mine.gguf"
        source.write_bytes(CONTENT)
        self.assert_good(self.pull(str(source)))
        source.unlink()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
