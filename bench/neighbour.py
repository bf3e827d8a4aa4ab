#!/usr/bin/env python3
"""What a busy neighbour costs: quern's speed alone, then with a process that spins on one of its processors.

    bench/neighbour.py --quern build/release/quern [-t 2] [-p 512] [-n 64] [--rounds 3] MODEL.gguf

With one of two processors taken, half of the idle figure is what fairness leaves; engines whose threads spin at
barriers fall far below.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys


def bench(args):
    command = [args.quern, "bench", args.model, "-p", args.p, "-n", args.n, "-t", args.t, "-r", 1, "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"neighbour.py: {done.stderr.strip()}")
    return {"prompt" if r["n_prompt"] else "decode": r["avg_ts"] for r in json.loads(done.stdout)["results"]}


def busy_process():
    processor = min(os.sched_getaffinity(0))
    return subprocess.Popen([sys.executable, "-c", "while True: pass"],
                            preexec_fn=lambda: os.sched_setaffinity(0, {processor}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL.gguf")
    parser.add_argument("--quern", type=pathlib.Path, default="build/release/quern")
    parser.add_argument("-t", type=int, default=2, metavar="THREADS")
    parser.add_argument("-p", type=int, default=512, metavar="PROMPT")
    parser.add_argument("-n", type=int, default=64, metavar="GENERATE")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    alone, beside = [], []
    for _ in range(args.rounds):
        alone.append(bench(args))
        neighbour = busy_process()
        try:
            beside.append(bench(args))
        finally:
            neighbour.kill()
            neighbour.wait()
    print("| case | alone tok/s | with a neighbour | share |\n| --- | ---: | ---: | ---: |")
    for case in alone[0]:
        idle = statistics.median(figures[case] for figures in alone)
        busy = statistics.median(figures[case] for figures in beside)
        print(f"| {case} | {idle:.1f} | {busy:.1f} | {busy / idle:.0%} |")


if __name__ == "__main__":
    main()
