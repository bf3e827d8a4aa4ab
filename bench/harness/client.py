"""A server that was started to be measured, and the plain requests that most scenarios send it."""
import http.client
import json
import re
import socket
import subprocess
import tempfile
import threading
import time

from . import process
from .process import PeerError

MODEL_NAME = "model"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """`command` with PORT in the place of the port. Ready when /health says 200; `start_s` tells how long that took."""

    def __init__(self, command, env=None, patience_s=600):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+")
        command = [str(part).replace("PORT", str(self.port)) for part in command]
        self.begin = time.perf_counter()
        try:
            self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=process.environment(env), start_new_session=True)
        except OSError as error:
            raise PeerError(f"{command[0]}: {error.strerror}") from error
        try:
            self._await_health(patience_s)
        except BaseException:
            process.end_session(self.process)
            raise
        self.start_s = time.perf_counter() - self.begin

    def _await_health(self, patience_s):
        while time.perf_counter() - self.begin < patience_s:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise PeerError(f"the server ended ({self.process.returncode}): {process.last_words(self.log.read())}")
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise PeerError(f"the server does not answer after {patience_s} s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        process.end_session(self.process)
        self.log.close()

    def memory_mib(self, field="VmHWM"):
        return process.session_memory_mib(self.process.pid, field)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metric(self, name):
        """Sum of a metric over its labels; names are those of quern's /metrics."""
        text = self.get("/metrics")[1].decode()
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", text, re.M))

    def post(self, fields, timeout_s=1200):
        """The open connection and its answer; anything but 200 is a PeerError."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        body = {"model": MODEL_NAME, "temperature": 0, "ignore_eos": True, **fields}
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status == 200:
                return connection, answer
            error = PeerError(f"answered {answer.status}: {process.last_words(answer.read().decode(errors='replace'))}")
        except OSError as failure:
            error = PeerError(f"broke off: {failure}")
        connection.close()
        raise error

    def stream(self, prompt, max_tokens, **fields):
        """Seconds at which each piece came, the text, the usage."""
        begin = time.perf_counter()
        connection, answer = self.post({"prompt": prompt, "max_tokens": max_tokens, "stream": True,
                                        "stream_options": {"include_usage": True}, **fields})
        times, text, usage = [], "", {}
        for line in answer:
            if not line.startswith(b"data: ") or b"[DONE]" in line:
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            if chunk.get("choices"):
                times.append(time.perf_counter() - begin)
                text += chunk["choices"][0]["text"]
        connection.close()
        if not times:
            raise PeerError("an answer without a token")
        return times, text, usage

    def crowd(self, prompts, max_tokens, **fields):
        """All at once, whole answers, so that the client costs little: seconds and tokens."""
        counts, failures = [0] * len(prompts), []

        def ask(i):
            try:
                connection, answer = self.post({"prompt": prompts[i], "max_tokens": max_tokens, **fields})
                counts[i] = json.loads(answer.read())["usage"]["completion_tokens"]
                connection.close()
            except PeerError as error:
                failures.append(error)
        seconds = in_parallel(ask, len(prompts))
        if failures:
            raise failures[0]
        if counts != [max_tokens] * len(prompts):
            raise PeerError(f"asked for {max_tokens} tokens of each, got {sorted(set(counts))}")
        return seconds, sum(counts)


def in_parallel(work, count):
    """work(0) … work(count - 1) on a thread each: seconds until the last is done."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin
