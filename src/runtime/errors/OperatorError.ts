import { withoutCredentials } from '../text/credentials.js';
import { sentence } from '../text/text.js';

/** Why the process ends; `exitCodes` has the number of each. */
export type ExitReason =
  | ('done' | 'bug' | 'usage' | 'damage' | 'not_found' | 'no_daemon' | 'storage')
  | ('foreign' | 'configuration');

/**
 * An error that only the operator can fix. The message says in one or two sentences what is wrong and what to do.
 * It is printed without a stack trace and ends the process with `exit`. It is always one line of bounded length,
 * without control characters or credentials.
 *
 * There are two kinds of error: this and other typed errors named under "Expected errors", which the caller
 * handles; anything else is a bug and ends the process with exit code 1 (invariant 11).
 */
export class OperatorError extends Error {
  override readonly name: string = 'OperatorError';
  readonly exit: ExitReason;

  constructor(exit: ExitReason, message: string, options?: ErrorOptions) {
    super(sentence(withoutCredentials(message)), options);
    this.exit = exit;
  }
}

/** Anything that was thrown, as an error. */
export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
