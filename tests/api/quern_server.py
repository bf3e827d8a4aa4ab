"""A running `quern serve` for tests: start, ask, stop. Nothing but the standard library."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

QUERN = os.environ.get("QUERN_BINARY", "quern")
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
LLAMA = GOLDEN / "models/llama"
BERT = GOLDEN / "models/bert"
CLASSIFIER = GOLDEN / "families/bert_classify"
RERANKER = GOLDEN / "families/bert_rerank"


class Server:
    def __init__(self, *arguments, models=(LLAMA,), **environment):
        command = [QUERN, "serve", *map(str, models), "-t", "1", "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.log, self.port = [], None
        for line in self.process.stderr:
            self.log.append(line)
            match = re.search(r"listening on (?:(?:https?://[\d.]+:(\d+))|(unix:\S+))", line)
            if match:
                self.port = int(match.group(1)) if match.group(1) else None
                break
        else:
            raise AssertionError("server did not start: " + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def connection(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        connection = self.connection()
        data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, {k.lower(): v for k, v in answer.getheaders()}

    def get(self, path, **headers):
        status, text, _ = self.request("GET", path, None, headers)
        return status, json.loads(text) if text else None

    def post(self, path, body, headers=None):
        status, text, _ = self.request("POST", path, body, headers)
        return status, json.loads(text) if text else None

    def ok(self, path, body):
        status, answer = self.post(path, body)
        assert status == 200, (status, answer)
        return answer

    def events(self, path, body):
        """(event name or None, data as text) of a server-sent stream."""
        status, text, headers = self.request("POST", path, body)
        assert status == 200, text
        assert headers["content-type"].startswith("text/event-stream"), headers
        found = []
        for block in text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "data" in lines:
                found.append((lines.get("event"), lines["data"]))
        return found

    def lines(self, path, body):
        """Objects of a newline-delimited stream."""
        status, text, headers = self.request("POST", path, body)
        assert status == 200, text
        assert headers["content-type"] == "application/x-ndjson", headers
        return [json.loads(line) for line in text.splitlines()]

    def metrics(self):
        status, text, _ = self.request("GET", "/metrics")
        assert status == 200
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def metric(self, name, **labels):
        """Sum of the series of this name with these labels."""
        total = 0.0
        for series, value in self.metrics().items():
            if series.split("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()):
                total += value
        return total

    def raw(self, data, timeout=10):
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            return connection.recv(65536)

    def stop(self, code=signal.SIGTERM):
        self.process.send_signal(code)
        result = self.process.wait(timeout=60)
        return result


def share_server(module, *arguments, models=(LLAMA,)):
    """Gives a test module one server for all its tests, as SERVER, by setUpModule. `models` may be a function of a folder
    that lives as long."""
    def set_up():
        folder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(folder.cleanup)
        module["SERVER"] = server = Server(*arguments, models=models(pathlib.Path(folder.name)) if callable(models) else models)
        unittest.addModuleCleanup(stop, server)

    def stop(server):
        assert server.stop() == 0

    module["setUpModule"] = set_up


def chat(**fields):
    return {"model": "llama", "messages": [{"role": "user", "content": "the tide"}], "temperature": 0, "max_tokens": 12,
            "ignore_eos": True, **fields}


THINKING_TEMPLATE = (
    "{%- for m in messages -%}{{ m.role }}:{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} "
    "{{ c.function.arguments.items() | list | length }}</tool_call>{% endfor %}\n{%- endfor -%}"
    "{{ tools | tojson if tools else '' }}{% if add_generation_prompt %}<think>"
    "{% if enable_thinking == false %}</think>{% endif %}{% endif %}")


def thinker(folder):
    """The golden model in `folder`/thinker, with a template that thinks first and knows tools and Hermes' marks."""
    model = pathlib.Path(folder) / "thinker"
    shutil.copytree(LLAMA, model)
    config = json.loads((model / "tokenizer_config.json").read_text())
    config["chat_template"] = THINKING_TEMPLATE
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    return model


class ThinkerTest(unittest.TestCase):
    """Tests of a server that serves `thinker`, with these options and other models."""
    options, models = (), ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(*cls.options, models=(thinker(cls.folder.name), *cls.models))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        assert cls.server.stop() == 0


WEATHER = {"type": "object", "properties": {"city": {"const": "Paris"}, "days": {"const": 3}}, "required": ["city", "days"]}
PARIS = {"city": "Paris", "days": 3}  # all that the schema allows
