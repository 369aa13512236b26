import type { ExitReason } from '../../runtime/index.js';

/** What is looked at, in this order. */
export const checkNames = [
  ...(['machine', 'limits', 'store', 'nodes', 'clock', 'disk', 'ports'] as const),
  ...(['exposure', 'configuration'] as const),
] as const;
export type CheckName = (typeof checkNames)[number];

/** One thing that was looked at. */
export interface Verdict {
  readonly check: CheckName;
  /** `warning`: it works, and could be better. `problem`: `start` fails, nothing is indexed, or nobody is served. */
  readonly verdict: 'ok' | 'warning' | 'problem';
  /** One sentence: what was found; for what is not ok, also the cause and what to change. */
  readonly message: string;
  /** Of a problem: the exit code. */
  readonly exit?: ExitReason;
}

/** What a check says, without its own name. */
export type Finding = Omit<Verdict, 'check'>;

export function ok(message: string): Finding {
  return { verdict: 'ok', message };
}

export function warning(message: string): Finding {
  return { verdict: 'warning', message };
}

export function problem(exit: ExitReason, message: string): Finding {
  return { verdict: 'problem', message, exit };
}
