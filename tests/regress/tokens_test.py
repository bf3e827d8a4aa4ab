"""Faults that users of comparable servers met between texts, templates and tokens. Each class is one case of the field list."""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import GOLDEN, LLAMA, QUERN, Server, chat  # noqa: E402

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TOKENIZERS = GOLDEN / "tokenizers/files"
START = 1  # <s> of the golden llama


def quern(*arguments):
    return subprocess.run([QUERN, *map(str, arguments)], capture_output=True, timeout=60)


def lines_of(result):
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.decode().split("\n") if line]


def strings(count=500):
    """Valid UTF-8 of every kind, the same each time; some glued to special tokens."""
    dice = random.Random(2)
    pieces = [" ", "  ", "\t", "\n", "\r\n", "a", "Hello", ":", "World", "don't", "12345", "...", "é", "e\u0301", "中文", "字", "Привет", "नमस्ते",
              "עברית", "🇩🇪", "👨‍👩‍👧", "\u200b", "\ufeff", "_", "<", "|", ">", "\\", "\"", "\x7f", "\u0085", "ﬁ", "\U0001d11e"]
    special = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<unk>"]
    found = ["", " ", "\n", "Hello:World", " leading", "trailing ", "<s>Hello", "Hello<s>", "<s>", "<s> x", "x <|im_end|>\n"]
    while len(found) < count:
        chosen = [dice.choice(pieces) for _ in range(dice.randint(1, 8))]
        if dice.random() < 0.3:
            chosen.insert(dice.randint(0, len(chosen)), dice.choice(special))
        found.append("".join(chosen))
    return found


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def model(self, name, adds_start=False, **config):
        """The golden llama with other values in its tokenizer_config.json."""
        path = self.root / name
        shutil.copytree(LLAMA, path)
        file = path / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **config}))
        if adds_start:  # as Llama 3 has it
            tokenizer = json.loads((path / "tokenizer.json").read_text())
            parts = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
            tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": parts, "pair": parts + [{"Sequence": {"id": "B", "type_id": 1}}],
                                           "special_tokens": {"<s>": {"id": "<s>", "ids": [START], "tokens": ["<s>"]}}}
            (path / "tokenizer.json").write_text(json.dumps(tokenizer))
        return path


class FC02RoundTrip(Folder):
    def test_every_tokenizer_and_text(self):
        texts = strings()
        # Unigram and NFC-normalising tokenizers change texts by their own definition; these do not (but for U+2581, which is a
        # blank to SentencePiece).
        # Behind a special token Llama 2's tokenizer puts a blank by its own definition (golden/tokenizers has its ids).
        spm = TOKENIZERS / "tiny_spm_bpe.tokenizer.json"
        for source, ways in ((LLAMA, (False, True)), (spm, (False,))):
            for special in ways:
                encoded = self.cases(source, [{"kind": "encode", "text": text, "add_special_tokens": False, "parse_special": special}
                                              for text in texts])
                decoded = self.cases(source, [{"kind": "decode", "ids": answer["ids"]} for answer in encoded])
                for text, ids, answer in zip(texts, encoded, decoded, strict=True):
                    self.assertEqual(answer["decoded"]["keep_special_tokens"], text, (source.name, special, ids))

    def cases(self, source, lines):
        path = self.root / "cases"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return lines_of(quern("tokenize", source, "--cases", path))

    def test_over_http(self):
        server = Server("--store", ":memory:")
        self.addCleanup(server.stop)
        for text in strings(150):
            tokens = server.ok("/tokenize", {"model": "llama", "prompt": text})["tokens"]
            self.assertEqual(server.ok("/detokenize", {"model": "llama", "tokens": tokens})["prompt"], text)
            if tokens:
                echoed = server.ok(COMPLETIONS, {"prompt": text, "max_tokens": 1, "echo": True, "temperature": 0})
                self.assertTrue(echoed["choices"][0]["text"].startswith(text), text)
                self.assertEqual(echoed["usage"]["prompt_tokens"], len(tokens))


class FC03StartToken(Folder):
    WITHOUT = ("{%- for m in messages -%}{{ m.role }}:{{ m.content }}{{ '\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}bot:{%- endif -%}")

    def test_exactly_one(self):
        models = {"both": self.model("both", adds_start=True, chat_template="<s>" + self.WITHOUT),
                  "flag": self.model("flag", adds_start=True, chat_template=self.WITHOUT),
                  "template": self.model("template", add_bos_token=False, chat_template="<s>" + self.WITHOUT),
                  "neither": self.model("neither", add_bos_token=False, chat_template=self.WITHOUT)}
        server = Server("--store", ":memory:", models=models.values())
        self.addCleanup(server.stop)
        messages = [{"role": "user", "content": "the tide"}]
        rendered = "user:the tide\nbot:"
        for name, starts in (("both", 1), ("flag", 1), ("template", 1), ("neither", 0)):
            ids = server.ok("/tokenize", {"model": name, "messages": messages})["tokens"]
            self.assertEqual(ids.count(START), starts, name)
            self.assertEqual(ids[0] == START, starts == 1, name)
            answer = server.ok(CHAT, chat(model=name, messages=messages))
            self.assertEqual(answer["usage"]["prompt_tokens"], len(ids), name)
            # The rendered prompt passed raw, with the start token written out: not doubled, not taken away.
            for prompt, count in (("<s>" + rendered, 1), (rendered, 1 if name in ("both", "flag") else 0)):
                raw = server.ok("/tokenize", {"model": name, "prompt": prompt})["tokens"]
                self.assertEqual(raw.count(START), count, (name, prompt))
                whole = server.ok(COMPLETIONS, {"model": name, "prompt": prompt, "temperature": 0, "max_tokens": 12, "ignore_eos": True})
                self.assertEqual(whole["usage"]["prompt_tokens"], len(raw))
                if count == starts:
                    self.assertEqual(raw, ids, name)
                    self.assertEqual(whole["choices"][0]["text"], answer["choices"][0]["message"]["content"], name)
            # What a user writes is no start token, wherever it stands.
            typed = server.ok("/tokenize", {"model": name, "messages": [{"role": "user", "content": "<s>the tide<s>"}]})["tokens"]
            self.assertEqual(typed.count(START), starts, name)
            self.assertEqual(server.ok("/tokenize", {"model": name, "prompt": "", "add_special_tokens": False})["tokens"], [])


class FC06TemplateFeatures(Folder):
    FEATURES = {
        "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}": "one",
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}": "two",
        "{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}": "useroneassistanttwo",
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}": "2",
        "{% macro q(x, y='!') %}<{{ x }}{{ y }}>{% endmacro %}{{ q('a') }}{{ q('b', y='?') }}": "<a!><b?>",
        "{{ messages[0].content.strip().upper().split('N') | join('-') }}": "O-E",
        "{{ 'a,b'.split(',')[-1] }}{{ 'x y'.title() }}{{ 'abc'.startswith('ab') }}{{ ' a'.lstrip() }}{{ 'b '.rstrip() }}{{ 'aXa'.replace('X', '-') }}": "bX YTrueaba-a",
        "{{ messages[::-1][0].content }}{{ messages[1:] | length }}{{ 'abc'[1:] }}": "two1bc",
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | tojson }}": '["one"]',
        "{{ messages | rejectattr('role', 'equalto', 'user') | list | length }}": "1",
        "{{ {'b': [1, 2.5, none, true], 'a': 'ä<'} | tojson }}": '{"b": [1, 2.5, null, true], "a": "ä<"}',
        "{{ {'a': 1} | tojson(indent=2) }}": '{\n  "a": 1\n}',
        "{% if tools is defined and tools %}t{% else %}no{% endif %}{% if x is not defined %}u{% endif %}": "nou",
        "{{ messages[0].content is string }}{{ messages is iterable }}{{ 5 is number }}{{ messages[0] is mapping }}{{ none is none }}": "TrueTrueTrueTrueTrue",
        "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}": "a1b2",
        "{{ messages[0].get('name', 'nobody') }}{{ messages[0]['content'] }}": "nobodyone",
        "{{ [3, 1, 2] | sort | first }}{{ 'x' ~ 1 }}{{ 7 // 2 }}{{ 'a' in 'abc' }}{{ 1 if false else 2 }}": "1x13True2",
        "{%- set x = 'a' -%}  {{- x -}}  b": "ab",
        "{% for m in messages %}{{ loop.previtem.content if loop.previtem else '^' }}{{ loop.last }}{% endfor %}": "^FalseoneTrue",
        "{% call(x) wrap('a') %}{{ x }}{% endcall %}{% macro wrap(y) %}[{{ caller(y) }}]{% endmacro %}": None,
        "{{ strftime_now('%Y') | length }}": "4",
        "{% filter upper %}abc{% endfilter %}{% raw %}{{ x }}{% endraw %}": "ABC{{ x }}",
    }

    def test_one_feature_each(self):
        messages = self.root / "messages.json"
        messages.write_text(json.dumps([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]))
        for number, (text, expected) in enumerate(self.FEATURES.items()):
            file = self.root / f"{number}.jinja"
            file.write_text(text)
            result = quern("template", "--template-file", file, "--messages", messages)
            if expected is None:  # a macro that is called before it is made: Jinja refuses as well
                self.assertEqual(result.returncode, 2)
                continue
            self.assertEqual((result.returncode, result.stdout.decode()), (0, expected), (text, result.stderr))

    def test_the_words_of_a_template(self):
        messages = self.root / "messages.json"
        messages.write_text(json.dumps([{"role": "nobody", "content": "x"}]))
        file = self.root / "raise.jinja"
        file.write_text("{{ raise_exception('Only user and assistant roles: ' + messages[0].role) }}")
        result = quern("template", "--template-file", file, "--messages", messages)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"Only user and assistant roles: nobody", result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_a_broken_template_is_told_and_nothing_aborts(self):
        for text in ("{% if %}", "{{ messages[0 }}", "{% for m in messages %}", "{% unknown_tag %}"):
            server = Server("--store", ":memory:", models=(self.model(f"m{abs(hash(text))}", chat_template=text),))
            told = [line for line in server.log if "chat template" in line]
            self.assertEqual(len(told), 1, server.log)
            status, answer = server.post(CHAT, {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})
            self.assertEqual(status, 400)
            self.assertEqual(answer["error"]["message"].count("\n"), 0)
            self.assertEqual(server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1})[0], 200)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if not a.endswith("quern")])
