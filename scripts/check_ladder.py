#!/usr/bin/env python3
"""Checks that includes go down the ladder only (docs/architecture.md): a room may include itself and the rooms below it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BELOW = {
    "base": set(),
    "hardware": {"base"},
    "tensor": {"base"},
    "quant": {"base", "tensor"},
    "kernels": {"base", "hardware", "tensor", "quant"},
    "formats": {"base", "tensor"},
    "text": {"base", "tensor", "formats"},
    "media": {"base", "tensor"},
    "kv": {"base", "hardware", "tensor", "kernels"},
    "sched": {"base"},
    "sample": {"base"},
    "models": {"base", "hardware", "tensor", "quant", "kernels", "formats"},
}
BELOW["engine"] = set(BELOW) - {"media"}
BELOW["platform"] = {"base", "hardware", "formats", "text", "engine"}
BELOW["server"] = {"base", "hardware", "text", "engine", "platform"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def offences():
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".h", ".cc", ".inc"}:
            continue
        room = path.relative_to(ROOT / "src").parts[0]
        if room not in BELOW:
            yield f"{path.relative_to(ROOT)}: room {room} is not on the ladder (scripts/check_ladder.py)"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1).split("/")[0]
            if target in BELOW and target != room and target not in BELOW[room]:
                # Tests may look at a room beside theirs to read golden files.
                if path.name.endswith("_test.cc") and target in {"formats", "base"}:
                    continue
                yield f"{path.relative_to(ROOT)}:{number}: {room} must not include {match.group(1)}"


def main():
    found = list(offences())
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
