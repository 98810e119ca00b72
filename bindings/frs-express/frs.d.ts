/** How to reach the server, and which business judges. */
export interface FrsOptions {
  /** `frs://[:token@]HOST:PORT[?biz=NAME]` or `frs+unix:///PATH[?biz=NAME]`. */
  url?: string;
  /** An open connection, instead of `url`. */
  frs?: Frs;
  /** The token of the `<resp>`, instead of the one in `url`. */
  token?: string;
  /** Milliseconds that a command waits for its answer. 500 by default. */
  timeout?: number;
  /** A business whose only limit has `per-call="true"`. `adhoc` by default. */
  biz?: string;
}

/**
 * Why there is no verdict. `code` is a word of the server's table of errors (`bad-rate`,
 * `unknown-biz`, …), or one of the client: `away`, `timeout`, `bad-token`, `no-frs`, `refused`.
 */
export class FrsError extends Error {
  readonly code: string;
  /** The address or path. It is not in the message, which frameworks show to their clients. */
  readonly server: string;
}

/** A connection to a server, which stores can share by their option `frs`. */
export class Frs {
  constructor(options: FrsOptions & { url: string });
  /** Closes the connection. What waits for an answer fails. */
  close(): void;
}
