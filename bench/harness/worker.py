"""Runs in a peer's own environment: worker.py vllm|openvino MODEL THREADS LENGTH_MAX, jobs as JSON on standard input.

A job is ["prompt", n]: a prompt of n tokens; ["streams", b, n]: b prompts of 16 tokens, n tokens each; or ["context", n, m]:
m tokens after a prompt of n. Prints one line: RESULTS and, as JSON, what each job took and the peak of memory
of all processes.
"""
import json
import os
import pathlib
import random
import sys
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)  # not this folder, whose names could hide a library's
from harness.process import session_memory_mib  # noqa: E402

SHORT = 16


class OpenVino:
    def __init__(self, model, threads, length_max):
        import openvino_genai as genai
        import numpy
        import openvino
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = 4  # GiB
        scheduler.max_num_seqs = 64
        # What LLMPipeline takes on a CPU by itself, and it accepts a batch of prompts given as ids.
        self.pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
        self.tensor = lambda ids: openvino.Tensor(numpy.array([ids], dtype=numpy.int64))
        self.config = lambda tokens: genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True, do_sample=False)

    def generate(self, prompts, tokens):
        answers = self.pipeline.generate([self.tensor(ids) for ids in prompts], [self.config(tokens)] * len(prompts))
        return sum(len(answer.m_generation_ids[0]) for answer in answers)


class Vllm:
    def __init__(self, model, threads, length_max):
        import torch
        import vllm
        torch.set_num_threads(threads)
        self.engine = vllm.LLM(model=model, max_model_len=length_max, max_num_seqs=64, enable_prefix_caching=False, disable_log_stats=True)
        self.parameters = lambda tokens: vllm.SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0)

    def generate(self, prompts, tokens):
        answers = self.engine.generate([{"prompt_token_ids": ids} for ids in prompts], self.parameters(tokens), use_tqdm=False)
        return sum(len(answer.outputs[0].token_ids) for answer in answers)


class Meter:
    """Times of generate(); every prompt is new, so that no cache of prefixes helps."""

    def __init__(self, engine):
        self.engine = engine
        self.draw = random.Random(1)

    def seconds(self, streams, length, tokens):
        prompts = [[self.draw.randrange(1000, 10_000) for _ in range(length)] for _ in range(streams)]
        begin = time.perf_counter()
        made = self.engine.generate(prompts, tokens)
        if made != streams * tokens:
            raise RuntimeError(f"asked for {streams * tokens} tokens, got {made}")
        return time.perf_counter() - begin

    def run(self, job):
        kind, size, *more = job
        if kind == "prompt":
            self.seconds(1, size, 1)
            return {"rate": size / self.seconds(1, size, 1)}
        if kind == "streams":
            self.seconds(size, SHORT, 2)
            return {"rate": self.decode(size, SHORT, more[0])[1]}
        first, rate = self.decode(1, size, more[0])
        return {"first_s": first, "rate": rate}

    def decode(self, streams, length, tokens):
        """Seconds to the first token, and tokens/s after it: None where the noise is larger than the difference."""
        first = self.seconds(streams, length, 1)
        rest = self.seconds(streams, length, tokens) - first
        return first, streams * (tokens - 1) / rest if rest > 0 else None


def main():
    kind, model, threads, length_max = sys.argv[1:]
    meter = Meter({"openvino": OpenVino, "vllm": Vllm}[kind](model, int(threads), int(length_max)))
    meter.seconds(1, 128, 4)  # memory is touched, threads have started
    results = [meter.run(job) for job in json.load(sys.stdin)]
    print("\nRESULTS " + json.dumps({"jobs": results, "peak_mib": session_memory_mib(os.getsid(0))}), flush=True)


if __name__ == "__main__":
    main()
