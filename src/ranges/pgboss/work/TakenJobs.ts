import type { Logger } from '../../../observability/index.js';
import { AbortError, backoffMs } from '../../../runtime/index.js';
import type { Random } from '../../../runtime/index.js';
import { RangeTakenError, StorageError } from '../../../storage/index.js';
import type { BackfillPlan, HeightRange, RangeStore, SharedRangeBook } from '../../../storage/index.js';
import { lacking } from '../../planner.js';
import { bordersOf, FAILURES_BEFORE_DISPUTE, isDisputed, RETRY_BACKOFF } from '../../plans.js';
import type { RangeJob, ServedHeights } from '../../ports.js';
import type { Boss } from '../Boss.js';
import type { Claim } from '../Claim.js';
import type { TakenJob } from './JobTaker.js';
import type { PlanJob, PlanQueues } from '../queues/PlanQueues.js';
import type { WorkerRegistry } from '../workers/WorkerRegistry.js';

/** A range that cannot run here or now is not offered again for this time. */
const LATER_MS = 10_000;

export interface TakenJobsDependencies {
  readonly boss: Boss;
  readonly registry: WorkerRegistry | undefined;
  readonly book: SharedRangeBook;
  readonly queues: PlanQueues;
  readonly chain: ServedHeights;
  readonly random: Random;
  readonly logger: Logger;
  /** Called when a range is done, failed or given back. Must not throw. */
  readonly onOver: () => void;
}

interface Running {
  readonly plan: number;
  readonly range: HeightRange;
  readonly store: RangeStore;
  readonly claim: Claim<PlanJob>;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
  readonly end: () => void;
}

/** The jobs that this process has taken: checks parts, runs ranges, and reports the outcomes to the queue. */
export class TakenJobs {
  readonly #deps: TakenJobsDependencies;
  /** By first height; at most as many as the runner fills at once. */
  readonly #running = new Map<number, Running>();

  constructor(dependencies: TakenJobsDependencies) {
    this.#deps = dependencies;
  }

  isRunning({ from }: HeightRange): boolean {
    return this.#running.has(from);
  }

  /** `undefined`: nothing to run, and the claim has ended. */
  async begin({ plan, claim }: TakenJob): Promise<RangeJob | undefined> {
    try {
      if (claim.data.kind === 'part') await this.#checkPart(plan, claim);
      else if (await this.#isRunnable(claim)) return await this.#run(plan, claim);
    } catch (error) {
      await this.#end(claim);
      // The job is lost, or the database is away: then the claim times out.
      if (!(error instanceof StorageError)) throw error;
      return undefined;
    }
    await this.#end(claim);
    return undefined;
  }

  /** Gives back ranges whose plan is paused or gone. */
  async giveBackUnwanted(plans: readonly BackfillPlan[]): Promise<void> {
    const unwanted = [...this.#running.values()].filter(
      ({ claim, plan }) => !claim.isCompleted && !plans.some(({ id, isPaused }) => id === plan && !isPaused),
    );
    for (const { controller } of unwanted) controller.abort(new AbortError('the range is given back'));
    await Promise.all(unwanted.map(({ ended }) => ended));
  }

  /** Plans the heights again that a part still lacks after its ranges. */
  async #checkPart(plan: BackfillPlan, claim: Claim<PlanJob>): Promise<void> {
    const { book, logger, queues } = this.#deps;
    const { from, to } = claim.data;
    const again = await book.transact(async (transaction) => {
      await transaction.lock();
      const facts = await transaction.read();
      await claim.complete(transaction.session);
      if (!facts.plans.some(({ id }) => id === plan.id)) return 0;
      return queues.fill(transaction.session, plan, { from, to }, facts);
    });
    if (again > 0)
      logger.warn({ plan: plan.id, from, to, ranges: again }, 'ranges were missing and are planned again');
  }

  /** False: already done, cut differently by now, or not to run at present. */
  async #isRunnable(claim: Claim<PlanJob>): Promise<boolean> {
    const { book, boss, chain, registry } = this.#deps;
    const { from, to } = claim.data;
    const { coverage, open } = await book.read();
    const known = open.find((each) => each.from === from && each.to === to);
    const missing = lacking([{ from, to }], coverage);
    const isWhole = missing.length === 1 && missing[0]?.from === from && missing[0].to === to;
    const isCut = known === undefined && bordersOf(chain).some((border) => from < border && border <= to);
    return boss.database.transaction(async (session) => {
      // The check of the part finds heights that are still missing.
      if (!isWhole || isCut) {
        await claim.complete(session);
        return false;
      }
      if (known !== undefined && isDisputed(known)) {
        await claim.setAside(session);
        return false;
      }
      const isBusy = await registry?.isBusyElsewhere(session, { from, to }, claim.key.id);
      if (isBusy !== true) return true;
      await claim.giveBack(session, LATER_MS);
      return false;
    });
  }

  async #run(plan: BackfillPlan, claim: Claim<PlanJob>): Promise<RangeJob | undefined> {
    const { book, boss } = this.#deps;
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
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    const running: Running = { plan: plan.id, range, store, claim, controller, ended, end };
    this.#running.set(from, running);
    return {
      range,
      store,
      signal: controller.signal,
      succeed: async () => {
        await this.#over(running);
        this.#logFilled(plan);
      },
      fail: (reason, { startOver = false } = {}) =>
        this.#over(running, () => this.#failed(running, reason, startOver)),
      release: () =>
        this.#over(running, async () => {
          await boss.database.transaction((session) => claim.giveBack(session));
        }),
    };
  }

  async #over(running: Running, last?: () => Promise<void>): Promise<void> {
    const { range, store, claim, end } = running;
    this.#deps.book.release(store);
    try {
      await last?.();
    } catch (error) {
      // The database is away: the claim times out instead.
      if (!(error instanceof StorageError)) throw error;
    } finally {
      await this.#end(claim);
      // This process may have lost the range and taken it again.
      if (this.#running.get(range.from) === running) this.#running.delete(range.from);
      end();
      this.#deps.onOver();
    }
  }

  async #end(claim: Claim<PlanJob>): Promise<void> {
    await claim.end();
    await this.#deps.registry?.release(claim.key);
  }

  async #failed({ range, claim }: Running, reason: string, startOver: boolean): Promise<void> {
    const { book, logger, random } = this.#deps;
    const failures = await book.transact(async (transaction) => {
      await transaction.lock();
      const { open } = await transaction.read();
      const count = (open.find(({ from }) => from === range.from)?.failures ?? 0) + 1;
      const isOurs =
        count >= FAILURES_BEFORE_DISPUTE
          ? await claim.setAside(transaction.session)
          : await claim.fail(transaction.session, reason, backoffMs(RETRY_BACKOFF, count - 1, random));
      if (!isOurs) return undefined;
      const failed = [{ ...range, failures: count, reason }];
      await transaction.write({ failed, ...(startOver ? { dropped: [range] } : {}) });
      return count;
    });
    const fields = { ...range, failures, reason };
    if (failures === FAILURES_BEFORE_DISPUTE)
      logger.warn(fields, 'a range is disputed: it waits for "backfill redrive"');
    else logger.debug(fields, 'a range failed and runs again');
  }

  /** Logs a plan that is filled: the commit of its last range has removed it. */
  #logFilled({ id, from, to }: BackfillPlan): void {
    const { book, logger } = this.#deps;
    if (book.plans().some((plan) => plan.id === id)) return;
    logger.info({ plan: id, from, to }, 'backfill plan is filled');
  }
}
