"""A server that is away, that is another one, that wants a token, and that starts again."""

import asyncio
import socket
import threading
import time
import unittest
from typing import Any

import redis
from frs_limits import WrongServer
from limits import parse
from limits.errors import StorageError
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter
from served import (
    ASYNC_STRATEGIES,
    HAS_REDIS,
    STRATEGIES,
    TOKEN,
    Failing,
    Limited,
    Redis,
    port_of,
    reserved,
)

FIVE = parse("5/hour")


def decide(uri: str, **options: Any) -> list[tuple[bool, bool, int]]:
    """What each strategy decides, from threads and from coroutines: hit, test, remaining."""

    async def decide_async() -> list[tuple[bool, bool, int]]:
        found = []
        for strategy in ASYNC_STRATEGIES.values():
            limiter = strategy(storage_from_string(f"async+{uri}", **options))
            remaining = (await limiter.get_window_stats(FIVE, "a")).remaining
            found.append((await limiter.hit(FIVE, "a"), await limiter.test(FIVE, "a"), remaining))
        return found

    found = []
    for strategy in STRATEGIES.values():
        limiter = strategy(storage_from_string(uri, **options))
        remaining = limiter.get_window_stats(FIVE, "a").remaining
        found.append((limiter.hit(FIVE, "a"), limiter.test(FIVE, "a"), remaining))
    return found + asyncio.run(decide_async())


class Away(unittest.TestCase):
    def setUp(self) -> None:
        # Nothing listens on one of them. The other one never answers.
        held, silent = reserved(), reserved()
        silent.listen()
        for each in (held, silent):
            self.addCleanup(each.close)
        self.refusing = f"frs://127.0.0.1:{port_of(held)}"
        self.silent = f"frs://127.0.0.1:{port_of(silent)}"
        self.nowhere = "frs+data:///nonexistent/data"

    def test_the_option_decides(self) -> None:
        for uri in (self.refusing, self.silent + "?timeout=0.05", self.nowhere):
            with self.subTest(uri):
                self.assertEqual(decide(uri, on_down="allow"), [(True, True, 5)] * 6)
                self.assertEqual(decide(uri, on_down="refuse"), [(False, False, 0)] * 6)
                self.assertFalse(storage_from_string(uri).check())

    def test_a_server_that_cannot_judge_just_now_counts_as_one_that_is_away(self) -> None:
        for error, raised in {
            "ERR busy (the record was not free within lock-timeout)": redis.ResponseError,
            "ERR store (the files of the group failed)": redis.ResponseError,
            "ERR max number of clients reached": redis.ConnectionError,
        }.items():
            failing = Failing(error)
            self.addCleanup(failing.close)
            with self.subTest(error):
                for on_down, decision in {
                    "allow": (True, True, 5), "refuse": (False, False, 0),
                }.items():
                    found = decide(failing.uri, on_down=on_down, timeout=20)
                    self.assertEqual(found, [decision] * 6)
                with self.assertRaises(raised):
                    decide(failing.uri, timeout=20)

    def test_without_it_the_error_is_raised(self) -> None:
        for strategy in STRATEGIES.values():
            with self.assertRaises(redis.ConnectionError):
                strategy(storage_from_string(self.refusing)).hit(FIVE, "a")
            with self.assertRaises(StorageError):
                strategy(storage_from_string(self.refusing, wrap_exceptions=True)).hit(FIVE, "a")
            with self.assertRaises(StorageError):
                strategy(storage_from_string(self.nowhere, wrap_exceptions=True)).hit(FIVE, "a")

    def test_no_call_waits_longer_than_its_attempts(self) -> None:
        limiter = MovingWindowRateLimiter(
            storage_from_string(self.silent, timeout=0.1, retries=1, on_down="allow")
        )
        begun = time.monotonic()
        self.assertTrue(limiter.hit(FIVE, "a"))
        self.assertLess(time.monotonic() - begun, 2)

    def test_the_log_tells_once(self) -> None:
        limiter = MovingWindowRateLimiter(storage_from_string(self.refusing, on_down="allow"))
        with self.assertLogs("frs_limits", "WARNING") as told:
            for _ in range(3):
                limiter.hit(FIVE, "a")
        self.assertEqual(len(told.records), 1)
        self.assertIn("all uses are allowed", told.output[0])


class Wrong(Limited):
    """What is set wrongly is an error whatever `on_down` says: limits that are not there would not
    be missed."""

    def expect(self, error: type[Exception], words: str, uri: str, **options: Any) -> None:
        for on_down in ("raise", "allow", "refuse"):
            with self.subTest(uri=uri, on_down=on_down):
                with self.assertRaises(error) as caught:
                    decide(uri, on_down=on_down, timeout=20, **options)
                self.assertIn(words, str(caught.exception))

    def test_a_token(self) -> None:
        wrong = redis.AuthenticationError
        self.expect(wrong, "", f"frs://:not-the-token@{self.guarded}")
        self.expect(wrong, "", f"frs://{self.guarded}")
        self.assertEqual(decide(f"frs://:{TOKEN}@{self.guarded}")[0], (True, True, 5))
        self.assertTrue(decide(f"frs://{self.guarded}", token=TOKEN)[0][0])

    def test_a_business(self) -> None:
        self.expect(redis.ResponseError, "unknown-biz", f"{self.uri}?biz=nope")

    def test_a_limit_beyond_that_of_map_xml(self) -> None:
        limiter = MovingWindowRateLimiter(self.storage(on_down="allow"))
        with self.assertRaises(redis.ResponseError) as caught:
            limiter.hit(parse("201/minute"), "a")
        self.assertIn("bad-rate", str(caught.exception))
        note = caught.exception.__notes__[0]
        self.assertIn("201/60s in the business adhoc of map.xml. For more uses take", note)

    @unittest.skipUnless(HAS_REDIS, "redis-server is not installed")
    def test_a_server_that_is_redis(self) -> None:
        other = Redis()
        self.addCleanup(other.close)
        path = other.uri.removeprefix("redis+unix://")
        self.expect(WrongServer, "found redis", f"frs+unix://{path}")


class Restart(Limited):
    def test_counts_go_on_in_the_middle_of_traffic(self) -> None:
        """Four threads hit while the server is killed and started again. What was admitted is
        what is charged: no use is lost or charged twice, not even by a retry."""
        for how in (self.server.kill, self.server.stop):
            with self.subTest(how.__name__):
                self.play(how, f"k-{how.__name__}")

    def play(self, end: Any, key: str) -> None:
        limit, ended = parse("100000/hour"), threading.Event()
        storage = self.storage(retries=1)
        admitted, doubtful = [0] * 4, [0] * 4

        def hit(index: int) -> None:
            while not ended.is_set():
                try:
                    admitted[index] += storage.incr(limit.key_for(key), 3600) <= limit.amount
                except redis.RedisError:
                    # Charged or not: its answer was lost, and so was that of its retry.
                    doubtful[index] += 1

        threads = [threading.Thread(target=hit, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        while min(admitted) < 50:
            time.sleep(0.01)
        end()
        self.server.start()
        before = list(admitted)
        while any(now < then + 50 for now, then in zip(admitted, before, strict=True)):
            time.sleep(0.01)
        ended.set()
        for thread in threads:
            thread.join()
        used = storage.get(limit.key_for(key))
        self.assertGreaterEqual(used, sum(admitted))
        self.assertLessEqual(used, sum(admitted) + sum(doubtful))

    def test_a_retry_charges_once(self) -> None:
        """A proxy loses the first answer. The retry has the same id, so it charges nothing."""
        front = reserved()
        front.listen()
        self.addCleanup(front.close)
        lost: list[bytes] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = front.accept()
                except OSError:
                    return
                back = socket.create_connection(("127.0.0.1", self.port))
                threading.Thread(target=relay, args=(client, back), daemon=True).start()

        def relay(client: socket.socket, back: socket.socket) -> None:
            with client, back:
                while asked := client.recv(65536):
                    back.sendall(asked)
                    answer = back.recv(65536)
                    if b"FRS.UPDATE" in asked and not lost:
                        lost.append(answer)
                        return
                    client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        uri = f"frs://127.0.0.1:{port_of(front)}"
        storage = self.storage(uri)
        for biz, strategy in STRATEGIES.items():
            with self.subTest(biz):
                lost.clear()
                self.assertTrue(strategy(storage).hit(FIVE, biz, cost=2))
                self.assertEqual(len(lost), 1)
                self.assertEqual(strategy(storage).get_window_stats(FIVE, biz).remaining, 3)
        for biz, strategy in ASYNC_STRATEGIES.items():
            with self.subTest(f"async {biz}"):
                lost.clear()
                limiter, key = strategy(self.storage(f"async+{uri}")), f"async-{biz}"
                self.assertTrue(asyncio.run(limiter.hit(FIVE, key, cost=2)))
                self.assertEqual(len(lost), 1)
                stats = STRATEGIES[biz](storage).get_window_stats(FIVE, key)
                self.assertEqual(stats.remaining, 3)


if __name__ == "__main__":
    unittest.main()
