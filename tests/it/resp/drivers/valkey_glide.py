"""Valkey GLIDE for Python, whose core is a Rust library."""

import asyncio
import importlib.metadata

import driver

try:
    import glide
except ImportError as error:
    driver.missing(error)

loop = asyncio.new_event_loop()
# GLIDE logs to the standard error, which the test reads as an answer.
glide.Logger.set_logger_config(glide.LogLevel.OFF)


class Client:
    version = f"valkey-glide {importlib.metadata.version('valkey-glide')} of Python"
    lost = (glide.ConnectionError, glide.TimeoutError, glide.ClosingError)

    client = None

    def connect(self, port, protocol, password):
        if self.client:
            loop.run_until_complete(self.client.close())
        config = glide.GlideClientConfiguration(
            [glide.NodeAddress("127.0.0.1", port)],
            protocol=glide.ProtocolVersion.RESP3 if protocol == 3 else glide.ProtocolVersion.RESP2,
            credentials=glide.ServerCredentials(password) if password else None,
            request_timeout=20_000,
        )
        self.client = loop.run_until_complete(glide.GlideClient.create(config))

    def ask(self, args):
        return loop.run_until_complete(self.client.custom_command(args))

    def many(self, asks, transaction):
        batch = glide.Batch(is_atomic=transaction)
        for args in asks:
            batch.custom_command(args)
        return loop.run_until_complete(self.client.exec(batch, raise_on_error=False))

    def own(self):
        async def run():
            client = self.client
            return {
                "ping": await client.ping(),
                "echo": await client.echo("said"),
                "select": await client.select(0),
                "version": (await client.info()).decode().split("redis_version:")[1].split()[0],
                "id": await client.client_id() > 0,
            }

        return loop.run_until_complete(run())


driver.obey(Client())
