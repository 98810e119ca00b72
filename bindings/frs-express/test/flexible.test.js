// rate-limiter-flexible as a library: over Redis with its own storage, and over frs.

'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const {
  BurstyRateLimiter, RateLimiterMemory, RateLimiterRedis, RateLimiterRes, RateLimiterUnion,
  RLWrapperBlackAndWhite,
} = require('rate-limiter-flexible');
const { RateLimiterFrs } = require('../flexible');
const {
  BUSY, PATIENT, Serving, atMost, failing, freePort, proxy, random, redis, rounds, sleep, until,
} = require('./serving');

/** A limiter that closes its connection when the test ends. */
function limiter(t, options) {
  const made = new RateLimiterFrs(options);
  t.after(() => made.client.close());
  return made;
}

/** What came of a call: the numbers that users look at, without times. */
async function outcome(promise) {
  const shown = ({ remainingPoints, consumedPoints, isFirstInDuration }) => (
    { remainingPoints, consumedPoints, isFirstInDuration });
  try {
    return { ok: shown(await promise) };
  } catch (refused) {
    if (!(refused instanceof RateLimiterRes)) throw refused;
    // How many points were refused since the first is not counted here.
    return { refused: refused.remainingPoints };
  }
}

for (const biz of ['adhoc', 'adhoc-fixed']) {
  test(`${biz} decides as the library's own storage`, async (t) => {
    const frs = await Serving.start(t);
    const client = await redis(t);
    if (!client) return;
    const options = { points: 4, duration: 2 };
    const own = new RateLimiterRedis({ ...options, storeClient: client });
    const adapted = limiter(t, { ...options, ...frs.at, biz });
    const below = random(t);
    await rounds(3, 2000, async () => {
      const key = `key${below(8)}`;
      const found = await Promise.all([own, adapted].map((one) => outcome(one.consume(key))));
      await sleep(below(4));
      return [key, ...found];
    }, ([key, expected, actual]) => assert.deepStrictEqual(actual, expected, key));
  });
}

test('rewards and penalties are those of the library', async (t) => {
  const frs = await Serving.start(t);
  const client = await redis(t);
  if (!client) return;
  const options = { points: 6, duration: 3600 };
  const limiters = [
    new RateLimiterRedis({ ...options, storeClient: client }),
    limiter(t, { ...options, ...frs.at }),
  ];
  const below = random(t);
  for (let nth = 0; nth < 300; nth += 1) {
    const key = `key${below(10)}`;
    // A reward of more than was consumed goes below 0 in Redis, and to 0 here.
    const consumed = (await limiters[1].get(key))?.consumedPoints ?? 0;
    const method = ['consume', 'consume', 'get', 'penalty', 'reward', 'delete'][below(6)];
    if (method === 'reward' && consumed === 0) continue;
    // A refused consume is charged in Redis, and not here.
    if (method === 'consume' && consumed >= 6) continue;
    const call = (one) => one[method](key);
    if (method === 'get' && consumed === 0) continue;
    if (method === 'delete') {
      assert.strictEqual(await call(limiters[1]), consumed > 0);
      await call(limiters[0]);
      continue;
    }
    const found = await Promise.all(limiters.map((one) => outcome(call(one))));
    assert.deepStrictEqual(found[1], found[0], `${nth}: ${method} ${key}`);
  }
});

test('no window has more points than allowed, whatever a consume costs', async (t) => {
  const frs = await Serving.start(t);
  const adapted = limiter(t, { points: 10, duration: 1, ...frs.at });
  const below = random(t);
  const admitted = [];
  const begun = Date.now();
  while (Date.now() - begun < 4000) {
    const [cost, before] = [1 + below(4), Date.now()];
    const found = await adapted.consume('a', cost).catch((refused) => refused);
    const isAdmitted = found.consumedPoints <= 10;
    for (let point = 0; isAdmitted && point < cost; point += 1) {
      admitted.push({ before, after: Date.now() });
    }
    if (!isAdmitted) assert.ok(found.msBeforeNext > 0 && found.msBeforeNext <= 1000);
    await sleep(below(120));
  }
  assert.ok(admitted.length > 10);
  atMost(10, 1000, admitted);
});

test('who is over the limit is blocked for blockDuration', async (t) => {
  const frs = await Serving.start(t);
  const options = { points: 2, duration: 2, blockDuration: 6, ...frs.at };
  const [blocking, twin] = [limiter(t, options), limiter(t, options)];
  for (let nth = 0; nth < 2; nth += 1) await blocking.consume('a');
  const isBlocked = (res) => res.msBeforeNext > 1000 && res.msBeforeNext <= 6000;
  const blocked = Date.now();
  await assert.rejects(blocking.consume('a'), isBlocked);
  await sleep(2100);
  await assert.rejects(twin.consume('a'), isBlocked);
  assert.ok(isBlocked(await twin.get('a')));
  assert.strictEqual((await twin.get('a')).remainingPoints, 0);
  const over = () => twin.consume('a').catch(() => undefined);
  assert.strictEqual((await until('tries lengthen no block', over)).consumedPoints, 1);
  assert.ok(Date.now() - blocked >= 5999);

  await twin.block('b', 6);
  await assert.rejects(blocking.consume('b'), isBlocked);
  assert.strictEqual(await blocking.delete('b'), true);
  await blocking.consume('b');
  await assert.rejects(twin.block('b', 60), /found 60 s, expected blockDuration, 6 s/);
});

test('set, other durations, execEvenly and memory blocks', async (t) => {
  const frs = await Serving.start(t);
  const options = { points: 5, duration: 60, ...frs.at };
  const plain = limiter(t, options);
  assert.strictEqual((await plain.set('a', 4, 60)).consumedPoints, 4);
  assert.strictEqual((await plain.consume('a')).remainingPoints, 0);
  await assert.rejects(plain.consume('a'), RateLimiterRes);
  await plain.set('a', 0, 60);
  assert.strictEqual((await plain.consume('a')).consumedPoints, 1);
  const hour = await plain.consume('b', 1, { customDuration: 3600 });
  assert.ok(hour.msBeforeNext > 3_590_000);
  assert.strictEqual(await plain.get('nobody'), null);

  const even = limiter(t, { ...options, duration: 3, keyPrefix: 'even', execEvenly: true });
  await even.consume('a');
  const before = Date.now();
  await even.consume('a');
  assert.ok(Date.now() - before >= 150, 'the second one waits for its part of the window');

  const memory = limiter(t, {
    ...options, keyPrefix: 'memory', inMemoryBlockOnConsumed: 6, inMemoryBlockDuration: 60,
  });
  for (let nth = 0; nth < 5; nth += 1) await memory.consume('a');
  await assert.rejects(memory.consume('a'), RateLimiterRes);
  await plain.client.clear('memory:a', { biz: 'adhoc', rate: '5/60s' });
  await assert.rejects(memory.consume('a'), RateLimiterRes, 'the server is not asked');
});

test('what frs cannot do is said when the limiter is made', () => {
  const options = { points: 5, duration: 60, url: 'frs://127.0.0.1:1' };
  for (const [more, text] of [
    [{ duration: 0 }, /expected seconds above 0/],
    [{ blockOnConsumed: 10 }, /blockOnConsumed: found 10, expected at most points \+ 1/],
    [{ inMemoryBlockOnConsumed: 10 }, /inMemoryBlockOnConsumed: found 10/],
    [{ url: 'http://127.0.0.1' }, /expected frs:/],
  ]) {
    assert.throws(() => new RateLimiterFrs({ ...options, ...more }), text);
  }
});

test('wrappers of the library take it', async (t) => {
  const frs = await Serving.start(t);
  const minute = limiter(t, { points: 2, duration: 60, keyPrefix: 'minute', ...frs.at });
  const options = { frs: minute.client };
  const hour = new RateLimiterFrs({ points: 3, duration: 3600, keyPrefix: 'hour', ...options });
  const union = new RateLimiterUnion(minute, hour);
  await union.consume('a');
  await union.consume('a');
  await assert.rejects(union.consume('a'), (found) => found.minute instanceof RateLimiterRes);
  const bursty = new BurstyRateLimiter(
    new RateLimiterFrs({ points: 1, duration: 60, keyPrefix: 'rate', ...options }),
    new RateLimiterFrs({ points: 2, duration: 60, keyPrefix: 'burst', ...options }),
  );
  for (let nth = 0; nth < 3; nth += 1) await bursty.consume('a');
  await assert.rejects(bursty.consume('a'), RateLimiterRes);
  const lists = { blackList: ['b'], whiteList: ['a'] };
  const listed = new RLWrapperBlackAndWhite({ limiter: minute, ...lists });
  await listed.consume('a');
  await assert.rejects(listed.consume('b'), RateLimiterRes);
});

test('a server that is away rejects, or insuranceLimiter decides', async (t) => {
  const url = `frs://127.0.0.1:${await freePort()}`;
  const options = { points: 1, duration: 60, url };
  await assert.rejects(limiter(t, options).consume('a'), { code: 'away' });
  const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 60 });
  const insured = limiter(t, { ...options, blockDuration: 5, insuranceLimiter });
  await insured.consume('a');
  await assert.rejects(insured.consume('a'), RateLimiterRes);
  await assert.rejects(insured.block('a', 5).then(() => insured.consume('a')), RateLimiterRes);
});

test('a server that cannot judge just now counts as one that is away', async (t) => {
  for (const [code, error] of Object.entries(BUSY)) {
    const at = { points: 1, duration: 60, url: await failing(t, error), timeout: PATIENT };
    await assert.rejects(limiter(t, at).consume('a'), { code });
    const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 60 });
    const insured = limiter(t, { ...at, insuranceLimiter });
    await insured.consume('a');
    await assert.rejects(insured.consume('a'), RateLimiterRes);
  }
});

test('insuranceLimiter does not stand in for a wrong setting', async (t) => {
  const frs = await Serving.start(t);
  const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 60 });
  const wrong = limiter(t, { points: 201, duration: 60, insuranceLimiter, ...frs.at });
  for (const call of ['consume', 'get', 'delete']) {
    await assert.rejects(wrong[call]('a'), { code: 'bad-rate' });
  }
});

test('a lost answer is asked for again, and charged once', async (t) => {
  const frs = await Serving.start(t);
  const between = await proxy(t, frs.port);
  const url = `frs://127.0.0.1:${between.port}`;
  const lossy = limiter(t, { points: 50, duration: 60, url, timeout: PATIENT });
  for (let nth = 1; nth <= 20; nth += 1) {
    between.swallow(nth % 2);
    assert.strictEqual((await lossy.consume('a')).consumedPoints, nth);
  }
  assert.strictEqual(await frs.used('adhoc', 'rlflx:a'), 20);
});
