import type { BackfillPlan, HeightRange, OpenRange, RangeStore } from '../storage/index.js';

/** In which order the heights of a plan are filled in. */
export type FillOrder = BackfillPlan['order'];

/** Which heights can be had, as far as it is known; both are read at every choice. */
export interface ServedHeights {
  /** Heights at which another spork begins: no range has heights on both sides of one. */
  borders(): readonly number[];
  /** `to` may be far above the head. */
  served(): readonly HeightRange[];
}

/**
 * A missing range that this process has taken in order to fill it. Exactly one of `succeed`, `fail` and `release` is called,
 * once, and after that nothing is written any more.
 */
export interface RangeJob {
  readonly range: HeightRange;
  /** What the run writes. Its commit of the last height publishes the range. */
  readonly store: RangeStore;
  /** Aborted when the job is to be given back: its plan is paused or cancelled. */
  readonly signal: AbortSignal;
  /** The range is published. */
  succeed(): Promise<void>;
  /**
   * What the nodes gave cannot be brought into line with the index. It runs again after a pause; after too many failures in
   * a row it is disputed. `startOver`: what is durable of it is in doubt, and forgotten.
   */
  fail(reason: string, how?: { readonly startOver?: boolean }): Promise<void>;
  /** Gives it back as it is. */
  release(): Promise<void>;
}

/** Where missing ranges come from: planned, cut, handed out, and taken back. */
export interface WorkSource {
  /** The next range to fill, as soon as there is one; `undefined` once the signal aborts. One caller at a time. */
  next(signal: AbortSignal): Promise<RangeJob | undefined>;
  /** Expected errors: OperatorError `usage` for heights that cannot be planned. */
  plan(wanted: WantedPlan): Promise<BackfillPlan>;
  /** What runs of the plan is given back and waits. Expected errors: OperatorError `usage` (no such plan), as for the two below. */
  pause(id?: number): Promise<void>;
  resume(id?: number): Promise<void>;
  /** Forgets the plan, and what is not published of it. */
  cancel(id?: number): Promise<void>;
  /** Lets disputed ranges run again. Returns how many. */
  redrive(): Promise<number>;
  status(): BackfillState;
}

export interface WantedPlan extends HeightRange {
  readonly order: FillOrder;
}

/**
 * `waiting`: for a free place, or because its plan is paused; `failed`: for its next run, after a pause; `disputed`: for
 * `backfill redrive`.
 */
export type RangePhase = 'waiting' | 'running' | 'failed' | 'disputed';

/** A range that was begun and is not published. */
export interface RangeState extends OpenRange {
  readonly phase: RangePhase;
}

/** A process that fills the store, of several. */
export interface WorkerState {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** Which version of the work it does. */
  readonly workVersion: number;
  readonly roles: readonly string[];
  readonly state: 'ready' | 'running' | 'stopping' | 'stopped';
  /** False: it has been silent for too long, or has stopped. */
  readonly isAlive: boolean;
  readonly busyWith: readonly HeightRange[];
  /** It follows the head. */
  readonly leads: boolean;
  readonly startedAt: Date;
  readonly beatAgeMs: number;
  /** It is to end: when what it has in hand is done, or at once. */
  readonly kill: KillWish | undefined;
}

export type KillWish = 'finish' | 'release';

export interface PlanState extends BackfillPlan {
  /** Said where no live process does the version of work that the plan was cut for. */
  readonly untakenVersion?: number;
  /** Heights that are neither published nor durable in an open range. */
  readonly missingHeights: number;
}

export interface BackfillState {
  readonly plans: readonly PlanState[];
  readonly ranges: readonly RangeState[];
  /** Planned heights that no node is known to serve; nothing is asked for them. */
  readonly unserved: readonly HeightRange[];
  /** Of all plans together, each height once. */
  readonly missingHeights: number;
  /** Where several processes fill the store. */
  readonly workers?: readonly WorkerState[];
}

/** Which of several processes follows the chain: one at a time. */
export interface Leadership {
  /**
   * Waits until this process leads; `undefined` once the signal aborts. One caller at a time. What a former leader still
   * writes is refused by the fence of the store, never by this alone.
   */
  lead(signal: AbortSignal): Promise<Term | undefined>;
  /** As far as this process knows: what it was last told, or nothing while the database is away. */
  leader(): Leader | undefined;
}

/** The time that this process leads. */
export interface Term {
  /** Aborts when another may lead. */
  readonly lost: AbortSignal;
  /** Lets another lead, at once. Idempotent, also after a loss. */
  release(): Promise<void>;
}

export interface Leader {
  /** Its id in the list of workers. */
  readonly worker: string;
  readonly host: string;
  /** Milliseconds since it was last heard of. */
  readonly beatAgeMs: number;
}
