import type { ExitReason } from '../../runtime/index.js';

export type CheckName = 'store' | 'nodes' | 'clock' | 'disk' | 'exposure';

export interface Finding {
  /** `warning`: it works, but could be better. `problem`: `start` fails, nothing is indexed, or no reader is served. */
  readonly verdict: 'ok' | 'warning' | 'problem';
  /** One sentence: what was found; unless it is ok, also the cause and what to change. */
  readonly message: string;
  readonly exit?: ExitReason;
}

export interface Verdict extends Finding {
  readonly check: CheckName;
}

export function ok(message: string): Finding {
  return { verdict: 'ok', message };
}

export function warning(message: string): Finding {
  return { verdict: 'warning', message };
}

export function problem(exit: ExitReason, message: string): Finding {
  return { verdict: 'problem', message, exit };
}

/** The findings that apply. */
export function those(...findings: readonly (Finding | false | undefined)[]): Finding[] {
  return findings.filter((finding) => finding !== false && finding !== undefined);
}
