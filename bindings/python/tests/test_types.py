"""The stubs match the native module, and the shown code passes a strict type check."""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
class Types(unittest.TestCase):
    def check(self, *arguments: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", *arguments]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_examples_and_the_tests_pass_a_strict_check(self) -> None:
        files = [HERE.parent / "examples/login.py", HERE.parent / "bench.py", *HERE.glob("*.py")]
        self.check("mypy", "--strict", *map(str, files))

    def test_the_stubs_are_those_of_the_module(self) -> None:
        self.check("mypy.stubtest", "frs")


if __name__ == "__main__":
    unittest.main()
