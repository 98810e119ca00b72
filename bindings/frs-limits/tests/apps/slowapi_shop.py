"""A program with slowapi. LIMITS is the URI of its storage."""

import os

import frs_limits  # noqa: F401
from fastapi import FastAPI, Request, Response
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded

limiter = Limiter(
    key_func=lambda request: request.headers["X-User"],
    storage_uri=os.environ["LIMITS"],
    strategy=os.environ["STRATEGY"],
    headers_enabled=True,
)
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.get("/login")
@limiter.limit("5/hour")
async def login(request: Request, response: Response) -> str:
    return "in"


@app.get("/search")
@limiter.limit("20/hour;7/minute", cost=2)
async def search(request: Request, response: Response) -> str:
    return "found"


@app.get("/")
@limiter.limit("40/hour")
def index(request: Request, response: Response) -> str:
    return "shop"
