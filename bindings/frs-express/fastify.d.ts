import type { FastifyRateLimitStoreCtor } from '@fastify/rate-limit';
import type { FrsOptions } from './frs';

export { Frs, FrsError } from './frs';
export type { FrsOptions } from './frs';

export interface FastifyStoreOptions extends FrsOptions {
  /** What stands before each key. `fastify-rate-limit-` by default. */
  nameSpace?: string;
}

/** A class for the option `store` of @fastify/rate-limit. `close()` closes its connection. */
export function fastifyStore(
  options: FastifyStoreOptions,
): FastifyRateLimitStoreCtor & { close(): void };
