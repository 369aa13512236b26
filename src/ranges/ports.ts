import type { BackfillPlan, HeightRange, OpenRange, RangeStore } from '../storage/index.js';

/** In which order the heights of a plan are filled in. */
export type FillOrder = BackfillPlan['order'];

/** The heights that nodes serve, as far as known; both are read at every choice. */
export interface ServedHeights {
  /** Heights at which a spork begins: no range crosses one. */
  borders(): readonly number[];
  /** `to` may be far above the head. */
  served(): readonly HeightRange[];
}

/**
 * A missing range that this process has taken to fill it. Exactly one of `succeed`, `fail` and `release` is called, once;
 * nothing is written after that.
 */
export interface RangeJob {
  readonly range: HeightRange;
  /** Takes the blocks of the range. The commit of the last height publishes it. */
  readonly store: RangeStore;
  /** Aborts when the job must be given back, because its plan is paused or cancelled. */
  readonly signal: AbortSignal;
  /** The range is published. */
  succeed(): Promise<void>;
  /**
   * The blocks of the nodes do not fit the index. The durable ones of the range may be false, and are deleted. It runs again after
   * a pause; after too many failures in a row it is disputed.
   */
  fail(reason: string): Promise<void>;
  /** Gives it back as it is. */
  release(): Promise<void>;
}

/** Where missing ranges come from: planned, cut, handed out, and taken back. */
export interface WorkSource {
  /** The next range to fill, as soon as there is one; `undefined` once the signal aborts. One caller at a time. */
  next(signal: AbortSignal): Promise<RangeJob | undefined>;
  /** Expected errors: OperatorError `usage` for heights that cannot be planned. */
  plan(wanted: WantedPlan): Promise<BackfillPlan>;
  /** Gives back running ranges of the plan. Expected errors, also of the next two: OperatorError `usage` (no such plan). */
  pause(id?: number): Promise<void>;
  resume(id?: number): Promise<void>;
  /** Removes the plan, and its ranges that are not published. */
  cancel(id?: number): Promise<void>;
  /** Lets disputed ranges run again. Returns how many. */
  redrive(): Promise<number>;
  status(): BackfillState;
}

export interface WantedPlan extends HeightRange {
  readonly order: FillOrder;
}

/**
 * `waiting`: for a free slot, or because its plan is paused; `failed`: for its next run, after a pause; `disputed`: for
 * `backfill redrive`.
 */
export type RangePhase = 'waiting' | 'running' | 'failed' | 'disputed';

/** A range that was begun and is not published. */
export interface RangeState extends OpenRange {
  readonly phase: RangePhase;
}

/** One of several processes that share a store. */
export interface WorkerState {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** The version of work that it does. */
  readonly workVersion: number;
  readonly roles: readonly string[];
  readonly state: 'ready' | 'running' | 'stopping' | 'stopped';
  /** False: it has been silent for too long, or has stopped. */
  readonly isAlive: boolean;
  readonly busyWith: readonly HeightRange[];
  /** It follows the head. */
  readonly leads: boolean;
  readonly startedAt: Date;
  /** Milliseconds since its last beat. */
  readonly beatAgeMs: number;
  /** The operator wants it to end. */
  readonly isAskedToEnd: boolean;
}

/** How many processes share a store, by state; `silent`: the beat has ceased, but the process never reported a stop. */
export function countWorkers(
  workers: readonly Pick<WorkerState, 'isAlive' | 'state'>[],
): ReadonlyMap<'live' | 'silent' | 'stopped', number> {
  const live = workers.filter(({ isAlive }) => isAlive).length;
  const stopped = workers.filter(({ state }) => state === 'stopped').length;
  return new Map([
    ['live', live],
    ['silent', workers.length - live - stopped],
    ['stopped', stopped],
  ]);
}

export interface PlanState extends BackfillPlan {
  /** Set if no live process does the version of work that the plan was cut for. */
  readonly untakenVersion?: number;
  /** Heights that are neither published nor durable in an open range. */
  readonly missingHeights: number;
}

export interface BackfillState {
  readonly plans: readonly PlanState[];
  readonly ranges: readonly RangeState[];
  /** Planned heights that no node is known to serve; they are not requested. */
  readonly unserved: readonly HeightRange[];
  /** In all plans together, counting each height once. */
  readonly missingHeights: number;
  /** Set if several processes share the store. */
  readonly workers?: readonly WorkerState[];
}

/** Which of several processes follows the chain: one at a time. */
export interface Leadership {
  /**
   * Waits until this process leads; `undefined` once the signal aborts. One caller at a time. This alone does not stop a former
   * leader from writing: the fence of the store refuses its writes.
   */
  lead(signal: AbortSignal): Promise<Term | undefined>;
  /** The leader as last read; `undefined` if there is none, or the database is unreachable. */
  leader(): Pick<WorkerState, 'id' | 'host' | 'beatAgeMs'> | undefined;
}

/** A period in which this process leads. */
export interface Term {
  /** Aborts when another process may lead. */
  readonly lost: AbortSignal;
  /** Lets another process lead at once. Idempotent, also after a loss. */
  release(): Promise<void>;
}

/** For a process that does not share its store: it always leads. */
export const soleLeadership: Leadership = {
  lead: (signal) =>
    Promise.resolve(
      signal.aborted ? undefined : { lost: new AbortController().signal, release: () => Promise.resolve() },
    ),
  leader: () => undefined,
};
