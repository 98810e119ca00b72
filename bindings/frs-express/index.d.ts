import type { ClientRateLimitInfo, Options, Store } from 'express-rate-limit';
import type { FrsOptions } from './frs';

export { Frs, FrsError } from './frs';
export type { FrsOptions } from './frs';

export interface FrsStoreOptions extends FrsOptions {
  /** What stands before each key. `rl:` by default. Limiters of other windows need other ones. */
  prefix?: string;
  /**
   * Where `limit` is a function: the largest limit that it returns, at most `most` of the business.
   * 200 by default. Above it every hit is refused.
   */
  most?: number;
}

/** A store of express-rate-limit on frs. */
export class FrsStore implements Store {
  constructor(options: FrsStoreOptions);
  readonly prefix: string;
  readonly localKeys: boolean;
  init(options: Options): Promise<void>;
  get(key: string): Promise<ClientRateLimitInfo | undefined>;
  increment(key: string): Promise<ClientRateLimitInfo>;
  decrement(key: string): Promise<void>;
  resetKey(key: string): Promise<void>;
  /** Closes the connection. */
  shutdown(): void;
}
