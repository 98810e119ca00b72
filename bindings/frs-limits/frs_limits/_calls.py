"""What each call of a storage asks of frs, and what its answer means to `limits`.

Nothing here does input or output: the storages for threads and for asyncio share all of it.
"""

import hashlib
import re
import secrets
import time
from dataclasses import dataclass

from limits.limits import GRANULARITIES

from ._options import Options

# More than any count of a record. `frs` counts up to 2^53 - 1.
ENDLESS = 2**53
# The largest count that one call gives back.
ALL = -(2**31)
# What frs takes as a key: so many bytes, without the characters that XML forbids.
LONGEST_KEY = 1024
KEY = re.compile("[^\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]+")


@dataclass(frozen=True, slots=True)
class Ask:
    """An Update or a Query of one key."""

    biz: str
    key: str
    count: int
    rate: str
    is_update: bool
    is_forced: bool = False
    once: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The figures of a verdict. Times are seconds from now."""

    limited: bool
    used: int
    remaining: int
    reset: float = 0.0
    retry: float | None = None


# What limits decide while frs does not answer, if `on_down` says so.
ALLOW = Answer(limited=False, used=0, remaining=ENDLESS)
REFUSE = Answer(limited=True, used=ENDLESS, remaining=0)


def limit_of(key: str) -> tuple[int, int] | None:
    """The amount and the seconds that `RateLimitItem.key_for` writes at the end of a key."""
    parts = key.rsplit("/", 3)
    if len(parts) != 4 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    unit = GRANULARITIES.get(parts[3])
    return (int(parts[1]), int(parts[2]) * unit.GRANULARITY.seconds) if unit else None


def short(key: str) -> str:
    """A key that frs takes. Another one, such as one with a path that a client chose, becomes a
    digest, so that no client makes a limit fail."""
    data = key.encode(errors="backslashreplace")
    fits = len(data) <= LONGEST_KEY and KEY.fullmatch(key)
    return data.decode() if fits else hashlib.sha256(data).hexdigest()


class Calls:
    """Makes calls. A fixed window counts in the business BIZ-fixed, a moving one in BIZ, a sliding
    window counter in BIZ-counter."""

    def __init__(self, options: Options) -> None:
        self.moving, self.fixed = options.biz, f"{options.biz}-fixed"
        self.counter = f"{options.biz}-counter"
        self.has_ids = options.retries > 0 and options.scheme != "frs+data"

    def hit(self, biz: str, key: str, limit: int, expiry: int, amount: int) -> Ask:
        return Ask(biz, short(key), amount, f"{limit}/{expiry}s", True, once=self._id())

    def look(self, biz: str, key: str, limit: int, expiry: int, amount: int = 1) -> Ask:
        """A Query of one use tells whether the next hit would be refused."""
        return Ask(biz, short(key), amount, f"{limit}/{expiry}s", False)

    def incr(self, key: str, expiry: int, amount: int) -> Ask:
        """With the limit that the key names, frs refuses, and charges nothing then. A key that
        names none is charged in any case."""
        known = limit_of(key)
        if known and known[1] == expiry:
            return self.hit(self.fixed, key, known[0], expiry, amount)
        return Ask(self.fixed, short(key), amount, f"1/{expiry}s", True, True, self._id())

    def get(self, key: str) -> Ask:
        limit, expiry = limit_of(key) or (1, 60)
        return self.look(self.fixed, key, limit, expiry)

    def clear(self, key: str) -> list[Ask]:
        """A key has counted in one of the two businesses."""
        _, expiry = limit_of(key) or (1, 60)
        rate = f"1/{expiry}s"
        return [Ask(biz, short(key), ALL, rate, True) for biz in (self.fixed, self.moving)]

    def clear_counter(self, key: str, expiry: int) -> Ask:
        """A call with another interval begins the two counters anew."""
        return Ask(self.counter, short(key), 0, f"1/{expiry + 1}s", True)

    def _id(self) -> str | None:
        return secrets.token_urlsafe(12) if self.has_ids else None


def count_after(key: str, amount: int, answer: Answer) -> int:
    """What `incr` returns. It exceeds the limit of the key exactly if frs has refused, also where
    an <override> of map.xml gives the key another maximum."""
    known = limit_of(key)
    if not known:
        return answer.used
    if answer.limited:
        return max(answer.used + amount, known[0] + 1)
    return min(answer.used, known[0])


def used_of(limit: int | None, answer: Answer) -> int:
    """How much of a limit is used, by a Query of one use. It is all of it exactly if frs refuses
    the next hit: not in shadow mode, and always where map.xml denies the key."""
    if limit is None:
        return answer.used
    return limit if answer.limited else min(max(0, limit - answer.remaining), limit - 1)


def count_of(key: str, answer: Answer) -> int:
    known = limit_of(key)
    return used_of(known and known[0], answer)


def needs_more(limit: int, first: Answer) -> int | None:
    """The count of a second Query that tells when the next use comes back, if the first one, of
    one use, has not told: it was not refused, although some are used."""
    partly = not first.limited and 0 < first.remaining < limit
    return first.remaining + 1 if partly else None


def moving_window(limit: int, expiry: int, first: Answer, told: Answer) -> tuple[float, int]:
    """When the window began, and what has been used in it: the oldest use leaves at its end."""
    used = used_of(limit, first)
    if used == 0:
        return time.time(), 0
    leaves = told.reset if told.retry is None else told.retry
    return time.time() + leaves - expiry, used


def sliding_window(
    limit: int | None, expiry: int, first: Answer, told: Answer
) -> tuple[int, float, int, float]:
    """The weighted count as if all of it were in the current window, whose time to live says when
    the next use comes back, or the current window ends if that is sooner."""
    used = used_of(limit, first)
    if used == 0:
        return 0, 0.0, 0, 0.0
    frees = told.reset if told.retry is None else told.retry
    if told.reset > expiry:
        frees = min(frees, told.reset - expiry)
    # `limits` takes the remainder by the interval.
    return 0, 0.0, used, min(frees, expiry - 0.001)
