"""GET /v1/devices: taken off the I/O threads, once for all that ask, kept for a moment."""
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest

from quern_server import Server

SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "hardware"


class DevicesTest(unittest.TestCase):
    def server_with(self, **scripts):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, script in scripts.items():
            tool = pathlib.Path(folder.name) / name.replace("_", "-")
            tool.write_text("#!/bin/sh\n" + script)
            tool.chmod(0o755)
        server = Server("--store", ":memory:", PATH=f"{folder.name}:{os.environ['PATH']}")
        self.addCleanup(server.stop)
        return server, pathlib.Path(folder.name)

    def test_lists_cpu_and_what_tools_tell(self):
        server, _ = self.server_with(nvidia_smi=f"cat {SAMPLES}/nvidia-smi.txt")
        status, body = server.get("/v1/devices")
        self.assertEqual((status, body["object"], body["data"][0]["id"]), (200, "list", "cpu"))
        self.assertGreater(body["data"][0]["memory_total"], 0)
        self.assertIn("cuda:1", [device["id"] for device in body["data"]])

    def test_many_that_ask_share_one_inventory(self):
        server, folder = self.server_with(nvidia_smi=f"echo x >> \"$(dirname \"$0\")/runs\"; sleep 1; cat {SAMPLES}/nvidia-smi.txt")
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(server.get("/v1/devices"))) for _ in range(12)]
        for thread in threads:
            thread.start()
        # Other routes are served meanwhile, by the same I/O threads.
        time.sleep(0.2)
        begin = time.monotonic()
        self.assertEqual(server.get("/v1/models")[0], 200)
        self.assertTrue(time.monotonic() - begin < 60)
        for thread in threads:
            thread.join()
        self.assertEqual([status for status, _ in answers], [200] * 12)
        self.assertTrue(all(body == answers[0][1] for _, body in answers))
        self.assertEqual((folder / "runs").read_text(), "x\n")

    def test_hanging_tool_is_named(self):
        server, _ = self.server_with(npu_smi="sleep 1000")
        status, body = server.get("/v1/devices")
        self.assertEqual(status, 200)
        probe = next(probe for probe in body["probes"] if probe["tool"] == "npu-smi")
        self.assertEqual((probe["result"], probe["message"]), ("timeout", "npu-smi: no answer in 8000 ms"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
