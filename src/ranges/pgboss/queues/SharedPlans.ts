import { overlap } from '../../../storage/index.js';
import type { BackfillPlan, HeightRange, RangeFacts, SharedRangeBook } from '../../../storage/index.js';
import { choosePlans, isDisputed, newPlan } from '../../plans.js';
import type { WantedPlan } from '../../ports.js';
import type { PlanQueues } from './PlanQueues.js';

/**
 * The plans of a store that many machines fill: each change is one transaction, with the jobs that belong to it.
 * Expected errors of all: `StorageError`; OperatorError `usage`.
 */
export class SharedPlans {
  readonly #book: SharedRangeBook;
  readonly #queues: PlanQueues;

  constructor(dependencies: { readonly book: SharedRangeBook; readonly queues: PlanQueues }) {
    this.#book = dependencies.book;
    this.#queues = dependencies.queues;
  }

  /** Adds the plan, and jobs for its ranges. */
  async add(wanted: WantedPlan): Promise<BackfillPlan> {
    let tried: BackfillPlan | undefined;
    return this.#book.transact(async (transaction) => {
      await transaction.lock();
      const facts = await transaction.read();
      // The previous attempt was committed, but its answer was lost.
      const done = facts.plans.find((each) => each.id === tried?.id && each.from === tried.from);
      if (done !== undefined) return done;
      const taken = [...facts.plans.map(({ id }) => id), ...(await this.#queues.versions()).keys()];
      const planned = newPlan(wanted, Math.max(0, ...taken) + 1, { ...facts, live: liveOf(facts) });
      tried = planned;
      await this.#queues.make(planned.id);
      await this.#queues.fill(transaction.session, planned, planned, facts);
      await transaction.write({ plans: [...facts.plans, planned] });
      return planned;
    });
  }

  /** Without `id`, every plan. */
  async setPaused(id: number | undefined, isPaused: boolean): Promise<void> {
    await this.#book.transact(async (transaction) => {
      await transaction.lock();
      const { plans } = await transaction.read();
      const { chosen } = choosePlans(plans, id);
      if (chosen.length === 0) return;
      await transaction.write({
        plans: plans.map((plan) => (chosen.includes(plan) ? { ...plan, isPaused } : plan)),
      });
    });
  }

  /** Removes plans, and their open ranges that no other plan includes. Returns the removed plans; their queues stay. */
  async remove(id: number | undefined): Promise<readonly BackfillPlan[]> {
    let gone: readonly BackfillPlan[] = [];
    await this.#book.transact(async (transaction) => {
      await transaction.lock();
      const { open, plans } = await transaction.read();
      const { chosen, kept } = choosePlans(plans, id);
      const dropped = open.filter(
        (range) => chosen.some((plan) => overlap(plan, range)) && !kept.some((plan) => overlap(plan, range)),
      );
      gone = chosen;
      if (chosen.length > 0) await transaction.write({ plans: kept, dropped });
    });
    return gone;
  }

  /** Lets disputed ranges run again. Returns how many. */
  redrive(): Promise<number> {
    return this.#book.transact(async (transaction) => {
      await transaction.lock();
      const { open, plans } = await transaction.read();
      const disputed = open.filter(isDisputed);
      await transaction.write({ failed: disputed.map(({ from, to }) => ({ from, to, failures: 0 })) });
      await this.#queues.resumeAll(transaction.session, plans);
      return disputed.length;
    });
  }
}

/** The range that follows the head; `undefined` while it has no block. */
export function liveOf({ coverage }: RangeFacts): HeightRange | undefined {
  const live = coverage.at(-1);
  return live === undefined || live.to < live.from ? undefined : live;
}
