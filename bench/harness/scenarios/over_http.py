"""What the server costs: the same work over HTTP and by the engine alone (`quern generate --jsonl`)."""
import json
import subprocess
import time

from .. import prompts
from ..figures import LESS, Sample

OURS_ALONE = True
STREAMS, TOKENS = 32, 128


def measure(bench, peer):
    texts = prompts.texts(4 * STREAMS, 100, seed=bench.seed + bench.turn)
    alone = engine_alone(peer, texts)
    with peer.serve(STREAMS, 512) as server:
        server.crowd(texts[:1], 1)
        seconds, tokens = server.crowd(texts, TOKENS)
    yield Sample(f"{STREAMS} streams by the engine alone", "tok/s", alone)
    yield Sample(f"{STREAMS} streams over HTTP", "tok/s", tokens / seconds)
    yield Sample("the server takes", "%", 100 - 100 * tokens / seconds / alone, LESS)


def engine_alone(peer, texts):
    command = [peer.binary, "generate", peer.model, "-t", peer.threads, "--jsonl", "--json", "--max-num-seqs", STREAMS]
    with subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        def ask(prompts, tokens):
            process.stdin.write("".join(json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}) + "\n" for prompt in prompts))
            process.stdin.flush()
            return sum(len(json.loads(process.stdout.readline())["ids"]) for _ in prompts)
        try:
            ask(["Hi"], 1)
            begin = time.perf_counter()
            tokens = ask(texts, TOKENS)
            return tokens / (time.perf_counter() - begin)
        finally:
            process.kill()
