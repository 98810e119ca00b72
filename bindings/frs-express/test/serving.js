// The servers of the tests: frs, and a Redis for the libraries' own storages.
//
// Invariant: each server has its own directory and port, and ends with the test.

'use strict';

const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const Redis = require('ioredis');

const FRS = process.env.FRS ?? 'frs';
const TOKEN = 'a-token/of+24=characters';
const PER_CALL = 'interval="60s" max="5" per-call="true" max-period="1d"';
const MAP = `<map><group name="all" keys="2000"/>
  <biz id="1" name="adhoc" key="string" once="64">
    <limit policy="sliding" most="200" ${PER_CALL}/></biz>
  <biz id="2" name="adhoc-fixed" key="string" once="64">
    <limit policy="interval" most="100000" ${PER_CALL}/></biz>
  <biz id="3" name="adhoc-counter" key="string" once="64">
    <limit policy="sliding-counter" most="100000" ${PER_CALL}/></biz>
  <biz id="4" name="without-ids" key="string">
    <limit policy="interval" most="100000" ${PER_CALL}/></biz></map>`;

const PATIENT = 20_000;

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function until(what, holds) {
  const end = Date.now() + 20_000;
  while (Date.now() < end) {
    const found = await holds();
    if (found) return found;
    await sleep(10);
  }
  throw new Error(`${what}: waited 20 s`);
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** A folder that is removed when the test ends, after `last`, which ends what writes into it. */
function directory(t, last = () => {}) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'frs-express-'));
  t.after(async () => {
    await last();
    fs.rmSync(made, { recursive: true, force: true });
  });
  return made;
}

async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => { child.once('exit', resolve); });
  child.kill(signal);
  await ended;
}

class Serving {
  constructor(folder, http, port) {
    Object.assign(this, { folder, http, port });
    this.url = `frs://127.0.0.1:${port}`;
    /** The options of a store that waits as long as a busy machine takes. */
    this.at = { url: this.url, timeout: PATIENT };
    this.guarded = `frs+unix://${folder}/guarded.sock`;
  }

  static async start(t) {
    const ports = [await freePort(), await freePort()];
    const serving = new Serving(directory(t, () => serving.end()), ...ports);
    const conf = path.join(serving.folder, 'conf');
    fs.mkdirSync(conf);
    fs.writeFileSync(path.join(conf, 'map.xml'), MAP);
    fs.writeFileSync(path.join(conf, 'resp.token'), TOKEN, { mode: 0o600 });
    fs.writeFileSync(path.join(conf, 'srv.xml'), `<srv><workers>2</workers>
      <listen>127.0.0.1:${serving.http}</listen>
      <resp listen="127.0.0.1:${serving.port}"/>
      <resp listen="unix:guarded.sock" token-file="conf/resp.token"/>
      <data dir="data"/></srv>`);
    await serving.begin();
    return serving;
  }

  async begin() {
    this.child = spawn(FRS, ['serve'], { cwd: this.folder, stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    this.child.stderr.on('data', (data) => { said += data; });
    await until('frs serves', () => {
      if (this.child.exitCode !== null) throw new Error(`frs ended: ${said}`);
      return fetch(`http://127.0.0.1:${this.http}/health`).then((answer) => answer.ok, () => false);
    });
  }

  /** The workers outlive a master that is killed by a moment. */
  async end(signal = 'SIGTERM') {
    await end(this.child, signal);
    await until('nobody listens', () => new Promise((resolve) => {
      const socket = net.connect(this.port, '127.0.0.1');
      socket.on('connect', () => { socket.destroy(); resolve(false); });
      socket.on('error', () => resolve(true));
    }));
  }

  /** Ends the workers in the middle of what they do. The master replaces them. */
  killWorkers() {
    const status = spawnSync(FRS, ['status'], { cwd: this.folder, encoding: 'utf8' }).stdout;
    for (const [, pid] of status.matchAll(/^worker +process (\d+)/gm)) {
      process.kill(Number(pid), 'SIGKILL');
    }
  }

  /** What a key has used, as the server says. */
  async used(biz, key) {
    const asked = `biz=${biz}&key=${encodeURIComponent(key)}&count=0`;
    const answer = await fetch(`http://127.0.0.1:${this.http}/query?${asked}`);
    return Number(/used="(\d+)"/.exec(await answer.text())[1]);
  }
}

/** A client of a new Redis. `undefined` if there is none, and the test is skipped. */
async function redis(t) {
  const named = process.env.FRS_REDIS ? [process.env.FRS_REDIS] : ['redis-server', 'valkey-server'];
  const program = named.find((name) => spawnSync(name, ['--version']).status === 0);
  if (!program) {
    t.skip('redis-server is not installed');
    return undefined;
  }
  const port = await freePort();
  const folder = directory(t, () => end(child, 'SIGKILL'));
  const words = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder];
  const child = spawn(program, words, { stdio: 'ignore' });
  const client = new Redis({ port, retryStrategy: () => 10, maxRetriesPerRequest: null });
  client.on('error', () => {});
  t.after(() => client.disconnect());
  await client.ping();
  return client;
}

/**
 * A proxy to a port. After `swallow(n)` it closes n connections instead of passing on the reply to
 * an FRS.UPDATE. After `silence()` it passes on nothing of the connections that are open.
 */
async function proxy(t, port) {
  let armed = 0;
  const sockets = new Set();
  const silent = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(port, '127.0.0.1');
    let asked = false;
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => { near.destroy(); far.destroy(); });
    }
    near.on('data', (data) => {
      if (silent.has(near)) return;
      asked ||= String(data).includes('FRS.UPDATE');
      far.write(data);
    });
    far.on('data', (data) => {
      if (asked && armed > 0) {
        armed -= 1;
        near.destroy();
        return;
      }
      near.write(data);
    });
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  return {
    port: server.address().port,
    swallow: (times) => { armed = times; },
    left: () => armed,
    silence: () => sockets.forEach((socket) => silent.add(socket)),
  };
}

/** What servers answer that cannot judge just now, and the words of their errors. */
const BUSY = {
  busy: 'ERR busy (the record was not free within lock-timeout)',
  store: 'ERR store (the files of the group failed)',
  away: 'ERR max number of clients reached',
};

/** The URL of a server that answers each FRS command with an error. */
async function failing(t, error) {
  const sockets = new Set();
  const hello = '*4\r\n$6\r\nserver\r\n$3\r\nfrs\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n';
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    if (error === BUSY.away) socket.end(`-${error}\r\n`);
    socket.on('data', (data) => {
      for (const [, name] of String(data).matchAll(/\*\d+\r\n\$\d+\r\n([a-z.]+)\r\n/gi)) {
        const other = name.startsWith('FRS.') ? `-${error}\r\n` : '+OK\r\n';
        socket.write(name.toUpperCase() === 'HELLO' ? hello : other);
      }
    });
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  return `frs://127.0.0.1:${server.address().port}`;
}

/**
 * Plays and checks rounds in which no window of `ms` ends: how windows turn is not the same.
 * A round that a busy machine has drawn out is played again.
 */
async function rounds(count, ms, play, check) {
  let checked = 0;
  for (let tries = 0; checked < count; tries += 1) {
    if (tries === 20 * count) throw new Error(`rounds take longer than ${ms} ms`);
    if (tries > 0) await sleep(ms + 100);
    const [begun, found] = [Date.now(), []];
    while (Date.now() - begun < ms / 2) found.push(await play());
    if (Date.now() - begun < ms) {
      found.forEach(check);
      checked += 1;
    }
  }
}

/** Numbers from a seed, which the test prints: 0 ≤ n < below. */
function random(t) {
  let state = Number(process.env.FRS_SEED ?? Date.now() % 2 ** 31);
  t.diagnostic(`FRS_SEED=${state}`);
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/**
 * Checks that no window of `ms` has more than `max` of `admitted`, which are the times before and
 * after each answer.
 */
function atMost(max, ms, admitted) {
  const sorted = [...admitted].sort((a, b) => a.before - b.before);
  for (let first = 0; first + max < sorted.length; first += 1) {
    const span = sorted[first + max].after - sorted[first].before;
    if (span < ms) throw new Error(`${max + 1} within ${span} ms, expected ${max} in ${ms} ms`);
  }
}

module.exports = {
  BUSY,
  PATIENT,
  Serving,
  TOKEN,
  atMost,
  directory,
  failing,
  freePort,
  proxy,
  random,
  redis,
  rounds,
  sleep,
  until,
};
