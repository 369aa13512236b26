import type { BackfillPlan, HeightRange, RangeFacts, Session } from '../../../storage/index.js';
import { overlap } from '../../../storage/index.js';
import { cutAll, lacking } from '../../planner.js';
import type { FillOrder } from '../../ports.js';
import { JOBS_SCHEMA, within } from '../Boss.js';
import type { Boss, HeldJob } from '../Boss.js';

/** Ranges of one part of a plan: limits the jobs that its check depends on, and the heights that the check reads. */
const MAX_PART_RANGES = 1_000;
/** The check of a part is taken before any range. */
const PART_PRIORITY = 2_147_483_647;
/** Priorities are heights, so that a worker can ask for heights that its nodes serve. */
const HIGHEST = PART_PRIORITY - 1;

/** `part`: a check after all ranges of the part, which plans missing heights again. */
export interface PlanJob extends HeightRange {
  readonly kind: 'range' | 'part';
}

export interface PlanQueuesOptions {
  /** The version of work that this process does. */
  readonly workVersion: number;
  readonly maxRangeHeights?: number | undefined;
  /** Ranges of one part of a plan. Default: `MAX_PART_RANGES`. */
  readonly maxPartRanges?: number | undefined;
}

export interface PlanQueuesDependencies {
  readonly boss: Boss;
  readonly borders: () => readonly number[];
}

/**
 * The queues of the plans: one for each plan and version of the work. So a paused plan can be skipped, a cancelled plan loses
 * its queue, and a worker finds only work that it can do.
 */
export class PlanQueues {
  readonly #options: PlanQueuesOptions;
  readonly #deps: PlanQueuesDependencies;

  constructor(options: PlanQueuesOptions, dependencies: PlanQueuesDependencies) {
    this.#options = options;
    this.#deps = dependencies;
  }

  nameOf(plan: number, version = this.#options.workVersion): string {
    return `plan-${plan}.v${version}`;
  }

  /** The versions of the work that each plan was cut for, by plan; includes plans that are gone. */
  async versions(): Promise<ReadonlyMap<number, readonly number[]>> {
    const queues = await this.#deps.boss.run((jobs) => jobs.getQueues());
    const byPlan = new Map<number, number[]>();
    for (const { name } of queues) {
      const [, plan, version] = /^plan-(\d+)\.v(\d+)$/.exec(name) ?? [];
      if (plan === undefined || version === undefined) continue;
      byPlan.set(Number(plan), [...(byPlan.get(Number(plan)) ?? []), Number(version)]);
    }
    return byPlan;
  }

  async make(plan: number): Promise<void> {
    await this.#deps.boss.makeQueue(this.nameOf(plan), 'standard');
  }

  async remove(plan: number, version?: number): Promise<void> {
    await this.#deps.boss.run((jobs) => jobs.deleteQueue(this.nameOf(plan, version)));
  }

  /** Adds jobs for the missing heights of `interval`, as part of a transaction. Returns the number of ranges. */
  async fill(
    session: Session,
    plan: Pick<BackfillPlan, 'id' | 'order'>,
    interval: HeightRange,
    { coverage, open }: RangeFacts,
  ): Promise<number> {
    const begun = open.filter((range) => overlap(range, interval));
    const cut = cutAll(lacking([interval], [...coverage, ...begun]), {
      order: plan.order,
      borders: this.#deps.borders(),
      maxHeights: this.#options.maxRangeHeights,
    });
    // Open ranges continue with their own bounds.
    const ranges = [...begun.map(({ from, to }) => ({ from, to })), ...cut];
    const { maxPartRanges = MAX_PART_RANGES } = this.#options;
    for (let at = 0; at < ranges.length; at += maxPartRanges) {
      await this.#addPart(session, plan, ranges.slice(at, at + maxPartRanges));
    }
    return ranges.length;
  }

  /** True while jobs of the plan are waiting, set aside or held. */
  async hasJobs(session: Session, plan: number): Promise<boolean> {
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
      await this.#deps.boss.run((jobs) => jobs.resume(name, id, within(session)));
    }
  }

  /** Takes the check of a part of a plan, if one is due, as part of a transaction. */
  takePart(session: Session, { id }: Pick<BackfillPlan, 'id'>): Promise<HeldJob<PlanJob> | undefined> {
    return this.#take(session, id, PART_BAND);
  }

  /** Takes the next range of a plan that begins at one of `heights`, which ascend, as part of a transaction. */
  async takeRange(
    session: Session,
    { id, order }: Pick<BackfillPlan, 'id' | 'order'>,
    heights: readonly HeightRange[],
  ): Promise<HeldJob<PlanJob> | undefined> {
    for (const range of order === 'newest' ? [...heights].reverse() : heights) {
      const job = await this.#take(session, id, bandOf(range, order));
      if (job !== undefined) return job;
    }
    return undefined;
  }

  async #take(session: Session, plan: number, band: Band): Promise<HeldJob<PlanJob> | undefined> {
    const [job] = await this.#deps.boss.run((jobs) =>
      jobs.fetch<PlanJob>(this.nameOf(plan), { includeMetadata: true, ...band, ...within(session) }),
    );
    return job;
  }

  async #addPart(
    session: Session,
    { id, order }: Pick<BackfillPlan, 'id' | 'order'>,
    ranges: readonly HeightRange[],
  ): Promise<void> {
    const name = this.nameOf(id);
    const jobs = ranges.map(({ from, to }) => ({
      ref: `${from}`,
      name,
      data: { kind: 'range', from, to } satisfies PlanJob,
      options: { priority: priorityOf(from, order) },
    }));
    const part: PlanJob = {
      kind: 'part',
      from: Math.min(...ranges.map(({ from }) => from)),
      to: Math.max(...ranges.map(({ to }) => to)),
    };
    const check = { ref: 'part', name, data: part, options: { priority: PART_PRIORITY } };
    await this.#deps.boss.run((boss) =>
      boss.flow([...jobs, { ...check, dependsOn: jobs.map(({ ref }) => ref) }], within(session)),
    );
  }
}

interface Band {
  readonly minPriority: number;
  readonly maxPriority: number;
}

const PART_BAND: Band = { minPriority: PART_PRIORITY, maxPriority: PART_PRIORITY };

function priorityOf(height: number, order: FillOrder): number {
  const bounded = Math.min(height, HIGHEST);
  return order === 'newest' ? bounded : HIGHEST - bounded;
}

function bandOf({ from, to }: HeightRange, order: FillOrder): Band {
  const ends = [priorityOf(from, order), priorityOf(to, order)];
  return { minPriority: Math.min(...ends), maxPriority: Math.max(...ends) };
}
