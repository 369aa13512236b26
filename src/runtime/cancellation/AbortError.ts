/** Work was cancelled on purpose: not logged as an error, not retried. */
export class AbortError extends Error {
  override readonly name = 'AbortError';
  constructor(message = 'cancelled') {
    super(message);
  }
}

/** The signal's reason, always as an Error. */
export function abortReason(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new AbortError();
}

/** True for our own cancellations and the platform's. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
