"""A server and two workers in network namespaces of this machine, joined by a bridge whose links are cut and healed."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import unittest

from platform_server import await_value
from quern_server import LLAMA, QUERN

TOKEN, KEY = "join-token-0123456789", "key-of-the-test"
NET = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
PREFIX = f"q{os.getpid() % 100000}"
BRIDGE = f"{PREFIX}br"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """Machines s, a and b, at .1, .2 and .3; this process is at .254."""

    def __init__(self):
        self.names = []
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", f"{NET}.254/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for number, name in enumerate("sab", 1):
            space, link = f"{PREFIX}{name}", f"{PREFIX}v{name}"
            ip("netns", "add", space)
            self.names.append(space)
            ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", link, "master", BRIDGE, "up")
            for words in (("addr", "add", f"{NET}.{number}/24", "dev", "eth0"), ("link", "set", "eth0", "up"),
                          ("link", "set", "lo", "up")):
                ip("-n", space, *words)

    def cut(self, name):
        ip("link", "set", f"{PREFIX}v{name}", "down")

    def heal(self, name):
        ip("link", "set", f"{PREFIX}v{name}", "up")

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)


class Machine:
    """A command of quern in a namespace, with a QUERN_HOME of its own that outlives it."""

    def __init__(self, name, *arguments, hides=None, **environment):
        """`hides`: a folder that is empty to it."""
        self.name, self.arguments, self.hides, self.environment = name, arguments, hides, environment
        self.home, self.log = tempfile.mkdtemp(), []
        self.start()

    def start(self, **environment):
        names = {**os.environ, "QUERN_HOME": self.home, "QUERN_API_KEY": KEY, "QUERN_WORKER_TOKEN": TOKEN,
                 **self.environment, **environment}
        if self.name != "s":
            del names["QUERN_API_KEY"]
        # `ip netns exec` has mounts of its own.
        hide = ["sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', self.hides] if self.hides else []
        self.process = subprocess.Popen(["ip", "netns", "exec", f"{PREFIX}{self.name}", *hide, QUERN, *self.arguments],
                                        stderr=subprocess.PIPE, text=True, env=names)
        for line in self.process.stderr:
            self.log.append(line)
            if "listening on" in line:
                break
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=30)
        self.reader.join(timeout=30)
        self.process.stderr.close()

    def remove(self):
        """With the models that outlive it."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
        for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"QUERN_HOME={self.home}".encode() in entry.read_bytes():
                    os.kill(int(entry.parent.name), signal.SIGKILL)
            except OSError:
                pass
        shutil.rmtree(self.home, ignore_errors=True)


class NodesTest(unittest.TestCase):
    tls = False
    serve_options = ()
    machine_options = {}  # of Machine, by name

    @classmethod
    def setUpClass(cls):
        try:
            cls.network = Network()
        except (OSError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(f"no network namespaces here: {getattr(error, 'stderr', '') or error}") from error
        cls.addClassCleanup(cls.network.remove)
        cls.machines, secure, scheme = {}, [], "http"
        if cls.tls:
            scheme = "https"
            folder = pathlib.Path(tempfile.mkdtemp())
            cls.addClassCleanup(shutil.rmtree, folder)
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", "/CN=quern",
                            "-addext", f"subjectAltName=IP:{NET}.1"], check=True, capture_output=True)
            secure = ["--ssl-certfile", str(folder / "cert.pem"), "--ssl-keyfile", str(folder / "key.pem")]
            cls.authority = str(folder / "cert.pem")
        cls.add("s", "serve", "--host", f"{NET}.1", "--port", "9997", "--fleet", "--log-level", "warning", *secure,
                *cls.serve_options)
        for name in "ab":
            more = ["--tls", "--ca", cls.authority] if cls.tls else []
            cls.add(name, "worker", "--join", f"{scheme}://{NET}.1:9997", "--name", f"node-{name}", "--label",
                    f"room={name}", "--label", "kind=worker", *more)

    @classmethod
    def add(cls, name, *arguments):
        cls.machines[name] = Machine(name, *arguments, **cls.machine_options.get(name, {}))
        cls.addClassCleanup(cls.machines[name].remove)

    def connection(self, timeout=60):
        if not self.tls:
            return http.client.HTTPConnection(f"{NET}.1", 9997, timeout=timeout)
        context = ssl.create_default_context(cafile=self.authority)
        return http.client.HTTPSConnection(f"{NET}.1", 9997, timeout=timeout, context=context)

    def ask(self, method, path, body=None, key=KEY):
        connection = self.connection()
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if text.startswith(("{", "[")) else text

    def nodes(self):
        return {node["name"]: node for node in self.ask("GET", "/v1/nodes")[1]["data"]}

    def wait_for(self, condition, what, seconds=60):
        logs = lambda: json.dumps({name: machine.log[-20:] for name, machine in self.machines.items()}, indent=1)
        return await_value(condition, what, seconds, logs)

    def all_here(self):
        states = {name: node["state"] for name, node in self.nodes().items()}
        return states == {"local": "ready", "node-a": "ready", "node-b": "ready"}

    def launch(self, uid, **fields):
        status, answer = self.ask("POST", "/v1/models", {"uid": uid, "model_name": str(LLAMA),
                                                         "engine_options": {"threads": 1}, **fields})
        self.assertEqual((status, answer), (200, {"model_uid": uid}))

    def replicas(self, uid):
        return self.ask("GET", f"/v1/models/{uid}/replicas")[1]

    def ready(self, uid):
        """node -> pid of what serves."""
        return {one["node"]: one["pid"] for one in self.replicas(uid) if one["state"] == "ready"}

    def wait_ready(self, uid, *nodes, seconds=60):
        return self.wait_for(lambda: (found := self.ready(uid)).keys() == set(nodes) and found, f"{uid} on {nodes}", seconds)

    def chat(self, uid, **fields):
        return self.ask("POST", "/v1/chat/completions",
                        {"model": uid, "messages": [{"role": "user", "content": "the tide"}], "max_tokens": 8,
                         "temperature": 0, "ignore_eos": True, **fields})
