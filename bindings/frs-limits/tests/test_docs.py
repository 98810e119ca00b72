"""The code of the manual and of the README runs as written."""

import contextlib
import io
import re
import unittest

from served import ROOT, Limited

PAGES = [ROOT / "docs/redis.md", ROOT / "bindings/frs-limits/README.md"]


class Docs(Limited):
    def test_each_block_runs(self) -> None:
        found = 0
        for page in PAGES:
            for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
                if "frs_limits" not in block:
                    continue
                found += 1
                with self.subTest(block):
                    self.assertIn("127.0.0.1:6380", block)
                    block = block.replace("127.0.0.1:6380", f"127.0.0.1:{self.port}?timeout=20")
                    names: dict[str, object] = {"__name__": "shown"}
                    with contextlib.redirect_stdout(io.StringIO()) as printed:
                        exec(compile(block, str(page), "exec"), names)
                    if "print" in block:
                        self.assertEqual(printed.getvalue(), "True\n")
                    if "flask" in block:
                        self.flask(names["app"])
        self.assertGreaterEqual(found, 4)

    def flask(self, app: object) -> None:
        statuses = [
            app.test_client().get("/login", headers={"X-User": "bob"}).status_code  # type: ignore
            for _ in range(6)
        ]
        self.assertEqual(statuses, [200] * 5 + [429])


if __name__ == "__main__":
    unittest.main()
