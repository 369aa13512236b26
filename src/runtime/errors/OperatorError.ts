import { withoutCredentials } from '../text/credentials.js';
import { sentence } from '../text/text.js';

/** Why the process ends. */
export type ExitReason = keyof typeof exitCodes;

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

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Exit codes and their meanings. Scripts and service managers depend on them. */
export const exitCodes = {
  done: {
    code: 0,
    meaning:
      'Done as asked: stopped by a signal, stop height reached, command finished. If the disk, the DNS or the database hangs, or a second signal comes, the signal itself ends the process (143 or 130 in a shell); what was not durable is fetched again.',
  },
  bug: { code: 1, meaning: 'A bug in the program. Please report it with its log line.' },
  usage: { code: 64, meaning: 'Wrong or unknown flag, value or command on the command line.' },
  damage: {
    code: 65,
    meaning:
      'Damage: `verify` found some and names every height; `repair` without `--yes` found some to repair; a copy that `backup` made lacks heights that the store held; a file given to `export --resume` does not match its closing line; or a document given to `check-proof` does not hold.',
  },
  not_found: {
    code: 66,
    meaning:
      'No such id or height is indexed; for `explain`, nothing has this id at all; for `prove`, a block is stored without a proof.',
  },
  no_daemon: { code: 69, meaning: 'No daemon answers; for `doctor`, no access node does.' },
  storage: {
    code: 74,
    meaning:
      'Storage: disk full, permission denied, directory gone or in use by another process, damaged files.',
  },
  unavailable: {
    code: 75,
    meaning:
      'Not available now, and perhaps later: a port that is taken, an address that this machine does not have yet, no file or thread left to open, a height to begin at that only nodes know which do not answer. Trying again may help.',
  },
  foreign: { code: 76, meaning: 'The nodes or the store belong to another chain or spork.' },
  configuration: {
    code: 78,
    meaning:
      'Configuration: wrong value in a file or the environment, keys that cannot work together, a store of a newer version, a Node.js or an installation that lacks something.',
  },
} as const;

export function exitCodeOf(reason: ExitReason): number {
  return exitCodes[reason].code;
}
