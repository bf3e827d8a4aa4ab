"""data/catalog/*.json against its schema, and what a schema cannot say. Skipped (77) without python3-jsonschema."""
import json
import pathlib
import re
import sys
import unittest

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "data" / "catalog"
SCHEMA = json.loads((FOLDER / "schema.json").read_text())
FILES = {path.stem: json.loads(path.read_text())["models"] for path in sorted(FOLDER.glob("*.json")) if path.stem != "schema"}
MODELS = [model for models in FILES.values() for model in models]
KINDS = {"chat": {"chat", "completion"}, "code": {"code"}, "vision": {"vision"}, "embedding": {"embedding"}, "rerank": {"rerank"},
         "speech_to_text": {"transcription", "voice-activity"}, "text_to_speech": {"speech"}, "image": {"image"}}


def names(model):
    return [model["name"], *model.get("aliases", [])]


def tags_of(variant):
    if "tag" in variant:
        return [variant["tag"]]
    own_format = [] if variant["format"] in ("gguf", "safetensors") else [variant["format"]]
    parts = [*filter(None, [variant.get("size")]), *own_format, *filter(None, [variant.get("scheme")])]
    quantizations = variant.get("quantizations") or [variant.get("quantization", "")]
    return ["-".join([*parts, *filter(None, [quantization])]) or "default" for quantization in quantizations]


class Schema(unittest.TestCase):
    validator = jsonschema.Draft202012Validator(SCHEMA)

    def refuses(self, change):
        model = json.loads(json.dumps(FILES["chat"][0]))
        self.assertTrue(self.validator.is_valid({"models": [model]}))
        change(model)
        return not self.validator.is_valid({"models": [model]})

    def test_the_schema_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_the_files_fit(self):
        for stem, models in FILES.items():
            errors = [f"{stem}: {error.json_path}: {error.message}" for error in self.validator.iter_errors({"models": models})]
            self.assertEqual(errors[:20], [])

    def test_it_refuses(self):
        self.assertTrue(self.refuses(lambda m: m.update(kind="video")))
        self.assertTrue(self.refuses(lambda m: m.update(name="../x")))
        self.assertTrue(self.refuses(lambda m: m.update(extra=1)))
        self.assertTrue(self.refuses(lambda m: m["variants"][0].update(sources=[])))
        self.assertTrue(self.refuses(lambda m: m["variants"][0].update(sources=[{"hf": "a/b", "modelscope": "a/b"}])))
        self.assertTrue(self.refuses(lambda m: m["variants"][0].update(sources=[{"hf": "a/b", "revision": "main"}])))
        self.assertTrue(self.refuses(lambda m: m["variants"][0].update(sources=[{"hf": "a/b", "file": "../x.gguf"}])))


class Content(unittest.TestCase):
    def test_there_are_enough(self):
        self.assertGreaterEqual(len(MODELS), 150)
        for stem in KINDS:
            self.assertGreaterEqual(len(FILES[stem]), 10, stem)

    def test_every_file_holds_its_kinds(self):
        self.assertEqual(set(FILES), set(KINDS))
        for stem, models in FILES.items():
            self.assertLessEqual({model["kind"] for model in models}, KINDS[stem], stem)

    def test_no_name_twice(self):
        seen = {}
        for model in MODELS:
            for name in names(model):
                self.assertNotIn(name.lower(), seen, f"{name}: also of {seen.get(name.lower())}")
                seen[name.lower()] = model["name"]

    def test_sizes_and_variants_fit_together(self):
        for model in MODELS:
            sizes = model.get("sizes", {})
            used = {variant["size"] for variant in model["variants"] if "size" in variant}
            self.assertEqual(used - set(sizes), set(), model["name"])
            self.assertEqual(set(sizes) - used, set(), model["name"])
            for name, size in sizes.items():
                self.assertLessEqual(size.get("active_b", 0), size["parameters_b"], f"{model['name']} {name}")
                nominal = re.fullmatch(r"(\d+(?:\.\d+)?)([bm])", name)
                if nominal:  # a name rounds, or leaves out the embeddings
                    billions = float(nominal[1]) / (1000 if nominal[2] == "m" else 1)
                    self.assertLess(abs(size["parameters_b"] - billions), 0.7 * billions + 0.05, f"{model['name']} {name}")

    def test_quantisations_reach_the_source(self):
        for model in MODELS:
            for variant in model["variants"]:
                if "quantizations" not in variant:
                    self.assertNotIn("{quantization}", json.dumps(variant), model["name"])
                elif len(variant["quantizations"]) > 1:
                    for source in variant["sources"]:
                        self.assertIn("{quantization}", json.dumps(source), model["name"])

    def test_no_tag_twice(self):
        for model in MODELS:
            tags = [tag.lower() for variant in model["variants"] for tag in tags_of(variant)]
            self.assertEqual(len(tags), len(set(tags)), f"{model['name']}: {sorted(tags)}")

    def test_abilities_fit_the_kind(self):
        needed = {"chat": "chat", "completion": "completion", "embedding": "embed", "rerank": "rerank", "transcription": "transcribe",
                  "speech": "speak"}
        for model in MODELS:
            if model["kind"] in needed:
                self.assertIn(needed[model["kind"]], model["abilities"], model["name"])
            if "tool_format" in model:
                self.assertIn("tools", model["abilities"], model["name"])


if __name__ == "__main__":
    unittest.main()
