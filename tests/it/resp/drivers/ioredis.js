// ioredis, a client of Node.

require('./driver').obey(() => {
  const Redis = require('ioredis');
  const { version } = require('ioredis/package.json');
  let redis;
  return {
    version: `ioredis ${version}`,
    isLost: (error) => /closed|ECONN|EPIPE|max retries/.test(error.message),

    async connect(port, protocol, password) {
      redis?.disconnect();
      let refusal;
      redis = new Redis({
        port, protocol, password, lazyConnect: true,
        retryStrategy: (times) => (refusal ? null : Math.min(times * 10, 200)),
      });
      // An event holds the reason of a refused handshake.
      redis.on('error', (error) => { if (/AUTH|PASS/.test(error.message)) refusal = error; });
      try {
        await redis.connect();
      } catch (error) {
        throw refusal ?? error;
      }
    },

    ask: (args) => redis.call(...args),

    async many(asks, transaction) {
      const pipeline = transaction ? redis.multi() : redis.pipeline();
      for (const args of asks) pipeline.call(...args);
      return (await pipeline.exec()).map(([error, reply]) => error ?? reply);
    },

    own: async () => ({
      ping: await redis.ping(),
      echo: await redis.echo('said'),
      select: await redis.select(0),
      version: /redis_version:(\S+)/.exec(await redis.info())[1],
      commands: await redis.command('COUNT'),
      described: (await redis.command()).some(([name]) => name === 'frs.update'),
      name: await redis.client('SETNAME', 'a-test') && await redis.client('GETNAME'),
      id: await redis.client('ID') > 0,
    }),
  };
});
