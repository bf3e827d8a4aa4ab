"""Budgets of devices: nvidia-smi tells of two, whose numbers the test writes; what runs there is a real server of ours in
llama-server's place, which takes none of their memory."""
import os
import pathlib
import re
import sys
import tempfile
import unittest

from platform_server import FleetServer
from quern_server import GOLDEN, LLAMA, QUERN

GGUF = GOLDEN / "gguf/llama-f32.gguf"

SMI = """#!/bin/sh
cat "$(dirname "$0")/table"
"""

LLAMA_SERVER = f"""#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    -m) model=$2; shift ;;
    --port) port=$2; shift ;;
    --alias) alias=$2; shift ;;
  esac
  shift
done
QUERN_API_KEY=$LLAMA_API_KEY exec {QUERN} serve "$model" --no-fleet --store :memory: --host 127.0.0.1 --port "$port" \\
  --served-model-name "$alias" -t 1
"""


class DeviceMemoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tools = pathlib.Path(folder.name)
        for name, text in (("nvidia-smi", SMI), ("llama-server", LLAMA_SERVER)):
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        self.measure((1 << 20, 1 << 20), (1 << 20, 1 << 20))
        self.server = FleetServer(models=(), PATH=f"{folder.name}:{os.environ['PATH']}",
                                  QUERN_LLAMA_SERVER=str(self.tools / "llama-server"))
        self.addCleanup(self.server.stop)

    def measure(self, *devices):
        """(total, free) in MiB."""
        rows = [f"{i}, GPU-{i}, 00000000:0{i + 1}:00.0, {total} MiB, {free} MiB, 0 %, 550.90.12, A device\n"
                for i, (total, free) in enumerate(devices)]
        whole = self.tools / "table.new"
        whole.write_text("index, uuid, pci.bus_id, memory.total [MiB], memory.free [MiB], utilization.gpu [%], driver_version, name\n"
                         + "".join(rows))
        whole.rename(self.tools / "table")

    def launch(self, uid, device, wait=True, **fields):
        body = {"uid": uid, "model_name": str(GGUF), "engine": "llama.cpp", "device": device, **fields}
        return self.server.post(f"/v1/models?wait_ready={'true' if wait else 'false'}", body)

    def shown(self, uid):
        return self.server.get(f"/v1/models/{uid}")[1]

    def ready(self, uid):
        model = self.shown(uid)
        return not model["idle"] and any(one["state"] == "ready" for one in model["replicas"])

    def wait_for_words(self, uid, words):
        self.server.wait_for(lambda: re.search(words, self.shown(uid)["replicas"][0]["message"]), words)

    def refused(self):
        status, answer = self.launch("large", "cuda:0", wait=False)
        if status != 200:
            return answer["detail"]
        self.server.delete("/v1/models/large")
        return ""

    def test_budgets(self):
        status, answer = self.launch("nowhere", "cuda:7")
        self.assertEqual(status, 400, answer)
        self.assertIn("cuda:7", answer["detail"])
        self.assertIn("cuda:0", answer["detail"], "what there is, too")
        self.assertEqual(self.launch("first", "cuda:0")[0], 200)
        model = self.shown("first")
        needs = -(-model["memory_estimate"] >> 20)
        replica = model["replicas"][0]
        self.assertEqual((replica["accelerators"], replica["gpu_idx"]), (["cuda:0"], [0]))
        environment = pathlib.Path(f"/proc/{replica['pid']}/environ").read_bytes().split(b"\0")
        self.assertIn(b"CUDA_VISIBLE_DEVICES=0", environment)
        self.measure((needs, needs), (needs, needs))  # less the reserve it is too little for any
        refused = self.server.wait_for(self.refused, "the new size is seen")
        self.assertRegex(refused, rf"large: needs {needs} MiB of memory on cuda:0, \d+ MiB are there for models")
        # From now on either device holds one of them, not two.
        total = int(needs * 1.6 / 0.9) + 1
        self.measure((total, total), (total, 0))
        self.server.launch("main", LLAMA)
        self.server.wait_for(lambda: self.launch("second", "cuda:0", pinned=True, wait=False)[0] == 200, "the new size is seen")
        self.server.wait_for(lambda: self.ready("second"), "it takes the other's place", 60)
        self.assertTrue(self.shown("first")["idle"], "the least needed of that device has gone")
        self.assertTrue(self.ready("main"), "main memory is another budget")
        # What nobody may be sent away for waits, and says how much there is.
        self.assertEqual(self.launch("third", "cuda:0", wait=False)[0], 200)
        self.wait_for_words("third", rf"memory on cuda:0: needs {needs} MiB, \d+ MiB are free")
        self.assertTrue(self.ready("second"))
        # Somebody else holds cuda:1: nothing of ours starts there until it is free.
        self.assertEqual(self.launch("fourth", "cuda:1", wait=False)[0], 200)
        self.wait_for_words("fourth", rf"memory on cuda:1: needs {needs} MiB, 0 MiB are free")
        self.assertFalse(self.ready("fourth"))
        self.measure((total, total), (total, total))
        self.server.wait_for(lambda: self.ready("fourth"), "the device is measured again", 60)
        self.assertEqual(self.shown("fourth")["replicas"][0]["accelerators"], ["cuda:1"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
