"""The tests of storages and strategies that `limits` ships in its source package, over frs.

FRS_LIMITS_SOURCE is the folder of that package. Each test that does not pass is named here, with
why, and must fail.
"""

import importlib
import os
import sys
import unittest
from typing import Any

import frs_limits
from limits._storage_scheme import SCHEMES
from limits.storage.base import TimestampedSlidingWindow
from served import TOKEN, Limited

# Any: the package has names for its own storages only.
REGISTRY: Any = SCHEMES
SOURCE = os.environ.get("FRS_LIMITS_SOURCE", "")
# The tests that differ, and why.
DIFFER = {
    "test_storage_reset": "frs does not count the records that it makes fresh",
    "test_moving_window_huge_cost": "a moving window of frs has up to 4096 uses",
    "test_sliding_window_counter_previous_window":
        "frs does not round the weight of the window before down",
}


class Aligned(frs_limits.FrsStorage, TimestampedSlidingWindow):
    """Tells the tests that the windows of sliding window counters begin on the clock."""


class AsyncAligned(frs_limits.AsyncFrsStorage, TimestampedSlidingWindow):
    """The same for asyncio."""


class Outcomes:
    """A plugin of pytest: fresh counters for each test, and what became of it."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.passed: set[str] = set()
        self.others: set[str] = set()

    def pytest_runtest_setup(self) -> None:
        self.storage.reset()

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.rpartition("::")[2].partition("[")[0]
        if report.failed or report.skipped:
            self.others.add(name)
        elif report.when == "call":
            self.passed.add(name)


@unittest.skipUnless(SOURCE, "FRS_LIMITS_SOURCE is not set")
class OwnOfLimits(Limited):
    def test_those_of_threads(self) -> None:
        self.play("tests", self.uri, Aligned)

    def test_those_of_asyncio(self) -> None:
        self.play("tests.aio", f"async+{self.uri}", AsyncAligned)

    def play(self, package: str, uri: str, kind: type) -> None:
        import pytest

        sys.path.insert(0, SOURCE)
        scheme = uri.partition(":")[0]
        self.addCleanup(REGISTRY.__setitem__, scheme, REGISTRY[scheme])
        REGISTRY[scheme] = kind
        options: dict[str, Any] = self.patient | {"admin": self.admin, "admin_token": TOKEN}
        files = []
        for name in ("test_storage", "test_strategy"):
            module = importlib.import_module(f"{package}.{name}")
            files.append(str(module.__file__))
            for group in vars(module).values():
                # The classes whose tests run with each storage that `limits` has.
                for mark in getattr(group, "pytestmark", []):
                    if mark.name != "parametrize" or not mark.args[0].startswith("uri"):
                        continue
                    values: list[Any] = [uri, options, None]
                    if "expected_instance" in mark.args[0]:
                        values.insert(2, kind)
                    one = pytest.mark.parametrize(mark.args[0], [tuple(values)])
                    group.pytestmark = [one.mark]
        outcomes = Outcomes(frs_limits.FrsStorage(self.uri, **options))
        pytest.main(
            ["-q", "--tb=short", "-c", os.devnull, "--rootdir", SOURCE, "--noconftest",
             "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-W", "ignore", *files],
            plugins=[outcomes],
        )
        self.assertGreaterEqual(len(outcomes.passed), 30)
        self.assertEqual(outcomes.others, set(DIFFER))


if __name__ == "__main__":
    unittest.main()
