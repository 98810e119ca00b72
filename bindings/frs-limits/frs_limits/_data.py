"""Asks by shared memory: the module `frs`, attached to a data directory on the same machine."""

from typing import TYPE_CHECKING, Any

from limits.errors import ConfigurationError

from ._calls import ENDLESS, Answer, Ask
from ._options import Options

if TYPE_CHECKING:
    import frs


def _module() -> Any:
    try:
        import frs
    except ImportError as error:
        raise ConfigurationError(
            "frs+data:// needs the package frs-limiter: build it as docs/python.md says, and "
            "pip install dist/frs_limiter-*.whl"
        ) from error
    if not hasattr(frs, "attach"):
        raise ConfigurationError(
            f"{frs.__file__} is another project's module frs, expected that of frs-limiter"
        )
    return frs


class DataLink:
    """Asks from threads and coroutines: a call takes about a microsecond and waits for nobody."""

    def __init__(self, options: Options) -> None:
        self._frs = _module()
        self._dir = options.path
        self._client: frs.Client | None = None
        self.errors: tuple[type[Exception], ...] = (self._frs.Error,)

    def is_away(self, error: Exception) -> bool:
        away = (self._frs.NoServer, self._frs.Busy, self._frs.StoreFailed)
        return isinstance(error, away)

    def _attached(self) -> "frs.Client":
        # At the first call: the server may start after the program.
        if self._client is None:
            self._client = self._frs.attach(self._dir)
        return self._client

    def ask(self, ask: Ask) -> Answer:
        client = self._attached()
        if ask.is_update:
            found = client.update(
                ask.biz, ask.key, ask.count, rate=ask.rate, force=ask.is_forced
            )
        else:
            found = client.query(ask.biz, ask.key, ask.count, rate=ask.rate)
        return Answer(
            limited=found.limited,
            used=found.used or 0,
            remaining=ENDLESS if found.remaining is None else found.remaining,
            reset=(found.reset or 0) / 1000,
            retry=None if found.retry is None else found.retry / 1000,
        )

    def ask_all(self, asks: list[Ask]) -> list[Answer | Exception]:
        answers: list[Answer | Exception] = []
        for ask in asks:
            try:
                answers.append(self.ask(ask))
            except self._frs.ItemError as error:
                answers.append(error)
        return answers

    def check(self) -> None:
        self._attached()


class AsyncDataLink:
    """The same for coroutines."""

    def __init__(self, options: Options) -> None:
        self._link = DataLink(options)
        self.errors = self._link.errors
        self.is_away = self._link.is_away

    async def ask(self, ask: Ask) -> Answer:
        return self._link.ask(ask)

    async def ask_all(self, asks: list[Ask]) -> list[Answer | Exception]:
        return self._link.ask_all(asks)

    async def check(self) -> None:
        self._link.check()
