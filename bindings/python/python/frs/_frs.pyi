from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from os import PathLike
from typing import Final, Literal, SupportsIndex, TypeAlias, final, overload

from ._errors import ItemError

_Biz: TypeAlias = str | int
_Key: TypeAlias = str | int | IPv4Address | IPv6Address
_Element: TypeAlias = Item | tuple[_Biz, _Key] | tuple[_Biz, _Key, int]

__all__ = ["Answers", "Client", "Item", "Limit", "Verdict", "__version__", "attach"]

__version__: Final[str]

def attach(data: str | PathLike[str]) -> Client: ...
@final
class Client:
    def update(
        self,
        biz: _Biz,
        key: _Key,
        count: int = 1,
        *,
        force: bool = False,
        detail: bool = False,
        rate: str | None = None,
        burst: int | None = None,
        max: int | None = None,
        partial: bool = False,
        member: str | None = None,
        once: str | None = None,
        hold: str | None = None,
        ttl: int | None = None,
        settle: bool = False,
    ) -> Verdict: ...
    def try_update(
        self,
        biz: _Biz,
        key: _Key,
        count: int = 1,
        *,
        force: bool = False,
        detail: bool = False,
        rate: str | None = None,
        burst: int | None = None,
        max: int | None = None,
        partial: bool = False,
        member: str | None = None,
        once: str | None = None,
        hold: str | None = None,
        ttl: int | None = None,
        settle: bool = False,
    ) -> Verdict: ...
    def query(
        self,
        biz: _Biz,
        key: _Key,
        count: int = 1,
        *,
        detail: bool = False,
        rate: str | None = None,
        burst: int | None = None,
        max: int | None = None,
        partial: bool = False,
        member: str | None = None,
        once: str | None = None,
        hold: str | None = None,
        ttl: int | None = None,
        settle: bool = False,
    ) -> Verdict: ...
    def batch(
        self, items: Iterable[_Element], *, query: bool = False, wait: bool = True
    ) -> Answers: ...
    def atomic(
        self,
        items: Iterable[_Element],
        *,
        query: bool = False,
        wait: bool = True,
        once: str | None = None,
    ) -> Answers: ...

@final
class Item:
    def __new__(
        cls,
        biz: _Biz,
        key: _Key,
        count: int = 1,
        *,
        force: bool = False,
        detail: bool = False,
        rate: str | None = None,
        burst: int | None = None,
        max: int | None = None,
        partial: bool = False,
        member: str | None = None,
        once: str | None = None,
        hold: str | None = None,
        ttl: int | None = None,
        settle: bool = False,
    ) -> Item: ...

@final
class Verdict:
    @property
    def allowed(self) -> bool: ...
    @property
    def limited(self) -> bool: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def used(self) -> int | None: ...
    @property
    def max(self) -> int | None: ...
    @property
    def remaining(self) -> int | None: ...
    @property
    def reset(self) -> int | None: ...
    @property
    def retry(self) -> int | None: ...
    @property
    def banned(self) -> bool: ...
    @property
    def action(self) -> str | None: ...
    @property
    def weight(self) -> float | None: ...
    @property
    def list(self) -> Literal["allow", "deny"] | None: ...
    @property
    def shared(self) -> bool: ...
    @property
    def age(self) -> int | None: ...
    @property
    def shadow(self) -> bool: ...
    @property
    def degraded(self) -> bool: ...
    @property
    def granted(self) -> int | None: ...
    @property
    def repeated(self) -> bool: ...
    @property
    def held(self) -> int | None: ...
    @property
    def unknown_hold(self) -> bool: ...
    @property
    def limits(self) -> tuple[Limit, ...]: ...
    @property
    def error(self) -> ItemError | None: ...
    def __bool__(self) -> bool: ...

@final
class Limit:
    @property
    def index(self) -> int: ...
    @property
    def policy(self) -> str: ...
    @property
    def limited(self) -> bool: ...
    @property
    def used(self) -> int: ...
    @property
    def max(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    @property
    def reset(self) -> int | None: ...
    @property
    def retry(self) -> int | None: ...
    @property
    def standard_error(self) -> float | None: ...
    @property
    def history(self) -> tuple[int, ...] | None: ...

@final
class Answers:
    @property
    def refused(self) -> bool: ...
    @property
    def items(self) -> tuple[Verdict, ...]: ...
    def __bool__(self) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Verdict]: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Verdict: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[Verdict, ...]: ...
