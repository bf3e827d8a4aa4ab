"""The executor, asked by a client of xxl-job-core; the admin's own side is a small server that records what it is
told."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "api"))
from jobs_test import Admin, JobServer, answered, free_port, lines  # noqa: E402
from quern_server import LLAMA  # noqa: E402


class Client:
    def __init__(self, url, token):
        command = ["java", "-cp", os.environ["QUERN_XXLJOB_JARS"] + "/*", os.environ["QUERN_XXLJOB_DRIVE"], url, token]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)

    def ask(self, *words):
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            fields = line.rstrip("\n").split("\t")
            if fields[0].isdigit():
                return [int(fields[0]), *fields[1:]]
        raise AssertionError("the client has ended")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class XxlJobCoreTest(unittest.TestCase):
    def test_run(self):
        admin, port = Admin(), free_port()
        self.addCleanup(admin.server_close)
        self.addCleanup(admin.shutdown)
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder) / "token"
            token.write_text("default_token\n")
            server = JobServer(folder, "--xxl-job-admin", admin.url, "--xxl-job-app", "quern-test",
                               "--xxl-job-token-file", token, "--xxl-job-listen", f"127.0.0.1:{port}")
            stranger = Client(f"http://127.0.0.1:{port}/", "wrong")
            self.assertEqual(stranger.ask("beat")[:2], [500, "The access token is wrong."])
            stranger.close()
            client = Client(f"http://127.0.0.1:{port}/", "default_token")
            self.assertEqual(client.ask("beat")[0], 200)
            self.assertEqual(client.ask("idleBeat", 1)[0], 200)
            launch = json.dumps({"uid": "small", "model_name": str(LLAMA), "engine_options": {"threads": 1}})
            self.assertEqual(client.ask("run", 1, 1, 1700000000001, "quern-launch", launch, "SERIAL_EXECUTION", "BEAN")[0], 200)
            (server.files / "in.jsonl").write_text(lines(3, max_tokens=4))
            job = json.dumps({"input_path": "in.jsonl", "name": "nightly"})
            self.assertEqual(client.ask("run", 1, 2, 1700000000002, "quern-batch", job, "SERIAL_EXECUTION", "BEAN")[0], 200)
            for log_id in (1, 2):
                self.wait(lambda log_id=log_id: log_id in admin.endings())
                self.assertEqual(admin.endings()[log_id]["handleCode"], 200)
            self.assertEqual(len(answered((server.files / "in.jsonl.output.jsonl").read_text())), 3)
            code, _, first, last, is_end, text = client.ask("log", 1700000000002, 2, 1)
            self.assertEqual((code, first, is_end), (200, "1", "true"))
            self.assertIn("3 of 3 lines answered", text)
            self.assertGreater(int(last), 2)
            (server.files / "long.jsonl").write_text(lines(400, max_tokens=100))
            job = json.dumps({"input_path": "long.jsonl"})
            self.assertEqual(client.ask("run", 2, 3, 1700000000003, "quern-batch", job, "SERIAL_EXECUTION", "BEAN")[0], 200)
            self.assertEqual(client.ask("idleBeat", 2)[0], 500)
            self.assertEqual(client.ask("run", 2, 4, 1700000000004, "quern-batch", job, "DISCARD_LATER", "BEAN")[0], 500)
            self.assertEqual(client.ask("kill", 2)[0], 200)
            self.wait(lambda: 3 in admin.endings())
            self.assertEqual(admin.endings()[3]["handleCode"], 500)
            self.assertEqual(client.ask("run", 3, 5, 1700000000005, "x", "", "SERIAL_EXECUTION", "GLUE_SHELL")[0], 500)
            client.close()
            self.assertEqual(server.stop(), 0)

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
