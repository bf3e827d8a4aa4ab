"""deploy/: files that hold together, metrics that exist, and what the tools of each format say where they are installed
(promtool, helm or QUERN_HELM, systemd-analyze, docker compose)."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from quern_server import BERT, QUERN, Server, chat  # noqa: E402

DEPLOY = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy"
CHART = DEPLOY / "helm/quern"
HELM = os.environ.get("QUERN_HELM") or shutil.which("helm")
# Of PromQL (https://prometheus.io/docs/prometheus/latest/querying/), as far as it is used here.
WORDS = {"sum", "rate", "by", "histogram_quantile", "min_over_time", "changes", "time", "and", "label_values", "or", "on", "ignoring"}
OF_PROMETHEUS = {"up"}  # made by the scrape itself


def series_of(expression):
    """Names of series in an expression: what is left without strings, labels, groupings, ranges, numbers and functions."""
    text = re.sub(r'"[^"]*"', '""', expression)
    text = re.sub(r"\{[^}]*\}", "", text)
    text = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", text)
    text = re.sub(r"\[[^\]]*\]", "", text)
    return {name for name in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", text) if name not in WORDS}


def rules():
    """(kind, name, expression) of the rules' file, whose every rule has its expression on one line."""
    found, kind, name = [], None, None
    for line in (DEPLOY / "prometheus/quern.rules.yaml").read_text().splitlines():
        match = re.match(r"\s*- (record|alert): (\S+)$", line)
        if match:
            kind, name = match.groups()
        match = re.match(r"\s*expr: (.+)$", line)
        if match:
            found.append((kind, name, match.group(1)))
    return found


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = Server("--store", ":memory:", models=(pathlib.Path(BERT).parent / "llama", BERT))
        server.ok("/v1/chat/completions", chat(max_tokens=2))
        server.ok("/v1/embeddings", {"model": "bert", "input": "grain"})
        cls.series = {name.split("{")[0] for name in server.metrics()}
        cls.lines = list(server.metrics())
        assert server.stop() == 0

    def check(self, expression, known, place):
        names = series_of(expression)
        self.assertTrue(names, f"{place}: no series in {expression}")
        self.assertEqual(names - self.series - OF_PROMETHEUS - known, set(), f"{place}: {expression}")

    def test_series_are_found_in_an_expression(self):
        self.assertEqual(series_of('sum by (a, le) (rate(vllm:x_bucket{a="b",c=~"$d"}[5m])) / (up > 0) > 0.02'),
                         {"vllm:x_bucket", "up"})

    def test_every_rule_names_series_that_exist(self):
        found = rules()
        recorded = {name for kind, name, _ in found if kind == "record"}
        self.assertGreaterEqual(len(found), 13)
        self.assertEqual(len(found), (DEPLOY / "prometheus/quern.rules.yaml").read_text().count("expr:"))
        for _, name, expression in found:
            self.check(expression, recorded, name)

    def test_every_panel_names_series_that_exist(self):
        dashboard = json.loads((DEPLOY / "grafana/quern.json").read_text())
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 15)
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
        for panel in panels:
            for target in panel["targets"]:
                self.check(target["expr"], set(), panel["title"])
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                names = set(re.findall(r"(?:vllm:|process_)[a-z_]+", variable["query"]))
                self.assertTrue(names)
                self.assertEqual(names - self.series, set(), variable["name"])

    def test_labels_are_those_that_the_server_writes(self):
        text = "\n".join(self.lines)
        for label in ("model_name", "finished_reason", "le", "handler", "status"):
            self.assertIn(f'{label}="', text)
        for use in re.findall(r'(status|finished_reason)="(\w+)"', "\n".join(rule for _, _, rule in rules())):
            self.assertIn(use, {("status", "5xx"), ("finished_reason", "error")})

    def test_promtool(self):
        promtool = shutil.which("promtool")
        if not promtool:
            self.skipTest("promtool is not installed")
        done = run(promtool, "check", "rules", DEPLOY / "prometheus/quern.rules.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class SystemdTest(unittest.TestCase):
    unit = (DEPLOY / "systemd/quern.service").read_text()

    def test_restart_leaves_workers_and_drains(self):
        for line in ("KillMode=process", "OOMPolicy=continue", "NoNewPrivileges=yes", "ProtectSystem=strict", "Restart=always",
                     "MemoryMax=90%", "User=quern"):
            self.assertIn(f"\n{line}\n", self.unit)
        # Workers that outlive the service would run under a user that is given back.
        self.assertNotIn("DynamicUser=yes", self.unit)
        drain = int(re.search(r"--drain-timeout\D+(\d+)", run(QUERN, "serve", "--help").stdout.replace("\n", " ")).group(1))
        self.assertGreater(int(re.search(r"TimeoutStopSec=(\d+)", self.unit).group(1)), drain)

    def test_systemd_analyze(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "quern.service"
            # The user and the program of this machine, so that only what the file says is judged.
            unit.write_text(self.unit.replace("/usr/local/bin/quern", QUERN).replace("User=quern", "User=daemon")
                            .replace("Group=quern\n", ""))
            done = run("systemd-analyze", "verify", "--man=no", unit)
            self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if str(unit) in line]), (0, []),
                             done.stderr)
            done = run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)


class ComposeTest(unittest.TestCase):
    text = (DEPLOY / "compose/docker-compose.yaml").read_text()

    def test_files_that_it_names_are_there(self):
        for path in re.findall(r"- (\.\.?/[^:\s]+):", self.text):
            self.assertTrue((DEPLOY / "compose" / path).exists(), path)
        self.assertTrue((DEPLOY.parent / "Dockerfile").exists())

    def test_its_health_check_tells_a_server_from_none(self):
        if not shutil.which("bash"):
            self.skipTest("bash is not installed")
        command = json.loads(re.search(r"test: (\[.+\])", self.text).group(1))
        self.assertEqual(command[:2], ["CMD", "bash"])
        server = Server("--store", ":memory:")
        script = command[3].replace("127.0.0.1/9997", f"127.0.0.1/{server.port}")
        self.assertEqual(run("bash", "-c", script).returncode, 0)
        self.assertEqual(server.stop(), 0)
        self.assertNotEqual(run("bash", "-c", script).returncode, 0)

    def test_compose_reads_it(self):
        if not shutil.which("docker") or run("docker", "compose", "version").returncode != 0:
            self.skipTest("docker compose is not installed")
        done = run("docker", "compose", "-f", DEPLOY / "compose/docker-compose.yaml", "config", "-q",
                   env={**os.environ, "QUERN_API_KEY": "x"})
        self.assertEqual(done.returncode, 0, done.stderr)


class HelmTest(unittest.TestCase):
    def test_templates_use_only_values_that_exist(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        used = set()
        for template in CHART.glob("templates/*"):
            used |= set(re.findall(r"\.Values\.([A-Za-z.]+)", template.read_text()))
        self.assertGreater(len(used), 20)
        for path in used:
            node = schema
            for part in path.split("."):
                self.assertIn(part, node.get("properties", {}), path)
                node = node["properties"][part]

    def test_values_and_schema_name_the_same(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        values = re.findall(r"^([A-Za-z]+):", (CHART / "values.yaml").read_text(), re.MULTILINE)
        self.assertEqual(set(values), set(schema["properties"]) - {"global"})

    def test_braces_of_templates_close(self):
        for template in CHART.glob("templates/*"):
            text = template.read_text()
            self.assertEqual(text.count("{{"), text.count("}}"), template.name)
            opened = len(re.findall(r"\{\{-?\s*(?:if|range|with|define)\b", text))
            self.assertEqual(opened, len(re.findall(r"\{\{-?\s*end\b", text)), template.name)

    def template(self, *settings):
        if not HELM:
            self.skipTest("helm is not installed")
        # A helm that was built without its release's flags takes an old Kubernetes for granted.
        return run(HELM, "template", "--kube-version", "1.29.0", "demo", CHART, *settings)

    def test_helm_lint(self):
        if not HELM:
            self.skipTest("helm is not installed")
        done = run(HELM, "lint", "--strict", CHART, "--set", "auth.apiKey=x")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_helm_renders_every_part(self):
        done = self.template("--set", "auth.apiKey=secret,ingress.enabled=true,ingress.host=a.example,serviceMonitor.enabled=true,"
                                      "ingress.tlsSecret=tls,config.serve.max_num_seqs=8,persistence.storageClass=fast")
        self.assertEqual(done.returncode, 0, done.stderr)
        kinds = re.findall(r"^kind: (\w+)", done.stdout, re.MULTILINE)
        self.assertEqual(sorted(kinds), ["ConfigMap", "Deployment", "Ingress", "PersistentVolumeClaim", "Secret", "Service",
                                         "ServiceAccount", "ServiceMonitor"])
        for words in ("path: /health", "path: /ready", "readOnlyRootFilesystem: true", "max_num_seqs: 8", "name: QUERN_API_KEY",
                      "storageClassName: fast"):
            self.assertIn(words, done.stdout)
        try:
            import yaml
        except ImportError:
            return
        documents = [document for document in yaml.safe_load_all(done.stdout) if document]
        deployment = next(document for document in documents if document["kind"] == "Deployment")
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        self.assertEqual(arguments, ["serve", "smollm2", "--host", "0.0.0.0", "--port", "9997", "--config", "/etc/quern/quern.yaml"])

    def test_helm_smallest(self):
        done = self.template("--set", "auth.disabled=true,persistence.enabled=false,serviceAccount.create=false")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.findall(r"^kind: (\w+)", done.stdout, re.MULTILINE)), ["Deployment", "Service"])
        self.assertNotIn("QUERN_API_KEY", done.stdout)

    def test_helm_refuses(self):
        self.assertIn("auth.disabled=true", self.template().stderr)
        for setting in ("auth.apikey=x", "service.port=0", "image.pullPolicy=Sometimes", "persistence.size=lots"):
            done = self.template("--set", "auth.disabled=true", "--set", setting)
            self.assertNotEqual(done.returncode, 0, setting)
            self.assertIn("schema", done.stderr, setting)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
