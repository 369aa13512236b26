import type { Logger } from '../../../observability/index.js';
import type { BackfillPlan, SharedRangeBook } from '../../../storage/index.js';
import type { Boss } from '../Boss.js';
import type { PlanQueues } from './PlanQueues.js';
import type { WorkerRegistry } from '../workers/WorkerRegistry.js';

/** A younger queue may belong to a plan whose transaction is not over yet. */
const OLD_QUEUE_MS = 10 * 60 * 1_000;

export interface MaintenanceParts {
  readonly boss: Boss;
  readonly book: SharedRangeBook;
  readonly queues: PlanQueues;
  readonly registry: WorkerRegistry;
  readonly logger: Logger;
  readonly workVersion: number;
}

/**
 * Removes queues whose plan is filled, adds jobs to plans that have lost theirs, and takes over plans of an older version of
 * the work when no live worker does that version. Expected errors: `StorageError`.
 */
export async function maintainQueues(parts: MaintenanceParts): Promise<void> {
  const { boss, book, queues, registry, workVersion } = parts;
  const { plans } = await book.read();
  const byPlan = await queues.versions();
  for (const plan of plans) {
    const versions = byPlan.get(plan.id) ?? [];
    if (versions.some((version) => version > workVersion)) continue;
    const others = versions.filter((version) => version !== workVersion);
    const alive = registry.workers().filter(({ isAlive }) => isAlive);
    if (others.some((version) => alive.some((worker) => worker.workVersion === version))) continue;
    await planAgain(parts, plan);
    for (const version of others) await queues.remove(plan.id, version);
  }
  const existing = await boss.run((jobs) => jobs.getQueues());
  const known = new Set(plans.map(({ id }) => id));
  for (const [id, versions] of byPlan) {
    if (known.has(id)) continue;
    for (const version of versions) {
      const queue = existing.find(({ name }) => name === queues.nameOf(id, version));
      if (queue !== undefined && Date.now() - queue.createdOn.getTime() > OLD_QUEUE_MS)
        await queues.remove(id, version);
    }
  }
}

async function planAgain({ book, logger, queues }: MaintenanceParts, { id }: BackfillPlan): Promise<void> {
  const made = await book.transact(async (transaction) => {
    if (await queues.hasJobs(transaction.session, id)) return 0;
    await transaction.lock();
    const facts = await transaction.read();
    const plan = facts.plans.find((each) => each.id === id);
    // Another process was faster, or the plan is filled.
    if (plan === undefined || (await queues.hasJobs(transaction.session, id))) return 0;
    await queues.make(id);
    return queues.fill(transaction.session, plan, plan, facts);
  });
  if (made > 0) logger.warn({ plan: id, ranges: made }, 'a plan had no jobs and is planned again');
}
