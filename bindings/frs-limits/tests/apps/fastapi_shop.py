"""A program with FastAPI and the strategies of `limits` for asyncio. LIMITS is the URI of its
storage."""

import os
from collections.abc import Awaitable, Callable
from typing import Annotated

import frs_limits  # noqa: F401
from fastapi import Depends, FastAPI, Header, HTTPException
from limits import parse_many
from limits.aio.strategies import STRATEGIES
from limits.storage import storage_from_string

app = FastAPI()
uri = os.environ["LIMITS"]
options = {} if uri.startswith("frs") else {"implementation": "redispy"}
strategy = STRATEGIES[os.environ["STRATEGY"]](storage_from_string(f"async+{uri}", **options))


def limit(path: str, text: str, cost: int = 1) -> Callable[[str], Awaitable[None]]:
    items = parse_many(text)

    async def check(x_user: Annotated[str, Header()]) -> None:
        # Each limit is charged, as slowapi does.
        if not all([await strategy.hit(item, path, x_user, cost=cost) for item in items]):
            raise HTTPException(429)

    return check


@app.get("/login", dependencies=[Depends(limit("/login", "5/hour"))])
async def login() -> str:
    return "in"


@app.get("/search", dependencies=[Depends(limit("/search", "20/hour;7/minute", cost=2))])
async def search() -> str:
    return "found"


@app.get("/", dependencies=[Depends(limit("/", "40/hour"))])
async def index() -> str:
    return "shop"
