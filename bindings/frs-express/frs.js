// The connection to a server, which the stores of this package share.
//
// Invariant: a command that may have been charged is sent again only under the same id.

'use strict';

const { createHash, randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const DEFAULT_PORT = 6380;
/** The first version that takes limits in the call. */
const OLDEST = [0, 1];
/** Gives back all that a key has used. A count has 32 bits. */
const ALL = -(2 ** 31);
/** What frs takes as a key: so many bytes, without the characters that XML forbids. */
const LONGEST_KEY = 1024;
const KEY = /^[^\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]+$/;
/** The errors of a server that cannot answer just now. Any other one lasts, as a wrong setting. */
const AWAY = new Set(['away', 'timeout', 'busy', 'store']);
const REMEDY = '. For more uses take a business such as adhoc-fixed, or raise its most in map.xml';
/** At most one warning in so many milliseconds. */
const QUIET = 60_000;

/** Why there is no verdict. `code` says it in a word, of which `frs.d.ts` has the list. */
class FrsError extends Error {
  /** Frameworks show the message to clients, so the address stands beside it. */
  constructor(code, message, server, cause) {
    super(message, cause && { cause });
    this.name = 'FrsError';
    this.code = code;
    this.server = server;
  }
}

class Frs {
  #redis;
  #name;
  /** The look at the server's version, once for each connection. */
  #checked;
  /** Why the connection failed last. */
  #reason;
  /** The businesses that remember no ids. */
  #withoutIds = new Set();

  constructor({ url, token, timeout = 500, biz }) {
    const address = parse(url);
    this.biz = biz ?? address.biz ?? 'adhoc';
    this.#name = address.path ?? `${address.host}:${address.port}`;
    this.#redis = new Redis({
      host: address.host,
      port: address.port,
      path: address.path,
      password: token ?? address.token,
      commandTimeout: timeout,
      connectTimeout: timeout,
      // A connection that has gone silent is closed, and a new one is made.
      socketTimeout: timeout,
      // A command is sent again here, where it is known whether that is safe.
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: (times) => Math.min(times * 20, 200),
    });
    this.#redis.on('error', (error) => { this.#reason = error; });
    this.#redis.on('ready', () => { this.#reason = undefined; });
    this.#redis.on('close', () => {
      this.#checked = undefined;
      this.#withoutIds.clear();
    });
  }

  /** Charges `count` uses if the limit admits them, or with `force` whatever it says. */
  async update(key, { biz = this.biz, rate, count = 1, force = false }) {
    const words = ['FRS.UPDATE', biz, short(key), 'RATE', rate, 'COUNT', count];
    if (force) words.push('FORCE');
    if (this.#withoutIds.has(biz)) return fields(await this.#call(words));
    try {
      return fields(await this.#call([...words, 'ONCE', randomUUID()], true));
    } catch (error) {
      if (error.code !== 'bad-once') throw error;
      this.#withoutIds.add(biz);
      return fields(await this.#call(words));
    }
  }

  /** Says whether `count` uses would be admitted. Charges nothing. */
  async query(key, { biz = this.biz, rate, count = 0 }) {
    const words = ['FRS.QUERY', biz, short(key), 'RATE', rate, 'COUNT', count];
    return fields(await this.#call(words, true));
  }

  /** Forgets the uses of a key. */
  async clear(key, { biz = this.biz, rate }) {
    await this.update(key, { biz, rate, count: ALL });
  }

  /** Closes the connection. What waits for an answer fails. */
  close() {
    this.#redis.disconnect();
  }

  /** With `again` a command whose connection is lost is sent once more. */
  async #call(words, again = false) {
    let isOpen = false;
    try {
      await this.#check();
      isOpen = true;
      return await this.#redis.call(...words);
    } catch (error) {
      const named = this.#named(error, words);
      // While the server is away, nobody waits for it twice.
      if (!again || !isOpen || named.code !== 'away') throw named;
      return this.#call(words);
    }
  }

  #check() {
    this.#checked ??= this.#redis.call('HELLO').then((reply) => {
      const { server, version } = fields(reply);
      const [major, minor] = String(version).split('.').map(Number);
      const isNew = major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
      if (server !== 'frs' || !isNew) {
        const expected = `expected frs ${OLDEST.join('.')} or newer`;
        throw new FrsError('no-frs', `found ${server} ${version}, ${expected}`, this.#name);
      }
    }).catch((error) => {
      this.#checked = undefined;
      throw error;
    });
    return this.#checked;
  }

  #named(error, [, biz, , , limit]) {
    if (error instanceof FrsError) return error;
    const made = (code, text, cause = error) => (
      new FrsError(code, `frs ${text}`, this.#name, cause));
    const text = error.message;
    const word = /^ERR ([a-z-]+) \(/.exec(text)?.[1];
    if (word) {
      const remedy = word === 'bad-rate' ? REMEDY : '';
      const asked = `asked for ${limit} in the business ${biz} of map.xml`;
      return made(word, `answers ${text}: ${asked}${remedy}`);
    }
    if (isAboutTokens(error)) return made('bad-token', `answers ${text}`);
    if (/^ERR max number of clients/.test(text)) return made('away', `answers ${text}`);
    if (/^ERR unknown command/.test(text)) return made('no-frs', `answers ${text}`);
    if (/^ERR /.test(text)) return made('refused', `answers ${text}`);
    if (text === 'Command timed out') return made('timeout', 'has not answered in time');
    const reason = this.#reason ?? error;
    if (isAboutTokens(reason)) return made('bad-token', `answers ${reason.message}`, reason);
    return made('away', 'does not answer', reason);
  }
}

function isAway({ code }) {
  return AWAY.has(code);
}

let warned = -Infinity;

/**
 * What a library that admits uses while the server is away gets for an error that lasts: `refused`.
 * Otherwise nobody would miss the limit.
 */
function unlessAway(error, refused) {
  if (isAway(error)) throw error;
  const now = performance.now();
  if (now - warned >= QUIET) {
    warned = now;
    process.emitWarning(`requests are refused, because ${error.message}`, 'frs');
  }
  return refused;
}

function isAboutTokens({ message }) {
  return /NOAUTH|WRONGPASS/.test(message);
}

/** A key that frs does not take becomes a digest, so that no client makes a limit fail. */
function short(key) {
  const fits = Buffer.byteLength(key) <= LONGEST_KEY && KEY.test(key);
  return fits ? key : createHash('sha256').update(key).digest('hex');
}

function parse(url) {
  const expected = 'expected frs://HOST:PORT or frs+unix:///PATH, and ?biz=NAME at most';
  let parts;
  try {
    parts = new URL(url);
  } catch {
    // Its text may hold a token.
    throw new TypeError(`url: found no URL, ${expected}`);
  }
  const unknown = [...parts.searchParams.keys()].find((name) => name !== 'biz');
  if (unknown !== undefined) throw new TypeError(`url: found ?${unknown}=, ${expected}`);
  const biz = parts.searchParams.get('biz') ?? undefined;
  const path = decodeURIComponent(parts.pathname);
  if (parts.protocol === 'frs+unix:' && !parts.host && path) return { path, biz };
  if (parts.protocol !== 'frs:' || !parts.hostname || !['', '/'].includes(path)) {
    throw new TypeError(`url: found ${parts.protocol}//${parts.host}${path}, ${expected}`);
  }
  return {
    host: parts.hostname.replace(/^\[|\]$/g, ''),
    port: Number(parts.port || DEFAULT_PORT),
    token: decodeURIComponent(parts.password) || undefined,
    biz,
  };
}

/** The names and values of a reply, which ioredis gives as a list. */
function fields(reply) {
  const named = {};
  for (let at = 0; at < reply.length; at += 2) named[reply[at]] = reply[at + 1];
  return named;
}

/** `max` uses in `ms` milliseconds, as a call says it. */
function rate(max, ms) {
  return `${Math.max(0, Math.floor(max))}/${Math.ceil(ms)}ms`;
}

/** The connection that the options bring, or a new one to their `url`. */
function connection(options) {
  return options.frs ?? new Frs(options);
}

module.exports = { Frs, FrsError, connection, isAway, rate, unlessAway };
