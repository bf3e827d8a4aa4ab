#!/usr/bin/env python3
"""Seconds from process start to the first byte of an answer, and the memory that the process holds then.

    bench/first_token.py --quern build/release/quern [-t 2] [--rounds 10] MODEL.gguf

The first round only brings the file into the page cache and is not counted.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import time


def one_start(args):
    begin = time.perf_counter()
    process = subprocess.Popen([args.quern, "run", args.model, "Hi", "-t", str(args.t)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.read(1)
    seconds = time.perf_counter() - begin
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    process.kill()
    process.wait()
    memory = {name: int(kib) / 1024 for name, kib in re.findall(r"(VmRSS|RssAnon|RssFile):\s+(\d+) kB", status)}
    return seconds, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL.gguf")
    parser.add_argument("--quern", type=pathlib.Path, default="build/release/quern")
    parser.add_argument("-t", type=int, default=2, metavar="THREADS")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()

    one_start(args)
    starts = [one_start(args) for _ in range(args.rounds)]
    seconds = [start[0] for start in starts]
    print(f"first token after {statistics.median(seconds):.3f} s (median of {args.rounds}; "
          f"{min(seconds):.3f} to {max(seconds):.3f})")
    memory = starts[-1][1]
    print(f"resident {memory['VmRSS']:.0f} MiB ({memory['RssAnon']:.0f} of its own, {memory['RssFile']:.0f} of files); "
          f"the file has {args.model.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
