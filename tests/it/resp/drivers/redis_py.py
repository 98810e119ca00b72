"""redis-py, the client of Python."""

import driver

try:
    import redis
except ImportError as error:
    driver.missing(error)


class Client:
    version = f"redis-py {redis.__version__}"
    lost = (redis.ConnectionError,)

    redis = None

    def connect(self, port, protocol, password):
        if self.redis:
            self.redis.close()
        self.redis = redis.Redis(
            port=port, protocol=protocol, password=password, decode_responses=True
        )
        self.redis.ping()

    def ask(self, args):
        return self.redis.execute_command(*args)

    def many(self, asks, transaction):
        pipeline = self.redis.pipeline(transaction=transaction)
        for args in asks:
            pipeline.execute_command(*args)
        return pipeline.execute(raise_on_error=False)

    def own(self):
        client = self.redis
        return {
            "ping": client.ping(),
            "echo": client.echo("said"),
            "select": client.select(0),
            "version": client.info()["redis_version"],
            "commands": client.command_count(),
            "described": "frs.update" in client.command(),
            "name": client.client_setname("a-test") and client.client_getname(),
            "id": client.client_id() > 0,
        }


driver.obey(Client())
