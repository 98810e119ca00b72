"""The storage for coroutines."""

import asyncio
import time
from typing import Any

from limits.aio.storage import MovingWindowSupport, SlidingWindowCounterSupport, Storage

from . import _admin, _options
from ._calls import (
    Answer,
    Ask,
    Calls,
    count_after,
    count_of,
    limit_of,
    moving_window,
    needs_more,
    sliding_window,
)
from ._data import AsyncDataLink
from ._down import Down
from ._resp import AsyncRespLink


class AsyncFrsStorage(Storage, MovingWindowSupport, SlidingWindowCounterSupport):
    """Counts in frs, by all three strategies of `limits`."""

    STORAGE_SCHEME = ["async+frs", "async+frs+unix", "async+frs+data"]

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._options = _options.parse(uri, options)
        self._calls = Calls(self._options)
        self._down = Down(self._options)
        is_data = self._options.scheme == "frs+data"
        self._link = AsyncDataLink(self._options) if is_data else AsyncRespLink(self._options)

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        return self._link.errors

    async def _ask(self, ask: Ask) -> Answer:
        try:
            answer = await self._link.ask(ask)
        except self._link.errors as error:
            return self._down.failed(ask, error, self._link.is_away(error))
        self._down.answered()
        return answer

    async def _window(self, biz: str, key: str, limit: int, expiry: int) -> tuple[Answer, Answer]:
        """The figures of a window, and an answer that tells when the next use comes back."""
        first = await self._ask(self._calls.look(biz, key, limit, expiry))
        more = needs_more(limit, first)
        if more is None:
            return first, first
        return first, await self._ask(self._calls.look(biz, key, limit, expiry, more))

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return count_after(key, amount, await self._ask(self._calls.incr(key, expiry, amount)))

    async def get(self, key: str) -> int:
        return count_of(key, await self._ask(self._calls.get(key)))

    async def get_expiry(self, key: str) -> float:
        answer = await self._ask(self._calls.get(key))
        return time.time() + answer.reset

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        ask = self._calls.hit(self._calls.moving, key, limit, expiry, amount)
        return not (await self._ask(ask)).limited

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        first, told = await self._window(self._calls.moving, key, limit, expiry)
        return moving_window(limit, expiry, first, told)

    async def acquire_sliding_window_entry(
        self, key: str, limit: int, expiry: int, amount: int = 1
    ) -> bool:
        ask = self._calls.hit(self._calls.counter, key, limit, expiry, amount)
        return not (await self._ask(ask)).limited

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        known = limit_of(key)
        limit = known[0] if known else None
        first, told = await self._window(self._calls.counter, key, limit or 1, expiry)
        return sliding_window(limit, expiry, first, told)

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        await self._link.ask(self._calls.clear_counter(key, expiry))

    async def clear(self, key: str) -> None:
        answers = await self._link.ask_all(self._calls.clear(key))
        errors = [answer for answer in answers if isinstance(answer, Exception)]
        if len(errors) == len(answers):
            raise errors[0]

    async def reset(self) -> int | None:
        await asyncio.to_thread(_admin.reset, self._options, self._calls)
        return None

    async def check(self) -> bool:
        try:
            await self._link.check()
        except self._link.errors:
            return False
        return True
