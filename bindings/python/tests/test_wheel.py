"""The wheel that `.ci/python` makes: its name, and which systems it serves."""

import importlib.util
import re
import subprocess
import sys
import unittest
from importlib.metadata import version
from pathlib import Path

import frs

# Beside the folder that it is installed in.
WHEELS = Path(frs.__file__).parents[2] / "wheels"


@unittest.skipUnless(WHEELS.is_dir(), f"{WHEELS} is not there: run .ci/python")
@unittest.skipIf(importlib.util.find_spec("auditwheel") is None, "auditwheel is not installed")
class Wheel(unittest.TestCase):
    def test_one_wheel_serves_all(self) -> None:
        self.assertEqual(version("frs-limiter"), frs.__version__)
        found = [path.name for path in WHEELS.glob("*.whl") if path.name.startswith("frs_limiter-")]
        self.assertEqual(len(found), 1, found)
        name = rf"frs_limiter-{re.escape(frs.__version__)}-cp311-abi3-manylinux_2_28_\w+\.whl"
        self.assertRegex(found[0], name)
        # What is in it, not what its name says.
        command = [sys.executable, "-m", "auditwheel", "show", str(WHEELS / found[0])]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        tag = re.search(r'platform tag: "manylinux_(\d+)_(\d+)_', shown.replace("\n", " "))
        assert tag is not None, shown
        self.assertLessEqual((int(tag[1]), int(tag[2])), (2, 28))


if __name__ == "__main__":
    unittest.main()
