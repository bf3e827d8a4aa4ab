"""/v1/jobs and `quern jobs` over a model of the fleet, batches there, and the executor of XXL-JOB: kill and restart, windows,
pause, cancel, priority, and how jobs stand back for clients."""
import collections
import contextlib
import http.server
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from quern_server import LLAMA, QUERN, Server, chat


def line(number, **fields):
    return json.dumps({"custom_id": f"line-{number}", "method": "POST", "url": "/v1/chat/completions",
                       "body": chat(model="small", **fields)}) + "\n"


def lines(count, **fields):
    return "".join(line(i, **fields) for i in range(count))


class JobServer(Server):
    """A server without MODEL, with a folder for jobs and a home that stays when it ends."""

    def __init__(self, folder, *arguments):
        self.folder = pathlib.Path(folder)
        self.files = self.folder / "files"
        self.files.mkdir(exist_ok=True)
        super().__init__("--stop-workers", "--jobs-folder", self.files, *arguments, models=(),
                         QUERN_HOME=str(self.folder / "home"))

    def launch(self):
        self.ok("/v1/models", {"uid": "small", "model_name": str(LLAMA), "engine_options": {"threads": 1}})

    def job(self, job_id):
        status, job = self.get("/v1/jobs/" + job_id)
        assert status == 200, job
        return job

    def add(self, text, name="in.jsonl", **fields):
        (self.files / name).write_text(text)
        return self.ok("/v1/jobs", {"input_path": name, **fields})

    def wait(self, job_id, condition=lambda job: job["ended"], seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.job(job_id)
            if condition(job):
                return job
            time.sleep(0.05)
        raise AssertionError(f"still {job}; {''.join(self.log)}")

    def upload(self, text):
        body = ('--q\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--q\r\nContent-Disposition: '
                'form-data; name="file"; filename="in.jsonl"\r\n\r\n' + text + "\r\n--q--\r\n")
        status, answer, _ = self.request("POST", "/v1/files", body, {"Content-Type": "multipart/form-data; boundary=q"})
        assert status == 200, answer
        return json.loads(answer)["id"]


def answered(text):
    return [json.loads(one)["custom_id"] for one in text.splitlines()]


def closed_window():
    """Hours that are not now, nor soon."""
    hour = time.localtime().tm_hour
    return f"{(hour + 10) % 24:02}:00-{(hour + 12) % 24:02}:00"


class JobsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = JobServer(cls.folder.name)
        cls.server.launch()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def quern(self, *arguments):
        result = subprocess.run([QUERN, "jobs", *arguments, "--endpoint", self.server.url], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_command(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(lines(3, max_tokens=4) + line(3, temperature=-1))
            file.flush()
            job_id = self.quern("add", file.name, "--name", "nightly", "--priority", "3").strip()
        job = self.server.wait(job_id)
        self.assertEqual((job["state"], job["name"], job["model"], job["priority"]), ("completed", "nightly", "small", 3))
        self.assertEqual(job["counts"], {"total": 4, "done": 3, "failed": 1})
        text = self.server.request("GET", f"/v1/files/{job['output_file_id']}/content")[1]
        self.assertEqual(answered(text), ["line-0", "line-1", "line-2"])
        direct = self.server.ok("/v1/chat/completions", chat(model="small", max_tokens=4))["choices"]
        self.assertEqual(json.loads(text.splitlines()[0])["response"]["body"]["choices"], direct)
        self.assertEqual(answered(self.server.request("GET", f"/v1/files/{job['error_file_id']}/content")[1]), ["line-3"])
        self.assertIn(job_id, self.quern("list"))
        self.assertIn("line-3: failed with status 400", self.quern("log", job_id))
        log = self.server.get(f"/v1/jobs/{job_id}/log?from=2")[1]
        self.assertEqual(log["data"][0]["number"], 2)
        # Again by its name, with what else is said instead.
        again = self.quern("add", "--template", "nightly", "--window", closed_window()).strip()
        job = self.server.wait(again, lambda job: job["state"] == "waiting_window")
        self.assertEqual((job["counts"]["total"], job["priority"]), (4, 3))
        self.quern("cancel", again)
        self.assertEqual(self.server.wait(again)["state"], "cancelled")
        self.assertEqual(self.server.request("DELETE", "/v1/jobs/" + again)[0], 200)
        self.assertEqual(self.server.get("/v1/jobs/" + again)[0], 404)

    def test_batch_with_a_model_of_the_fleet(self):
        file_id = self.server.upload(lines(3, max_tokens=4))
        batch = self.server.ok("/v1/batches", {"input_file_id": file_id, "endpoint": "/v1/chat/completions"})
        self.server.wait(batch["id"])  # a batch is a job
        done = self.server.get("/v1/batches/" + batch["id"])[1]
        self.assertEqual((done["status"], done["request_counts"]["completed"]), ("completed", 3))
        self.assertEqual(answered(self.server.request("GET", f"/v1/files/{done['output_file_id']}/content")[1]),
                         ["line-0", "line-1", "line-2"])

    def test_pause_and_priority(self):
        low = self.server.add(lines(300, max_tokens=60), "low.jsonl", max_concurrency=2)
        self.server.wait(low["id"], lambda job: job["counts"]["done"] > 1)
        self.assertEqual(self.server.post(f"/v1/jobs/{low['id']}/pause", None)[0], 200)
        # What ran is answered; then it stands still.
        paused = self.server.wait(low["id"], lambda job: not self.running())
        self.assertEqual(paused["state"], "paused")
        self.assertEqual(self.server.post(f"/v1/jobs/{low['id']}/pause", None)[0], 200)
        self.assertEqual(self.server.request("DELETE", "/v1/jobs/" + low["id"])[0], 409)
        self.assertEqual(self.server.ok(f"/v1/jobs/{low['id']}/resume", None)["state"], "queued")
        # One that is more important begins in front of what is left, with all of the model's room.
        high = self.server.add(lines(80, max_tokens=4), "high.jsonl", priority=5, max_concurrency=64)
        high = self.server.wait(high["id"])
        self.assertEqual(high["counts"]["done"], 80)
        self.assertLess(self.server.job(low["id"])["counts"]["done"], 300)
        self.server.ok(f"/v1/jobs/{low['id']}/cancel", None)
        low = self.server.wait(low["id"])
        output = self.server.files / "low.jsonl.output.jsonl"
        self.assertEqual(len(answered(output.read_text())), low["counts"]["done"])

    def running(self):
        model = self.server.get("/v1/models/small")[1]
        return sum(replica["in_flight"] for replica in model["replicas"])

    def test_stands_back_for_clients(self):
        """No line begins while a client's request runs at the model."""
        stop = threading.Event()
        ready = threading.Event()

        def client():
            body = json.dumps(chat(model="small", max_tokens=400, stream=True))
            while not stop.is_set():
                connection = self.server.connection()
                connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                ready.set()
                while not stop.is_set() and answer.read(256):
                    pass
                connection.close()

        clients = [threading.Thread(target=client) for _ in range(3)]
        for thread in clients:
            thread.start()
        try:
            ready.wait(30)
            job = self.server.add(lines(30, max_tokens=4), "busy.jsonl")
            waiting = self.server.wait(job["id"], lambda job: "clients" in job["message"])
            self.assertEqual(waiting["model"], "small")
        finally:
            stop.set()
            for thread in clients:
                thread.join()
        self.assertEqual(self.server.wait(job["id"])["counts"]["done"], 30)

    def test_refusals(self):
        (self.server.files / "in.jsonl").write_text(line(0))
        for body, param in (({"input_path": "../home/server.db"}, "input_path"), ({"input_path": "none"}, None),
                            ({"input_path": "in.jsonl", "window": "x"}, "window"), ({}, "input_file_id"),
                            ({"input_path": "in.jsonl", "url": "x"}, "url"), ({"template": "nobody"}, None),
                            ({"input_path": "in.jsonl", "output_path": "/etc/cron.d/x"}, "output_path"),
                            ({"input_path": "in.jsonl", "max_concurrency": 65}, "max_concurrency"), ([], None)):
            status, answer = self.server.post("/v1/jobs", body)
            self.assertIn(status, (400, 404), answer)
            if param:
                self.assertEqual(answer["error"]["param"], param, answer)
        self.assertEqual(self.server.get("/v1/jobs/none")[0], 404)
        self.assertEqual(self.server.get("/v1/jobs/none/log")[0], 404)


class KillTest(unittest.TestCase):
    def test_every_line_once(self):
        with tempfile.TemporaryDirectory() as folder:
            server = JobServer(folder)
            server.launch()
            job = server.add(lines(60, max_tokens=80), "in.jsonl", max_concurrency=4)
            file_id = server.upload(lines(20, max_tokens=10))
            batch = server.ok("/v1/batches", {"input_file_id": file_id, "endpoint": "/v1/chat/completions"})
            waits = server.add(line(0), "waits.jsonl", window=closed_window())
            server.wait(job["id"], lambda job: job["counts"]["done"] > 5)
            for _ in range(2):
                server.process.kill()
                server.process.wait()
                done = (server.files / "in.jsonl.output.jsonl").exists()
                self.assertFalse(done)
                server = JobServer(folder)
                before = server.job(job["id"])["counts"]["done"]
                self.assertGreater(before, 5)
                server.wait(job["id"], lambda job: job["counts"]["done"] > before)
            self.assertEqual(server.wait(job["id"])["counts"], {"total": 60, "done": 60, "failed": 0})
            self.assertEqual(answered((server.files / "in.jsonl.output.jsonl").read_text()),
                             [f"line-{i}" for i in range(60)])
            server.wait(batch["id"])
            done = server.get("/v1/batches/" + batch["id"])[1]
            self.assertEqual(answered(server.request("GET", f"/v1/files/{done['output_file_id']}/content")[1]),
                             [f"line-{i}" for i in range(20)])
            self.assertEqual(server.job(waits["id"])["state"], "waiting_window")
            self.assertEqual(server.stop(), 0)


class Admin(http.server.ThreadingHTTPServer):
    """The admin's side of XXL-JOB: takes what executors say; may refuse."""

    def __init__(self):
        self.calls, self.refuses = [], False
        super().__init__(("127.0.0.1", 0), AdminHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/xxl-job-admin"

    def endings(self):
        found = collections.OrderedDict()
        for path, _, body in list(self.calls):
            if path == "/xxl-job-admin/api/callback":
                for ending in body:
                    found[ending["logId"]] = ending
        return found


class AdminHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refuses = self.server.refuses
        if not refuses:
            self.server.calls.append((self.path, self.headers["XXL-JOB-ACCESS-TOKEN"], body))
        answer = json.dumps({"code": 500 if refuses else 200, "msg": None}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


class XxlJobTest(unittest.TestCase):
    """The protocol as its documentation tells it; tests/clients/xxljob drives the same with xxl-job-core itself."""

    def ask(self, path, body, token="secret"):
        return json.loads(self.raw(path, json.dumps(body), token))

    def raw(self, path, body, token="secret"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", path, body, {"Content-Type": "application/json;charset=UTF-8",
                                                "XXL-JOB-ACCESS-TOKEN": token})
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def run_job(self, log_id, handler, params, job_id=1, strategy="SERIAL_EXECUTION", **fields):
        return self.ask("/run", {"jobId": job_id, "executorHandler": handler, "executorParams": params,
                                 "executorBlockStrategy": strategy, "executorTimeout": 0, "logId": log_id,
                                 "logDateTime": 1700000000000 + log_id, "glueType": "BEAN", "glueSource": "",
                                 "broadcastIndex": 0, "broadcastTotal": 1, **fields})

    def wait_ending(self, admin, log_id, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if log_id in admin.endings():
                return admin.endings()[log_id]
            time.sleep(0.05)
        self.fail(f"{log_id} has not ended: {admin.calls}")

    def start(self, folder, admin):
        token = pathlib.Path(folder) / "token"
        token.write_text("secret\n")
        return JobServer(folder, "--xxl-job-admin", admin.url, "--xxl-job-app", "quern-test", "--xxl-job-token-file",
                         token, "--xxl-job-listen", f"127.0.0.1:{self.port}")

    def test_executor(self):
        admin = Admin()
        self.addCleanup(admin.server_close)
        self.addCleanup(admin.shutdown)
        self.port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            server = self.start(folder, admin)
            self.assertEqual(self.ask("/beat", None)["code"], 200)
            self.assertEqual(self.ask("/beat", None, token="secres")["code"], 500)
            self.assertEqual(self.ask("/idleBeat", {"jobId": 1})["code"], 200)
            # Launch, then a job by path, then its name again.
            launch = {"uid": "small", "model_name": str(LLAMA), "engine_options": {"threads": 1}}
            self.assertEqual(self.run_job(1, "quern-launch", json.dumps(launch))["code"], 200)
            self.assertEqual(self.wait_ending(admin, 1)["handleCode"], 200)
            (server.files / "in.jsonl").write_text(lines(3, max_tokens=4))
            self.assertEqual(self.run_job(2, "quern-batch", json.dumps({"input_path": "in.jsonl", "name": "nightly"}))
                             ["code"], 200)
            ending = self.wait_ending(admin, 2)
            self.assertEqual((ending["handleCode"], ending["logDateTim"]), (200, 1700000000002), ending)
            self.assertEqual(len(answered((server.files / "in.jsonl.output.jsonl").read_text())), 3)
            self.assertEqual(self.run_job(2, "quern-batch", "nightly")["code"], 500)  # the same run twice
            self.assertEqual(self.run_job(3, "quern-batch", "nightly")["code"], 200)
            self.assertEqual(self.wait_ending(admin, 3)["handleCode"], 200)
            log = self.ask("/log", {"logDateTim": 1700000000003, "logId": 3, "fromLineNum": 1})["content"]
            self.assertIn("quern-batch job_xxl_3_", log["logContent"])
            self.assertTrue(log["isEnd"])
            rest = self.ask("/log", {"logDateTim": 1700000000003, "logId": 3, "fromLineNum": log["toLineNum"] + 1})
            self.assertEqual(rest["content"]["logContent"], "")
            # What is refused.
            self.assertEqual(self.run_job(4, "quern-batch", "", glueType="GLUE_SHELL", glueSource="id")["code"], 500)
            self.assertEqual(self.run_job(5, "nobody", "")["code"], 500)
            for body in ("", "[]", "{", json.dumps({"jobId": "x"})):
                self.assertEqual(json.loads(self.raw("/run", body))["code"], 500)
            self.assertEqual(self.run_job(6, "quern-batch", "no such name")["code"], 200)
            self.assertEqual(self.wait_ending(admin, 6)["handleCode"], 500)
            # Blocks: a long job of the same id.
            (server.files / "long.jsonl").write_text(lines(400, max_tokens=100))
            long = json.dumps({"input_path": "long.jsonl"})
            self.assertEqual(self.run_job(10, "quern-batch", long, job_id=2)["code"], 200)
            self.assertEqual(self.ask("/idleBeat", {"jobId": 2})["code"], 500)
            self.assertEqual(self.run_job(11, "quern-batch", long, 2, "DISCARD_LATER")["code"], 500)
            self.assertEqual(self.run_job(12, "quern-batch", long, 2, "COVER_EARLY")["code"], 200)
            self.assertEqual(self.wait_ending(admin, 10)["handleCode"], 500)
            self.assertEqual(self.run_job(13, "quern-batch", long, 2)["code"], 200)  # waits behind 12
            self.assertEqual(self.ask("/kill", {"jobId": 2})["code"], 200)
            for log_id in (12, 13):
                self.assertEqual(self.wait_ending(admin, log_id)["handleCode"], 500)
            self.assertEqual(self.run_job(14, "quern-batch", long, 3, executorTimeout=1)["code"], 200)
            self.assertEqual(self.wait_ending(admin, 14)["handleCode"], 502)
            # An ending that the admin does not take is told after a kill and a restart.
            admin.refuses = True
            (server.files / "in.jsonl").write_text(lines(2, max_tokens=4))
            self.assertEqual(self.run_job(20, "quern-batch", "nightly")["code"], 200)
            time.sleep(0.2)
            server.process.kill()
            server.process.wait()
            server = self.start(folder, admin)
            admin.refuses = False
            self.assertEqual(self.wait_ending(admin, 20)["handleCode"], 200)
            jobs = [job["id"] for job in server.get("/v1/jobs")[1]["data"]]
            self.assertEqual(len([one for one in jobs if one.startswith("job_xxl_20_")]), 1)
            self.assertEqual(self.run_job(30, "quern-stop", "small")["code"], 200)
            self.assertEqual(self.wait_ending(admin, 30)["handleCode"], 200)
            self.assertEqual(server.get("/v1/models/small")[0], 404)
            self.assertEqual(server.stop(), 0)
            paths = [path.rsplit("/", 1)[1] for path, _, _ in admin.calls]
            self.assertEqual((paths[0], paths[-1]), ("registry", "registryRemove"))
            self.assertEqual(admin.calls[0][1:], ("secret", {
                "registryGroup": "EXECUTOR", "registryKey": "quern-test", "registryValue": f"http://127.0.0.1:{self.port}/"}))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
