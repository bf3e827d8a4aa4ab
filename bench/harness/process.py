"""Processes that are measured: run to the end, or kept and asked how much memory they took."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile


class PeerError(Exception):
    """A peer could not do what a scenario asks: noted under the table, never fatal."""


class NotOffered(PeerError):
    """The peer has no such thing at all."""


def environment(extra):
    """Variables for a peer; those that the caller has set win."""
    return {**(extra or {}), **os.environ}


def run(command, env=None, stdin="", timeout_s=3600):
    """Standard output, standard error and the peak of resident memory in MiB. The kernel counts the moment before exec
    too, when the child still is a copy of this small interpreter: the figure has a floor of some 30 MiB."""
    command = [str(part) for part in command]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, tempfile.TemporaryFile("w+") as source:
        source.write(stdin)
        source.seek(0)
        try:
            process = subprocess.Popen(command, stdin=source, stdout=out, stderr=err, env=environment(env), start_new_session=True)
        except OSError as error:
            raise PeerError(f"{command[0]}: {error.strerror}") from error
        status, usage = wait(process, timeout_s)
        out.seek(0)
        err.seek(0)
        printed, complaints = out.read(), err.read()
    if status != 0:
        raise PeerError(f"{pathlib.Path(command[0]).name} failed ({status}): {last_words(complaints or printed)}")
    return printed, complaints, usage.ru_maxrss / 1024


def wait(process, timeout_s):
    """Exit status and usage; at the limit the whole session of the process is ended."""
    def late(*_):
        raise TimeoutError
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(int(timeout_s))
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException as error:  # also when we are interrupted: nothing may be left that disturbs others
        os.killpg(process.pid, signal.SIGKILL)
        os.wait4(process.pid, 0)
        process.returncode = -signal.SIGKILL
        if not isinstance(error, TimeoutError):
            raise
        raise PeerError(f"{process.args[0]} took longer than {timeout_s} s") from error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def last_words(text, length=300):
    return " ".join(text.split())[-length:]


def session_memory_mib(session, field="VmHWM"):
    """Sum over all processes of a session: VmHWM is the peak of each, VmRSS what each holds now."""
    total = 0
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # After the name, which may hold spaces and brackets: state, parent, group, session.
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) != session:
                continue
            found = re.search(rf"^{field}:\s+(\d+) kB", (folder / "status").read_text(), re.M)
        except OSError:  # it has ended since
            continue
        total += int(found.group(1)) if found else 0
    return total / 1024


def end_session(process, patience_s=30):
    """Asks the process to end, then ends whatever is left of its session."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
