// express-rate-limit as a program: over Redis with its own storage, and over frs.

'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const express = require('express');
const { rateLimit } = require('express-rate-limit');
const { RedisStore } = require('rate-limit-redis');
const { FrsError, FrsStore } = require('..');
const {
  BUSY, PATIENT, Serving, TOKEN, atMost, failing, freePort, proxy, random, redis, rounds, sleep,
  until,
} = require('./serving');

/** An app behind a limiter. `ask` gives the answer to a request of a key. */
async function app(t, options) {
  const limiter = rateLimit({
    keyGenerator: (request) => request.get('x-key'),
    standardHeaders: 'draft-8',
    validate: false,
    logger: { error() {}, warn() {} },
    ...options,
  });
  const served = express();
  served.set('env', 'test');
  served.use(limiter);
  served.get('/', (request, response) => {
    response.status(Number(request.get('x-status') ?? 200)).end();
  });
  served.use((error, request, response, next) => { // eslint-disable-line no-unused-vars
    response.status(500).send(error.code);
  });
  const server = await new Promise((resolve) => {
    const listening = served.listen(0, '127.0.0.1', () => resolve(listening));
  });
  t.after(() => {
    server.closeAllConnections();
    server.close();
    options.store.shutdown?.();
  });
  const url = `http://127.0.0.1:${server.address().port}/`;
  const ask = async (key, status = 200) => {
    const before = Date.now();
    const answer = await fetch(url, { headers: { 'x-key': key, 'x-status': String(status) } });
    const text = await answer.text();
    return { before, after: Date.now(), status: answer.status, headers: answer.headers, text };
  };
  return { ask, limiter };
}

/** An app over Redis with the library's own storage. `undefined` if there is no Redis. */
async function overRedis(t, options) {
  const client = await redis(t);
  if (!client) return undefined;
  const sendCommand = (...words) => client.call(...words);
  return app(t, { ...options, store: new RedisStore({ sendCommand }) });
}

const HOUR = 3_600_000;

for (const [biz, windowMs, count] of [
  ['adhoc', 1500, 3], ['adhoc-fixed', 1500, 3], ['adhoc-counter', HOUR, 1],
]) {
  test(`${biz} decides as the library's own storage`, async (t) => {
    const frs = await Serving.start(t);
    const options = { windowMs, limit: 4 };
    const own = await overRedis(t, options);
    if (!own) return;
    const adapted = await app(t, { ...options, store: new FrsStore({ ...frs.at, biz }) });
    const below = random(t);
    // The windows of a sliding counter are those of the clock.
    const left = HOUR - (Date.now() % HOUR);
    if (left < 20_000) await sleep(left);
    await rounds(count, Math.min(windowMs, 1500), async () => {
      const key = `key${below(8)}`;
      const found = await Promise.all([own.ask(key), adapted.ask(key)]);
      await sleep(below(4));
      return [key, ...found];
    }, ([key, ...found]) => {
      const [expected, actual] = found.map(({ status, headers }) => (
        [status, /r=\d+/.exec(headers.get('ratelimit'))[0]]));
      assert.deepStrictEqual(actual, expected, key);
    });
  });
}

test('no window has more than the limit, wherever it begins', async (t) => {
  const frs = await Serving.start(t);
  const options = { windowMs: 300, limit: 5 };
  const sliding = await app(t, { ...options, store: new FrsStore(frs.at) });
  const fixed = await app(t, {
    ...options, store: new FrsStore({ ...frs.at, biz: 'adhoc-fixed' }),
  });
  const below = random(t);
  const admitted = { sliding: [], fixed: [] };
  const begun = Date.now();
  while (Date.now() - begun < 3000) {
    const [one, other] = await Promise.all([sliding.ask('a'), fixed.ask('a')]);
    if (one.status === 200) admitted.sliding.push(one);
    if (other.status === 200) admitted.fixed.push(other);
    await sleep(below(60));
  }
  assert.ok(admitted.sliding.length > 10, `${admitted.sliding.length} admitted`);
  atMost(5, 300, admitted.sliding);
  // A fixed window may begin just before another one of the same length ends.
  atMost(10, 300, admitted.fixed);
});

for (const skipped of ['skipFailedRequests', 'skipSuccessfulRequests']) {
  test(`${skipped} as with the library's own storage`, async (t) => {
    const frs = await Serving.start(t);
    const options = { windowMs: 60_000, limit: 4, [skipped]: true };
    const own = await overRedis(t, options);
    if (!own) return;
    const adapted = await app(t, { ...options, store: new FrsStore(frs.at) });
    const below = random(t);
    for (let nth = 0; nth < 200; nth += 1) {
      const [key, status] = [`key${below(8)}`, [200, 200, 404][below(3)]];
      const [expected, found] = await Promise.all([own.ask(key, status), adapted.ask(key, status)]);
      assert.strictEqual(found.status, expected.status, `${nth}: ${key}`);
      await sleep(3);
    }
  });
}

test('the limit of each request, 0, headers, and a reset', async (t) => {
  const frs = await Serving.start(t);
  const options = { windowMs: 60_000, limit: 2 };
  const two = await app(t, { ...options, store: new FrsStore(frs.at) });
  const first = await two.ask('a');
  assert.match(first.headers.get('ratelimit'), /r=1; t=60$/);
  await two.ask('a');
  const refused = await two.ask('a');
  assert.strictEqual(refused.status, 429);
  assert.match(refused.headers.get('retry-after'), /^(59|60)$/);
  assert.strictEqual((await two.limiter.getKey('a')).totalHits, 2);
  await two.limiter.resetKey('a');
  assert.strictEqual(await two.limiter.getKey('a'), undefined);
  assert.strictEqual((await two.ask('a')).status, 200);

  const none = await app(t, {
    ...options, limit: 0, store: new FrsStore({ ...frs.at, prefix: 'none:' }),
  });
  assert.strictEqual((await none.ask('a')).status, 429);

  const limit = (request) => (request.get('x-key') === 'vip' ? 4 : 1);
  const store = new FrsStore({ ...frs.at, biz: 'adhoc-fixed', most: 5 });
  const own = await app(t, { ...options, limit, store });
  const statuses = async (key, times) => {
    const found = [];
    for (let nth = 0; nth < times; nth += 1) found.push((await own.ask(key)).status);
    return found;
  };
  assert.deepStrictEqual(await statuses('vip', 6), [200, 200, 200, 200, 429, 429]);
  assert.deepStrictEqual(await statuses('other', 2), [200, 429]);
  const beyond = new FrsStore({ ...frs.at, biz: 'adhoc-fixed', most: 2, prefix: 'beyond:' });
  const over = await app(t, { ...options, limit: () => 10, store: beyond });
  assert.deepStrictEqual([
    (await over.ask('a')).status, (await over.ask('a')).status, (await over.ask('a')).status,
  ], [200, 200, 429], 'more than most is never admitted');
});

test('a server that is away refuses, or admits if passOnStoreError says so', async (t) => {
  const nowhere = `frs://127.0.0.1:${await freePort()}`;
  const options = { windowMs: 60_000, limit: 2 };
  const closed = await app(t, { ...options, store: new FrsStore({ url: nowhere }) });
  const store = new FrsStore({ url: nowhere, timeout: 300 });
  const open = await app(t, { ...options, passOnStoreError: true, store });
  // Versions before 8.5 drop the promise. A rejection without a handler would end the program.
  const alone = new FrsStore({ url: nowhere });
  t.after(() => alone.shutdown());
  alone.init(options);
  for (let nth = 0; nth < 3; nth += 1) {
    const found = await closed.ask('a');
    assert.deepStrictEqual([found.status, found.text], [500, 'away']);
    const admitted = await open.ask('a');
    assert.strictEqual(admitted.status, 200);
    assert.ok(admitted.after - admitted.before < 5000, 'nobody waits for long');
  }
});

test('a server that cannot judge just now counts as one that is away', async (t) => {
  const options = { windowMs: 60_000, limit: 2 };
  for (const [code, error] of Object.entries(BUSY)) {
    const at = { url: await failing(t, error), timeout: PATIENT };
    const closed = await app(t, { ...options, store: new FrsStore(at) });
    const open = await app(t, { ...options, passOnStoreError: true, store: new FrsStore(at) });
    for (let nth = 0; nth < 3; nth += 1) {
      const { status, text } = await closed.ask('a');
      assert.deepStrictEqual([status, text], [500, code]);
      assert.strictEqual((await open.ask('a')).status, 200);
    }
  }
});

test('a key that frs does not take is judged all the same', async (t) => {
  const frs = await Serving.start(t);
  const store = new FrsStore(frs.at);
  t.after(() => store.shutdown());
  await store.init({ windowMs: 60_000, limit: 2 });
  for (const key of ['/\0', '/\x1b', '/\uffff', `/${'a'.repeat(1024)}`, `/${'a'.repeat(1025)}`]) {
    assert.strictEqual((await store.increment(key)).totalHits, 1);
    assert.strictEqual((await store.get(key)).totalHits, 1);
    await store.resetKey(key);
    assert.strictEqual(await store.get(key), undefined);
  }
});

test('what the configuration says wrong has a name', async (t) => {
  const frs = await Serving.start(t);
  const client = await redis(t);
  if (!client) return;
  const [windows, timeout] = [{ windowMs: 60_000, limit: 2 }, PATIENT];
  const notFrs = `frs://127.0.0.1:${client.options.port}`;
  const cases = [
    [{ url: frs.guarded, timeout }, windows, 'bad-token', /NOAUTH/],
    [{ url: frs.guarded, timeout, token: 'another' }, windows, 'bad-token', /WRONGPASS/],
    [{ ...frs.at, biz: 'nobody' }, windows, 'unknown-biz', /map\.xml names no such business/],
    [{ ...frs.at }, { windowMs: 60_000, limit: 201 }, 'bad-rate',
      /over most.*asked for 201\/60000ms in the business adhoc of map\.xml\. .* adhoc-fixed/],
    [{ ...frs.at }, { windowMs: 90_000_000, limit: 2 }, 'bad-rate', /max-period/],
    [{ url: notFrs, timeout }, windows, 'no-frs', /found redis .* expected frs/],
  ];
  for (const [options, limits, code, text] of cases) {
    const store = new FrsStore(options);
    const isNamed = (error) => {
      assert.ok(error instanceof FrsError);
      assert.strictEqual(error.code, code);
      assert.match(error.message, text);
      return true;
    };
    await assert.rejects(store.init(limits), isNamed);
    await assert.rejects(async () => store.increment('a'), isNamed);
    store.shutdown();
  }
  const good = new FrsStore({ url: `${frs.guarded}?biz=adhoc-fixed`, timeout, token: TOKEN });
  await good.init(windows);
  assert.strictEqual((await good.increment('a')).totalHits, 1);
  assert.strictEqual(await frs.used('adhoc-fixed', 'rl:a'), 1);
  good.shutdown();
  for (const url of [
    'nonsense', 'redis://127.0.0.1', 'frs://', 'frs+unix://host/path', 'frs://127.0.0.1:6380/7',
    'frs://127.0.0.1?bizz=adhoc', 'frs+unix:///path?biz=adhoc&timeout=1',
  ]) {
    assert.throws(() => new FrsStore({ url }), /expected frs:\/\/HOST:PORT/);
  }
});

test('a wrong setting admits nothing, even with passOnStoreError', async (t) => {
  const frs = await Serving.start(t);
  const warned = new Promise((resolve) => { process.once('warning', resolve); });
  const options = { windowMs: 60_000, limit: 2, passOnStoreError: true, skipFailedRequests: true };
  for (const [more, at] of [
    [{ limit: 201 }, frs.at],
    [{}, { ...frs.at, biz: 'nobody' }],
    [{}, { ...frs.at, url: frs.guarded }],
  ]) {
    const served = await app(t, { ...options, ...more, store: new FrsStore(at) });
    assert.strictEqual((await served.ask('a')).status, 429);
  }
  assert.match((await warned).message, /requests are refused, because frs answers .*201\/60000ms/);
});

test('a lost answer is asked for again, and charged once', async (t) => {
  const frs = await Serving.start(t);
  const between = await proxy(t, frs.port);
  const at = { url: `frs://127.0.0.1:${between.port}`, timeout: PATIENT };
  const store = new FrsStore(at);
  await store.init({ windowMs: 60_000, limit: 100 });
  for (let nth = 1; nth <= 20; nth += 1) {
    between.swallow(nth % 2);
    assert.strictEqual((await store.increment('a')).totalHits, nth);
    assert.strictEqual(between.left(), 0);
  }
  assert.strictEqual(await frs.used('adhoc', 'rl:a'), 20);
  store.shutdown();

  // Without ids in map.xml nothing is sent twice.
  const plain = new FrsStore({ ...at, biz: 'without-ids' });
  await plain.init({ windowMs: 60_000, limit: 100 });
  assert.strictEqual((await plain.increment('a')).totalHits, 1);
  between.swallow(1);
  await assert.rejects(plain.increment('a'), { code: 'away' });
  assert.strictEqual(await frs.used('without-ids', 'rl:a'), 2);
  assert.strictEqual((await plain.increment('a')).totalHits, 3);
  plain.shutdown();
});

test('a connection that has gone silent is replaced', async (t) => {
  const frs = await Serving.start(t);
  const between = await proxy(t, frs.port);
  const store = new FrsStore({ url: `frs://127.0.0.1:${between.port}`, timeout: 200 });
  t.after(() => store.shutdown());
  await store.init({ windowMs: 60_000, limit: 100 });
  assert.strictEqual((await store.increment('a')).totalHits, 1);
  between.silence();
  await assert.rejects(store.increment('a'), { code: 'timeout' });
  assert.strictEqual((await store.increment('a')).totalHits, 2);
});

test('workers that are killed lose no hit and count none twice', async (t) => {
  const frs = await Serving.start(t);
  const store = new FrsStore({ ...frs.at, url: `${frs.url}?biz=adhoc-fixed` });
  await store.init({ windowMs: HOUR, limit: 100_000 });
  let [answered, failed, going] = [0, 0, true];
  const asking = Array.from({ length: 8 }, async () => {
    while (going) {
      await store.increment('a').then(() => { answered += 1; }, () => { failed += 1; });
      await sleep(1);
    }
  });
  for (let nth = 0; nth < 4; nth += 1) {
    await sleep(200);
    const before = answered;
    frs.killWorkers();
    await until('it goes on', () => answered > before + 100);
  }
  going = false;
  await Promise.all(asking);
  const used = await frs.used('adhoc-fixed', 'rl:a');
  t.diagnostic(`answered ${answered}, failed ${failed}, used ${used}`);
  assert.ok(used >= answered && used <= answered + failed);
  store.shutdown();
});

test('counts go on after a restart of the server', async (t) => {
  const frs = await Serving.start(t);
  const store = new FrsStore(frs.at);
  const limited = await app(t, { windowMs: 60_000, limit: 4, store });
  for (let nth = 0; nth < 3; nth += 1) assert.strictEqual((await limited.ask('a')).status, 200);
  await frs.end('SIGKILL');
  assert.strictEqual((await limited.ask('a')).status, 500);
  await frs.begin();
  await until('it is connected again', async () => (await limited.ask('b')).status !== 500);
  assert.strictEqual((await limited.ask('a')).status, 200);
  assert.strictEqual((await limited.ask('a')).status, 429);
});
