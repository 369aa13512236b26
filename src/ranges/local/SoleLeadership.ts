import type { Leader, Leadership, Term } from '../ports.js';

/** For a process that does not share its store: it always leads. */
export class SoleLeadership implements Leadership {
  lead(signal: AbortSignal): Promise<Term | undefined> {
    const term = { lost: new AbortController().signal, release: () => Promise.resolve() };
    return Promise.resolve(signal.aborted ? undefined : term);
  }

  leader(): Leader | undefined {
    return undefined;
  }
}
