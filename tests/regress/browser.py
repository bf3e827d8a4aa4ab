"""A headless Chromium spoken to over its debugging pipe: nothing but the standard library is needed."""
import collections
import json
import os
import shutil
import subprocess
import tempfile
import time


def find_browser():
    """Its path, or None. QUERN_BROWSER names another one."""
    names = (os.environ.get("QUERN_BROWSER"), "chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, (shutil.which(name) for name in names if name)), None)


class Browser:
    """One browser with one page. `requests` are the addresses that the page asked for, `dialogs` the texts it opened."""

    def __init__(self, path):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command_out, self.commands = os.pipe()
        self.answers, answer_in = os.pipe()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
                     "--no-proxy-server", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(["sh", "-c", f'exec "$0" "$@" 3<&{command_out} 4>&{answer_in}', path, *arguments],
                                        pass_fds=(command_out, answer_in), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_out), os.close(answer_in)
        self.number, self.session, self.waiting = 0, None, b""
        self.events, self.requests, self.dialogs, self.interceptors = collections.deque(), [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(domain + ".enable")

    def close(self):
        os.close(self.commands)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)
        self.profile.cleanup()

    def receive(self):
        while b"\0" not in self.waiting:
            more = os.read(self.answers, 1 << 16)
            assert more, "the browser ended"
            self.waiting += more
        message, self.waiting = self.waiting.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, **fields):
        self.number += 1
        message = {"id": self.number, "method": method, "params": fields}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **fields):
        number = self.send(method, **fields)
        while True:
            message = self.receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            if "method" in message:
                self.see(message["method"], message["params"])

    def see(self, method, fields):
        if method == "Network.requestWillBeSent":
            self.requests.append(fields["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(fields["message"])
            self.send("Page.handleJavaScriptDialog", accept=False)
        elif method == "Fetch.requestPaused":
            self.answer(fields)

    def answer(self, fields):
        url, number = fields["request"]["url"], fields["requestId"]
        for part, reply in self.interceptors:
            if part in url:
                kind, status, body = reply
                self.send("Fetch.fulfillRequest", requestId=number, responseCode=status, body=body,
                          responseHeaders=[{"name": "Content-Type", "value": kind}])
                return
        self.send("Fetch.continueRequest", requestId=number)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression, seconds=20):
        deadline = time.monotonic() + seconds
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, (expression, self.evaluate("document.documentElement.outerHTML")[-2000:])
            time.sleep(0.02)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
