"""Flask-Limiter, slowapi and FastAPI as real programs: the same traffic over Redis and over frs."""

import os
import random
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from served import HAS_REDIS, STRATEGIES, Limited, Redis
from serving import OverSocket, wait_until

HERE = Path(__file__).parent
PROGRAMS = {
    "flask_shop": ["gunicorn", "--workers", "2", "--bind", "unix:{}", "flask_shop:app"],
    "slowapi_shop": ["uvicorn", "--log-level", "error", "--uds", "{}", "slowapi_shop:app"],
    "fastapi_shop": ["uvicorn", "--log-level", "error", "--uds", "{}", "fastapi_shop:app"],
}


class Program:
    """A program that listens on a socket of its own."""

    def __init__(self, name: str, folder: Path, **environment: str) -> None:
        self.path = str(folder / f"{name}-{environment['STRATEGY']}-{len(list(folder.iterdir()))}")
        command = [word.format(self.path) for word in PROGRAMS[name]]
        with open(folder / "programs.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=HERE / "apps", stderr=log, stdout=log,
                env=os.environ | environment,
            )
        wait_until(f"{name} serves", self.serves)

    def serves(self) -> bool | None:
        assert self.process.poll() is None, self.path
        try:
            return self.get("/", "first") is not None
        except OSError:
            return None

    def get(self, path: str, user: str) -> tuple[int, dict[str, str]]:
        connection = OverSocket(self.path)
        try:
            connection.request("GET", path, headers={"X-User": user, "Host": "shop"})
            answer = connection.getresponse()
            answer.read()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class Programs(Limited):
    def setUp(self) -> None:
        super().setUp()
        self.random = random.Random(7)
        self.traffic = [
            (self.random.choice(["/", "/login", "/search"]), self.random.choice("abc"))
            for _ in range(150)
        ]

    def start(self, name: str, uri: str, strategy: str) -> Program:
        program = Program(name, self.server.dir, LIMITS=uri, STRATEGY=strategy)
        self.addCleanup(program.close)
        return program

    def play(self, name: str, strategy: str) -> None:
        redis = Redis()
        self.addCleanup(redis.close)
        theirs = self.start(name, redis.uri, strategy)
        ours = self.start(name, f"{self.uri}?timeout=20", strategy)
        found: list[int] = []
        for path, user in self.traffic:
            status, headers = ours.get(path, user)
            expected, their_headers = theirs.get(path, user)
            self.assertEqual(status, expected, f"{name} {strategy} {path} {user}")
            for header in ("x-ratelimit-limit", "x-ratelimit-remaining"):
                # A refused hit is charged by fixed windows of `limits`, which show 0 then.
                if strategy != "fixed-window" or status == 200:
                    self.assertEqual(headers.get(header), their_headers.get(header), headers)
            found.append(status)
        self.assertEqual(set(found), {200, 429})

    @unittest.skipUnless(HAS_REDIS, "redis-server is not installed")
    def test_each_strategy_decides_as_over_redis(self) -> None:
        for name in PROGRAMS:
            for strategy in STRATEGIES:
                with self.subTest(name=name, strategy=strategy):
                    self.play(name, strategy)

    def test_they_go_on_when_frs_is_killed_and_started_again(self) -> None:
        for name in PROGRAMS:
            with self.subTest(name):
                uri = f"{self.uri}?on_down=refuse"
                program = self.start(name, uri, "moving-window")
                statuses: list[Any] = [program.get("/login", name)[0] for _ in range(3)]
                self.server.kill()
                statuses += [program.get("/login", name)[0] for _ in range(3)]
                self.server.start()
                statuses += [program.get("/login", name)[0] for _ in range(3)]
                self.assertEqual(statuses, [200] * 3 + [429] * 3 + [200] * 2 + [429])


if __name__ == "__main__":
    unittest.main()
