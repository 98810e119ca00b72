import { RateLimiterStoreAbstract } from 'rate-limiter-flexible';
import type { IRateLimiterStoreOptions } from 'rate-limiter-flexible';
import type { Frs, FrsOptions } from './frs';

export { Frs, FrsError } from './frs';
export type { FrsOptions } from './frs';

export interface RateLimiterFrsOptions
  extends FrsOptions, Omit<IRateLimiterStoreOptions, 'storeClient'> {
  /** The business that keeps blocks of `blockDuration`: one with `sliding`. `adhoc` by default. */
  blockBiz?: string;
}

/** A limiter of rate-limiter-flexible on frs. */
export class RateLimiterFrs extends RateLimiterStoreAbstract {
  constructor(options: RateLimiterFrsOptions);
  /** The connection. */
  readonly client: Frs;
}
