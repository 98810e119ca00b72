"""The code of docs/python.md and the example run as written."""

import contextlib
import io
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from serving import Served, wait_until

ROOT = Path(__file__).parents[3]
MANUAL = (ROOT / "docs/python.md").read_text()
LIBRARY = (ROOT / "docs/library.md").read_text()


def blocks(kind: str, page: str = MANUAL) -> list[tuple[str, str]]:
    """The blocks of a kind, each with the text block that follows it, which is its output."""
    found = re.findall(rf"```{kind}\n(.*?)```(?:\n```text\n(.*?)```)?", page, re.DOTALL)
    return [(code, output) for code, output in found]


class Docs(Served):
    # With the businesses that the library's page adds.
    map_xml = (ROOT / "conf/map.xml").read_text().replace(
        "</map>", "".join(code for code, _ in blocks("xml", LIBRARY)) + "</map>")

    def setUp(self) -> None:
        super().setUp()
        directory = os.getcwd()
        self.addCleanup(os.chdir, directory)
        os.chdir(self.server.dir)

    def test_every_block_of_python_runs_and_prints_what_is_shown(self) -> None:
        found = blocks("python")
        self.assertGreater(len(found), 3)
        for code, output in found:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(code, "docs/python.md", "exec"), {"__name__": "__main__"})
            # `…` stands for anything.
            pattern = re.escape(output).replace("…", ".*?")
            self.assertRegex(said.getvalue(), f"^{pattern}$", code)

    def test_every_error_is_in_the_table(self) -> None:
        import frs

        rows = dict(re.findall(r"^\| `(\w+)` \| `([a-z-]+)` \|", MANUAL, re.MULTILINE))
        kinds = [getattr(frs, name) for name in frs.__all__]
        leaves = {kind.__name__: kind.word for kind in kinds
                  if isinstance(kind, type) and issubclass(kind, frs.Error)
                  and not kind.__subclasses__()}
        self.assertEqual(rows, leaves)

    def test_every_attribute_is_in_the_manual(self) -> None:
        import frs

        names = {name for name in dir(frs.Verdict) if not name.startswith("_")}
        missing = [name for name in names if f"`{name}`" not in MANUAL]
        self.assertEqual(missing, [])

    def test_the_example_answers_each_user(self) -> None:
        command = [sys.executable, str(ROOT / "bindings/python/examples/login.py"), "data"]
        for _ in range(3):
            self.server.get("/update?biz=login&key=alice")
        done = subprocess.run(command, input="alice\nalice\nalice\n\nbob\n", text=True,
                              capture_output=True, check=True)
        first, second, third, bad, bob = done.stdout.splitlines()
        self.assertEqual((first, second), ("alice: yes, 1 more", "alice: yes, 0 more"))
        self.assertRegex(third, r"^alice: no, try again in \d+ ms$")
        self.assertEqual((bad, bob), ("'': not judged: bad-key", "bob: yes, 4 more"))
        done = subprocess.run([*command[:2], "nowhere"], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("login: no server runs on the data directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
