"""Equal decisions: the same random traffic to frs and to a real Redis, by the strategies of
`limits`.

Both read a clock of their own, so a hit at the very edge of a window may fall into another one.
Hits come in slots that stay clear of all edges. After a hit that was late the test goes on with
a fresh key, so a busy machine makes it longer, not wrong.
"""

import random
import time
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.storage import storage_from_string
from served import HAS_REDIS, STRATEGIES, Limited, Redis

WINDOW_S = 3
# The edge of a window is in the middle between two slots.
SLOT_S = WINDOW_S / 7.5
# What a slot may take, so that it is clear of edges.
LATE_S = 0.15
# Where in a window to ask a sliding window counter, as a part of it: clear of each k/n, n up to 5,
# where the weight of n uses of the window before changes.
PHASES = [0.0025, 0.1, 0.27, 0.295, 0.37, 0.45, 0.55, 0.63, 0.71, 0.775, 0.9]
LATE_IN_PHASE_S = 0.05
KEYS = 12
ENOUGH = 150


@unittest.skipUnless(HAS_REDIS, "redis-server is not installed")
class Equal(Limited):
    def setUp(self) -> None:
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.close)
        seed = random.randrange(2**32)
        self.random = random.Random(seed)
        self.said = f"seed {seed}"

    def both(self, strategy: str) -> tuple[Any, Any]:
        make = STRATEGIES[strategy]
        return make(self.storage()), make(storage_from_string(self.redis.uri))

    def play(
        self, late_s: float, slots: Iterator[float], decide: Callable[[str, int, int], bool]
    ) -> None:
        """Calls `decide` with the name of a key, a slot and the number of the key, for the keys in
        each slot, until enough calls were in time for keys that were older than a window. A key is
        replaced if its call ended late, or if the call returns False. Once a slot is late, its
        other keys are left out."""
        names, begun, enough = [f"0-{key}" for key in range(KEYS)], [0.0] * KEYS, ENOUGH
        for index, at in enumerate(slots):
            time.sleep(max(0.0, at - time.time()))
            for key in self.random.sample(range(KEYS), KEYS):
                if time.time() - at > late_s:
                    break
                failure, is_kept = None, False
                try:
                    is_kept = decide(names[key], index, key)
                except AssertionError as error:
                    failure = error
                is_late = time.time() - at > late_s
                if failure and not is_late:
                    raise failure
                if is_late or not is_kept:
                    names[key], begun[key] = f"{index + 1}-{key}", 0.0
                    continue
                begun[key] = begun[key] or at
                enough -= at - begun[key] > WINDOW_S
            if enough <= 0:
                return
        self.fail("the machine was too busy: too few calls were in time")

    def item(self, key: int) -> RateLimitItem:
        return RateLimitItemPerSecond(1 + key % 5, WINDOW_S)

    def slots(self) -> Iterator[float]:
        begun = time.time() + 0.05
        yield from (begun + SLOT_S * index for index in range(250))

    def test_fixed_windows_decide_as_those_in_redis(self) -> None:
        ours, theirs = self.both("fixed-window")

        def decide(name: str, slot: int, key: int) -> bool:
            item = self.item(key)
            for _ in range(self.random.randrange(3)):
                expected = theirs.hit(item, name)
                self.assertEqual(ours.hit(item, name), expected, f"{self.said}, {slot}, {name}")
            self.assertEqual(ours.test(item, name), theirs.test(item, name), self.said)
            mine, other = (each.get_window_stats(item, name) for each in (ours, theirs))
            self.assertEqual(mine.remaining, other.remaining, self.said)
            # Redis is asked for whole seconds.
            self.assertAlmostEqual(mine.reset_time, other.reset_time, delta=1.1)
            return True

        self.play(LATE_S, self.slots(), decide)

    def test_fixed_windows_with_costs_admit_a_limit_each(self) -> None:
        """`limits` counts in Redis what it refuses, and a refused hit opens a window there. frs
        charges what it admits. So windows begin elsewhere, and a costly hit that is refused leaves
        room for smaller ones. What is admitted in the length of a window is at most two limits, as
        of any fixed window."""
        ours, theirs = self.both("fixed-window")
        charged: dict[str, list[tuple[float, int]]] = {}

        def decide(name: str, slot: int, key: int) -> bool:
            item = self.item(key)
            cost = self.random.randrange(1, 4)
            expected, own = theirs.hit(item, name, cost=cost), ours.hit(item, name, cost=cost)
            if name not in charged:
                self.assertEqual(own, expected, self.said)
            charged.setdefault(name, []).append((time.time(), cost * own))
            return True

        self.play(LATE_S, self.slots(), decide)
        for name, all_of_it in charged.items():
            limit, begun, used = self.item(int(name.split("-")[1])).amount, 0.0, 0
            # The last hit of a key may have been late.
            all_of_it.pop()
            for at, own in all_of_it:
                if own and at - begun >= WINDOW_S:
                    begun, used = at, 0
                used += own
                self.assertLessEqual(used, limit, self.said)
                within = sum(own for other, own in all_of_it if at - WINDOW_S < other <= at)
                self.assertLessEqual(within, 2 * limit, self.said)

    def test_moving_windows_decide_as_those_in_redis(self) -> None:
        ours, theirs = self.both("moving-window")

        def decide(name: str, slot: int, key: int) -> bool:
            item = self.item(key)
            for _ in range(self.random.randrange(3)):
                cost = self.random.choice([1, 1, 1, 2, 3])
                expected = theirs.hit(item, name, cost=cost)
                taken = ours.hit(item, name, cost=cost)
                self.assertEqual(taken, expected, f"{self.said}, {slot}, {name}, cost {cost}")
            self.assertEqual(ours.test(item, name), theirs.test(item, name), self.said)
            mine, other = (each.get_window_stats(item, name) for each in (ours, theirs))
            self.assertEqual(mine.remaining, other.remaining, self.said)
            self.assertAlmostEqual(mine.reset_time, other.reset_time, delta=LATE_S)
            return True

        self.play(LATE_S, self.slots(), decide)

    def test_sliding_window_counters_admit_no_more_than_those_in_redis(self) -> None:
        """`limits` rounds the weighted count of the window before down, frs does not round. In
        Redis the windows of a key begin with its first hit, in frs on the clock. Here each key has
        its first hit as a window of the clock begins."""
        ours, theirs = self.both("sliding-window-counter")
        records: dict[str, Counter] = {}

        def slots() -> Iterator[float]:
            begun = (time.time() // WINDOW_S + 1) * WINDOW_S
            for window in range(30):
                yield from (begun + (window + phase) * WINDOW_S for phase in PHASES)

        def decide(name: str, slot: int, key: int) -> bool:
            item = self.item(key)
            window, phase = divmod(slot, len(PHASES))
            # The edge of a window of Redis, but for the first one.
            if (name in records) == (phase == 0):
                return name in records
            record = records.setdefault(name, Counter(item.amount))
            if not record.move(window, PHASES[phase]):
                return False
            hits = self.random.randrange(3)
            # A key of Redis without hits in a window would begin anew.
            if phase in (0, len(PHASES) - 1):
                hits, record.closed = max(1, hits), window
            said = f"{self.said}, {slot}, {name}"
            for _ in range(hits):
                own = ours.hit(item, name)
                record.difference += theirs.hit(item, name) - own
                self.assertEqual(own, record.hit(), said)
                self.assertIn(record.difference, (0, 1), said)
            self.assertEqual(ours.test(item, name), record.room >= 1, said)
            self.assertEqual(ours.get_window_stats(item, name).remaining, int(record.room), said)
            return True

        self.play(LATE_IN_PHASE_S, slots(), decide)


class Counter:
    """The two counters of a key by the rule of docs/limits.md."""

    def __init__(self, limit: int) -> None:
        self.limit, self.window = limit, -1
        self.current = self.previous = 0
        # The last window that has uses in Redis, too.
        self.closed = -1
        # How many more Redis has admitted in the current window.
        self.difference = 0

    def move(self, window: int, phase: float) -> bool:
        """Goes on to a time. False if the window before may have no uses in Redis."""
        if window != self.window:
            if self.window >= 0 and self.closed != window - 1:
                return False
            self.previous = self.current
            self.window, self.current, self.difference = window, 0, 0
        self.weight = 1 - phase
        return True

    @property
    def room(self) -> float:
        return self.limit - self.current - self.previous * self.weight

    def hit(self) -> bool:
        is_taken = self.room >= 1
        self.current += is_taken
        return is_taken


if __name__ == "__main__":
    unittest.main()
