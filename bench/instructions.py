#!/usr/bin/env python3
"""Instructions of a fixed tiny run, counted by callgrind: a regression of speed that a noisy machine cannot hide.

    python3 bench/instructions.py [--quern PATH] [--compiler "NAME VERSION"] [--update]

Exit 1 when a count is further than 3 % from that in instructions.json, above or below (then --update, and say why in the
commit); 77 when valgrind is absent, or the counts are of another compiler or instruction set. Valgrind has no AVX-512, so
that the AVX2 bodies run. Counts are of release builds.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "tests" / "golden" / "models"
BOUND = 0.03
SKIPPED = 77
RUNS = {
    "llama, prompt of 480, fast": ("llama", "-p", "480", "-n", "0"),
    "llama, 480 tokens, fast": ("llama", "-p", "0", "-n", "480"),
    "llama, 4 streams of 120 tokens, exact": ("llama", "-p", "0", "-n", "120", "-b", "4", "--precision", "exact"),
}


def count(quern, model, *options):
    """Instructions and the device's line of one run on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", quern, "bench", MODELS / model, "-t", "1", "-r", "1", "--json", *options]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"instructions.py: the run failed ({done.returncode}): {done.stderr.strip()[-500:]}")
    return collected(done.stderr), json.loads(done.stdout)["device"]


def collected(printed):
    found = re.search(r"Collected : (\d+)", printed)
    if not found:
        sys.exit("instructions.py: callgrind printed no count")
    return int(found.group(1))


def compare(counts, expected):
    """A line for each run, and whether all are within the bound."""
    lines, good = [], True
    for name, value in counts.items():
        before = expected.get(name)
        change = None if before is None else value / before - 1
        within = change is not None and abs(change) <= BOUND
        good = good and within
        told = "no count to compare with" if change is None else f"{100 * change:+.2f} % of {before:,}"
        lines.append(f"{name}: {value:,} instructions, {told}{'' if within else ': FAILED'}")
    return lines, good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", type=pathlib.Path, default=HERE.parent / "build" / "release" / "quern", metavar="PATH")
    parser.add_argument("--compiler", metavar="'NAME VERSION'", help="what built it, as CMake says it; needed for --update")
    parser.add_argument("--update", action="store_true", help="write instructions.json anew")
    args = parser.parse_args()
    if args.update and not args.compiler:
        parser.error("--update needs --compiler")
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        return SKIPPED
    file = HERE / "instructions.json"
    expected = json.loads(file.read_text()) if file.exists() else {}
    if not args.update and args.compiler not in (None, expected["compiler"]):
        print(f"skipped: counts are of {expected['compiler']}, this was built by {args.compiler}")
        return SKIPPED
    counts = {}
    for name, options in RUNS.items():
        counts[name], device = count(args.quern, *options)
        if not args.update and device != expected["device"]:
            print(f"skipped: the count is of {expected['device']}, this machine ran {device}")
            return SKIPPED
    if args.update:
        file.write_text(json.dumps({"device": device, "compiler": args.compiler, "counts": counts}, indent=1) + "\n")
        return 0
    lines, good = compare(counts, expected["counts"])
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
