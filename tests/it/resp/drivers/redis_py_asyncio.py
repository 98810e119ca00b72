"""redis-py's client for asyncio."""

import asyncio

import driver

try:
    import redis
    from redis.asyncio import Redis
except ImportError as error:
    driver.missing(error)

loop = asyncio.new_event_loop()


class Client:
    version = f"redis-py {redis.__version__} asyncio"
    lost = (redis.ConnectionError,)

    redis = None

    def connect(self, port, protocol, password):
        if self.redis:
            loop.run_until_complete(self.redis.aclose())
        self.redis = Redis(
            port=port, protocol=protocol, password=password, decode_responses=True
        )
        loop.run_until_complete(self.redis.ping())

    def ask(self, args):
        return loop.run_until_complete(self.redis.execute_command(*args))

    def many(self, asks, transaction):
        async def run():
            async with self.redis.pipeline(transaction=transaction) as pipeline:
                for args in asks:
                    pipeline.execute_command(*args)
                return await pipeline.execute(raise_on_error=False)

        return loop.run_until_complete(run())

    def own(self):
        async def run():
            client = self.redis
            return {
                "ping": await client.ping(),
                "echo": await client.echo("said"),
                "select": await client.select(0),
                "version": (await client.info())["redis_version"],
                "commands": await client.command_count(),
                "described": "frs.update" in await client.command(),
                "name": await client.client_setname("a-test") and await client.client_getname(),
                "id": await client.client_id() > 0,
            }

        return loop.run_until_complete(run())


driver.obey(Client())
