// A store of @fastify/rate-limit. The limit is judged by the server, exactly.
//
// Invariant: current is above max if and only if the server refused the request.

'use strict';

const { Frs, FrsError, connection, rate, unlessAway } = require('./frs');

/** Makes the class that the option `store` of @fastify/rate-limit takes. */
function fastifyStore(options) {
  const frs = connection(options);
  const biz = options.biz ?? frs.biz;

  class FrsFastifyStore {
    #nameSpace;
    /** Whether the library admits a request without a verdict. */
    #passes;

    constructor(params = {}, nameSpace = options.nameSpace ?? 'fastify-rate-limit-') {
      for (const name of ['continueExceeding', 'exponentialBackoff']) {
        if (params[name]) throw unsupported(name);
      }
      if (params.ban > 0) throw unsupported('ban');
      this.#nameSpace = nameSpace;
      this.#passes = Boolean(params.skipOnError);
    }

    incr(key, callback, timeWindow, max) {
      const name = this.#nameSpace + key;
      const refused = (ttl) => ({ current: Math.floor(max) + 1, ttl });
      const current = ({ limited, used, reset = 0, retry = reset }) => (
        limited ? refused(retry) : { current: used, ttl: reset });
      const failed = (error) => {
        if (!this.#passes) throw error;
        return unlessAway(error, refused(1000));
      };
      const asked = frs.update(name, { biz, rate: rate(max, timeWindow) });
      answer(asked.then(current).catch(failed), callback);
    }

    read(key, callback, timeWindow, max) {
      const name = this.#nameSpace + key;
      const current = ({ used, reset = 0 }) => ({ current: used, ttl: reset });
      answer(frs.query(name, { biz, rate: rate(max, timeWindow) }).then(current), callback);
    }

    child(params) {
      const { method, url } = params.routeInfo;
      return new FrsFastifyStore(params, `${this.#nameSpace}${method}${url}-`);
    }

    /** Closes the connection of all stores of this class. */
    static close() {
      frs.close();
    }
  }
  return FrsFastifyStore;
}

/** Calls back once, and never within the promise: what a callback throws is not the server's. */
function answer(promise, callback) {
  promise.then(
    (current) => setImmediate(callback, null, current),
    (error) => setImmediate(callback, error),
  );
}

function unsupported(name) {
  return new TypeError(
    `${name} counts requests that were refused, and frs charges none: write ban="10m" at the ` +
    'limit in map.xml',
  );
}

module.exports = { Frs, FrsError, fastifyStore };
