import { joined, MAX_RANGE_HEIGHTS, slicesOf } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, Session, SharedRangeBook } from '../../storage/index.js';
import { cutNext } from '../planner.js';
import type { FillOrder, ServedHeights, WorkerState } from '../ports.js';
import { within, type Boss, type HeldJob } from './Boss.js';
import type { QueueParts } from './WorkerRegistry.js';

/** A younger queue may belong to a plan whose transaction is not over yet. */
const OLD_QUEUE_MS = 10 * 60 * 1_000;
/** Ranges that are cut at once: workers that look for one at the same instant find one each. */
const CUT_AT_ONCE = 16;
/** Priorities are heights, so that a worker can ask for heights that its nodes serve. */
const HIGHEST = 2_147_483_646;

/** What the parts of the work source of a process share. */
export interface SharedWork extends Pick<QueueParts, 'boss' | 'clock' | 'random' | 'logger' | 'workVersion'> {
  readonly book: SharedRangeBook;
  readonly chain: ServedHeights;
  /** Default: the maximum of the store. */
  readonly maxRangeHeights?: number | undefined;
}

/**
 * The queue of a plan, for one version of the work: its jobs are the ranges that were cut from the plan and are not published.
 * So a paused plan can be skipped, a cancelled plan loses its queue, and a worker finds only work that it can do.
 */
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

/** The queue name of a plan, for this version of the work. A queue holds one job at a time for each first height. */
export function queueOf(plan: number, { workVersion }: Pick<SharedWork, 'workVersion'>): string {
  return `plan-${plan}.v${workVersion}`;
}

/** Expected errors of this and the next two: `StorageError`. */
export async function removeQueue({ boss }: SharedWork, { name }: PlanQueue): Promise<void> {
  await boss.run((jobs) => jobs.deleteQueue(name));
}

/**
 * Removes queues whose plan is filled, makes those that plans lack, and takes over plans of an older version of the work when
 * no live worker does that version.
 */
export async function maintainQueues(
  parts: SharedWork,
  plans: readonly BackfillPlan[],
  queues: readonly PlanQueue[],
  workers: readonly WorkerState[],
): Promise<void> {
  const { boss, workVersion } = parts;
  const isDone = ({ version }: PlanQueue): boolean =>
    version > workVersion || workers.some((each) => each.isAlive && each.workVersion === version);
  for (const { id } of plans) {
    const queued = queues.filter(({ plan }) => plan === id);
    const others = queued.filter(({ version }) => version !== workVersion);
    if (others.some(isDone)) continue;
    if (others.length === queued.length) await boss.makeQueue(queueOf(id, parts));
    for (const queue of others) await removeQueue(parts, queue);
  }
  const isKnown = ({ plan }: PlanQueue): boolean => plans.some(({ id }) => id === plan);
  for (const queue of queues)
    if (!isKnown(queue) && Date.now() - queue.createdOn.getTime() > OLD_QUEUE_MS)
      await removeQueue(parts, queue);
}

/**
 * Takes the next range of a plan, as part of a transaction: a waiting job whose range begins in `heights` or `begun`. If there
 * is none, `begun` ranges get a job, except those with one that is not due yet, and new ranges are cut from `unbegun`.
 */
export async function takeRange(
  parts: SharedWork,
  session: Session,
  { id, order }: BackfillPlan,
  { begun, heights, unbegun }: Record<'begun' | 'heights' | 'unbegun', readonly HeightRange[]>,
): Promise<HeldJob<HeightRange> | undefined> {
  const { boss, maxRangeHeights = MAX_RANGE_HEIGHTS } = parts;
  const name = queueOf(id, parts);
  const fetch = async (): Promise<HeldJob<HeightRange> | undefined> => {
    const bands = joined([...heights, ...begun]);
    for (const { from, to } of order === 'newest' ? bands.reverse() : bands) {
      const ends = [priorityOf(from, order), priorityOf(to, order)];
      const band = { minPriority: Math.min(...ends), maxPriority: Math.max(...ends) };
      const how = { includeMetadata: true as const, ...band, ...within(session) };
      const [job] = await boss.run((jobs) => jobs.fetch<HeightRange>(name, how));
      if (job !== undefined) return job;
    }
    return undefined;
  };
  const waiting = await fetch();
  if (waiting !== undefined) return waiting;
  const end = cutNext(unbegun, { order, maxHeights: CUT_AT_ONCE * maxRangeHeights });
  const ranges = [...begun, ...slicesOf(end === undefined ? [] : [end], maxRangeHeights)];
  if (ranges.length === 0) return undefined;
  // The insert waits for jobs that another worker makes at this instant, and skips them: in one order, so without deadlock.
  ranges.sort((left, right) => left.from - right.from);
  const made = ranges.map(({ from, to }) => {
    return { data: { from, to }, priority: priorityOf(from, order), singletonKey: `${from}` };
  });
  await boss.run((jobs) => jobs.insert(name, made, within(session)));
  return fetch();
}

function priorityOf(height: number, order: FillOrder): number {
  const bounded = Math.min(height, HIGHEST);
  return order === 'newest' ? bounded : HIGHEST - bounded;
}
