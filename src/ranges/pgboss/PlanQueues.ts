import { overlap } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, RangeFacts, Session, SharedRangeBook } from '../../storage/index.js';
import { cutAll, lacking } from '../planner.js';
import { bordersOf } from '../plans.js';
import type { FillOrder, ServedHeights, WorkerState } from '../ports.js';
import { JOBS_SCHEMA, within, type Boss, type HeldJob } from './Boss.js';
import type { QueueParts } from './WorkerRegistry.js';

/** A younger queue may belong to a plan whose transaction is not over yet. */
const OLD_QUEUE_MS = 10 * 60 * 1_000;

/** Ranges of one part of a plan: limits the jobs that its check depends on, and the heights that the check reads. */
const MAX_PART_RANGES = 1_000;
/** The check of a part is taken before any range. */
const PART_PRIORITY = 2_147_483_647;
/** Priorities are heights, so that a worker can ask for heights that its nodes serve. */
const HIGHEST = PART_PRIORITY - 1;

/** `part`: a check after all ranges of the part, which plans missing heights again. `isUncut`: there are no ranges yet. */
export interface PlanJob extends HeightRange {
  readonly kind: 'range' | 'part';
  readonly isUncut?: boolean;
}

/** What the parts of the work source of a process share. */
export interface SharedWork extends Pick<QueueParts, 'boss' | 'clock' | 'random' | 'logger' | 'workVersion'> {
  readonly book: SharedRangeBook;
  readonly chain: ServedHeights;
  /** Default: the maximum of the store. */
  readonly maxRangeHeights?: number | undefined;
  /** Ranges of one part of a plan. Default: `MAX_PART_RANGES`. */
  readonly maxPartRanges?: number | undefined;
}

/**
 * The jobs of the plans of a store that many machines fill. Each plan and version of the work has a queue of its own. So a paused
 * plan can be skipped, a cancelled plan loses its queue, and a worker finds only work that it can do. Expected errors of all:
 * `StorageError`.
 */
export class PlanQueues {
  readonly #parts: SharedWork;

  constructor(parts: SharedWork) {
    this.#parts = parts;
  }

  /** Creates the queue of a plan, for this version of the work. */
  makeQueue(plan: number): Promise<void> {
    return this.#parts.boss.makeQueue(this.nameOf(plan), 'standard');
  }

  nameOf(plan: number): string {
    return `plan-${plan}.v${this.#parts.workVersion}`;
  }

  async removeQueue(name: string): Promise<void> {
    await this.#parts.boss.run((jobs) => jobs.deleteQueue(name));
  }

  /**
   * Removes queues whose plan is filled, adds jobs to plans that have lost theirs, and takes over plans of an older version of
   * the work when no live worker does that version.
   */
  async maintain(workers: readonly WorkerState[]): Promise<void> {
    const { boss, book, workVersion } = this.#parts;
    const { plans } = await book.read();
    const queues = await planQueues(boss);
    const isDone = ({ version }: PlanQueue): boolean =>
      version > workVersion || workers.some((each) => each.isAlive && each.workVersion === version);
    for (const plan of plans) {
      const others = queues.filter((queue) => queue.plan === plan.id && queue.version !== workVersion);
      if (others.some(isDone)) continue;
      await this.#planAgain(plan);
      for (const { name } of others) await this.removeQueue(name);
    }
    for (const { createdOn, name, plan } of queues) {
      const isKnown = plans.some(({ id }) => id === plan);
      if (!isKnown && Date.now() - createdOn.getTime() > OLD_QUEUE_MS) await this.removeQueue(name);
    }
  }

  async #planAgain({ id }: BackfillPlan): Promise<void> {
    const { book, boss, logger } = this.#parts;
    if (await this.#hasJobs(boss.database, id)) return;
    const made = await book.transact(async ({ session, ...facts }) => {
      const plan = facts.plans.find((each) => each.id === id);
      // Another process was faster, or the plan is filled.
      if (plan === undefined || (await this.#hasJobs(session, id))) return 0;
      await this.makeQueue(id);
      return this.fill(session, plan, plan, facts);
    });
    if (made > 0) logger.warn({ plan: id, ranges: made }, 'a plan had no jobs and is planned again');
  }

  /**
   * Adds jobs for the missing heights of `interval`, as part of a transaction. Returns the number of ranges. Of several parts
   * each is cut when it is checked, in a transaction of its own: the leader cannot write meanwhile.
   */
  async fill(
    session: Session,
    plan: Pick<BackfillPlan, 'id' | 'order'>,
    interval: HeightRange,
    { coverage, open }: RangeFacts,
  ): Promise<number> {
    const begun = open.filter((range) => overlap(range, interval));
    // The live range grows over what is above it.
    const to = Math.min(interval.to, (coverage.at(-1)?.from ?? 0) - 1);
    const cut = cutAll(lacking([{ ...interval, to }], [...coverage, ...begun]), {
      borders: bordersOf(this.#parts.chain),
      maxHeights: this.#parts.maxRangeHeights,
    });
    // Open ranges continue with their own bounds. In order: the check of a part looks at all that is between its ends.
    const ranges = [...begun.map(({ from, to }) => ({ from, to })), ...cut].sort((a, b) => a.from - b.from);
    const { boss, maxPartRanges = MAX_PART_RANGES } = this.#parts;
    const name = this.nameOf(plan.id);
    const parts = Array.from({ length: Math.ceil(ranges.length / maxPartRanges) }, (_, at): PlanJob => {
      const some = ranges.slice(at * maxPartRanges, (at + 1) * maxPartRanges);
      const from = Math.min(...some.map((range) => range.from));
      return { kind: 'part', from, to: Math.max(...some.map((range) => range.to)) };
    });
    const options = { priority: PART_PRIORITY };
    const [part] = parts;
    if (parts.length > 1) {
      const checks = parts.map((data) => ({ data: { ...data, isUncut: true }, ...options }));
      await boss.run((jobs) => jobs.insert(name, checks, within(session)));
    } else if (part !== undefined) {
      const cuts = ranges.map((range) => ({
        ref: `${range.from}`,
        name,
        data: { kind: 'range', ...range } satisfies PlanJob,
        options: { priority: priorityOf(range.from, plan.order) },
      }));
      const check = { ref: 'part', name, data: part, options, dependsOn: cuts.map(({ ref }) => ref) };
      await boss.run((jobs) => jobs.flow([...cuts, check], within(session)));
    }
    return ranges.length;
  }

  /** True while jobs of the plan are waiting, set aside or held. */
  async #hasJobs(session: Session, plan: number): Promise<boolean> {
    const { rows } = await session.query({
      text: `SELECT FROM ${JOBS_SCHEMA}.job WHERE name = $1 AND state IN ('created', 'retry', 'active', 'cancelled')
        LIMIT 1`,
      values: [this.nameOf(plan)],
    });
    return rows.length > 0;
  }

  /** Lets jobs that were set aside be taken again, as part of a transaction. */
  async resumeAll(session: Session, plans: readonly BackfillPlan[]): Promise<void> {
    const { rows } = await session.query<{ name: string; id: string }>({
      text: `SELECT name, id FROM ${JOBS_SCHEMA}.job WHERE name = ANY ($1) AND state = 'cancelled'`,
      values: [plans.map(({ id }) => this.nameOf(id))],
    });
    for (const { name, id } of rows) {
      await this.#parts.boss.run((jobs) => jobs.resume(name, id, within(session)));
    }
  }

  /** Takes the check of a part of a plan, if one is due, as part of a transaction. */
  takePart(session: Session, { id }: Pick<BackfillPlan, 'id'>): Promise<HeldJob<PlanJob> | undefined> {
    return this.#take(session, id, [PART_PRIORITY]);
  }

  /** Takes the next range of a plan that begins at one of `heights`, which ascend, as part of a transaction. */
  async takeRange(
    session: Session,
    { id, order }: Pick<BackfillPlan, 'id' | 'order'>,
    heights: readonly HeightRange[],
  ): Promise<HeldJob<PlanJob> | undefined> {
    for (const range of order === 'newest' ? [...heights].reverse() : heights) {
      const job = await this.#take(session, id, [priorityOf(range.from, order), priorityOf(range.to, order)]);
      if (job !== undefined) return job;
    }
    return undefined;
  }

  /** Of the highest priority between two, or of one. */
  async #take(
    session: Session,
    plan: number,
    priorities: readonly number[],
  ): Promise<HeldJob<PlanJob> | undefined> {
    const band = { minPriority: Math.min(...priorities), maxPriority: Math.max(...priorities) };
    const [job] = await this.#parts.boss.run((jobs) =>
      jobs.fetch<PlanJob>(this.nameOf(plan), { includeMetadata: true, ...band, ...within(session) }),
    );
    return job;
  }
}

/** The queue of a plan, for one version of the work. */
export interface PlanQueue {
  readonly plan: number;
  readonly version: number;
  readonly name: string;
  readonly createdOn: Date;
}

/** The queues of all plans, also of those that are gone. Expected errors: `StorageError`. */
export async function planQueues(boss: Boss): Promise<readonly PlanQueue[]> {
  const queues = await boss.run((jobs) => jobs.getQueues());
  return queues.flatMap(({ createdOn, name }) => {
    const [, plan, version] = /^plan-(\d+)\.v(\d+)$/.exec(name) ?? [];
    return plan === undefined ? [] : [{ plan: Number(plan), version: Number(version), name, createdOn }];
  });
}

function priorityOf(height: number, order: FillOrder): number {
  const bounded = Math.min(height, HIGHEST);
  return order === 'newest' ? bounded : HIGHEST - bounded;
}
