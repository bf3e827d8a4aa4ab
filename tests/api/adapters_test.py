"""Who may load adapters while the server runs, and from where."""
import json
import pathlib
import tempfile
import unittest

from adapter_files import write_adapter
from quern_server import BERT, LLAMA, Server, chat

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
KEY = {"Authorization": "Bearer sesame"}


class AdapterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.inside = write_adapter(self.root / "loras/one", 1)
        self.outside = write_adapter(self.root / "private", 2)

    def serve(self, *options, **environment):
        server = Server("--store", ":memory:", *options, models=(LLAMA, BERT), **environment)
        self.addCleanup(server.stop)
        return server

    def load(self, server, name, path, headers=None):
        status, text, _ = server.request("POST", LOAD, {"lora_name": name, "lora_path": str(path), "model": "llama"}, headers)
        return status, json.loads(text)["error"] if status != 200 else text


class WhoMayLoad(AdapterTest):
    def test_on_loopback_without_keys(self):
        server = self.serve()
        self.assertEqual(self.load(server, "a", self.outside)[0], 200)
        self.assertEqual(server.request("POST", UNLOAD, {"lora_name": "a", "model": "llama"})[0], 200)

    def test_with_keys_only_when_asked_for(self):
        server = self.serve(QUERN_API_KEY="sesame")
        for path in (self.inside, self.root / "missing"):
            status, error = self.load(server, "a", path, KEY)
            self.assertEqual((status, error["type"]), (403, "permission_error"))
            self.assertIn("--allow-runtime-lora-updating", error["message"])
        status, text, _ = server.request("POST", UNLOAD, {"lora_name": "a", "model": "llama"}, KEY)
        self.assertEqual(status, 403, text)
        server = self.serve("--allow-runtime-lora-updating", QUERN_API_KEY="sesame")
        self.assertEqual(self.load(server, "a", self.inside, KEY)[0], 200)
        self.assertEqual(self.load(server, "b", self.inside)[0], 401)

    def test_on_every_address_only_when_asked_for(self):
        # The words of the log say 0.0.0.0; the test asks on loopback all the same.
        for options, status in (((), 403), (("--allow-runtime-lora-updating",), 200)):
            server = self.serve("--host", "0.0.0.0", "--auth", "off", *options)
            self.assertEqual(self.load(server, "a", self.inside)[0], status)


class WhereFrom(AdapterTest):
    def test_only_from_below_the_folder(self):
        loras = self.root / "loras"
        (loras / "link").symlink_to(self.outside)
        borrowed = write_adapter(loras / "borrowed", 3)
        (borrowed / "adapter_model.safetensors").unlink()
        (borrowed / "adapter_model.safetensors").symlink_to(self.outside / "adapter_model.safetensors")
        (self.root / "loras-too").symlink_to(self.outside)
        server = self.serve("--lora-dir", loras)
        words = set()
        for path in (self.outside, "../private", "link", "borrowed", loras / "link", loras, ".", "one/..", "/", "../loras-too",
                     "/etc/passwd", self.root / "missing", "../missing", "one/../../private", "\\..\\private"):
            status, error = self.load(server, "a", path)
            if path == "\\..\\private":  # a name like any other here
                self.assertEqual(status, 404)
                continue
            self.assertEqual((status, error["param"]), (403, "lora_path"), path)
            words.add(error["message"])
        self.assertEqual(len(words), 1, "the same for what exists and what does not")
        self.assertEqual(self.load(server, "a", "nothing")[0], 404)
        self.assertEqual(self.load(server, "a", "one\0/../../private")[0], 400)
        self.assertEqual(self.load(server, "one", "one")[0], 200)
        self.assertEqual(self.load(server, "two", loras / "one")[0], 200)
        (loras / "near").symlink_to(loras / "one")
        self.assertEqual(self.load(server, "three", "near")[0], 200)
        self.assertEqual({m["id"] for m in server.get("/v1/models")[1]["data"]}, {"llama", "bert", "one", "two", "three"})

    def test_the_folder_must_be_there(self):
        with self.assertRaisesRegex(AssertionError, "--lora-dir .*missing"):
            Server("--lora-dir", self.root / "missing")


class OllamaNames(AdapterTest):
    def test_an_adapter_is_a_model(self):
        server = self.serve("--lora-modules", f"tide={self.inside}")
        messages = {"messages": [{"role": "user", "content": "the tide"}], "options": {"temperature": 0, "num_predict": 20}}
        expected = server.ok("/v1/chat/completions", chat(model="tide", max_tokens=20, ignore_eos=False))
        plain = server.ok("/v1/chat/completions", chat(max_tokens=20, ignore_eos=False))
        words = expected["choices"][0]["message"]["content"]
        self.assertNotEqual(words, plain["choices"][0]["message"]["content"])
        for name in ("tide", "tide:latest"):
            whole = server.ok("/api/chat", {"model": name, "stream": False, **messages})
            self.assertEqual((whole["message"]["content"], whole["model"]), (words, "tide"))
            lines = server.lines("/api/chat", {"model": name, **messages})
            self.assertEqual("".join(line["message"]["content"] for line in lines), words)
            self.assertEqual({line["model"] for line in lines}, {"tide"})
        generated = server.ok("/api/generate", {"model": "tide", "prompt": "the tide", "stream": False,
                                                "options": messages["options"]})
        self.assertEqual((generated["response"], generated["model"]), (words, "tide"))
        self.assertEqual(server.ok("/api/generate", {"model": "tide"})["done_reason"], "load")
        self.assertEqual([m["name"] for m in server.get("/api/tags")[1]["models"]], ["llama", "tide", "bert"])
        self.assertEqual([m["name"] for m in server.get("/api/ps")[1]["models"]], ["llama", "tide", "bert"])
        self.assertEqual(server.ok("/api/show", {"model": "tide"})["details"]["parent_model"], "llama")
        self.assertEqual(server.post("/api/embed", {"model": "tide", "input": "x"})[0], 400)
        self.assertEqual(server.post("/api/chat", {"model": "ebb", **messages})[0], 404)


if __name__ == "__main__":
    unittest.main(argv=["adapters_test"])
