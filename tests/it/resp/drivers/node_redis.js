// node-redis, a client of Node.

require('./driver').obey(() => {
  const { createClient } = require('redis');
  const { version } = require('redis/package.json');
  let redis;
  return {
    version: `node-redis ${version}`,
    isLost: ({ constructor, message }) =>
      /[Ss]ocket|closed|ECONN|EPIPE/.test(`${constructor.name} ${message}`),

    async connect(port, protocol, password) {
      if (redis?.isOpen) redis.destroy();
      redis = createClient({ url: `redis://127.0.0.1:${port}`, RESP: protocol, password });
      let refuse;
      const refused = new Promise((_, reject) => { refuse = reject; });
      // Without this the client would retry forever.
      redis.on('error', (error) => { if (/AUTH|PASS/.test(error.message)) refuse(error); });
      try {
        await Promise.race([redis.connect(), refused]);
      } catch (error) {
        if (redis.isOpen) redis.destroy();
        throw error;
      }
      refused.catch(() => {});
    },

    ask: (args) => redis.sendCommand(args),

    async many(asks, transaction) {
      if (!transaction) {
        // Commands of one turn of the event loop go out together.
        const replies = await Promise.allSettled(asks.map((args) => redis.sendCommand(args)));
        return replies.map((reply) => reply.reason ?? reply.value);
      }
      const multi = redis.multi();
      for (const args of asks) multi.addCommand(args);
      return multi.exec().catch((error) => {
        if (!error.replies) throw error;
        return error.replies;
      });
    },

    own: async () => ({
      ping: await redis.ping(),
      echo: await redis.echo('said'),
      // The client returns nothing for SELECT.
      select: await redis.select(0) ?? true,
      version: /redis_version:(\S+)/.exec(await redis.info())[1],
      commands: await redis.commandCount(),
      described: (await redis.command()).some(({ name }) => name === 'frs.update'),
      name: await redis.clientSetName('a-test') && await redis.clientGetName(),
      id: await redis.clientId() > 0,
    }),
  };
});
