"""Open-loop load: requests come when they come, whether or not the server has finished the last one.

Arrivals are a Poisson process. Lengths are log-normal, fitted by the mean and deviation of logarithms to the 19,366
requests of the conversation trace of Azure's LLM inference service of November 2023 (AzureLLMInferenceTrace_conv.csv of
github.com/Azure/AzurePublicDataset, published with Patel et al., "Splitwise", ISCA 2024). Tokens in: mean 1,155, median
1,020, of the fit 1,233 and 760; out: mean 211, median 129, of the fit 219 and 151. The two lengths are drawn apart: in the
trace the correlation of their logarithms is 0.09.
"""
import asyncio
import dataclasses
import json
import random
import statistics
import time

from .client import MODEL_NAME
from .figures import percentile

LOG_IN = (6.633, 0.985)   # mean and deviation of the natural logarithm of the prompt's tokens
LOG_OUT = (5.019, 0.859)  # and of the answer's


@dataclasses.dataclass(frozen=True)
class Arrival:
    at_s: float
    tokens_in: int
    tokens_out: int


@dataclasses.dataclass
class Outcome:
    """A request that was answered has status 200, `error` None and `last_s`; times count from its arrival on schedule, so that a
    client which is late does not flatter the server."""
    arrival: Arrival
    status: int = 0
    error: str | None = None
    late_s: float = 0.0
    first_s: float | None = None
    last_s: float | None = None

    @property
    def answered(self):
        return self.status == 200 and self.error is None and self.last_s is not None

    @property
    def refused(self):
        return self.status not in (0, 200)

    @property
    def token_s(self):
        """Time per token after the first."""
        return (self.last_s - self.first_s) / max(1, self.arrival.tokens_out - 1)

    def meets(self, ttft_s, tpot_s):
        return self.answered and self.first_s <= ttft_s and self.token_s <= tpot_s


def schedule(seed, rate, seconds, in_max, out_max):
    """The same arguments give the same arrivals. Lengths beyond the limits are cut to them."""
    draw = random.Random(seed)
    arrivals, at = [], draw.expovariate(rate)
    while at < seconds:
        arrivals.append(Arrival(at, length(draw, LOG_IN, in_max), length(draw, LOG_OUT, out_max)))
        at += draw.expovariate(rate)
    return arrivals


def length(draw, log, most):
    return min(most, max(1, round(draw.lognormvariate(*log))))


def summary(outcomes, ttft_s, tpot_s):
    answered = [outcome for outcome in outcomes if outcome.answered]
    figures = {"requests": len(outcomes), "refused": sum(outcome.refused for outcome in outcomes),
               "good": sum(outcome.meets(ttft_s, tpot_s) for outcome in outcomes)}
    figures["failed"] = len(outcomes) - len(answered) - figures["refused"]
    if answered:
        figures["ttft_p50_s"] = statistics.median(outcome.first_s for outcome in answered)
        figures["ttft_p99_s"] = percentile([outcome.first_s for outcome in answered], 0.99)
        figures["tpot_p50_s"] = statistics.median(outcome.token_s for outcome in answered)
        figures["tpot_p99_s"] = percentile([outcome.token_s for outcome in answered], 0.99)
    figures["client_late_s"] = max((outcome.late_s for outcome in outcomes), default=0.0)
    return figures


def drive(port, arrivals, prompts, drain_s):
    """Sends every request at its time and waits up to drain_s after the last for answers; those left have failed."""
    bodies = [request_bytes(port, prompts.ids(arrival.tokens_in), arrival.tokens_out) for arrival in arrivals]
    return asyncio.run(_drive(port, arrivals, bodies, drain_s))


def request_bytes(port, ids, tokens_out):
    body = json.dumps({"model": MODEL_NAME, "prompt": ids, "max_tokens": tokens_out, "temperature": 0, "ignore_eos": True, "stream": True}).encode()
    return (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


async def _drive(port, arrivals, bodies, drain_s):
    begin = time.perf_counter()
    outcomes = [Outcome(arrival) for arrival in arrivals]
    tasks = [asyncio.create_task(_ask(port, outcome, body, begin)) for outcome, body in zip(outcomes, bodies)]
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=arrivals[-1].at_s + drain_s)
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return outcomes


async def _ask(port, outcome, body, begin):
    due = begin + outcome.arrival.at_s
    await asyncio.sleep(max(0.0, due - time.perf_counter()))
    outcome.late_s = time.perf_counter() - due
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(body)
        outcome.status = int((await reader.readline()).split()[1])
        while outcome.status == 200 and (line := await reader.readline()):
            # Events are not parsed, only timed: the client runs on the server's processors.
            if line.startswith(b"data: [DONE]"):
                return
            if line.startswith(b"data: {"):
                if line.startswith(b'data: {"error"'):
                    outcome.error = line.decode(errors="replace").strip()
                    return
                outcome.last_s = time.perf_counter() - due
                outcome.first_s = outcome.first_s or outcome.last_s
        if outcome.status == 200:
            outcome.error = "ended without [DONE]"
    except (OSError, IndexError, ValueError) as error:
        outcome.error = str(error) or type(error).__name__
    except asyncio.CancelledError:
        outcome.error = "not finished in time"
    finally:
        if writer is not None:
            writer.close()
