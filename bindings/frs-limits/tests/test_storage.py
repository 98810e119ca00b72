"""The three strategies of `limits` over each kind of URI, from threads and from coroutines."""

import asyncio
import re
import time
import unittest
from typing import Any

import limits.strategies
from limits import RateLimitItem, parse
from limits.errors import ConfigurationError
from served import ASYNC_STRATEGIES, SHIPPED, STRATEGIES, TOKEN, Limited


class Awaited:
    """A strategy or storage of asyncio, called as one of threads."""

    def __init__(self, loop: asyncio.Runner, inner: Any) -> None:
        self.loop, self.inner = loop, inner

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await getattr(self.inner, name)(*args, **kwargs)

        return lambda *args, **kwargs: self.loop.run(call(*args, **kwargs))


class Storage(Limited):
    # The VIP has another maximum, whatever the program says, and the foe has none. The businesses
    # of `quiet` refuse nothing, and take no ids.
    map_xml = re.sub(
        r'(<biz [^>]*name="adhoc.*?)(</biz>)',
        r"\1<override key='LIMITER/vip*' limit='1' max='8'/><deny key='LIMITER/foe*'/>\2",
        SHIPPED,
        flags=re.DOTALL,
    ).replace("</map>", """
      <biz id="11" name="quiet" key="string" mode="shadow" group="adhoc">
        <limit policy="sliding" interval="1h" max="5" per-call="true"/></biz>
      <biz id="12" name="quiet-fixed" key="string" mode="shadow">
        <limit policy="interval" interval="1h" max="5" per-call="true"/></biz>
      <biz id="13" name="quiet-counter" key="string" mode="shadow">
        <limit policy="sliding-counter" interval="1h" max="5" per-call="true"/></biz></map>""")

    def setUp(self) -> None:
        super().setUp()
        self.loop = asyncio.Runner()
        self.addCleanup(self.loop.close)

    def every(self, **options: Any) -> list[tuple[str, Any, Any]]:
        """Each strategy over each kind of URI: a name, the strategy and its storage."""
        uris = [
            self.uri,
            f"frs://:{TOKEN}@{self.guarded}",
            f"frs+unix://{self.server.dir}/resp.sock",
            f"frs+data://{self.server.data}",
        ]
        found: list[tuple[str, Any, Any]] = []
        for kind, uri in enumerate(uris):
            storage = self.storage(uri, **options)
            found += [
                (f"{name}-{kind}", strategy(storage), storage)
                for name, strategy in STRATEGIES.items()
            ]
            storage = self.storage(f"async+{uri}", **options)
            found += [
                (f"{name}-{kind}-async", Awaited(self.loop, strategy(storage)),
                 Awaited(self.loop, storage))
                for name, strategy in ASYNC_STRATEGIES.items()
            ]
        self.assertEqual(len(found), 24)
        return found

    def test_hits_tests_and_figures(self) -> None:
        item = parse("5/hour")
        for name, strategy, storage in self.every():
            with self.subTest(name):
                before = time.time()
                self.assertTrue(storage.check())
                self.assertEqual(strategy.get_window_stats(item, name).remaining, 5)
                self.assertTrue(strategy.hit(item, name, cost=2))
                self.assertTrue(strategy.hit(item, name, cost=2))
                # A refused hit charges nothing.
                self.assertFalse(strategy.hit(item, name, cost=2))
                self.assertTrue(strategy.test(item, name))
                self.assertFalse(strategy.test(item, name, cost=2))
                self.assertEqual(strategy.get_window_stats(item, name).remaining, 1)
                self.assertTrue(strategy.hit(item, name))
                self.assertFalse(strategy.hit(item, name))
                self.assertFalse(strategy.test(item, name))
                self.assertFalse(strategy.hit(item, name, cost=6))
                stats = strategy.get_window_stats(item, name)
                self.assertEqual(stats.remaining, 0)
                if not name.startswith("sliding"):
                    # Milliseconds are the server's unit.
                    self.assertGreater(stats.reset_time, before + 3599.9)
                    self.assertLess(stats.reset_time, time.time() + 3600.1)
                strategy.clear(item, name)
                self.assertEqual(strategy.get_window_stats(item, name).remaining, 5)
                self.assertTrue(strategy.hit(item, name, cost=5))

    def test_the_window_of_a_counter_ends_on_the_clock(self) -> None:
        item = parse("5/hour")
        for name, strategy, _ in self.every():
            if name.startswith("sliding"):
                self.assertTrue(strategy.hit(item, name))
                reset = strategy.get_window_stats(item, name).reset_time
                self.assertAlmostEqual(reset, time.time() // 3600 * 3600 + 3600, delta=1)

    def test_map_xml_gives_a_key_another_maximum(self) -> None:
        item = parse("5/hour")
        for name, strategy, _ in self.every():
            with self.subTest(name):
                vip = f"vip-{name}"
                taken = [strategy.hit(item, vip) for _ in range(10)]
                self.assertEqual(taken, [True] * 8 + [False] * 2)
                self.assertFalse(strategy.test(item, vip))

    def test_map_xml_denies_a_key(self) -> None:
        item = parse("5/hour")
        for name, strategy, _ in self.every():
            with self.subTest(name):
                self.assertFalse(strategy.test(item, f"foe-{name}"))
                self.assertFalse(strategy.hit(item, f"foe-{name}"))
                self.assertEqual(strategy.get_window_stats(item, f"foe-{name}").remaining, 0)

    def test_shadow_mode_refuses_nothing(self) -> None:
        item = parse("2/hour")
        for name, strategy, _ in self.every(biz="quiet", retries=0):
            with self.subTest(name):
                taken = [strategy.test(item, name) and strategy.hit(item, name) for _ in range(4)]
                self.assertEqual(taken, [True] * 4)

    def test_many_limits_of_one_key_count_apart(self) -> None:
        for name, strategy, _ in self.every():
            with self.subTest(name):
                for text in ("2/minute", "3/hour", "3/2 hour"):
                    self.assertTrue(strategy.hit(parse(text), name, cost=2))

    def test_keys_of_any_length_and_any_letters(self) -> None:
        item = parse("1/hour")
        for name, strategy, _ in self.every():
            letters = "中文/ 🙂\r\n", "\udc80", "\0\x1b\uffff"
            for key in ("x" * 5000 + name, *(begin + name for begin in letters)):
                with self.subTest(name=name, key=key[:5]):
                    self.assertTrue(strategy.hit(item, key))
                    self.assertFalse(strategy.hit(item, key))

    def test_a_key_that_names_no_limit_counts_all(self) -> None:
        for name, _, storage in self.every():
            if name.startswith("fixed"):
                with self.subTest(name):
                    self.assertEqual(storage.incr(name, 60), 1)
                    self.assertEqual(storage.incr(name, 60, 10), 11)
                    self.assertEqual(storage.get(name), 11)

    def test_an_item_of_the_program_itself(self) -> None:
        class PerFortnight(RateLimitItem):
            GRANULARITY = limits.limits.Granularity(14 * 86_400, "fortnight")

        for name, strategy, _ in self.every():
            with self.subTest(name):
                taken = [strategy.hit(PerFortnight(2), name) for _ in range(3)]
                self.assertEqual(taken, [True, True, False])

    def test_reset_makes_all_counters_fresh(self) -> None:
        item = parse("1/hour")
        for name, strategy, storage in self.every(admin=self.admin, admin_token=TOKEN):
            with self.subTest(name):
                self.assertTrue(strategy.hit(item, name))
                storage.reset()
                self.assertTrue(strategy.hit(item, name))
        with self.assertRaises(NotImplementedError):
            self.storage().reset()

    def test_refused_keys_are_shown_by_the_server(self) -> None:
        strategy = limits.strategies.FixedWindowRateLimiter(self.storage())
        for _ in range(3):
            strategy.hit(parse("1/hour"), "eve")
        status, body = self.server.get("/query?biz=adhoc-fixed&key=LIMITER/eve/1/1/hour&count=0")
        self.assertEqual((status, body["used"]), (200, 1))


class Options(unittest.TestCase):
    def test_what_is_wrong_is_said(self) -> None:
        for uri, options, words in [
            ("frs://", {}, "HOST:PORT"),
            ("frs://h:x", {}, "x"),
            ("frs://h:1/7", {}, "HOST:PORT"),
            ("frs://me:secret@h:1", {}, "found the user 'me'"),
            ("frs+unix://", {}, "PATH"),
            ("frs+data://", {}, "PATH"),
            ("frs://h:1?bizz=a", {}, "unknown option 'bizz', expected one of token, biz"),
            ("frs://h:1?timeout=soon", {}, "timeout is 'soon', expected a value of type float"),
            ("frs://h:1", {"timeout": 0}, "expected seconds above 0"),
            ("frs://h:1", {"retries": -1}, "expected 0 or more"),
            ("async+frs://h:1?on_down=open", {}, "expected raise, allow or refuse"),
        ]:
            with self.subTest(uri=uri, **options):
                with self.assertRaises(ConfigurationError) as caught:
                    limits.storage.storage_from_string(uri, **options)
                self.assertIn(words, str(caught.exception))
                self.assertNotIn("secret", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
