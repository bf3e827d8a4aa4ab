"""docs/integrations/dify.md. Run by run.sh, which brings Dify's SDK and models."""
import json
import pathlib
import subprocess
import sys
import unittest

from page_server import KEY, PageTest


class DifyTest(PageTest):
    def test_the_sdk(self):
        client = pathlib.Path(__file__).resolve().parent / "dify_client.py"
        done = subprocess.run([sys.executable, client, self.base_url, KEY], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        results = json.loads(done.stdout)
        self.assertTrue(results["whole"].strip())
        self.assertEqual(results["streamed"], results["whole"])
        self.assertGreater(results["with_tools"], 0)
        self.assertEqual(results["vectors"], [384, 384])
        self.assertEqual(results["ranked"], [0, 1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
