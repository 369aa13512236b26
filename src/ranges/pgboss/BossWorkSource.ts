import type { Logger } from '../../observability/index.js';
import { AbortError, backoffMs } from '../../runtime/index.js';
import type { Clock, Random, Timer } from '../../runtime/index.js';
import { joined, overlap, RangeTakenError, StorageError } from '../../storage/index.js';
import type {
  BackfillPlan,
  HeightRange,
  OpenRange,
  RangeFacts,
  RangeStore,
  SharedRangeBook,
} from '../../storage/index.js';
import { countHeights, lacking } from '../planner.js';
import {
  bordersOf,
  choosePlans,
  FAILURES_BEFORE_DISPUTE,
  isDisputed,
  newPlan,
  RETRY_BACKOFF,
} from '../plans.js';
import type {
  BackfillState,
  RangeJob,
  RangePhase,
  ServedHeights,
  WantedPlan,
  WorkerState,
  WorkSource,
} from '../ports.js';
import type { Boss, HeldJob } from './Boss.js';
import { Claim } from './Claim.js';
import { PlanQueues } from './PlanQueues.js';
import type { PlanJob } from './PlanQueues.js';
import { tendQueues } from './tendQueues.js';
import { readWorkers } from './WorkerRegistry.js';
import type { WorkerRegistry } from './WorkerRegistry.js';

/** How often what the database holds is looked at, and asked for work while there is none. */
const LOOK_EVERY_MS = 1_000;
/** How often queues without a plan and plans without a queue are looked for. */
const TEND_EVERY_MS = 10_000;
/** A range that cannot be run here, or now, is not offered again for so long. */
const LATER_MS = 10_000;

export interface BossWorkSourceOptions {
  readonly workVersion: number;
  /** The most heights of one range. Default: the most that the store takes. */
  readonly maxRangeHeights?: number | undefined;
}

export interface BossWorkSourceDependencies {
  readonly boss: Boss;
  /** This process among the workers; without, nothing is taken: a command. */
  readonly registry: WorkerRegistry | undefined;
  readonly book: SharedRangeBook;
  readonly chain: ServedHeights;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

interface Running {
  readonly plan: number;
  readonly range: HeightRange;
  readonly claim: Claim<PlanJob>;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
  readonly end: () => void;
}

/**
 * The work source of many machines. Plans are rows of the store; their ranges are jobs of pg-boss, made in the transaction of
 * the plan and completed in the one that publishes the range. A range that got lost is found when its part of the plan is
 * done, and planned again.
 */
export class BossWorkSource implements WorkSource {
  readonly #deps: BossWorkSourceDependencies;
  readonly #queues: PlanQueues;
  readonly #workVersion: number;
  /** By first height; at most as many as the runner has places. */
  readonly #running = new Map<number, Running>();
  #facts: RangeFacts = { coverage: [], open: [], plans: [] };
  #versions: ReadonlyMap<number, readonly number[]> = new Map();
  /** The workers, for a command, which is none of them. */
  #others: readonly WorkerState[] = [];
  #timer: Timer | undefined;
  #looking: Promise<void> = Promise.resolve();
  #tendedAtMs = -Infinity;
  #isDraining = false;
  #isClosed = false;
  #wake: (() => void) | undefined;

  constructor(
    { workVersion, maxRangeHeights }: BossWorkSourceOptions,
    dependencies: BossWorkSourceDependencies,
  ) {
    const { boss, chain } = dependencies;
    this.#deps = dependencies;
    this.#workVersion = workVersion;
    this.#queues = new PlanQueues(
      { workVersion, maxRangeHeights },
      { boss, borders: () => bordersOf(chain) },
    );
    this.#lookLater(0);
  }

  /** What the database holds now. Expected errors: `StorageError`. */
  async refresh(): Promise<void> {
    await this.#look();
  }

  /** Gives out no more work: `next` resolves with `undefined`. */
  drain(): void {
    this.#isDraining = true;
    this.#deps.registry?.setStopping();
    this.#notify();
  }

  /** Looks no more. What runs is given back first, by its runner. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#looking;
  }

  async next(signal: AbortSignal): Promise<RangeJob | undefined> {
    while (!signal.aborted && !this.#isDraining) {
      try {
        const job = await this.#takeNext();
        if (job !== undefined) return job;
      } catch (error) {
        if (!goesOver(error)) throw error;
      }
      await this.#changed(signal);
    }
    return undefined;
  }

  async plan(wanted: WantedPlan): Promise<BackfillPlan> {
    const { book, logger } = this.#deps;
    let tried: BackfillPlan | undefined;
    const plan = await book.transact(async (transaction) => {
      await transaction.lock();
      const facts = await transaction.read();
      // The commit before counted, though its end was not seen.
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
    logger.info({ plan: plan.id, from: plan.from, to: plan.to, order: plan.order }, 'backfill planned');
    await this.#look();
    return plan;
  }

  async pause(id?: number): Promise<void> {
    await this.#changePlans(id, (plan) => ({ ...plan, isPaused: true }));
    await this.#stopUnwanted();
  }

  async resume(id?: number): Promise<void> {
    await this.#changePlans(id, (plan) => ({ ...plan, isPaused: false }));
  }

  async cancel(id?: number): Promise<void> {
    const { book, logger } = this.#deps;
    let gone: readonly BackfillPlan[] = [];
    await book.transact(async (transaction) => {
      await transaction.lock();
      const { open, plans } = await transaction.read();
      const { chosen, kept } = choosePlans(plans, id);
      const dropped = open.filter(
        (range) => chosen.some((plan) => overlap(plan, range)) && !kept.some((plan) => overlap(plan, range)),
      );
      gone = chosen;
      if (chosen.length > 0) await transaction.write({ plans: kept, dropped });
    });
    await this.#look();
    await this.#stopUnwanted();
    for (const plan of gone) {
      for (const version of this.#versions.get(plan.id) ?? []) await this.#queues.remove(plan.id, version);
      logger.info({ plan: plan.id }, 'backfill cancelled');
    }
  }

  async redrive(): Promise<number> {
    const count = await this.#deps.book.transact(async (transaction) => {
      await transaction.lock();
      const { open, plans } = await transaction.read();
      const disputed = open.filter(isDisputed);
      await transaction.write({ failed: disputed.map(({ from, to }) => ({ from, to, failures: 0 })) });
      await this.#queues.resumeAll(transaction.session, plans);
      return disputed.length;
    });
    await this.#look();
    return count;
  }

  status(): BackfillState {
    const { book, chain } = this.#deps;
    const { coverage } = this.#facts;
    // What this process has written itself is known at once.
    const open = book.open();
    const plans = book.plans();
    const there = [...coverage, ...open.map(({ from, next }) => ({ from, to: next - 1 }))];
    const missing = lacking(plans, there);
    return {
      plans: plans.map((plan) => {
        const untakenVersion = this.#untakenVersion(plan.id);
        const missingHeights = countHeights(lacking([plan], there));
        return { ...plan, missingHeights, ...(untakenVersion === undefined ? {} : { untakenVersion }) };
      }),
      ranges: open.map((range) => ({ ...range, phase: this.#phaseOf(range) })),
      unserved: lacking(missing, chain.served()),
      missingHeights: countHeights(missing),
      workers: this.#workers(),
    };
  }

  #phaseOf(range: OpenRange): RangePhase {
    const workers = this.#workers();
    if (this.#running.has(range.from)) return 'running';
    if (workers.some(({ isAlive, busyWith }) => isAlive && busyWith.some(({ from }) => from === range.from)))
      return 'running';
    if (isDisputed(range)) return 'disputed';
    return range.failures > 0 ? 'failed' : 'waiting';
  }

  #workers(): readonly WorkerState[] {
    return this.#deps.registry?.workers() ?? this.#others;
  }

  #untakenVersion(plan: number): number | undefined {
    const versions = this.#versions.get(plan) ?? [];
    const alive = new Set(
      this.#workers()
        .filter(({ isAlive }) => isAlive)
        .map(({ workVersion }) => workVersion),
    );
    return versions.some((version) => alive.has(version)) ? undefined : versions.at(-1);
  }

  async #takeNext(): Promise<RangeJob | undefined> {
    const { boss, chain, registry } = this.#deps;
    if (registry === undefined || liveOf(this.#facts) === undefined) return undefined;
    const served = joined(chain.served());
    for (const plan of this.#facts.plans) {
      if (plan.isPaused || !this.#versions.get(plan.id)?.includes(this.#workVersion)) continue;
      for (;;) {
        let taken: string | undefined;
        let job: HeldJob<PlanJob> | undefined;
        try {
          job = await boss.database.transaction(async (session) => {
            const found = await this.#queues.take(session, plan, served);
            if (found === undefined) return undefined;
            const { from, to, kind } = found.data;
            const key = { queue: found.name, id: found.id, attempt: found.retryCount };
            taken = found.id;
            await registry.hold(session, { ...key, ...(kind === 'range' ? { from, to } : {}) });
            return found;
          });
        } catch (error) {
          if (taken !== undefined) registry.forget(taken);
          throw error;
        }
        if (job === undefined) break;
        const { from, to } = job.data;
        const claim = new Claim<PlanJob>(job, {
          ...{ boss, clock: this.#deps.clock },
          onRenewed: (key) => registry.update(key.id, { ...key, from, to }),
        });
        const begun = await this.#begin(plan, claim);
        if (begun !== undefined) return begun;
      }
    }
    return undefined;
  }

  /** `undefined`: there is nothing to run, and the claim is over. */
  async #begin(plan: BackfillPlan, claim: Claim<PlanJob>): Promise<RangeJob | undefined> {
    try {
      if (claim.data.kind === 'part') await this.#checkPart(plan, claim);
      else if (await this.#isRunnable(claim)) return await this.#run(plan, claim);
    } catch (error) {
      await this.#end(claim);
      // Lost already, or the database is away: then the claim runs out.
      if (!(error instanceof StorageError)) throw error;
      return undefined;
    }
    await this.#end(claim);
    return undefined;
  }

  /** Plans again what is lacking of a part whose ranges are done. */
  async #checkPart(plan: BackfillPlan, claim: Claim<PlanJob>): Promise<void> {
    const { book, logger } = this.#deps;
    const { from, to } = claim.data;
    const again = await book.transact(async (transaction) => {
      await transaction.lock();
      const facts = await transaction.read();
      await claim.complete(transaction.session);
      if (!facts.plans.some(({ id }) => id === plan.id)) return 0;
      return this.#queues.fill(transaction.session, plan, { from, to }, facts);
    });
    if (again > 0)
      logger.warn({ plan: plan.id, from, to, ranges: again }, 'ranges were lacking and are planned again');
  }

  /** False: done already, cut otherwise by now, or not to be run at present. */
  async #isRunnable(claim: Claim<PlanJob>): Promise<boolean> {
    const { book, boss, chain, registry } = this.#deps;
    const { from, to } = claim.data;
    const { coverage, open } = await book.read();
    const known = open.find((each) => each.from === from && each.to === to);
    const missing = lacking([{ from, to }], coverage);
    const isWhole = missing.length === 1 && missing[0]?.from === from && missing[0].to === to;
    const isCut = known === undefined && bordersOf(chain).some((border) => from < border && border <= to);
    return boss.database.transaction(async (session) => {
      // What is lacking all the same is found when the part is checked.
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
    const running: Running = { plan: plan.id, range, claim, controller, ended, end };
    this.#running.set(from, running);
    return {
      range,
      store,
      signal: controller.signal,
      succeed: async () => {
        await this.#over(running);
        this.#tellFilled(plan);
      },
      fail: (reason, { startOver = false } = {}) =>
        this.#over(running, () => this.#failed(running, reason, startOver)),
      release: () =>
        this.#over(running, async () => {
          await boss.database.transaction((session) => claim.giveBack(session));
        }),
    };
  }

  async #over({ range, claim, end }: Running, last?: () => Promise<void>): Promise<void> {
    try {
      await last?.();
    } catch (error) {
      // The database is away: silence says what was to be said.
      if (!(error instanceof StorageError)) throw error;
    } finally {
      await this.#end(claim);
      this.#running.delete(range.from);
      end();
      this.#notify();
    }
  }

  async #end(claim: Claim<PlanJob>): Promise<void> {
    await claim.end();
    await this.#deps.registry?.update(claim.key.id);
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

  /** The commit that filled the last range of a plan has removed it. */
  #tellFilled({ id, from, to }: BackfillPlan): void {
    const { book, logger } = this.#deps;
    if (book.plans().some((plan) => plan.id === id)) return;
    logger.info({ plan: id, from, to }, 'backfill plan is filled');
  }

  async #changePlans(id: number | undefined, change: (plan: BackfillPlan) => BackfillPlan): Promise<void> {
    await this.#deps.book.transact(async (transaction) => {
      await transaction.lock();
      const { plans } = await transaction.read();
      const { chosen } = choosePlans(plans, id);
      if (chosen.length === 0) return;
      await transaction.write({
        plans: plans.map((plan) => (chosen.includes(plan) ? change(plan) : plan)),
      });
    });
    await this.#look();
  }

  /** What no plan wants that is not paused is given back. */
  async #stopUnwanted(): Promise<void> {
    const { plans } = this.#facts;
    const unwanted = [...this.#running.values()].filter(
      ({ claim, plan }) => !claim.isCompleted && !plans.some(({ id, isPaused }) => id === plan && !isPaused),
    );
    for (const { controller } of unwanted) controller.abort(new AbortError('the range is given back'));
    await Promise.all(unwanted.map(({ ended }) => ended));
  }

  #lookLater(delayMs: number): void {
    this.#timer = this.#deps.clock.setTimer(delayMs, () => {
      this.#looking = this.#lookNow().then(() => {
        if (!this.#isClosed) this.#lookLater(LOOK_EVERY_MS);
      });
    });
  }

  async #lookNow(): Promise<void> {
    const { boss, book, clock, logger, registry } = this.#deps;
    try {
      await this.#look();
      // Nobody waits for it here: the looks must not stop while a line ends.
      void this.#stopUnwanted();
      if (registry === undefined || clock.monotonic() - this.#tendedAtMs < TEND_EVERY_MS) return;
      this.#tendedAtMs = clock.monotonic();
      await tendQueues({
        ...{ boss, book, registry, logger, queues: this.#queues },
        workVersion: this.#workVersion,
      });
    } catch (error) {
      // The database is away: it is looked at again.
      if (!(error instanceof StorageError)) throw error;
    }
  }

  async #look(): Promise<void> {
    const { boss, registry } = this.#deps;
    const versions = await this.#queues.versions();
    if (registry === undefined) this.#others = await readWorkers(boss.database);
    this.#facts = await this.#deps.book.read();
    this.#versions = versions;
    this.#notify();
  }

  #notify(): void {
    this.#wake?.();
  }

  #changed(signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#isDraining) return Promise.resolve();
    return new Promise((resolve) => {
      const over = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', over);
        this.#wake = undefined;
        resolve();
      };
      const timer = this.#deps.clock.setTimer(LOOK_EVERY_MS, over);
      signal.addEventListener('abort', over, { once: true });
      this.#wake = over;
    });
  }
}

/** The database is away, or another process was quicker: what there is to do is asked for again. */
function goesOver(error: unknown): boolean {
  return error instanceof StorageError && /^(?:unavailable|disk_full|missing|locked)$/.test(error.kind);
}

function liveOf({ coverage }: RangeFacts): HeightRange | undefined {
  const live = coverage.at(-1);
  return live === undefined || live.to < live.from ? undefined : live;
}
