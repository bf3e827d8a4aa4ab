"""A server with a fleet for tests: models are launched into processes of their own, which end with it."""
import contextlib
import tempfile
import time

from quern_server import LLAMA, Server


def await_value(condition, what, seconds, logs):
    """The first value of `condition` that is true; `logs()` explains why there was none."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s; {logs()}")


class FleetServer(Server):
    """`quern serve` with a QUERN_HOME of its own."""

    def __init__(self, *arguments, models=(), **environment):
        self.home = tempfile.TemporaryDirectory()
        super().__init__("--fleet", "--stop-workers", *arguments, models=models,
                         **{"QUERN_HOME": self.home.name, **environment})

    def stop(self, **arguments):
        try:
            return super().stop(**arguments)
        finally:
            self.home.cleanup()

    def launch(self, uid, model=LLAMA, **fields):
        body = {"uid": uid, "model_name": str(model), "engine_options": {"threads": 1}, **fields}
        answer = self.ok("/v1/models", body)
        assert answer == {"model_uid": uid}, answer

    def delete(self, path):
        return self.request("DELETE", path)[0]

    @contextlib.contextmanager
    def launched(self, uid, model=LLAMA, **fields):
        self.launch(uid, model, **fields)
        try:
            yield
        finally:
            self.delete(f"/v1/models/{uid}")

    def wait_for(self, condition, what, seconds=60):
        """Of what comes by itself, soon."""
        return await_value(condition, what, seconds, lambda: "".join(self.log))
