"""A program with throttled-py's fixed window: 5 logins a minute, and 7 at a cost of 2."""

import sys

import program

try:
    from throttled import RateLimiterType, Throttled, rate_limiter, store
except ImportError as error:
    program.skip(error)

limit = Throttled(
    using=RateLimiterType.FIXED_WINDOW.value,
    quota=rate_limiter.per_min(7),
    store=store.RedisStore(server=sys.argv[1]),
)


def decide(key):
    result = limit.limit(key, cost=2 if key.endswith("2") else 1)
    return result.limited, limit.peek(key).remaining


program.run(decide)
