/** Work was cancelled on purpose: never logged as an error, never retried. */
export class AbortError extends Error {
  override readonly name = 'AbortError';
  constructor(message = 'cancelled') {
    super(message);
  }
}

/** The signal's reason as an Error, whatever it was aborted with. */
export function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new AbortError();
}

/** True for a cancellation, our own or the platform's. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
