"""A process that spins on one of our processors. With one of two taken, half of the idle speed is what fairness leaves;
engines whose threads spin at barriers fall far below."""
import os
import subprocess
import sys

from ..figures import Sample


def measure(bench, peer):
    alone = peer.speeds([bench.prompt], bench.generate)
    neighbour = busy_process()
    try:
        beside = peer.speeds([bench.prompt], bench.generate)
    finally:
        neighbour.kill()
        neighbour.wait()
    for (kind, size), (rate, *_) in beside.items():
        yield Sample(f"{kind} {size} beside it", "tok/s", rate)
        yield Sample(f"{kind} {size}, share of alone", "%", 100 * rate / alone[kind, size][0])


def busy_process():
    processor = min(os.sched_getaffinity(0))
    return subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"])
