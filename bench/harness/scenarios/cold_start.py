"""Start of a server to the end of its first token, with the model's file out of the page cache and in it, and memory then."""
import os
import pathlib

from ..figures import LESS, Sample


def measure(bench, peer):
    for case in ("file on disk", "file cached"):
        if case == "file on disk":
            leave_page_cache(pathlib.Path(peer.model))
        with peer.serve(1, 512) as server:
            seconds = server.start_s + server.stream(bench.prompts.ids(16), 1)[0][0]
            memory = server.memory_mib("VmRSS")
        yield Sample(f"start to first token, {case}", "s", seconds, LESS)
    yield Sample("resident after the first token", "MiB", memory, LESS)


def leave_page_cache(model):
    """Takes the files out of the page cache, as far as no process maps them."""
    for path in [model] if model.is_file() else [path for path in model.rglob("*") if path.is_file()]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
