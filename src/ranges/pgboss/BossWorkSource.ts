import type { Logger } from '../../observability/index.js';
import type { Clock, Random, Timer } from '../../runtime/index.js';
import { overlap, StorageError } from '../../storage/index.js';
import type {
  BackfillPlan,
  HeightRange,
  OpenRange,
  RangeFacts,
  SharedRangeBook,
} from '../../storage/index.js';
import { countHeights, lacking } from '../planner.js';
import { bordersOf, choosePlans, isDisputed, newPlan } from '../plans.js';
import type {
  BackfillState,
  RangeJob,
  RangePhase,
  ServedHeights,
  WantedPlan,
  WorkerState,
  WorkSource,
} from '../ports.js';
import type { Boss } from './Boss.js';
import { JobTaker } from './JobTaker.js';
import { PlanQueues } from './PlanQueues.js';
import type { PlanQueuesOptions } from './PlanQueues.js';
import { TakenJobs } from './TakenJobs.js';
import { tendQueues } from './tendQueues.js';
import type { WorkerRegistry } from './WorkerRegistry.js';
import { readWorkers } from './workerRows.js';

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
    await this.#taken.giveBackUnwanted(this.#facts.plans);
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
    await this.#taken.giveBackUnwanted(this.#facts.plans);
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
    if (this.#taken.isRunning(range)) return 'running';
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

function liveOf({ coverage }: RangeFacts): HeightRange | undefined {
  const live = coverage.at(-1);
  return live === undefined || live.to < live.from ? undefined : live;
}
