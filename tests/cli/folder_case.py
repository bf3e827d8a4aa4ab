"""A folder of its own for each test, which is also where QUERN_HOME lies."""
import os
import pathlib
import tempfile
import unittest


class FolderCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "QUERN_HOME": str(self.folder / "home")}
