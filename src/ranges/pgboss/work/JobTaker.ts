import type { Clock } from '../../../runtime/index.js';
import { joined, overlap } from '../../../storage/index.js';
import type { BackfillPlan, HeightRange, Session } from '../../../storage/index.js';
import { common, lacking } from '../../planner.js';
import type { ServedHeights } from '../../ports.js';
import { SporkTurns } from '../../SporkTurns.js';
import type { Boss, HeldJob } from '../Boss.js';
import { Claim } from '../Claim.js';
import type { PlanJob, PlanQueues } from '../queues/PlanQueues.js';
import type { WorkerRegistry } from '../workers/WorkerRegistry.js';

export interface JobTakerDependencies {
  readonly boss: Boss;
  readonly registry: WorkerRegistry;
  readonly queues: PlanQueues;
  readonly chain: ServedHeights;
  readonly clock: Clock;
}

export interface TakenJob {
  readonly plan: BackfillPlan;
  readonly claim: Claim<PlanJob>;
}

interface FoundJob {
  readonly plan: BackfillPlan;
  readonly job: HeldJob<PlanJob>;
}

/** Takes jobs from the queue: first checks of parts, then ranges, with the sporks in turn. */
export class JobTaker {
  readonly #deps: JobTakerDependencies;
  readonly #turns = new SporkTurns();

  constructor(dependencies: JobTakerDependencies) {
    this.#deps = dependencies;
  }

  /** Takes a job of these plans, whose queues exist. Expected errors: `StorageError`. */
  async take(
    plans: readonly BackfillPlan[],
    coverage: readonly HeightRange[],
  ): Promise<TakenJob | undefined> {
    const { boss, chain, clock, registry } = this.#deps;
    let taken: string | undefined;
    let found: FoundJob | undefined;
    try {
      found = await boss.database.transaction(async (session) => {
        const next = await this.#find(session, plans, coverage);
        if (next === undefined) return undefined;
        const { data, id, name, retryCount } = next.job;
        const { from, to, kind } = data;
        taken = id;
        const key = { queue: name, id, attempt: retryCount };
        await registry.hold(session, { ...key, ...(kind === 'range' ? { from, to } : {}) });
        return next;
      });
    } catch (error) {
      if (taken !== undefined) registry.forget(taken);
      throw error;
    }
    if (found === undefined) return undefined;
    const { job, plan } = found;
    const { from, to, kind } = job.data;
    if (kind === 'range') this.#turns.took({ from, to }, chain.borders());
    const claim = new Claim<PlanJob>(job, {
      boss,
      clock,
      onRenewed: (key) => registry.renew({ ...key, from, to }),
    });
    return { plan, claim };
  }

  async #find(
    session: Session,
    plans: readonly BackfillPlan[],
    coverage: readonly HeightRange[],
  ): Promise<FoundJob | undefined> {
    const { queues, registry } = this.#deps;
    for (const plan of plans) {
      const job = await queues.takePart(session, plan);
      if (job !== undefined) return { plan, job };
    }
    for (const { plan, heights } of this.#candidates(plans, coverage, await registry.running(session))) {
      const job = await queues.takeRange(session, plan, heights);
      if (job !== undefined) return { plan, job };
    }
    return undefined;
  }

  /** Where to look for a range, in this order: plan by plan in the spork whose turn it is, then in the next one. */
  #candidates(
    plans: readonly BackfillPlan[],
    coverage: readonly HeightRange[],
    running: readonly HeightRange[],
  ): readonly { readonly plan: BackfillPlan; readonly heights: readonly HeightRange[] }[] {
    const [first] = plans;
    if (first === undefined) return [];
    const { chain } = this.#deps;
    const served = joined(chain.served());
    const unbegun = plans.map((plan) => common(lacking([plan], [...coverage, ...running]), served));
    const sporks = this.#turns
      .inTurn({ borders: chain.borders(), running, order: first.order })
      .filter((spork) => unbegun.some((heights) => heights.some((each) => overlap(each, spork))));
    const bySpork = sporks.flatMap((spork) =>
      plans
        .filter((_plan, at) => unbegun[at]?.some((each) => overlap(each, spork)) === true)
        .map((plan) => ({ plan, heights: common(served, [spork]) })),
    );
    // The known coverage may be out of date, so finally every served height is tried.
    const anywhere = plans.map((plan) => ({ plan, heights: served }));
    return sporks.length > 1 ? [...bySpork, ...anywhere] : anywhere;
  }
}
