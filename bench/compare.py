#!/usr/bin/env python3
"""Speed of quern beside llama.cpp: the same files and threads, turn by turn in one run, one table.

    bench/compare.py --quern build/release/quern --llama LLAMA_BIN_DIR [-t 2] [-p 512] [-n 128] [--streams 8,32] \
                     [--rounds 3] [--json OUT.json] [--markdown OUT.md] MODEL.gguf…

LLAMA_BIN_DIR holds llama-bench and, for --streams, llama-batched-bench. Each round runs every model with both engines,
one after the other, so that a change of the machine's mood meets both; a figure is the median of the rounds. GB/s is
weights read per token times tokens per second of decode, GMAC/s the multiply-adds of a prompt; the machine's own peaks
stand under the table.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare.py: {command[0]} failed ({done.returncode}): {done.stderr.strip()[-500:]}")
    return done.stdout


def quern(args, model):
    """{case: (tokens/s, GB/s, GMAC/s)}; a case is ("prompt", n), ("decode", n) or ("streams", n)."""
    command = [args.quern, "bench", model, "-p", args.p, "-n", args.n, "-t", args.t, "-r", 1, "--json",
               "-b", ",".join(map(str, [1, *args.streams]))]
    figures = {}
    for result in json.loads(run(command))["results"]:
        if result["n_prompt"]:
            case = ("prompt", result["n_prompt"])
        elif result["batch"] == 1:
            case = ("decode", result["n_gen"])
        else:
            case = ("streams", result["batch"])
        figures[case] = (result["avg_ts"], result["gbps"], result["gmacs"])
    return figures


def llama(args, model):
    """The same cases, tokens/s only."""
    command = [args.llama / "llama-bench", "-m", model, "-p", args.p, "-n", args.n, "-t", args.t, "-r", 1, "-o", "json"]
    figures = {}
    for result in json.loads(run(command)):
        case = ("prompt", result["n_prompt"]) if result["n_prompt"] else ("decode", result["n_gen"])
        figures[case] = result["avg_ts"]
    if args.streams:
        n_prompt = 16
        command = [args.llama / "llama-batched-bench", "-m", model, "-t", args.t, "-npp", n_prompt, "-ntg", args.n,
                   "-npl", ",".join(map(str, args.streams)), "-c", max(args.streams) * (n_prompt + args.n)]
        # | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | …
        for line in run(command).splitlines():
            if re.match(r"\|\s*\d", line):
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                figures["streams", int(cells[2])] = float(cells[7])
    return figures


def measure(args):
    ours, theirs = {}, {}
    for turn in range(args.rounds):
        for model in args.models:
            for case, figure in quern(args, model).items():
                ours.setdefault((model, case), []).append(figure)
            for case, figure in llama(args, model).items():
                theirs.setdefault((model, case), []).append(figure)
        print(f"round {turn + 1} of {args.rounds} done", file=sys.stderr)
    rows = []
    for (model, case), figures in ours.items():
        speed, gbytes, gmacs = (statistics.median(values) for values in zip(*figures))
        peer = statistics.median(theirs[model, case])
        rows.append({"model": model.name, "case": f"{case[0]} {case[1]}", "quern": speed, "llama.cpp": peer,
                     "ratio": speed / peer, "gbps": gbytes, "gmacs": gmacs})
    return rows


def peaks(args):
    command = [args.quern, "bench", args.models[0], "-p", 0, "-n", 1, "-t", args.t, "-r", 1, "--roofline", "--json"]
    return json.loads(run(command))["roofline"]


def markdown(rows, roofline):
    lines = ["| file | case | quern tok/s | llama.cpp tok/s | ratio | GB/s | GMAC/s |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        lines.append(f"| {row['model']} | {row['case']} | {row['quern']:.1f} | {row['llama.cpp']:.1f} | "
                     f"{row['ratio']:.2f} | {row['gbps']:.1f} | {row['gmacs']:.0f} |")
    lines += ["", "Peaks in the same run: " + ", ".join(f"{name} {value:.0f}" for name, value in roofline.items()) + "."]
    return "\n".join(lines) + "\n"


def numbers(text):
    return [int(number) for number in text.split(",") if number]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL.gguf")
    parser.add_argument("--quern", type=pathlib.Path, default="build/release/quern")
    parser.add_argument("--llama", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("-t", type=int, default=2, metavar="THREADS")
    parser.add_argument("-p", type=int, default=512, metavar="PROMPT")
    parser.add_argument("-n", type=int, default=128, metavar="GENERATE")
    parser.add_argument("--streams", type=numbers, default=[], metavar="N,N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    args = parser.parse_args()

    rows = measure(args)
    roofline = peaks(args)
    text = markdown(rows, roofline)
    print(text, end="")
    if args.json:
        args.json.write_text(json.dumps({"threads": args.t, "rounds": args.rounds, "results": rows,
                                         "roofline": roofline}, indent=1) + "\n")
    if args.markdown:
        args.markdown.write_text(text)


if __name__ == "__main__":
    main()
