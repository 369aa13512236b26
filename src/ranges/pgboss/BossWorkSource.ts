import { Pause } from '../../runtime/index.js';
import { DatabaseFault, StorageError } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, RangeFacts } from '../../storage/index.js';
import { backfillState } from '../plans.js';
import type { BackfillState, RangeJob, WantedPlan, WorkerState, WorkSource } from '../ports.js';
import { liveOf, planVersions, SharedPlans } from './SharedPlans.js';
import type { SharedWork } from './SharedPlans.js';
import { TakenJobs } from './TakenJobs.js';
import { readWorkers } from './WorkerRegistry.js';
import type { WorkerRegistry } from './WorkerRegistry.js';

/** How often the database is polled, also for work while there is none. */
const POLL_EVERY_MS = 1_000;
/** How often to look for queues without a plan and plans without a queue. */
const MAINTAIN_EVERY_MS = 10_000;

/**
 * The work source of many machines. Plans are rows of the store; their ranges are jobs of pg-boss, created in the transaction
 * of the plan and completed in the transaction that publishes the range. A lost range is found when its part of the plan is
 * checked, and planned again.
 */
export class BossWorkSource implements WorkSource {
  readonly #parts: SharedWork;
  /** This process among the workers; `undefined` for a command, which takes no work. */
  readonly #registry: WorkerRegistry | undefined;
  readonly #plans: SharedPlans;
  /** `undefined` for a command. */
  readonly #taken: TakenJobs | undefined;
  #facts: RangeFacts = { coverage: [], open: [], plans: [] };
  #versions: ReadonlyMap<number, readonly number[]> = new Map();
  /** The workers, for a command, which has no registry. */
  #others: readonly WorkerState[] = [];
  readonly #polling: Promise<undefined>;
  #maintainedAtMs = -Infinity;
  #isDraining = false;
  readonly #closing = new AbortController();
  /** Of `next`, until there may be work. */
  readonly #pause: Pause;

  constructor(parts: SharedWork, registry: WorkerRegistry | undefined) {
    this.#parts = parts;
    this.#registry = registry;
    this.#pause = new Pause(parts);
    this.#plans = new SharedPlans(parts);
    const onOver = (): void => this.#pause.wake();
    this.#taken = registry && new TakenJobs({ ...parts, registry, plans: this.#plans, onOver });
    this.#polling = parts.boss.database.watch<never>(() => this.#poll(), POLL_EVERY_MS, this.#closing.signal);
  }

  /** Reads the current state of the database. Expected errors: `StorageError`. */
  refresh(): Promise<void> {
    return this.#parts.boss.database.persist(() => this.#read());
  }

  async #read(): Promise<void> {
    const { boss, book } = this.#parts;
    const versions = await planVersions(boss);
    if (this.#registry === undefined) this.#others = await readWorkers(boss.database);
    this.#facts = await book.read();
    this.#versions = versions;
    this.#pause.wake();
  }

  /** Gives out no more work: `next` resolves with `undefined`. */
  drain(): void {
    this.#isDraining = true;
    this.#registry?.setStopping();
    this.#pause.wake();
  }

  /** Ends the polling. The runner gives back running ranges first. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#polling;
  }

  async next(signal: AbortSignal): Promise<RangeJob | undefined> {
    while (!signal.aborted && !this.#isDraining) {
      try {
        const job = await this.#takeNext();
        if (job !== undefined) return job;
      } catch (error) {
        if (!isTransient(error)) throw error;
      }
      await this.#changed(signal);
    }
    return undefined;
  }

  async plan(wanted: WantedPlan): Promise<BackfillPlan> {
    const plan = await this.#plans.add(wanted);
    const { id, from, to, order } = plan;
    this.#parts.logger.info({ plan: id, from, to, order }, 'backfill planned');
    await this.refresh();
    return plan;
  }

  async pause(id?: number): Promise<void> {
    await this.#plans.setPaused(id, true);
    await this.refresh();
    await this.#taken?.giveBackUnwanted(this.#facts.plans);
  }

  async resume(id?: number): Promise<void> {
    await this.#plans.setPaused(id, false);
    await this.refresh();
  }

  async cancel(id?: number): Promise<void> {
    const gone = await this.#plans.remove(id);
    await this.refresh();
    await this.#taken?.giveBackUnwanted(this.#facts.plans);
    for (const plan of gone) {
      for (const version of this.#versions.get(plan.id) ?? [])
        await this.#plans.removeQueue(plan.id, version);
      this.#parts.logger.info({ plan: plan.id }, 'backfill cancelled');
    }
  }

  async redrive(): Promise<number> {
    const count = await this.#plans.redrive();
    await this.refresh();
    return count;
  }

  status(): BackfillState {
    const { book, chain } = this.#parts;
    const workers = this.#workers();
    const busy = new Set(
      workers.filter(({ isAlive }) => isAlive).flatMap(({ busyWith }) => busyWith.map(({ from }) => from)),
    );
    // Includes what this process has just written.
    const known = { plans: book.plans(), open: book.open(), coverage: this.#facts.coverage };
    const isRunning = (range: HeightRange): boolean =>
      this.#taken?.isRunning(range) === true || busy.has(range.from);
    const state = backfillState(known, chain, isRunning);
    const plans = state.plans.map((plan) => {
      const untakenVersion = this.#untakenVersion(plan.id);
      return untakenVersion === undefined ? plan : { ...plan, untakenVersion };
    });
    return { ...state, plans, workers };
  }

  #workers(): readonly WorkerState[] {
    return this.#registry?.workers() ?? this.#others;
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
    const { coverage, plans } = this.#facts;
    if (this.#taken === undefined || liveOf(this.#facts) === undefined) return undefined;
    // Readers wait for damaged heights.
    const urgentFirst = [...plans].sort((a, b) => Number(b.heals === true) - Number(a.heals === true));
    const ours = urgentFirst.filter(
      ({ id, isPaused }) => !isPaused && this.#versions.get(id)?.includes(this.#parts.workVersion) === true,
    );
    return this.#taken.next(ours, coverage);
  }

  /** Resolves when there may be work, and when the signal aborts. */
  async #changed(signal: AbortSignal): Promise<void> {
    if (!this.#isDraining) await this.#pause.sleep(POLL_EVERY_MS, signal).catch(() => undefined);
  }

  async #poll(): Promise<undefined> {
    const { clock } = this.#parts;
    const registry = this.#registry;
    await this.#read();
    // Not awaited: polling must not stop while a line ends.
    void this.#taken?.giveBackUnwanted(this.#facts.plans);
    if (registry === undefined || clock.monotonic() - this.#maintainedAtMs < MAINTAIN_EVERY_MS) return;
    this.#maintainedAtMs = clock.monotonic();
    await this.#plans.maintain(registry.workers());
  }
}

/** The database refuses, or another process was faster: asking again will do. */
function isTransient(error: unknown): boolean {
  const isOvertaken = error instanceof StorageError && /^(?:missing|locked)$/.test(error.kind);
  return isOvertaken || error instanceof DatabaseFault;
}
