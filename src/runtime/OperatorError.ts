import { withoutCredentials } from './credentials.js';
import { sentence } from './text.js';

/**
 * Why the process ends, as a name; `exitCodes` has the number of each.
 */
export type ExitReason =
  'done' | 'bug' | 'usage' | 'damage' | 'not_found' | 'no_daemon' | 'storage' | 'foreign' | 'configuration';

/**
 * Something only the operator can mend. The message is one or two readable sentences that say what is wrong and what
 * to do; it is printed without a stack trace and ends the process with `exit`. Whatever an input put into it, it is one line
 * of bounded length without control characters, and no URL in it holds credentials.
 *
 * Errors are of two kinds only: this one and other typed errors named in a function's "Expected errors", which the
 * caller handles. Anything else is a bug and stops the process with exit code 1 (invariant 11).
 */
export class OperatorError extends Error {
  override readonly name: string = 'OperatorError';
  readonly exit: ExitReason;

  constructor(exit: ExitReason, message: string, options?: ErrorOptions) {
    super(sentence(withoutCredentials(message)), options);
    this.exit = exit;
  }
}

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
