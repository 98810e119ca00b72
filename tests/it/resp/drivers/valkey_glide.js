// Valkey GLIDE for Node, whose core is a Rust library.

require('./driver').obey(() => {
  const glide = require('@valkey/valkey-glide');
  // GLIDE logs to the standard error, which the test reads as an answer.
  glide.Logger.setLoggerConfig('off');
  const lost = [glide.ConnectionError, glide.TimeoutError, glide.ClosingError];
  // GLIDE returns a map as a list of pairs.
  const plain = (reply) => {
    if (!Array.isArray(reply)) return reply;
    const isMap = reply.length > 0 && reply.every((pair) => pair && 'key' in Object(pair));
    if (!isMap) return reply.map(plain);
    return Object.fromEntries(reply.map(({ key, value }) => [key, plain(value)]));
  };
  let client;
  return {
    version: 'valkey-glide of Node',
    isLost: (error) => lost.some((one) => error instanceof one),

    async connect(port, protocol, password) {
      client?.close();
      client = undefined;
      client = await glide.GlideClient.createClient({
        addresses: [{ host: '127.0.0.1', port }],
        protocol: protocol === 3 ? glide.ProtocolVersion.RESP3 : glide.ProtocolVersion.RESP2,
        credentials: password ? { password } : undefined,
        requestTimeout: 20_000,
      });
    },

    ask: async (args) => plain(await client.customCommand(args)),

    async many(asks, transaction) {
      const batch = new glide.Batch(transaction);
      for (const args of asks) batch.customCommand(args);
      return (await client.exec(batch, false)).map(plain);
    },

    own: async () => ({
      ping: await client.ping(),
      echo: await client.echo('said'),
      select: await client.select(0),
      version: /redis_version:(\S+)/.exec(await client.info())[1],
      id: await client.clientId() > 0,
    }),
  };
});
