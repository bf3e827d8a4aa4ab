#!/usr/bin/env python3
"""House rules a formatter cannot see: file and function length, leftovers, and words that must not be in the project."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES_MAX = 600       # aim at 200; past this a file must be split by meaning
FUNCTION_MAX = 110    # aim at 70
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
PLACES = re.compile(r"/(work|opt|root|home/\w+)/|deb\.debian\.org/|registry\.npmjs\.org/\S|files\.pythonhosted")


def tracked(*patterns):
    listing = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listing.stdout.splitlines() if "golden" not in line]


def function_lengths(text):
    """Top-level braces of clang-formatted code: a body opens on a line that ends in '{' and closes with '}' in column 0."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and line and not line[0].isspace() and line.endswith("{") and "(" in line:
            start = number
        elif start is None and line.startswith("    ") and line.endswith("{") and "(" in line and ")" in line:
            pass
        elif start is not None and line.startswith("}"):
            yield start, number - start
            start = None


def main():
    problems = []
    for path in tracked("*.cc", "*.h", "*.rs", "*.py"):
        name = path.relative_to(ROOT)
        text = path.read_text()
        lines = text.count("\n")
        if lines > LINES_MAX:
            problems.append(f"{name}: {lines} lines, split it by meaning (limit {LINES_MAX})")
        if path.suffix == ".cc" and not path.name.endswith("_test.cc"):
            problems += [f"{name}:{at}: a function of {length} lines (limit {FUNCTION_MAX})"
                         for at, length in function_lengths(text) if length > FUNCTION_MAX]
        if path != pathlib.Path(__file__).resolve():
            for number, line in enumerate(text.splitlines(), 1):
                if LEFTOVER.search(line):
                    problems.append(f"{name}:{number}: leftover: {line.strip()}")
                if PLACES.search(line):
                    problems.append(f"{name}:{number}: names a place outside the project: {line.strip()}")
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
