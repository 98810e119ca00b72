"""Asks over RESP, with redis-py as the client: pools, timeouts and retries are its own."""

from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ConnectionError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout
from redis.retry import Retry

from ._calls import ENDLESS, Answer, Ask
from ._options import Options

# The first version whose calls bring their limits.
OLDEST = (0, 1)
# Errors of a server that works, but cannot answer just now.
BUSY_WORDS = frozenset(["busy", "store"])


class WrongServer(RedisError):
    """What listens there is no frs, or an frs that is too old."""


def is_away(error: Exception) -> bool:
    """Whether an error says that frs does not answer. A wrong token or a wrong business is no such
    error: to let it pass would leave a program without limits unseen."""
    if isinstance(error, ResponseError):
        return str(error).split(" ", 1)[0] in BUSY_WORDS
    is_lost = isinstance(error, (ConnectionError, RedisTimeout))
    return is_lost and not isinstance(error, AuthenticationError)


def words(ask: Ask) -> list[str | int]:
    """The words of a command."""
    name = "FRS.UPDATE" if ask.is_update else "FRS.QUERY"
    command: list[str | int] = [name, ask.biz, ask.key, "COUNT", ask.count, "RATE", ask.rate]
    if ask.is_forced:
        command.append("FORCE")
    if ask.once:
        command += ["ONCE", ask.once]
    return command


def pairs(reply: Sequence[Any]) -> dict[bytes, Any]:
    """The map that RESP2 writes as a flat list."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def answer(reply: Sequence[Any]) -> Answer:
    found = pairs(reply)
    retry = found.get(b"retry")
    return Answer(
        limited=found[b"limited"] == 1,
        # Where no limit judges the key, there are no figures.
        used=found.get(b"used", 0),
        remaining=found.get(b"remaining", ENDLESS),
        reset=found.get(b"reset", 0) / 1000,
        retry=None if retry is None else retry / 1000,
    )


def check(hello: Any) -> None:
    """Checks the reply of HELLO."""
    found = pairs(hello) if isinstance(hello, list) else {}
    server = found.get(b"server", b"?").decode()
    version = found.get(b"version", b"?").decode()
    if server != "frs":
        raise WrongServer(f"found {server} {version}, expected frs: give the address of <resp>")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST:
        oldest = ".".join(str(number) for number in OLDEST)
        raise WrongServer(f"found frs {version}, expected {oldest} or newer")


def on_connect(connection: Any) -> None:
    connection.on_connect()
    connection.send_command("HELLO", 2)
    try:
        hello = connection.read_response()
    except ResponseError:
        # A Redis before version 6 does not know the command.
        hello = None
    check(hello)


async def on_connect_async(connection: Any) -> None:
    await connection.on_connect()
    await connection.send_command("HELLO", 2)
    try:
        hello = await connection.read_response()
    except ResponseError:
        # A Redis before version 6 does not know the command.
        hello = None
    check(hello)


def _settings(options: Options) -> dict[str, Any]:
    place: dict[str, Any] = {"host": options.host, "port": options.port}
    if options.scheme == "frs+unix":
        place = {"unix_socket_path": options.path}
    # RESP2: redis-py asks more questions of a server that speaks RESP3.
    return place | {
        "password": options.token,
        "protocol": 2,
        "socket_timeout": options.timeout,
        "socket_connect_timeout": options.timeout,
    }


class RespLink:
    """Asks from threads."""

    errors: tuple[type[Exception], ...] = (RedisError,)
    is_away = staticmethod(is_away)

    def __init__(self, options: Options) -> None:
        # Any: versions of redis-py differ in their types.
        self._redis: Any = redis.Redis(
            redis_connect_func=on_connect,  # type: ignore[arg-type]
            retry=Retry(NoBackoff(), options.retries),
            **_settings(options),
        )

    def ask(self, ask: Ask) -> Answer:
        return answer(self._redis.execute_command(*words(ask)))

    def ask_all(self, asks: list[Ask]) -> list[Answer | Exception]:
        """One answer or error for each, in one round trip."""
        pipeline = self._redis.pipeline(transaction=False)
        for ask in asks:
            pipeline.execute_command(*words(ask))
        replies = pipeline.execute(raise_on_error=False)
        return [it if isinstance(it, Exception) else answer(it) for it in replies]

    def check(self) -> None:
        self._redis.ping()


class AsyncRespLink:
    """Asks from coroutines."""

    errors: tuple[type[Exception], ...] = (RedisError,)
    is_away = staticmethod(is_away)

    def __init__(self, options: Options) -> None:
        self._redis: Any = redis.asyncio.Redis(
            redis_connect_func=on_connect_async,
            retry=AsyncRetry(NoBackoff(), options.retries),
            **_settings(options),
        )

    async def ask(self, ask: Ask) -> Answer:
        return answer(await self._redis.execute_command(*words(ask)))

    async def ask_all(self, asks: list[Ask]) -> list[Answer | Exception]:
        pipeline = self._redis.pipeline(transaction=False)
        for ask in asks:
            pipeline.execute_command(*words(ask))
        replies = await pipeline.execute(raise_on_error=False)
        return [it if isinstance(it, Exception) else answer(it) for it in replies]

    async def check(self) -> None:
        await self._redis.ping()
