import type { Stage } from './stage.js';

/** What becomes of a store, from the best on. */
export type Outcome =
  /** Nothing is lost, and nothing was to be done. */
  | 'unharmed'
  /** The daemon began at an earlier consistent height by itself, and fetched the rest again. */
  | 'rolled back'
  /** Served what is sound, named what was not, and fetched it again by itself. */
  | 'healed'
  /** Stopped with a name for the fault; with the fault gone a start was all it took. */
  | 'stopped, went on'
  /** Refused with a name for the damage; `repair` put it right. */
  | 'refused, repaired'
  /** Refused, as nothing could be kept; begun anew as the message says. */
  | 'refused, begun anew';

export interface Result {
  readonly outcome: Outcome;
  /** Of the daemon that met the fault. 0: it went on. */
  readonly exitCode: number | string;
  /** The watermark from which the daemon went on; -1: from an empty store. */
  readonly wentOnFrom: number;
  readonly remark?: string;
}

/** Throws where anything is served wrong, ends without a name, or cannot be repaired as the message says. */
export type Scenario = (stage: Stage) => Promise<Result>;

export type Scenarios = Readonly<Record<string, Scenario>>;
