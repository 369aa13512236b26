import type { Logger } from '../../../observability/index.js';
import type { Clock, Random, Timer } from '../../../runtime/index.js';
import { StorageError } from '../../../storage/index.js';
import type { BackfillPlan, HeightRange, RangeFacts, SharedRangeBook } from '../../../storage/index.js';
import { backfillState } from '../../backfillState.js';
import { bordersOf } from '../../plans.js';
import type {
  BackfillState,
  RangeJob,
  ServedHeights,
  WantedPlan,
  WorkerState,
  WorkSource,
} from '../../ports.js';
import type { Boss } from '../Boss.js';
import { JobTaker } from './JobTaker.js';
import { PlanQueues } from '../queues/PlanQueues.js';
import type { PlanQueuesOptions } from '../queues/PlanQueues.js';
import { liveOf, SharedPlans } from '../queues/SharedPlans.js';
import { TakenJobs } from './TakenJobs.js';
import { tendQueues } from '../queues/tendQueues.js';
import type { WorkerRegistry } from '../workers/WorkerRegistry.js';
import { readWorkers } from '../workers/workerRows.js';

/** How often what the database holds is looked at, and asked for work while there is none. */
const LOOK_EVERY_MS = 1_000;
/** How often queues without a plan and plans without a queue are looked for. */
const TEND_EVERY_MS = 10_000;

/** `maxRangeHeights`: by default the most that the store takes. */
export type BossWorkSourceOptions = PlanQueuesOptions;

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

/**
 * The work source of many machines. Plans are rows of the store; their ranges are jobs of pg-boss, made in the transaction of
 * the plan and completed in the one that publishes the range. A range that got lost is found when its part of the plan is
 * done, and planned again.
 */
export class BossWorkSource implements WorkSource {
  readonly #deps: BossWorkSourceDependencies;
  readonly #queues: PlanQueues;
  readonly #plans: SharedPlans;
  readonly #workVersion: number;
  readonly #taken: TakenJobs;
  /** Without, nothing is taken. */
  readonly #taker: JobTaker | undefined;
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

  constructor(options: BossWorkSourceOptions, dependencies: BossWorkSourceDependencies) {
    const { boss, chain, registry } = dependencies;
    this.#deps = dependencies;
    this.#workVersion = options.workVersion;
    this.#queues = new PlanQueues(options, { boss, borders: () => bordersOf(chain) });
    const parts = { ...dependencies, queues: this.#queues };
    this.#plans = new SharedPlans(parts);
    this.#taken = new TakenJobs({ ...parts, onOver: () => this.#notify() });
    this.#taker = registry && new JobTaker({ ...parts, registry });
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
    const plan = await this.#plans.add(wanted);
    const { id, from, to, order } = plan;
    this.#deps.logger.info({ plan: id, from, to, order }, 'backfill planned');
    await this.#look();
    return plan;
  }

  async pause(id?: number): Promise<void> {
    await this.#plans.setPaused(id, true);
    await this.#look();
    await this.#taken.giveBackUnwanted(this.#facts.plans);
  }

  async resume(id?: number): Promise<void> {
    await this.#plans.setPaused(id, false);
    await this.#look();
  }

  async cancel(id?: number): Promise<void> {
    const gone = await this.#plans.remove(id);
    await this.#look();
    await this.#taken.giveBackUnwanted(this.#facts.plans);
    for (const plan of gone) {
      for (const version of this.#versions.get(plan.id) ?? []) await this.#queues.remove(plan.id, version);
      this.#deps.logger.info({ plan: plan.id }, 'backfill cancelled');
    }
  }

  async redrive(): Promise<number> {
    const count = await this.#plans.redrive();
    await this.#look();
    return count;
  }

  status(): BackfillState {
    const { book, chain } = this.#deps;
    const workers = this.#workers();
    const busy = new Set(
      workers.filter(({ isAlive }) => isAlive).flatMap(({ busyWith }) => busyWith.map(({ from }) => from)),
    );
    // What this process has written itself is known at once.
    const known = { plans: book.plans(), open: book.open(), coverage: this.#facts.coverage };
    const isRunning = (range: HeightRange): boolean => this.#taken.isRunning(range) || busy.has(range.from);
    const state = backfillState(known, chain, isRunning);
    const plans = state.plans.map((plan) => {
      const untakenVersion = this.#untakenVersion(plan.id);
      return untakenVersion === undefined ? plan : { ...plan, untakenVersion };
    });
    return { ...state, plans, workers };
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
    const { coverage, plans } = this.#facts;
    if (this.#taker === undefined || liveOf(this.#facts) === undefined) return undefined;
    const ours = plans.filter(
      ({ id, isPaused }) => !isPaused && this.#versions.get(id)?.includes(this.#workVersion) === true,
    );
    for (;;) {
      const taken = await this.#taker.take(ours, coverage);
      if (taken === undefined) return undefined;
      const begun = await this.#taken.begin(taken);
      if (begun !== undefined) return begun;
    }
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
      void this.#taken.giveBackUnwanted(this.#facts.plans);
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
