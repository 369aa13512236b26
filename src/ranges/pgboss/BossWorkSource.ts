import { backoffMs, childOf, Pause } from '../../runtime/index.js';
import { DatabaseFault, MAX_OPEN_RANGES, overlap, RangeTakenError } from '../../storage/index.js';
import { StorageError, within, without } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, Session } from '../../storage/index.js';
import { backfillState, bordersOf, choosePlans, FAILURES_BEFORE_DISPUTE, isDisputed } from '../plans.js';
import { liveOf, newPlan, redriven, RETRY_BACKOFF, withPaused } from '../plans.js';
import type { BackfillState, RangeJob, WantedPlan, WorkSource } from '../ports.js';
import { runningRanges, type RangeRun, type RunningRanges } from '../runningRanges.js';
import { sporkTurns, type SporkTurns } from '../sporkTurns.js';
import { unlessRefused, type HeldJob } from './Boss.js';
import type { Claim } from './Claim.js';
import { maintainQueues, planQueues, queueOf, removeQueue, takeRange } from './planQueues.js';
import type { PlanQueue, SharedWork } from './planQueues.js';
import type { WorkerRegistry } from './WorkerRegistry.js';

/** How often the database is polled, also for work while there is none. */
const POLL_EVERY_MS = 1_000;
/** How often to look for queues without a plan and plans without a queue. */
const MAINTAIN_EVERY_MS = 10_000;
/** A range that a living worker fills is not offered again for this time. */
const LATER_MS = 10_000;

/** `plan`: its number. */
interface JobRun extends RangeRun {
  readonly plan: number;
  readonly claim: Claim<HeightRange>;
}

/**
 * The work source of many machines. Plans are rows of the store; the ranges that were cut from them are jobs of pg-boss,
 * completed in the transaction that publishes the range. A worker that finds no waiting range cuts new ones from what a
 * plan lacks, which also recovers a range whose job was lost.
 */
export class BossWorkSource implements WorkSource {
  readonly #parts: SharedWork;
  /** This process among the workers; a command takes no work. */
  readonly #registry: WorkerRegistry;
  readonly #turns: SporkTurns;
  readonly #running: RunningRanges<JobRun>;
  #existing: readonly PlanQueue[] = [];
  readonly #polling: Promise<undefined>;
  #maintainedAtMs = -Infinity;
  readonly #closing = new AbortController();
  /** The sleep of `next` until there may be work. */
  readonly #pause: Pause;

  constructor(parts: SharedWork, registry: WorkerRegistry) {
    this.#parts = parts;
    this.#registry = registry;
    this.#pause = new Pause(parts);
    this.#turns = sporkTurns(parts.chain);
    this.#running = runningRanges(parts.book, parts.logger, () => this.#pause.wake());
    this.#polling = parts.boss.database.watch<never>(() => this.#poll(), POLL_EVERY_MS, this.#closing.signal);
  }

  /** Reads the current state of the database. Expected errors: `StorageError`. */
  refresh(): Promise<void> {
    return this.#parts.boss.database.persist(() => this.#read());
  }

  async #read(): Promise<void> {
    const { boss, book } = this.#parts;
    if (!this.#registry.isWorker) await this.#registry.look();
    await book.read();
    // Read after the plans: the queue of a plan exists before the plan does.
    this.#existing = await planQueues(boss);
    this.#pause.wake();
  }

  /** Ends the polling. The runner gives back running ranges first. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#polling;
  }

  next(signal: AbortSignal): Promise<RangeJob | undefined> {
    // Polling may find work.
    const pause: Pause['sleep'] = (...how) => this.#pause.sleep(...how);
    return this.#parts.boss.database.watch(() => this.#takeNext(signal), POLL_EVERY_MS, signal, { pause });
  }

  /** One transaction, like each of `pause`, `resume`, `cancel` and `redrive`. */
  async plan(wanted: WantedPlan): Promise<BackfillPlan> {
    const { book, boss, logger } = this.#parts;
    const plan = await book.transact<BackfillPlan>(async ({ write, ...facts }, tried) => {
      // The previous attempt was committed, but its answer was lost.
      const done = facts.plans.find((each) => each.id === tried?.id && each.from === tried.from);
      if (done !== undefined) return done;
      const taken = [
        ...facts.plans.map(({ id }) => id),
        ...(await planQueues(boss)).map(({ plan: id }) => id),
      ];
      const planned = newPlan(wanted, Math.max(0, ...taken) + 1, facts);
      await boss.makeQueue(queueOf(planned.id, this.#parts));
      await write({ plans: [...facts.plans, planned] });
      return planned;
    });
    const { id, from, to, order } = plan;
    logger.info({ plan: id, from, to, order }, 'backfill planned');
    await this.refresh();
    return plan;
  }

  async pause(id?: number): Promise<void> {
    await this.#setPaused(id, true);
    await this.#giveBackUnwanted();
  }

  resume(id?: number): Promise<void> {
    return this.#setPaused(id, false);
  }

  async #setPaused(id: number | undefined, isPaused: boolean): Promise<void> {
    await this.#parts.book.transact(({ plans, write }) => write({ plans: withPaused(plans, id, isPaused) }));
    await this.refresh();
  }

  async cancel(id?: number): Promise<void> {
    const { book, logger } = this.#parts;
    const gone = await book.transact<readonly BackfillPlan[]>(async ({ open, plans, write }, tried) => {
      if (tried?.every((plan) => !plans.some((each) => each.id === plan.id)) === true) return tried;
      const { chosen, kept } = choosePlans(plans, id);
      const dropped = open.filter((range) => !kept.some((plan) => overlap(plan, range)));
      if (chosen.length > 0) await write({ plans: kept, dropped });
      return chosen;
    });
    await this.refresh();
    await this.#giveBackUnwanted();
    for (const { id } of gone) {
      // `maintain` removes later what cannot be removed now.
      for (const queue of this.#queuesOf(id)) await unlessRefused(removeQueue(this.#parts, queue));
      logger.info({ plan: id }, 'backfill cancelled');
    }
  }

  async redrive(): Promise<number> {
    const count = await this.#parts.book.transact<number>(async ({ open, write }, tried = 0) => {
      const failed = redriven(open);
      await write({ failed });
      return Math.max(tried, failed.length);
    });
    await this.refresh();
    return count;
  }

  status(): BackfillState {
    const { book, chain } = this.#parts;
    const workers = this.#registry.known();
    const alive = workers.filter(({ isAlive }) => isAlive);
    const busy = new Set(alive.flatMap(({ busyWith }) => busyWith.map(({ from }) => from)));
    const known = { plans: book.plans(), open: book.open(), coverage: book.coverage() };
    const isRunning = (range: HeightRange): boolean => this.#running.has(range) || busy.has(range.from);
    const state = backfillState(known, chain, isRunning);
    const plans = state.plans.map((plan) => {
      const versions = this.#queuesOf(plan.id).map(({ version }) => version);
      const untakenVersion = versions.at(-1);
      const isTaken = alive.some(({ workVersion }) => versions.includes(workVersion));
      return isTaken || untakenVersion === undefined ? plan : { ...plan, untakenVersion };
    });
    return { ...state, plans, workers };
  }

  /** One for each version of the work that the plan was cut for. */
  #queuesOf(id: number): readonly PlanQueue[] {
    return this.#existing.filter(({ plan }) => plan === id);
  }

  /** The next range; `undefined`: there is none now, or the signal has aborted. Expected errors: `StorageError`. */
  async #takeNext(signal: AbortSignal): Promise<RangeJob | undefined> {
    const { book } = this.#parts;
    const queues = new Set(this.#existing.map(({ name }) => name));
    const ours = book.plans().filter(({ id, isPaused }) => !isPaused && queues.has(queueOf(id, this.#parts)));
    // Below an empty live range, as after a rewind, nothing can begin: jobs would be cut and ended without pause.
    while (this.#registry.isWorker && !signal.aborted && liveOf(book.coverage()) !== undefined) {
      const claim = await this.#registry.take((session) => this.#find(session, ours));
      const plan = ours.find(({ id }) => queueOf(id, this.#parts) === claim?.key.queue);
      if (claim === undefined || plan === undefined) return undefined;
      const begun = await this.#begin(plan, claim);
      if (begun !== undefined) return begun;
    }
    return undefined;
  }

  /** Gives back ranges whose plan is paused or gone. */
  #giveBackUnwanted(): Promise<void> {
    const plans = this.#parts.book.plans();
    return this.#running.giveBack(
      ({ claim, plan }) => !claim.isCompleted && !plans.some(({ id, isPaused }) => id === plan && !isPaused),
    );
  }

  async #find(session: Session, plans: readonly BackfillPlan[]): Promise<HeldJob<HeightRange> | undefined> {
    const { book } = this.#parts;
    const [coverage, open] = [book.coverage(), book.open()];
    const running = await this.#registry.running(session);
    const isIdle = (range: HeightRange): boolean => !running.some((each) => overlap(each, range));
    let idle = open.filter((each) => !isDisputed(each) && isIdle(each) && this.#turns.isServed(each));
    // Heights above the live range are not filled in: it grows over them.
    const below = { from: 0, to: (coverage.at(-1)?.from ?? 0) - 1 };
    for (const { plan, heights } of this.#turns.places(plans, running)) {
      const missing = without(within(heights, below), coverage);
      if (missing.length === 0) continue;
      const begun = idle.filter((range) => missing.some((some) => overlap(some, range)));
      // After a failure a range waits in the queue of its plan; the queue of another plan would not know.
      idle = idle.filter((range) => !begun.includes(range));
      const unbegun = open.length < MAX_OPEN_RANGES ? without(missing, [...open, ...running]) : [];
      const job = await takeRange(this.#parts, session, plan, { begun, heights, unbegun });
      if (job !== undefined) return job;
    }
    return undefined;
  }

  /**
   * `undefined`: the range is done already, was cut differently, or is filled by another worker for another plan. Heights that
   * are still missing are cut again.
   */
  async #begin(plan: BackfillPlan, claim: Claim<HeightRange>): Promise<RangeJob | undefined> {
    const { book, boss, chain } = this.#parts;
    const { from, to } = claim.data;
    const range = { from, to };
    this.#turns.took(range);
    let begun: RangeJob | undefined;
    try {
      // Without this read, a range that was published a moment ago would be cut again and again.
      await book.read();
      const running = await this.#registry.running(boss.database, claim.key.id);
      // Beginning it would take its fence from that worker.
      if (running.some((each) => overlap(each, range))) {
        await boss.database.transaction((session) => claim.fail(session, 'it is filled elsewhere', LATER_MS));
        return undefined;
      }
      const known = book.open().find((each) => each.from === from && each.to === to);
      const isCut = bordersOf(chain).some((border) => from < border && border <= to);
      const isOver = known === undefined ? isCut : isDisputed(known);
      const publishing = (session: Session) => claim.complete(session);
      const store = isOver ? undefined : await book.run(range, publishing).catch(unlessTaken);
      if (store === undefined) await boss.database.transaction(publishing);
      else {
        const run = { plan: plan.id, range, store, claim, controller: childOf(claim.lost) };
        begun = this.#running.begin(run, {
          failed: (reason) => unlessRefused(this.#failed(run, reason)),
          over: (isGivenBack) => this.#registry.release(claim, isGivenBack),
        });
      }
    } catch (error) {
      // The job is lost. While the database is unreachable, the claim times out.
      if (!(error instanceof StorageError) || error instanceof DatabaseFault) throw error;
    } finally {
      if (begun === undefined) await this.#registry.release(claim);
    }
    return begun;
  }

  /** `undefined`: its plan was cancelled, or the store rewound. A disputed range has no job until it is redriven. */
  #failed({ range, claim }: JobRun, reason: string): Promise<number | undefined> {
    const { book, random } = this.#parts;
    return book.transact(async ({ open, session, write }) => {
      const before = open.find(({ from }) => from === range.from);
      const failures = (before?.failures ?? 0) + 1;
      if (failures >= FAILURES_BEFORE_DISPUTE) await claim.complete(session);
      else await claim.fail(session, reason, backoffMs(RETRY_BACKOFF, failures - 1, random));
      if (before === undefined) return undefined;
      await write({ failed: [{ ...range, failures, reason }], dropped: [range] });
      return failures;
    });
  }

  async #poll(): Promise<undefined> {
    const nowMs = this.#parts.clock.monotonic();
    await this.#read();
    // Not awaited: polling must not stop while a line ends.
    void this.#giveBackUnwanted();
    if (!this.#registry.isWorker || nowMs - this.#maintainedAtMs < MAINTAIN_EVERY_MS) return;
    this.#maintainedAtMs = nowMs;
    await maintainQueues(this.#parts, this.#parts.book.plans(), this.#existing, this.#registry.known());
  }
}

function unlessTaken(error: unknown): undefined {
  if (!(error instanceof RangeTakenError)) throw error;
}
