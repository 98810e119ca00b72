// A limiter of rate-limiter-flexible. The points are judged by the server, exactly.
//
// Invariant: consumedPoints is above points if and only if the server refused them, and a refused
// consume is charged nothing.

'use strict';

const { RateLimiterRes } = require('rate-limiter-flexible');
const RateLimiterStoreAbstract = require('rate-limiter-flexible/lib/RateLimiterStoreAbstract');
const { Frs, FrsError, connection, isAway, rate } = require('./frs');

class RateLimiterFrs extends RateLimiterStoreAbstract {
  constructor(options) {
    super(options);
    if (!(this.duration > 0)) {
      throw new TypeError(`duration: found ${this.duration}, expected seconds above 0: ` +
        'for uses that never come back write a limit policy="total" in map.xml');
    }
    for (const name of ['blockOnConsumed', 'inMemoryBlockOnConsumed']) {
      if (this[name] > this.points + 1) {
        throw new TypeError(`${name}: found ${this[name]}, expected at most points + 1: ` +
          'frs charges no points that it refuses');
      }
    }
    this.client = connection(options);
    this.biz = options.biz ?? this.client.biz;
    this.blockBiz = options.blockBiz ?? 'adhoc';
  }

  _getRateLimiterRes(rlKey, changedPoints, verdict) {
    const changed = Number(changedPoints);
    const { limited, forced, blocked, used, reset = 0, retry = reset } = verdict;
    const res = new RateLimiterRes();
    res.consumedPoints = used;
    if (blocked) res.consumedPoints = this.points + 1 + changed;
    else if (limited && !forced) res.consumedPoints = used + changed;
    res.isFirstInDuration = res.consumedPoints === changed;
    res.remainingPoints = Math.max(this.points - res.consumedPoints, 0);
    res.msBeforeNext = limited ? retry : reset;
    return res;
  }

  async _upsert(rlKey, points, msDuration, forceExpire, { force = false } = {}) {
    const count = Number(points);
    if (!Number.isInteger(count)) {
      throw new TypeError(`points: found ${points}, expected a whole number`);
    }
    const blocked = !force && count > 0 && await this.#blocked(rlKey);
    if (blocked) return blocked;
    const limit = rate(this.points, msDuration);
    const verdict = await this.client.update(rlKey, { biz: this.biz, rate: limit, count, force });
    return { ...verdict, forced: force };
  }

  /** A penalty is charged whatever the limit says. */
  _penalty(key, points = 1, options = {}) {
    return super._penalty(key, points, { ...options, force: true });
  }

  async _get(rlKey, options) {
    const blocked = await this.#blocked(rlKey);
    if (blocked) return blocked;
    const verdict = await this.client.query(rlKey, { biz: this.biz, rate: this.#rate(options) });
    return verdict.used > 0 ? verdict : null;
  }

  async _delete(rlKey, options) {
    const had = await this._get(rlKey, options);
    await this.client.clear(rlKey, { biz: this.biz, rate: this.#rate(options) });
    if (this.blockDuration > 0) await this.client.clear(blockKey(rlKey), this.#block());
    return had !== null;
  }

  _block(rlKey, initPoints, msDuration, options) {
    return this.#insured('block', [this.parseKey(rlKey), msDuration / 1000, options], async () => {
      if (msDuration !== this.msBlockDuration) {
        throw new TypeError(`block: found ${msDuration / 1000} s, expected blockDuration, ` +
          `${this.blockDuration} s: frs keeps blocks of this length`);
      }
      await this.client.update(blockKey(rlKey), { ...this.#block(), force: true });
      return new RateLimiterRes(0, msDuration, initPoints);
    });
  }

  _set(rlKey, points, msDuration, options) {
    const params = [this.parseKey(rlKey), points, msDuration / 1000, options];
    return this.#insured('set', params, async () => {
      const limit = { biz: this.biz, rate: rate(this.points, msDuration) };
      await this.client.clear(rlKey, limit);
      if (points > 0) {
        await this.client.update(rlKey, { ...limit, count: points, force: true });
      }
      return new RateLimiterRes(0, msDuration, points);
    });
  }

  /** `insuranceLimiter` stands in for a server that is away, and for no setting that is wrong. */
  _handleError(error, name, resolve, reject, params) {
    if (isAway(error)) super._handleError(error, name, resolve, reject, params);
    else reject(error);
  }

  /** Does what `insuranceLimiter` does if the server is away. */
  #insured(name, params, act) {
    return new Promise((resolve, reject) => {
      act().then(resolve, (error) => this._handleError(error, name, resolve, reject, params));
    });
  }

  #rate(options) {
    return rate(this.points, this._getKeySecDuration(options) * 1000);
  }

  #block() {
    return { biz: this.blockBiz, rate: rate(1, this.msBlockDuration) };
  }

  /** The verdict about a blocked key, or `undefined`. */
  async #blocked(rlKey) {
    if (!(this.blockDuration > 0)) return undefined;
    const verdict = await this.client.query(blockKey(rlKey), { ...this.#block(), count: 1 });
    return verdict.limited ? { ...verdict, blocked: true } : undefined;
  }
}

function blockKey(rlKey) {
  return `${rlKey}:block`;
}

module.exports = { Frs, FrsError, RateLimiterFrs };
