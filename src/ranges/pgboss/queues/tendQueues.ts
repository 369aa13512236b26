import type { Logger } from '../../../observability/index.js';
import type { BackfillPlan, SharedRangeBook } from '../../../storage/index.js';
import type { Boss } from '../Boss.js';
import type { PlanQueues } from './PlanQueues.js';
import type { WorkerRegistry } from '../workers/WorkerRegistry.js';

/** A queue that is younger may be of a plan whose transaction is not over yet. */
const OLD_QUEUE_MS = 10 * 60 * 1_000;

export interface QueueKeeper {
  readonly boss: Boss;
  readonly book: SharedRangeBook;
  readonly queues: PlanQueues;
  readonly registry: WorkerRegistry;
  readonly logger: Logger;
  readonly workVersion: number;
}

/**
 * Removes queues whose plan is filled, gives jobs to plans that have none, whatever became of them, and takes over the plans
 * of an older version of the work when nobody does that any more. Expected errors: `StorageError`.
 */
export async function tendQueues(keeper: QueueKeeper): Promise<void> {
  const { boss, book, queues, registry, workVersion } = keeper;
  const { plans } = await book.read();
  const byPlan = await queues.versions();
  for (const plan of plans) {
    const versions = byPlan.get(plan.id) ?? [];
    if (versions.some((version) => version > workVersion)) continue;
    const others = versions.filter((version) => version !== workVersion);
    const alive = registry.workers().filter(({ isAlive }) => isAlive);
    if (others.some((version) => alive.some((worker) => worker.workVersion === version))) continue;
    await planAgain(keeper, plan);
    for (const version of others) await queues.remove(plan.id, version);
  }
  const old = await boss.run('read the queues', (jobs) => jobs.getQueues());
  const known = new Set(plans.map(({ id }) => id));
  for (const [id, versions] of byPlan) {
    if (known.has(id)) continue;
    for (const version of versions) {
      const queue = old.find(({ name }) => name === queues.nameOf(id, version));
      if (queue !== undefined && Date.now() - queue.createdOn.getTime() > OLD_QUEUE_MS)
        await queues.remove(id, version);
    }
  }
}

async function planAgain({ book, logger, queues }: QueueKeeper, { id }: BackfillPlan): Promise<void> {
  const made = await book.transact(async (transaction) => {
    if (await queues.hasJobs(transaction.session, id)) return 0;
    await transaction.lock();
    const facts = await transaction.read();
    const plan = facts.plans.find((each) => each.id === id);
    // Another process was quicker, or the plan is filled.
    if (plan === undefined || (await queues.hasJobs(transaction.session, id))) return 0;
    await queues.make(id);
    return queues.fill(transaction.session, plan, plan, facts);
  });
  if (made > 0) logger.warn({ plan: id, ranges: made }, 'a plan was without jobs and is planned again');
}
