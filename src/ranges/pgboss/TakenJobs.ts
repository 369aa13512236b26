import { AbortError, backoffMs } from '../../runtime/index.js';
import { joined, overlap, RangeTakenError, StorageError } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, RangeStore, Session } from '../../storage/index.js';
import { common, lacking } from '../planner.js';
import { bordersOf, FAILURES_BEFORE_DISPUTE, isDisputed, RETRY_BACKOFF } from '../plans.js';
import type { RangeJob } from '../ports.js';
import { RunningRanges } from '../RunningRanges.js';
import type { RangeRun } from '../RunningRanges.js';
import { SporkTurns } from '../SporkTurns.js';
import type { HeldJob } from './Boss.js';
import type { Claim } from './Claim.js';
import type { PlanJob, SharedPlans, SharedWork } from './SharedPlans.js';
import type { WorkerRegistry } from './WorkerRegistry.js';

/** A range that cannot run here or now is not offered again for this time. */
const LATER_MS = 10_000;

interface TakenJobsParts extends SharedWork {
  readonly registry: WorkerRegistry;
  readonly plans: SharedPlans;
  /** Called when a range is done, failed or given back. Must not throw. */
  readonly onOver: () => void;
}

/** `plan`: its number. */
interface JobRun extends RangeRun {
  readonly plan: number;
  readonly claim: Claim<PlanJob>;
}

/**
 * The jobs that this process takes from the queue: first checks of parts, then ranges, with the sporks in turn. It runs the
 * ranges, and reports the outcomes to the queue.
 */
export class TakenJobs {
  readonly #parts: TakenJobsParts;
  readonly #turns = new SporkTurns();
  readonly #running: RunningRanges<JobRun>;

  constructor(parts: TakenJobsParts) {
    this.#parts = parts;
    this.#running = new RunningRanges(parts.book, parts.logger, parts.onOver);
  }

  isRunning(range: HeightRange): boolean {
    return this.#running.has(range);
  }

  /** The next range of these plans, whose queues exist; `undefined`: there is none now. Expected errors: `StorageError`. */
  async next(
    plans: readonly BackfillPlan[],
    coverage: readonly HeightRange[],
  ): Promise<RangeJob | undefined> {
    for (;;) {
      let plan: BackfillPlan | undefined;
      const claim = await this.#parts.registry.take(
        async (session) => {
          const found = await this.#find(session, plans, coverage);
          plan = found?.plan;
          return found?.job;
        },
        ({ kind, from, to }) => (kind === 'range' ? { from, to } : {}),
      );
      if (claim === undefined || plan === undefined) return undefined;
      const begun = await this.#begin(plan, claim);
      if (begun !== undefined) return begun;
    }
  }

  /** Gives back ranges whose plan is paused or gone. */
  giveBackUnwanted(plans: readonly BackfillPlan[]): Promise<void> {
    return this.#running.giveBack(
      ({ claim, plan }) => !claim.isCompleted && !plans.some(({ id, isPaused }) => id === plan && !isPaused),
    );
  }

  async #find(
    session: Session,
    plans: readonly BackfillPlan[],
    coverage: readonly HeightRange[],
  ): Promise<{ readonly plan: BackfillPlan; readonly job: HeldJob<PlanJob> } | undefined> {
    const { plans: queues, registry } = this.#parts;
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
    const { chain } = this.#parts;
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

  /** `undefined`: nothing to run, and the claim has ended. */
  async #begin(plan: BackfillPlan, claim: Claim<PlanJob>): Promise<RangeJob | undefined> {
    const { data } = claim;
    if (data.kind === 'range') this.#turns.took(data, this.#parts.chain.borders());
    let begun: RangeJob | undefined;
    try {
      if (data.kind === 'part') await this.#checkPart(plan, claim);
      else if (await this.#isRunnable(claim)) begun = await this.#run(plan, claim);
    } catch (error) {
      // The job is lost, or the database is away: then the claim times out.
      if (!(error instanceof StorageError)) throw error;
    } finally {
      if (begun === undefined) await this.#end(claim);
    }
    return begun;
  }

  /** Plans the heights again that a part still lacks after its ranges. */
  async #checkPart(plan: BackfillPlan, claim: Claim<PlanJob>): Promise<void> {
    const { book, logger, plans } = this.#parts;
    const { from, to } = claim.data;
    const again = await book.transact(async ({ session, ...facts }) => {
      await claim.complete(session);
      if (!facts.plans.some(({ id }) => id === plan.id)) return 0;
      return plans.fill(session, plan, { from, to }, facts);
    });
    if (again > 0)
      logger.warn({ plan: plan.id, from, to, ranges: again }, 'ranges were missing and are planned again');
  }

  /** False: already done, cut differently by now, or not to run at present. */
  async #isRunnable(claim: Claim<PlanJob>): Promise<boolean> {
    const { book, boss, chain, registry } = this.#parts;
    const { from, to } = claim.data;
    const { coverage, open } = await book.read();
    const known = open.find((each) => each.from === from && each.to === to);
    const missing = lacking([{ from, to }], coverage);
    const isWhole = missing.length === 1 && missing[0]?.from === from && missing[0].to === to;
    const isCut = known === undefined && bordersOf(chain).some((border) => from < border && border <= to);
    return boss.database.transaction(async (session) => {
      // The check of the part finds heights that are still missing.
      if (!isWhole || isCut) await claim.complete(session);
      else if (known !== undefined && isDisputed(known)) await claim.setAside(session);
      else if (await registry.isBusyElsewhere(session, { from, to }, claim.key.id))
        await claim.giveBack(session, LATER_MS);
      else return true;
      return false;
    });
  }

  async #run(plan: BackfillPlan, claim: Claim<PlanJob>): Promise<RangeJob | undefined> {
    const { book, boss } = this.#parts;
    const { from, to } = claim.data;
    const range = { from, to };
    const controller = new AbortController();
    const lose = (): void => controller.abort(new AbortError('another process has the range now'));
    claim.lost.addEventListener('abort', lose, { once: true });
    if (claim.lost.aborted) lose();
    let store: RangeStore;
    try {
      store = await book.run(range, { publishing: (session) => claim.complete(session), onLost: lose });
    } catch (error) {
      if (!(error instanceof RangeTakenError)) throw error;
      await boss.database.transaction((session) => claim.giveBack(session, LATER_MS));
      return undefined;
    }
    const run = { plan: plan.id, range, store, claim, controller };
    return this.#running.begin(run, {
      failed: (reason, startOver) => unlessAway(() => this.#failed(run, reason, startOver)),
      released: async () => {
        await unlessAway(() => boss.database.transaction((session) => claim.giveBack(session)));
      },
      over: () => this.#end(claim),
    });
  }

  async #end(claim: Claim<PlanJob>): Promise<void> {
    await claim.end();
    await this.#parts.registry.release(claim.key);
  }

  /** `undefined`: the job is not ours any more. */
  #failed({ range, claim }: JobRun, reason: string, startOver: boolean): Promise<number | undefined> {
    const { book, random } = this.#parts;
    return book.transact(async ({ open, session, write }) => {
      const failures = (open.find(({ from }) => from === range.from)?.failures ?? 0) + 1;
      const isOurs =
        failures >= FAILURES_BEFORE_DISPUTE
          ? await claim.setAside(session)
          : await claim.fail(session, reason, backoffMs(RETRY_BACKOFF, failures - 1, random));
      if (!isOurs) return undefined;
      const failed = [{ ...range, failures, reason }];
      await write({ failed, ...(startOver ? { dropped: [range] } : {}) });
      return failures;
    });
  }
}

/** While the database is away, nothing: the claim times out instead. */
async function unlessAway<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return undefined;
  }
}
