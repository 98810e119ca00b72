// A store of express-rate-limit. The limit is judged by the server, exactly.
//
// Invariant: totalHits is above the limit if and only if the server refused the hit.

'use strict';

const { Frs, FrsError, connection, rate, unlessAway } = require('./frs');

/** Above every limit. */
const OVER = Number.MAX_SAFE_INTEGER;

class FrsStore {
  localKeys = false;
  #frs;
  #biz;
  #most;
  #rate;
  /** The limit, or `undefined` if each request has its own. */
  #limit;
  #force;
  /** Whether the library admits a hit without a verdict. */
  #passes;

  constructor(options) {
    this.#frs = connection(options);
    this.#biz = options.biz ?? this.#frs.biz;
    this.#most = options.most ?? 200;
    this.prefix = options.prefix ?? 'rl:';
  }

  /** Rejects if the server would answer no hit. express-rate-limit logs that from 8.5 on. */
  init({ windowMs, limit, skipFailedRequests, passOnStoreError }) {
    this.#passes = Boolean(passOnStoreError);
    this.#limit = typeof limit === 'number' ? Math.floor(limit) : undefined;
    this.#rate = rate(this.#limit ?? this.#most, windowMs);
    // A refused request has failed, so the middleware takes its hit back. It must be there.
    this.#force = Boolean(skipFailedRequests) && this.#limit !== undefined;
    const ready = this.get('init').then(() => undefined);
    // Older versions look at no promise, and Node ends a program for a rejection without a handler.
    ready.catch(() => {});
    return ready;
  }

  async increment(key) {
    return this.#hit(key).catch((error) => this.#failed(error));
  }

  #failed(error) {
    if (!this.#passes) throw error;
    return unlessAway(error, info(OVER, 1000));
  }

  async #hit(key) {
    const verdict = await this.#frs.update(this.prefix + key, {
      biz: this.#biz, rate: this.#rate, force: this.#force,
    });
    const { limited, used, reset = 0, retry = reset } = verdict;
    if (!limited) return info(used, reset);
    if (this.#limit === undefined) return info(OVER, retry);
    return info(this.#force ? Math.max(used, this.#limit + 1) : this.#limit + 1, retry);
  }

  async get(key) {
    const { used, reset = 0 } = await this.#frs.query(this.prefix + key, {
      biz: this.#biz, rate: this.#rate,
    });
    return used > 0 ? info(used, reset) : undefined;
  }

  async decrement(key) {
    const back = { biz: this.#biz, rate: this.#rate, count: -1 };
    await this.#frs.update(this.prefix + key, back).catch((error) => this.#failed(error));
  }

  async resetKey(key) {
    await this.#frs.clear(this.prefix + key, { biz: this.#biz, rate: this.#rate });
  }

  shutdown() {
    this.#frs.close();
  }
}

function info(totalHits, ms) {
  return { totalHits, resetTime: new Date(Date.now() + ms) };
}

module.exports = { Frs, FrsError, FrsStore };
