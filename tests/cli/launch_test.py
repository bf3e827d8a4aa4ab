"""`quern launch`, `ps`, `stop`, `logs` and `events` against a running server."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from platform_server import FleetServer  # noqa: E402
from quern_server import LLAMA, QUERN  # noqa: E402
from refusal import assert_refused  # noqa: E402

SERVER = None


def setUpModule():
    global SERVER
    SERVER = FleetServer()


def tearDownModule():
    assert SERVER.stop() == 0


def quern(*arguments, folder=None, **environment):
    return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, timeout=120, cwd=folder,
                          env={**os.environ, "QUERN_ENDPOINT": SERVER.url, **environment})


class LaunchTest(unittest.TestCase):
    def ok(self, *arguments, **options):
        result = quern(*arguments, **options)
        self.assertEqual((result.returncode, result.stderr), (0, b""), (arguments, result.stderr))
        return result.stdout.decode()

    def test_launch_ps_stop(self):
        text = self.ok("launch", LLAMA.name, "--uid", "mill", "--context", "96", "--engine-option", "threads=1",
                       "--env", "GRAIN=rye", "--keep-alive", "5m", "--priority", "2", "--pin", folder=LLAMA.parent)
        self.assertEqual(text, "mill\n")
        self.addCleanup(SERVER.delete, "/v1/models/mill")
        model, = json.loads(self.ok("ps", "--json"))["data"]
        launch = model["launch"]
        self.assertEqual((launch["context"], launch["keep_alive_s"], launch["priority"], launch["pinned"]), (96, 300, 2, True))
        self.assertEqual(launch["env"], {"GRAIN": "***"})
        pid = str(model["replicas"][0]["pid"])
        table = self.ok("ps").splitlines()
        self.assertTrue(table[0].startswith("UID "))
        self.assertTrue(table[1].startswith("mill ") and table[1].endswith(" " + pid), table)
        self.assertIn("ready", self.ok("events", "mill"))
        self.assertIn("ready", [e["kind"] for e in json.loads(self.ok("events", "mill", "--json"))["data"]])
        self.assertIn("listening", self.ok("logs", "mill"))
        self.assertIn("listening", json.loads(self.ok("logs", "mill", "--replica", "0", "--json"))["text"])
        self.assertEqual(self.ok("stop", "mill"), "stopped mill\n")
        self.assertEqual(json.loads(self.ok("ps", "--json"))["data"], [])

    def test_no_wait_follow_and_stop_all(self):
        answer = json.loads(self.ok("launch", LLAMA, "--uid", "later", "--engine-option", "threads=1", "--no-wait", "--json"))
        self.assertEqual(answer, {"model_uid": "later"})
        following = subprocess.Popen([QUERN, "events", "later", "--follow", "--json", "--endpoint", SERVER.url],
                                     stdout=subprocess.PIPE)
        self.addCleanup(following.stdout.close)
        kinds = []
        while "ready" not in kinds:
            kinds.append(json.loads(following.stdout.readline())["kind"])
        self.assertEqual(json.loads(self.ok("stop", "--all", "--json")), {"stopped": ["later"]})
        self.assertEqual(following.wait(timeout=60), 0)  # it ends with the model

    def test_refusals(self):
        assert_refused(self, quern("launch"), "MODEL")
        assert_refused(self, quern("launch", "no-such-model"), "no-such-model")
        assert_refused(self, quern("launch", LLAMA, "--replicas", "65"), "--replicas")
        assert_refused(self, quern("launch", LLAMA, "--env", "GRAIN"), "--env GRAIN", "NAME=VALUE")
        assert_refused(self, quern("launch", LLAMA, "--engine", "mill"), "mill")
        assert_refused(self, quern("launch", LLAMA, "--engine-option", "no_such_option=1"), "no_such_option")
        assert_refused(self, quern("stop"), "UID")
        assert_refused(self, quern("stop", "nobody"), "nobody")
        assert_refused(self, quern("logs", "nobody"), "nobody")
        assert_refused(self, quern("events", "nobody"), "nobody")
        assert_refused(self, quern("ps", "--endpoint", "ftp://127.0.0.1"), "ftp://127.0.0.1")

    def test_no_server_is_a_failure(self):
        result = quern("ps", "--endpoint", "127.0.0.1:1")
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertIn(b"http://127.0.0.1:1", result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
