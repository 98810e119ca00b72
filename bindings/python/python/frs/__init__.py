"""Frequency limits in shared memory: attach to an frs server on the same machine.

    import frs

    client = frs.attach("data")
    if client.update("login", "alice"):
        ...
"""

from ._errors import (
    AttachError,
    AttachFailed,
    BadCount,
    BadHold,
    BadKey,
    BadMember,
    BadOnce,
    BadRate,
    Busy,
    Denied,
    Error,
    Full,
    FullHolds,
    ItemError,
    NoPlace,
    NoServer,
    StoreFailed,
    TooMany,
    TooManyForks,
    UnknownBiz,
    WouldWait,
)
from ._frs import Answers, Client, Item, Limit, Verdict, __version__, attach

__all__ = [
    "Answers",
    "AttachError",
    "AttachFailed",
    "BadCount",
    "BadHold",
    "BadKey",
    "BadMember",
    "BadOnce",
    "BadRate",
    "Busy",
    "Client",
    "Denied",
    "Error",
    "Full",
    "FullHolds",
    "Item",
    "ItemError",
    "Limit",
    "NoPlace",
    "NoServer",
    "StoreFailed",
    "TooMany",
    "TooManyForks",
    "UnknownBiz",
    "Verdict",
    "WouldWait",
    "__version__",
    "attach",
]
