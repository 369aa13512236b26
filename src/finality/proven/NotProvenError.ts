/** Why nothing more can be proven final now. */
export class NotProvenError extends Error {
  override readonly name = 'NotProvenError';
  /** When to try again, whether blocks arrive or not. `undefined`: with the next block. */
  readonly pauseMs: number | undefined;

  constructor(reason: string, pauseMs?: number) {
    super(reason);
    this.pauseMs = pauseMs;
  }
}
