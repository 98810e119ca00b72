"""The package passes a strict type check, and its version is that of the server."""

import os
import subprocess
import sys
import tempfile
import tomllib
import unittest

import frs_limits
from served import ROOT


class Types(unittest.TestCase):
    def test_the_package_and_the_tests_pass_a_strict_check(self) -> None:
        package = ROOT / "bindings/frs-limits"
        tests = package / "tests"
        files = [package / "frs_limits", package / "bench.py", *tests.glob("*.py")]
        paths = os.pathsep.join([str(tests), str(ROOT / "bindings/python/tests")])
        with tempfile.TemporaryDirectory() as folder:
            mypy = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases"]
            done = subprocess.run(
                [*mypy, *map(str, files)], cwd=folder, capture_output=True, text=True,
                env=os.environ | {"MYPYPATH": paths},
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_version_is_that_of_the_server(self) -> None:
        with open(ROOT / "Cargo.toml", "rb") as file:
            version = tomllib.load(file)["workspace"]["package"]["version"]
        self.assertEqual(frs_limits.__version__, version)


if __name__ == "__main__":
    unittest.main()
