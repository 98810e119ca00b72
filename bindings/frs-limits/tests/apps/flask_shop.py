"""A program with Flask-Limiter. LIMITS is the URI of its storage."""

import os

import frs_limits  # noqa: F401
from flask import Flask, request
from flask_limiter import Limiter

app = Flask(__name__)
limiter = Limiter(
    lambda: request.headers["X-User"],
    app=app,
    storage_uri=os.environ["LIMITS"],
    strategy=os.environ["STRATEGY"],
    headers_enabled=True,
    default_limits=["40/hour"],
)


@app.get("/login")
@limiter.limit("5/hour")
def login() -> str:
    return "in"


@app.get("/search")
@limiter.limit("20/hour;7/minute", cost=2)
def search() -> str:
    return "found"


@app.get("/")
def index() -> str:
    return "shop"
