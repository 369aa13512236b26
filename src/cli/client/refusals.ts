import { ApiError } from '../../api/index.js';
import type { PlainResponse } from '../../app/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';

/** Why the daemon refuses. */
export function refusalOf({ status, bytes }: PlainResponse): {
  readonly reason: string | undefined;
  readonly error: OperatorError;
} {
  let body: { readonly reason?: string; readonly message?: string } = {};
  try {
    body = JSON.parse(bytes.toString('utf8')) as typeof body;
  } catch {
    // Not our JSON: the status has to do.
  }
  const { reason, message = `the daemon answered with status ${status}` } = body;
  return { reason, error: refusal(status, message, reason) };
}

/** Translates a refusal of the daemon into an exit reason. */
export function refusal(status: number, message: string, reason?: string): OperatorError {
  const exit: ExitReason =
    reason === 'storage'
      ? 'storage'
      : status === 404 || reason === 'unproven'
        ? 'not_found'
        : status === 400
          ? 'usage'
          : 'no_daemon';
  return new OperatorError(exit, message);
}

/** Refuses a malformed key before asking anyone. Expected errors: OperatorError `usage`. */
export function checkKey(parse: () => unknown): void {
  try {
    parse();
  } catch (error) {
    if (error instanceof ApiError) throw refusal(error.code, error.message);
    throw error;
  }
}
