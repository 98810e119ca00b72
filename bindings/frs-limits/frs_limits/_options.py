"""The URI of a storage and its options, checked."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from limits.errors import ConfigurationError

# The port that the shipped srv.xml suggests for <resp>.
DEFAULT_PORT = 6380


@dataclass(frozen=True, slots=True)
class Options:
    """Where the server is, and how to ask it."""

    scheme: str
    # Of frs://.
    host: str
    port: int
    # The socket of frs+unix://, the data directory of frs+data://.
    path: str
    token: str | None
    # Moving windows count in this business, the others in those named after it.
    biz: str
    # Seconds for each attempt to connect or to get an answer.
    timeout: float
    retries: int
    # What a limit decides while frs does not answer: "raise", "allow" or "refuse".
    on_down: str
    # The admin plane, for `reset`.
    admin: str | None
    admin_token: str | None


# What a URI or the arguments of a storage may say: the type and the default.
KNOWN: dict[str, tuple[type, Any]] = {
    "token": (str, None),
    "biz": (str, "adhoc"),
    "timeout": (float, 0.5),
    "retries": (int, 1),
    "on_down": (str, "raise"),
    "admin": (str, None),
    "admin_token": (str, None),
}


def parse(uri: str, arguments: dict[str, Any]) -> Options:
    """Reads a URI such as `frs://:token@127.0.0.1:6380?biz=adhoc`. Arguments win over its query."""
    parts = urlsplit(uri.removeprefix("async+"))
    account, _, place = parts.netloc.rpartition("@")
    user, _, token = account.partition(":")
    if user:
        fail(uri, f"found the user {unquote(user)!r}: write frs://:TOKEN@HOST:PORT")
    said: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True)) | arguments
    if token:
        said.setdefault("token", unquote(token))
    values = {name: default for name, (_, default) in KNOWN.items()}
    for name, text in said.items():
        if name not in KNOWN:
            fail(uri, f"unknown option {name!r}, expected one of {', '.join(KNOWN)}")
        kind = KNOWN[name][0]
        try:
            values[name] = kind(text)
        except (TypeError, ValueError):
            fail(uri, f"{name} is {text!r}, expected a value of type {kind.__name__}")
    if not 0 < values["timeout"] <= 3600:
        fail(uri, f"timeout is {values['timeout']}, expected seconds above 0, up to 3600")
    if values["retries"] < 0:
        fail(uri, f"retries is {values['retries']}, expected 0 or more")
    if values["on_down"] not in ("raise", "allow", "refuse"):
        fail(uri, f"on_down is {values['on_down']!r}, expected raise, allow or refuse")

    host, port, path = "", 0, ""
    if parts.scheme == "frs":
        try:
            host, port = parts.hostname or "", parts.port or DEFAULT_PORT
        except ValueError as error:
            fail(uri, str(error))
        if not host or parts.path not in ("", "/"):
            fail(uri, "expected frs://[:TOKEN@]HOST:PORT")
    else:
        path = unquote(place + parts.path)
        if not path:
            fail(uri, f"expected {parts.scheme}://PATH")
    return Options(scheme=parts.scheme, host=host, port=port, path=path, **values)


def fail(uri: str, why: str) -> None:
    # The token stays out of logs.
    scheme, _, rest = uri.partition("://")
    raise ConfigurationError(f"{scheme}://{rest.rpartition('@')[2]}: {why}")
