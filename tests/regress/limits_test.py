"""What hostile or careless clients and files must not do: end the server, fill its memory, get the wrong kind of error."""
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import BERT, CLASSIFIER, LLAMA, QUERN, RERANKER, Server, chat, share_server  # noqa: E402

SERVER = None
share_server(globals(), "--store", ":memory:", models=(LLAMA, BERT, RERANKER))


def raw(data, port=None):
    """The status line that answers these bytes; empty when the connection was closed without one."""
    with socket.create_connection(("127.0.0.1", port or SERVER.port), timeout=30) as connection:
        try:
            connection.sendall(data)
            return connection.recv(4096).split(b"\r\n")[0].decode()
        except (ConnectionError, BrokenPipeError):
            return ""


def resident(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) // 1024


class HttpFields(unittest.TestCase):
    HEAD = b"POST /v1/tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

    def test_long_fields_behind_and_before_the_body(self):
        chunked = self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
        cases = {"trailer": chunked + b"X: " + b"y" * 66000 + b"\r\n\r\n",
                 "name of a trailer": chunked + b"X" * 66000 + b": y\r\n\r\n",
                 "many trailers": chunked + b"".join(b"X%d: y\r\n" % i for i in range(100_000)) + b"\r\n",
                 "extension": self.HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"e" * 3_000_000 + b"\r\n{}\r\n0\r\n\r\n",
                 "header": self.HEAD + b"X: " + b"y" * 70000 + b"\r\nContent-Length: 2\r\n\r\n{}"}
        for name, data in cases.items():
            with self.subTest(name):
                status = raw(data)
                self.assertNotIn(" 200", status)
                self.assertTrue(status == "" or " 4" in status, status)
                self.assertEqual(SERVER.get("/health")[0], 200)


    def test_the_limit_of_headers_has_a_limit(self):
        done = subprocess.run([QUERN, "serve", LLAMA, "--port", "0", "--max-header-bytes", "200000"], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--max-header-bytes", done.stderr)


class LongTexts(unittest.TestCase):
    """FC-13, FC-39: what cannot fit is refused before it costs anything."""

    def test_megabytes_are_refused_quickly(self):
        text = "ab " * 3_000_000
        bodies = [("/v1/completions", {"model": "llama", "prompt": text}, "prompt"),
                  ("/v1/chat/completions", {**chat(model="llama"), "messages": [{"role": "user", "content": text}]}, "messages"),
                  ("/v1/embeddings", {"model": "bert", "input": text}, "input"),
                  ("/v1/rerank", {"model": "bert_rerank", "query": "q", "documents": [text]}, None),
                  ("/tokenize", {"model": "llama", "prompt": text}, "prompt")]
        for path, body, param in bodies:
            with self.subTest(path):
                begin = time.monotonic()
                status, answer = SERVER.post(path, body)
                self.assertEqual(status, 400, answer)
                if param:
                    self.assertEqual(answer["error"]["param"], param)
                self.assertLess(time.monotonic() - begin, 5)
        self.assertLess(resident(SERVER.process.pid), 700)

    def test_the_code_says_what_it_is(self):
        status, answer = SERVER.post("/v1/completions", {"model": "llama", "prompt": "word " * 1000})
        self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "context_length_exceeded", "prompt"))
        status, answer = SERVER.post("/v1/completions", {"model": "llama", "prompt": "word " * 100_000})
        self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "context_length_exceeded", "prompt"))

    def test_a_truncated_text_is_looked_at_only_where_it_counts(self):
        begin = time.monotonic()
        whole = SERVER.ok("/v1/embeddings", {"model": "bert", "input": "ab " * 2_000_000, "truncate_prompt_tokens": -1})
        short = SERVER.ok("/v1/embeddings", {"model": "bert", "input": "ab " * 500, "truncate_prompt_tokens": -1})
        self.assertEqual(whole["data"], short["data"])
        self.assertLess(time.monotonic() - begin, 5)


class Refusals(unittest.TestCase):
    def test_grammars_that_explode_are_refused_before_the_stream(self):
        for spec in ({"regex": "a{1000000}"}, {"regex": "(a|aa|aaa){500}{500}"}, {"grammar": 'root ::= "a" root'}):
            for stream in (False, True):
                with self.subTest(spec=spec, stream=stream):
                    status, text, headers = SERVER.request("POST", "/v1/chat/completions", chat(model="llama", max_tokens=8, stream=stream, structured_outputs=spec))
                    if status == 200:  # what a machine compiles after all has to be obeyed
                        self.assertNotIn('"error"', text)
                    else:
                        self.assertEqual(status, 400, text)
                        self.assertTrue(json.loads(text)["error"]["param"].startswith("structured_outputs"), text)

    def test_a_template_that_writes_too_much_is_the_clients_fault(self):
        status, answer = SERVER.post("/v1/chat/completions", {**chat(model="llama"), "messages": [{"role": "user", "content": "x" * 20_000_000}]})
        self.assertEqual(status, 400, answer)

    def test_param_names_the_clients_field(self):
        cases = [({"logit_bias": {"49152": 1}}, "logit_bias"), ({"stop_token_ids": [99999]}, "stop_token_ids"),
                 ({"allowed_token_ids": [99999]}, "allowed_token_ids"), ({"samplers": ["x"]}, "samplers"),
                 ({"allowed_token_ids": [2], "min_tokens": 3}, "allowed_token_ids")]
        for fields, param in cases:
            with self.subTest(param):
                status, answer = SERVER.post("/v1/completions", {"model": "llama", "prompt": "hi", **fields})
                self.assertEqual((status, answer["error"]["param"]), (400, param), answer)

    def test_an_empty_model_is_no_model(self):
        for path, body in (("/v1/completions", {"prompt": "hi"}), ("/v1/embeddings", {"input": "hi"})):
            self.assertEqual(SERVER.post(path, {"model": "", **body})[0], 400)

    def test_unknown_paths_answer_in_the_dialect_beside_them(self):
        self.assertIsInstance(SERVER.get("/api/nope")[1]["error"], str)
        self.assertEqual(SERVER.get("/v1/messages/nope")[1]["type"], "error")
        self.assertIn("param", SERVER.get("/v1/nope")[1]["error"])


class EndTokens(unittest.TestCase):
    """FC-12: as many logprobs as completion tokens, the end token's among them."""

    def test_logprobs_of_all_tokens(self):
        eos = 2
        for stream in (False, True):
            body = {"model": "llama", "prompt": "hi", "max_tokens": 40, "logit_bias": {str(eos): 100}, "temperature": 0, "logprobs": 1}
            if stream:
                chunks = [json.loads(data) for _, data in SERVER.events("/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}}) if data != "[DONE]"]
                usage = next(chunk["usage"] for chunk in chunks if chunk.get("usage"))
                count = sum(len(chunk["choices"][0]["logprobs"]["tokens"]) for chunk in chunks if chunk["choices"] and chunk["choices"][0].get("logprobs"))
            else:
                answer = SERVER.ok("/v1/completions", body)
                usage, count = answer["usage"], len(answer["choices"][0]["logprobs"]["tokens"])
            self.assertEqual(count, usage["completion_tokens"])


class Files(unittest.TestCase):
    def run_quern(self, *arguments):
        done = subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, timeout=20)
        return done.returncode, done.stderr.strip().split("\n")

    def test_an_adapters_configuration_that_is_no_file(self):
        with tempfile.TemporaryDirectory() as root:
            for kind in ("folder", "pipe", "device"):
                folder = pathlib.Path(root) / kind
                folder.mkdir()
                config = folder / "adapter_config.json"
                if kind == "folder":
                    config.mkdir()
                elif kind == "pipe":
                    os.mkfifo(config)
                else:
                    config.symlink_to("/dev/zero")
                (folder / "adapter_model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
                with self.subTest(kind):
                    code, lines = self.run_quern("generate", LLAMA, "--ids", "3", "-t", "1", "--lora-modules", f"z={folder}", "--lora", "z")
                    self.assertEqual((code, len(lines)), (2, 1), lines)
                    self.assertIn("adapter_config.json", lines[0])

    def test_weights_that_are_not_numbers(self):
        with tempfile.TemporaryDirectory() as root:
            for source, command in ((BERT, ("embed", "--text", "hi")), (RERANKER, ("rerank", "--query", "q", "--document", "d"))):
                model = pathlib.Path(root) / source.name
                shutil.copytree(source, model)
                path = model / "model.safetensors"
                data = bytearray(path.read_bytes())
                header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
                base = 8 + int.from_bytes(data[:8], "little")
                name = next(n for n in header if n != "__metadata__" and n.endswith("LayerNorm.weight") or n.endswith("LayerNorm.gamma"))
                begin, end = header[name]["data_offsets"]
                for at in range(base + begin, base + end):
                    data[at] = 0xff
                path.write_bytes(data)
                with self.subTest(source.name):
                    code, lines = self.run_quern(command[0], model, *command[1:], "--json")
                    self.assertNotEqual(code, 0)
                    self.assertIn("not finite", lines[-1], lines)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
