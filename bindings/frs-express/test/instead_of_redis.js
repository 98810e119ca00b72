// Loaded before the tests of @fastify/rate-limit: gives them frs for Redis. `new Redis()` is a
// connection to frs, and the option `redis` of the plugin becomes the option `store`.

'use strict';

const Module = require('node:module');
const path = require('node:path');
const { after } = require('node:test');
const { Frs, fastifyStore } = require('../fastify');
const { PATIENT } = require('./serving');

let spaces = 0;
const open = new Set();
after(() => open.forEach((redis) => redis.close()));

class Redis extends Frs {
  constructor() {
    super({ url: process.env.FRS_URL, timeout: PATIENT, biz: 'adhoc-fixed' });
    spaces += 1;
    this.space = `space${spaces}-`;
    open.add(this);
  }

  /** Each test has keys of its own. */
  async flushall() {
    return 'OK';
  }

  async quit() {
    this.close();
  }
}

const plugin = require('@fastify/rate-limit');

/** The plugin, which finds frs behind its option `redis`. */
function adapted(fastify, { redis, nameSpace, ...options }, done) {
  if (!redis) return plugin(fastify, options, done);
  const store = fastifyStore({ frs: redis, nameSpace: `${redis.space}${nameSpace ?? ''}` });
  return plugin(fastify, { ...options, store }, done);
}
for (const symbol of Object.getOwnPropertySymbols(plugin)) adapted[symbol] = plugin[symbol];

const load = Module._load;
Module._load = function instead(request, parent, isMain) {
  const isTest = parent?.filename.includes(`${path.sep}rate-limit${path.sep}test${path.sep}`);
  if (isTest && request === 'ioredis') return Redis;
  if (isTest && request === '../index') return adapted;
  return load.call(this, request, parent, isMain);
};
