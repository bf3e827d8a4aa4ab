"""How each engine is run: its own measuring program for one stream and batches, its server for the rest."""
import json
import os
import pathlib
import re

from . import process
from .client import MODEL_NAME, Server
from .figures import OURS
from .process import NotOffered, PeerError

WORKER = pathlib.Path(__file__).with_name("worker.py")
SHORT = 16  # tokens of the prompts before a batch of streams
WARM = 132  # tokens that worker.py begins with


class Speeds(dict):
    """{("prompt", n), ("decode", n) or ("streams", b): (tokens/s, GB/s or None, GMAC/s or None)} and the peak of memory."""
    peak_mib = 0.0


class Peer:
    """What a scenario may ask of an engine. A peer that does not offer something raises NotOffered."""
    name = ""

    def speeds(self, prompts=(), decode=0, streams=()):
        """Tokens/s of prompts of these lengths, of `decode` tokens of one stream, and of as many of each of these numbers of streams."""
        raise NotOffered("no measuring program")

    def serve(self, streams, length_max, options=()):
        """A Server for so many streams of so many tokens at most."""
        raise NotOffered("no server")

    def contexts(self, lengths, tokens, prompts):
        """(length, seconds to the first token, tokens/s of one stream after it) for each length, as they come."""
        with self.serve(1, max(lengths) + tokens) as server:
            server.stream(prompts.ids(SHORT), 4)
            for length in lengths:
                times, _, usage = server.stream(prompts.ids(length), tokens)
                yield length, times[0], (usage.get("completion_tokens", tokens) - 1) / (times[-1] - times[0])

    def perplexity(self, text, window, windows):
        raise NotOffered("no perplexity of a text")


class Quern(Peer):
    name = OURS

    def __init__(self, binary, model, threads):
        self.binary, self.model, self.threads = binary, model, threads
        self.version = process.run([binary, "--version"])[0].strip()

    def json(self, command, *options):
        printed, _, peak = process.run([self.binary, command, self.model, "-t", self.threads, "--json", *options])
        return json.loads(printed), peak

    def speeds(self, prompts=(), decode=0, streams=()):
        batches = sorted({*streams, *([1] if decode and not streams else [])})
        answer, peak = self.json("bench", "-r", 1, "-p", listed(prompts), "-n", decode, "-b", listed(batches or [1]))
        speeds = Speeds()
        speeds.peak_mib = peak
        for result in answer["results"]:
            case = (("prompt", result["n_prompt"]) if result["n_prompt"] else ("streams", result["batch"]) if streams
                    else ("decode", result["n_gen"]))
            # A prompt reads each weight once for all its tokens, so that its GB/s says nothing; and so on for the others.
            speeds[case] = (result["avg_ts"], None if result["n_prompt"] else result["gbps"], result["gmacs"])
        return speeds

    def roofline(self):
        """Peaks of this machine on these threads, and bytes of weights for each multiply-add."""
        answer, _ = self.json("bench", "-r", 1, "-p", 0, "-n", 1, "--roofline")
        return answer["roofline"], answer["weight_bytes_per_token"] / answer["macs_per_token"]

    def serve(self, streams, length_max, options=()):
        return Server([self.binary, "serve", self.model, "--served-model-name", MODEL_NAME, "-t", self.threads, "--port", "PORT",
                       "--max-num-seqs", streams, *options])

    def perplexity(self, text, window, windows):
        return self.json("perplexity", "--file", text, "--ctx", window, "--chunks", windows)[0]["perplexity"]

    def divergence(self, text, window, windows):
        """What `fast` costs: mean KL divergence to `exact` and how often both prefer the same token."""
        answer, _ = self.json("perplexity", "--file", text, "--ctx", window, "--chunks", windows, "--kl-to", "exact")
        return answer["kl_divergence"], answer["top1_agreement"]


class Llama(Peer):
    name = "llama.cpp"

    def __init__(self, programs, model, threads):
        self.programs, self.model, self.threads = programs, model, threads
        printed, complaints, _ = process.run([programs / "llama-server", "--version"])
        self.version = process.last_words(printed + complaints)
        if pathlib.Path(model).is_dir():
            raise PeerError("reads GGUF files only")

    def program(self, name, *options):
        return process.run([self.programs / name, "-m", self.model, "-t", self.threads, *options])

    def speeds(self, prompts=(), decode=0, streams=()):
        speeds = Speeds()
        if prompts or (decode and not streams):
            printed, _, speeds.peak_mib = self.program("llama-bench", "-r", 1, "-p", listed(prompts), "-n", 0 if streams else decode, "-o", "json")
            for result in json.loads(printed):
                case = ("prompt", result["n_prompt"]) if result["n_prompt"] else ("decode", result["n_gen"])
                speeds[case] = (result["avg_ts"], None, None)
        if streams:
            printed, _, peak = self.program("llama-batched-bench", "-npp", SHORT, "-ntg", decode, "-npl", listed(streams),
                                            "-c", max(streams) * (SHORT + decode), "--output-format", "jsonl")
            speeds.peak_mib = max(speeds.peak_mib, peak)
            speeds.update(parse_batched(printed))
        return speeds

    def serve(self, streams, length_max, options=()):
        return Server([self.programs / "llama-server", "-m", self.model, "-t", self.threads, "-np", streams, "-c", streams * (length_max + SHORT),
                       "--port", "PORT"])

    def perplexity(self, text, window, windows):
        printed, complaints, _ = self.program("llama-perplexity", "-f", text, "-c", window, "--chunks", windows)
        return parse_perplexity(printed + complaints)


class Python(Peer):
    """A peer that is a Python library: worker.py runs in its environment."""
    kind = ""
    module = ""
    model = ""

    def __init__(self, interpreter, threads, length_max):
        self.interpreter, self.threads, self.length_max = interpreter, threads, length_max
        self.version = process.run([interpreter, "-c", "import importlib.metadata as m, sys\n"
                                    "name = m.packages_distributions()[sys.argv[1]][0]\nprint(name, m.version(name))", self.module])[0].strip()

    def work(self, jobs, length_max):
        if not jobs:
            return [], 0.0
        printed, _, _ = process.run([self.interpreter, WORKER, self.kind, self.model, self.threads, length_max], env=self.env, stdin=json.dumps(jobs))
        results = parse_worker(printed)
        return results["jobs"], results["peak_mib"]

    @property
    def env(self):
        return {"OMP_NUM_THREADS": str(self.threads)}

    def speeds(self, prompts=(), decode=0, streams=()):
        jobs = [("prompt", n) for n in prompts if n] + [("streams", b, decode) for b in streams or ([1] if decode else [])]
        results, peak = self.work(jobs, max([WARM, SHORT + decode, *prompts]) + SHORT)
        speeds = Speeds()
        speeds.peak_mib = peak
        for (kind, size, *_), result in zip(jobs, results):
            if result["rate"] is not None:
                speeds[(kind, size) if kind == "prompt" or streams else ("decode", decode)] = (result["rate"], None, None)
        return speeds

    def contexts(self, lengths, tokens, prompts):
        results, _ = self.work([("context", length, tokens) for length in lengths], max([WARM, *lengths]) + tokens)
        for length, result in zip(lengths, results):
            if result["rate"] is not None:
                yield length, result["first_s"], result["rate"]


class OpenVino(Python):
    name, kind, module = "openvino", "openvino", "openvino_genai"

    def __init__(self, interpreter, model, threads, length_max):
        super().__init__(interpreter, threads, length_max)
        self.model = model


class Vllm(Python):
    """Reads the same weights from a folder of safetensors, in bfloat16."""
    name = kind = module = "vllm"

    def __init__(self, interpreter, folder, threads, length_max):
        super().__init__(interpreter, threads, length_max)
        if folder is None:
            raise PeerError("reads no GGUF: --vllm-model FOLDER names the same weights in bfloat16")
        self.model = folder

    def serve(self, streams, length_max, options=()):
        return Server([self.interpreter.with_name("vllm"), "serve", self.model, "--served-model-name", MODEL_NAME,
                       "--max-model-len", min(self.length_max, length_max + SHORT), "--max-num-seqs", streams, "--port", "PORT"], env=self.env)

    @property
    def env(self):
        # All processors that we are allowed: by itself vLLM keeps some for its front end.
        processors = sorted(os.sched_getaffinity(0))[:self.threads]
        return {**super().env, "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, processors)), "VLLM_CPU_KVCACHE_SPACE": "4"}

    contexts = Peer.contexts


def listed(numbers):
    return ",".join(map(str, numbers)) or "0"


def parse_batched(printed):
    """llama-batched-bench --output-format jsonl: a line for each number of streams."""
    speeds = {}
    for line in printed.splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            speeds["streams", result["pl"]] = (result["speed_tg"], None, None)
    return speeds


def parse_perplexity(printed):
    found = re.search(r"Final estimate: PPL = ([\d.]+)", printed)
    if not found:
        raise PeerError("llama-perplexity printed no estimate")
    return float(found.group(1))


def parse_worker(printed):
    lines = [line for line in printed.splitlines() if line.startswith("RESULTS ")]
    if not lines:
        raise PeerError(f"no results: {process.last_words(printed)}")
    return json.loads(lines[-1].removeprefix("RESULTS "))
