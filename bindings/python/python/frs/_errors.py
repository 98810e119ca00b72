"""The exceptions. Each class has the word of its error; the native module raises them by name."""

from typing import ClassVar


class Error(Exception):
    """A call gave no answer. Nothing was charged."""

    word: ClassVar[str] = "error"

    @property
    def text(self) -> str:
        """What was found, and what was expected."""
        return str(self)


class ItemError(Error):
    """The item was not judged."""


class UnknownBiz(ItemError):
    """map.xml has no such business."""

    word = "unknown-biz"


class BadKey(ItemError):
    """The key is empty, too long, or not of the type of the business's keys."""

    word = "bad-key"


class BadCount(ItemError):
    """The count does not fit 32 bits, a limit does not take it, or it may not be partial."""

    word = "bad-count"


class BadMember(ItemError):
    """A limit notes members, and there is none of 1 to 1024 bytes."""

    word = "bad-member"


class BadRate(ItemError):
    """The rate, the burst or the maximum are none, or out of bounds, or no limit takes them."""

    word = "bad-rate"


class BadOnce(ItemError):
    """The id has not 1 to 64 bytes, or the business remembers none, or it belongs on the batch."""

    word = "bad-once"


class BadHold(ItemError):
    """The hold, its life or settle are out of bounds, or the business has no such holds."""

    word = "bad-hold"


class StoreFailed(ItemError):
    """The files of the business's group failed."""

    word = "store"


class Busy(ItemError):
    """The record was not free within lock-timeout."""

    word = "busy"


class Full(ItemError):
    """There is no room for another key."""

    word = "full"


class FullHolds(ItemError):
    """The record has no room for another hold."""

    word = "full-holds"


class WouldWait(ItemError):
    """A shared limit lacks a lease, and the call does not wait. A later call finds it."""

    word = "would-wait"


class TooMany(Error):
    """The batch has more items than srv.xml allows, or than 65,536."""

    word = "too-many-items"


class AttachError(Error):
    """This process has no attachment and cannot get one now. A later call tries again."""

    word = "attach"


class NoServer(AttachError):
    """No server has prepared the data directory, or the server has ended."""

    word = "no-server"


class Denied(AttachError):
    """The user of this process has no permission to read and write the files."""

    word = "denied"


class NoPlace(AttachError):
    """All places for programs are in use."""

    word = "no-place"


class AttachFailed(AttachError):
    """The files are of another version, or the process lacks descriptors or memory."""

    word = "attach-failed"


class TooManyForks(AttachError):
    """Too many forks lie between the process that attached and this one."""

    word = "too-many-forks"
