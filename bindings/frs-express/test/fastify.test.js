// @fastify/rate-limit as a program: over Redis with its own storage, and over frs; and the tests of
// its Redis storage, which its package ships, over frs.

'use strict';

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');
const fastify = require('fastify');
const rateLimit = require('@fastify/rate-limit');
const { fastifyStore } = require('../fastify');
const {
  BUSY, PATIENT, Serving, atMost, failing, freePort, proxy, random, redis, rounds, sleep,
} = require('./serving');

/** An app behind a limiter. `ask` gives the answer to a request of a key. */
async function app(t, options) {
  const served = fastify();
  t.after(() => served.close());
  await served.register(rateLimit, {
    keyGenerator: (request) => request.headers['x-key'], ...options,
  });
  served.get('/', async () => 'served');
  const route = { config: { rateLimit: { max: 1, timeWindow: '1 hour' } } };
  served.get('/one', route, async () => 'served');
  served.get('/two', route, async () => 'served');
  const look = served.createRateLimit();
  served.get('/look', { config: { rateLimit: false } }, async (request) => (
    look(request, { increment: false })));
  const ask = async (key, url = '/') => {
    const before = Date.now();
    const answer = await served.inject({ url, headers: { 'x-key': key } });
    return { before, after: Date.now(), status: answer.statusCode, answer };
  };
  return { ask };
}

/** A store that closes its connection when the test ends. */
function store(t, options) {
  const made = fastifyStore(options);
  t.after(() => made.close());
  return made;
}

/** What a look at a limit shows, without times, and without the uses that Redis has refused. */
function looked({ payload }) {
  const { max, remaining } = payload.startsWith('{') ? JSON.parse(payload) : {};
  return { max, remaining };
}

const HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining'];

for (const biz of ['adhoc', 'adhoc-fixed']) {
  test(`${biz} decides as the library's own storage`, async (t) => {
    const frs = await Serving.start(t);
    const client = await redis(t);
    if (!client) return;
    const options = { max: 4, timeWindow: 1500 };
    const own = await app(t, { ...options, redis: client });
    const adapted = await app(t, { ...options, store: store(t, { ...frs.at, biz }) });
    const below = random(t);
    await rounds(3, 1500, async () => {
      const [key, url] = [`key${below(8)}`, ['/', '/', '/one', '/two', '/look'][below(5)]];
      const found = await Promise.all([own.ask(key, url), adapted.ask(key, url)]);
      await sleep(below(4));
      return [key + url, ...found];
    }, ([asked, ...found]) => {
      const [expected, actual] = found.map(({ status, answer }) => (
        [status, ...HEADERS.map((name) => answer.headers[name]), looked(answer)]));
      assert.deepStrictEqual(actual, expected, asked);
    });
  });
}

test('no window has more than the limit, wherever it begins', async (t) => {
  const frs = await Serving.start(t);
  const served = await app(t, { max: 5, timeWindow: 300, store: store(t, frs.at) });
  const below = random(t);
  const admitted = [];
  const begun = Date.now();
  while (Date.now() - begun < 3000) {
    const found = await served.ask('a');
    if (found.status === 200) admitted.push(found);
    else assert.match(found.answer.headers['retry-after'], /^1$/);
    await sleep(below(60));
  }
  assert.ok(admitted.length > 30);
  atMost(5, 300, admitted);
});

test('a server that is away refuses, or admits if skipOnError says so', async (t) => {
  const url = `frs://127.0.0.1:${await freePort()}`;
  const closed = await app(t, { max: 1, store: store(t, { url }) });
  const open = await app(t, { max: 1, skipOnError: true, store: store(t, { url }) });
  for (let nth = 0; nth < 3; nth += 1) {
    const found = await closed.ask('a');
    assert.strictEqual(found.status, 500);
    assert.match(found.answer.payload, /does not answer/);
    assert.strictEqual((await open.ask('a')).status, 200);
  }
});

test('a server that cannot judge just now counts as one that is away', async (t) => {
  for (const error of Object.values(BUSY)) {
    const at = { url: await failing(t, error), timeout: PATIENT };
    const closed = await app(t, { max: 1, store: store(t, at) });
    const open = await app(t, { max: 1, skipOnError: true, store: store(t, at) });
    for (let nth = 0; nth < 3; nth += 1) {
      assert.strictEqual((await closed.ask('a')).status, 500);
      assert.strictEqual((await open.ask('a')).status, 200);
    }
  }
});

test('a wrong setting admits nothing, even with skipOnError', async (t) => {
  const frs = await Serving.start(t);
  const served = await app(t, { max: 201, skipOnError: true, store: store(t, frs.at) });
  assert.strictEqual((await served.ask('a')).status, 429);
  assert.strictEqual((await served.ask('a', '/one')).status, 200);
});

test('what frs cannot do is said when the route is made', async (t) => {
  for (const option of [{ ban: 2 }, { continueExceeding: true }, { exponentialBackoff: true }]) {
    const made = store(t, { url: 'frs://127.0.0.1:1' });
    const failing = app(t, { max: 1, store: made, ...option });
    await assert.rejects(failing, /write ban="10m" at the limit/);
  }
});

test('a lost answer is asked for again, and charged once', async (t) => {
  const frs = await Serving.start(t);
  const between = await proxy(t, frs.port);
  const url = `frs://127.0.0.1:${between.port}`;
  const adapted = store(t, { url, timeout: PATIENT, nameSpace: 'n:' });
  const lossy = await app(t, { max: 50, store: adapted });
  for (let nth = 1; nth <= 20; nth += 1) {
    between.swallow(nth % 2);
    const { answer } = await lossy.ask('a');
    assert.strictEqual(answer.headers['x-ratelimit-remaining'], String(50 - nth));
  }
  assert.strictEqual(await frs.used('adhoc', 'n:a'), 20);
});

test('the tests of its Redis storage pass over frs', async (t) => {
  const frs = await Serving.start(t);
  const program = path.join(path.dirname(require.resolve('@fastify/rate-limit')), 'test',
    'redis-rate-limit.test.js');
  const instead = path.join(__dirname, 'instead_of_redis.js');
  const words = ['--require', instead, '--test-reporter=tap', program];
  const found = spawnSync(process.execPath, words, {
    env: { ...process.env, FRS_URL: frs.url }, encoding: 'utf8', timeout: 120_000,
  });
  const named = (pattern) => [...found.stdout.matchAll(pattern)].map(([, name]) => name);
  const passed = named(/^ {4}ok \d+ - (.*)$/gm);
  // Those that throw expect the words of ioredis. The others count requests that were refused.
  assert.deepStrictEqual(named(/^ {4}not ok \d+ - (.*)$/gm), [
    'With redis store (ban)',
    'Throw on redis error',
    'When continue exceeding is on (Redis)',
    'Redis with continueExceeding should not always return the timeWindow as ttl',
    'With redis store and exponential backoff',
    'With { increment: false } it throws on redis error',
    'Throw on redis error',
    'When continue exceeding is on (Redis)',
    'When continue exceeding is off under route (Redis)',
    'Route-specific exponential backoff with redis store',
  ], found.stdout + found.stderr);
  assert.strictEqual(passed.length, 6);
});
