#!/usr/bin/env python3
"""The measuring harness of bench/ without any engine: what it parses, how it sums up, what it draws, and its client."""
import asyncio
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree
from types import SimpleNamespace

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import instructions  # noqa: E402
from harness import figures, install, load, peers, plot, process, report, scenarios, session  # noqa: E402
from harness.figures import LESS, MORE, Sample  # noqa: E402
from harness.process import NotOffered, PeerError  # noqa: E402

session.say = lambda text: None  # progress is for people
ROOFLINE = {"read_gbps": 40.0, "int8_gmacs": 400.0, "int8_tile_gmacs": 0.0, "bf16_gmacs": 200.0, "f32_gmacs": 100.0}


def sample(value, metric="decode 8", better=MORE, **fields):
    return Sample(metric, "tok/s", value, better, **fields)


class Figures(unittest.TestCase):
    def test_medians_and_ratios(self):
        rows = figures.rows_of([("s", "quern", sample(value)) for value in (10, 30, 20)] + [("s", "other", sample(value)) for value in (5, 10)])
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0].median("quern"), 20)
        self.assertEqual(rows[0].ratio("other"), 20 / 7.5)
        self.assertIsNone(rows[0].ratio("quern"))
        self.assertIsNone(rows[0].ratio("absent"))

    def test_less_is_better_turns_the_ratio(self):
        [row] = figures.rows_of([("s", "quern", sample(2, better=LESS)), ("s", "other", sample(6, better=LESS))])
        self.assertEqual(row.ratio("other"), 3)

    def test_nothing_to_divide_by(self):
        [row] = figures.rows_of([("s", "quern", sample(2)), ("s", "other", sample(0))])
        self.assertIsNone(row.ratio("other"))

    def test_same_case_of_two_scenarios_is_two_rows(self):
        self.assertEqual(len(figures.rows_of([("a", "quern", sample(1)), ("b", "quern", sample(2))])), 2)

    def test_share_of_the_nearer_peak(self):
        [row] = figures.rows_of([("s", "quern", sample(1, gbps=20.0, gmacs=40.0)), ("s", "other", sample(1, gbps=39.0))])
        self.assertEqual(figures.share_of_peak(row, ROOFLINE, 0.6), 0.5)
        [prompt] = figures.rows_of([("s", "quern", sample(1, gmacs=100.0))])
        self.assertEqual(figures.share_of_peak(prompt, ROOFLINE, 0.6), 0.25)  # of int8
        self.assertEqual(figures.share_of_peak(prompt, ROOFLINE, 2.0), 0.5)   # of bfloat16
        self.assertEqual(figures.share_of_peak(prompt, ROOFLINE, 4.0), 1.0)   # of float32
        [neither] = figures.rows_of([("s", "quern", sample(1))])
        self.assertIsNone(figures.share_of_peak(neither, ROOFLINE, 0.6))

    def test_percentile(self):
        values = list(range(1, 101))
        self.assertEqual(figures.percentile(values, 0.99), 99)
        self.assertEqual(figures.percentile(values, 0.5), 50)
        self.assertEqual(figures.percentile([7], 0.99), 7)
        self.assertEqual(figures.percentile([3, 1], 0.0), 1)
        with self.assertRaises(ValueError):
            figures.percentile([], 0.5)


class Parsing(unittest.TestCase):
    def test_batched_bench(self):
        printed = 'loading\n{"pp": 16, "tg": 8, "pl": 1, "speed_tg": 20.5}\n{"pp": 16, "tg": 8, "pl": 4, "speed_tg": 61.25}\n\n'
        self.assertEqual(peers.parse_batched(printed), {("streams", 1): (20.5, None, None), ("streams", 4): (61.25, None, None)})

    def test_perplexity(self):
        self.assertEqual(peers.parse_perplexity("[1]20.3851,[2]21.7386,\n0.50 I Final estimate: PPL = 21.7386 +/- 2.62983\n"), 21.7386)
        with self.assertRaises(PeerError):
            peers.parse_perplexity("out of memory")

    def test_worker(self):
        self.assertEqual(peers.parse_worker('INFO RESULTS none\n\nRESULTS {"jobs": [], "peak_mib": 3.5}\n'), {"jobs": [], "peak_mib": 3.5})
        with self.assertRaises(PeerError):
            peers.parse_worker("nothing")

    def test_callgrind(self):
        self.assertEqual(instructions.collected("==1== Events    : Ir\n==1== Collected : 50246651\n"), 50246651)

    def test_instructions_within_three_percent_both_ways(self):
        self.assertTrue(instructions.compare({"a": 1029}, {"a": 1000})[1])
        self.assertFalse(instructions.compare({"a": 1031}, {"a": 1000})[1])
        self.assertFalse(instructions.compare({"a": 960}, {"a": 1000})[1])
        self.assertFalse(instructions.compare({"new": 1}, {"a": 1000})[1])


class Arrivals(unittest.TestCase):
    def test_the_seed_decides(self):
        first = load.schedule(1, 2.0, 100, 4096, 1000)
        self.assertEqual(first, load.schedule(1, 2.0, 100, 4096, 1000))
        self.assertNotEqual(first, load.schedule(2, 2.0, 100, 4096, 1000))

    def test_rate_order_and_limits(self):
        arrivals = load.schedule(3, 5.0, 2000, 2048, 300)
        self.assertAlmostEqual(len(arrivals) / 2000, 5.0, delta=4 * (5.0 / 2000) ** 0.5)  # four deviations of a Poisson count
        times = [arrival.at_s for arrival in arrivals]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1], 2000)
        self.assertTrue(all(1 <= arrival.tokens_in <= 2048 and 1 <= arrival.tokens_out <= 300 for arrival in arrivals))
        self.assertEqual(max(arrival.tokens_in for arrival in arrivals), 2048)

    def test_medians_are_those_of_the_trace(self):
        arrivals = load.schedule(4, 10.0, 2000, 10**6, 10**6)
        # The trace's own medians are 1,020 and 129; the fit's are exp of the means, 760 and 151.
        self.assertAlmostEqual(statistics.median(a.tokens_in for a in arrivals), 760, delta=40)
        self.assertAlmostEqual(statistics.median(a.tokens_out for a in arrivals), 151, delta=8)

    def test_no_arrival_before_the_end(self):
        self.assertEqual(load.schedule(1, 0.001, 0.001, 10, 10), [])


class Goodput(unittest.TestCase):
    def outcome(self, first, last, status=200, error=None, tokens=11):
        return load.Outcome(load.Arrival(0.0, 10, tokens), status, error, 0.0, first, last)

    def test_summary(self):
        outcomes = [self.outcome(0.5, 1.5), self.outcome(3.0, 4.0), self.outcome(0.5, 2.5), self.outcome(None, None, 429),
                    self.outcome(0.1, 0.2, error="broken"), self.outcome(None, None, 0, "refused to connect")]
        figures_of = load.summary(outcomes, 1.0, 0.1)
        self.assertEqual({name: figures_of[name] for name in ("requests", "good", "refused", "failed")}, {"requests": 6, "good": 1, "refused": 1, "failed": 2})
        self.assertEqual(figures_of["ttft_p50_s"], 0.5)
        self.assertEqual(figures_of["ttft_p99_s"], 3.0)
        self.assertAlmostEqual(figures_of["tpot_p99_s"], 0.2)

    def test_one_token_has_no_time_per_token(self):
        self.assertTrue(self.outcome(0.5, 0.5, tokens=1).meets(1.0, 0.0))

    def test_nothing_answered(self):
        self.assertEqual(load.summary([self.outcome(None, None, 503)], 1, 1)["good"], 0)


class FixedPrompts:
    def ids(self, tokens):
        return [1] * tokens


class Client(unittest.TestCase):
    """The open-loop client against a server that answers, refuses, breaks off, hangs and fails."""
    STREAM = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"9\r\n" + b'data: {"choices":[1]}\n\n' * 2)

    def setUp(self):
        self.loop = asyncio.new_event_loop()
        self.kinds = iter(["stream", "refuse", "break", "hang", "error"])
        self.server = self.loop.run_until_complete(asyncio.start_server(self.answer, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def tearDown(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.server.close()
        self.loop.run_until_complete(asyncio.sleep(0.05))
        self.loop.close()

    async def answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        kind = next(self.kinds)
        if kind == "refuse":
            writer.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(self.STREAM)
            await writer.drain()
            if kind == "stream":
                await asyncio.sleep(0.1)
                writer.write(b'data: {"choices":[1]}\n\ndata: [DONE]\n\n')
            elif kind == "error":
                writer.write(b'data: {"error":{"message":"no"}}\n\n')
            elif kind == "hang":
                await reader.read()  # until the client gives up
        await writer.drain()
        writer.close()

    def test_every_fate(self):
        arrivals = [load.Arrival(0.2 * i, 4, 3) for i in range(5)]
        outcomes = load.drive(self.port, arrivals, FixedPrompts(), drain_s=0.6)
        stream, refused, broken, hanging, failed = outcomes
        self.assertTrue(stream.answered, stream)
        self.assertGreater(stream.last_s - stream.first_s, 0.09)
        self.assertTrue(refused.refused)
        self.assertEqual(broken.error, "ended without [DONE]")
        self.assertEqual(hanging.error, "not finished in time")
        self.assertIn("no", failed.error)
        counts = load.summary(outcomes, 5, 5)
        self.assertEqual((counts["good"], counts["refused"], counts["failed"]), (1, 1, 3))


class Fake:
    def __init__(self, name):
        self.name = name


def fake_run():
    run = session.Run({"model": "m.gguf", "turns": 2}, {"quern": "1", "other": "2"}, {"third": "could not be installed"})
    run.roofline, run.bytes_per_mac = ROOFLINE, 0.6
    return run


class Session(unittest.TestCase):
    def test_peers_take_turns_and_failures_become_notes(self):
        asked = []

        def measure(bench, peer):
            asked.append((bench.turn, peer.name))
            yield sample(1)
            if peer.name == "other":
                raise NotOffered("no server")
        run, ours = fake_run(), SimpleNamespace(measure=lambda bench, peer: iter([sample(5, "own")]), OURS_ALONE=True)
        run.measure(SimpleNamespace(turn=0), [Fake("quern"), Fake("other"), Fake("last")], {"s": SimpleNamespace(measure=measure), "own": ours}, 2)
        self.assertEqual(asked, [(0, "quern"), (0, "other"), (0, "last"), (1, "last"), (1, "quern")])
        self.assertEqual(run.notes, ["s, other: no server"])
        self.assertEqual(run.rows()[1].values, {"quern": [5, 5]})

    def test_a_passing_failure_is_asked_again(self):
        for error, note in (PeerError("once"), "s, quern: once"), (KeyError("usage"), "s, quern: KeyError: 'usage'"):
            def measure(bench, peer):
                if bench.turn == 0:
                    raise error
                yield sample(3)
            run = fake_run()
            run.measure(SimpleNamespace(turn=0), [Fake("quern")], {"s": SimpleNamespace(measure=measure)}, 2)
            self.assertEqual((run.notes, run.rows()[0].values), ([note], {"quern": [3]}))

    def test_every_scenario_can_be_asked(self):
        for name, scenario in scenarios.ALL.items():
            self.assertTrue(callable(scenario.measure) and scenario.__doc__, name)


class Report(unittest.TestCase):
    def run_of(self):
        def measure(bench, peer):
            factor = 2 if peer.name == "quern" else 1
            for streams in (1, 4):
                yield sample(10 * factor * streams, x=streams, x_name="streams", gbps=20.0 if factor == 2 else None)
            yield Sample("peak <memory> | all", "MiB", 100.0 / factor, LESS)
        run = fake_run()
        run.measure(SimpleNamespace(turn=0), [Fake("quern"), Fake("other")], {"batch": SimpleNamespace(measure=measure)}, 2)
        return run

    def test_table(self):
        text = report.markdown(self.run_of())
        header, rule, *body = [line for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(header, "| scenario | case | unit | quern | other | ratio | third | ratio | GB/s | GMAC/s | of peak |")
        self.assertEqual(body[1], "|  | decode 8, streams 4 | tok/s | 80.00 | 40.00 | 2.00 | — |  | 20.00 |  | 50 % |")
        self.assertIn("peak <memory> \\| all | MiB | 50.00 | 100.0 | 2.00 |", body[2])
        self.assertIn("- third was not measured: could not be installed", text)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write(self.run_of(), pathlib.Path(folder) / "new")
            written = {path.name: path.read_text() for path in (pathlib.Path(folder) / "new").iterdir()}
        self.assertEqual(sorted(written), ["batch-decode-8.svg", "batch.svg", "report.json", "report.md"])
        rows = json.loads(written["report.json"])["rows"]
        self.assertEqual(rows[0]["turns"], {"quern": [20, 20], "other": [10, 10]})
        self.assertEqual(rows[0]["share_of_peak"], 0.5)
        for name in ("batch-decode-8.svg", "batch.svg"):
            root = xml.etree.ElementTree.fromstring(written[name])
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            self.assertNotIn("href", written[name])
            self.assertIn(name, written["report.md"])

    def test_plots_of_odd_figures(self):
        for picture in (plot.curves("t", "x", "u", {"a": [(1, 0.0)]}), plot.curves("t", "x", "u", {"a": [(0.25, 3.0), (1, 1e6)], "b": [(0.25, 2.0)]}),
                        plot.bars("t", ["a"], [("zero", "", {"a": 0.0}), ("below", "%", {"a": -1.0})])):
            xml.etree.ElementTree.fromstring(picture)
            self.assertNotIn("nan", picture)

    def test_steps(self):
        self.assertEqual([plot.nice_step(most) for most in (5, 12, 30, 1000)], [1, 5, 10, 200])


class Processes(unittest.TestCase):
    def test_run(self):
        printed, complaints, peak = process.run([sys.executable, "-c", "import sys; print(sys.stdin.read() * 2); print('e', file=sys.stderr)"], stdin="ab")
        self.assertEqual((printed, complaints), ("abab\n", "e\n"))
        self.assertGreater(peak, 1)

    def test_failures_are_peer_errors(self):
        with self.assertRaisesRegex(PeerError, r"failed \(3\): last words"):
            process.run([sys.executable, "-c", "import sys; print('last words', file=sys.stderr); sys.exit(3)"])
        with self.assertRaisesRegex(PeerError, "no-such-program"):
            process.run(["/no-such-program"])
        with self.assertRaisesRegex(PeerError, "longer than 1 s"):
            process.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=1)

    def test_memory_of_a_session(self):
        child = subprocess.Popen([sys.executable, "-c", "x = bytearray(b'1') * (64 << 20); print(flush=True); input()"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, start_new_session=True)
        child.stdout.readline()
        self.assertGreater(process.session_memory_mib(child.pid), 64)
        process.end_session(child)
        self.assertEqual(process.session_memory_mib(child.pid), 0)
        child.stdin.close()
        child.stdout.close()

    def test_an_installed_peer_is_used_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = pathlib.Path(folder) / "build" / "bin"
            programs.mkdir(parents=True)
            for name in install.LLAMA_PROGRAMS:
                (programs / name).touch()
            self.assertEqual(install.llama(pathlib.Path(folder)), programs)


if __name__ == "__main__":
    unittest.main()
