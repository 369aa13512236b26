import type { Logger } from '../../observability/index.js';
import { AbortError, backoffMs } from '../../runtime/index.js';
import type { Clock, Random, Timer } from '../../runtime/index.js';
import { overlap } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, IndexStore, OpenRange, RangeStore } from '../../storage/index.js';
import { countHeights, lacking } from '../planner.js';
import { choosePlans, FAILURES_BEFORE_DISPUTE, isDisputed, newPlan, RETRY_BACKOFF } from '../plans.js';
import type { BackfillState, RangeJob, RangePhase, ServedHeights, WantedPlan, WorkSource } from '../ports.js';
import { SporkTurns } from '../SporkTurns.js';
import { chooseRange } from './chooseRange.js';

/** How often it is looked whether nodes serve what is planned, while nothing else can be done. */
const LOOK_AGAIN_MS = 5_000;

export interface LocalWorkSourceOptions {
  /** The most heights of one range. Default: the most that the store takes. */
  readonly maxRangeHeights?: number | undefined;
}

export interface LocalWorkSourceDependencies {
  readonly store: Pick<IndexStore, 'coverage' | 'latestBlock' | 'latestIndexedHeight' | 'meta' | 'ranges'>;
  readonly chain: ServedHeights;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

interface Running {
  readonly range: HeightRange;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

/**
 * The work source of one machine. Plans and open ranges are kept by the store, whose commits publish them; what runs at this
 * moment, and when a failed range may run again, is known here alone: after a restart everything waits.
 */
export class LocalWorkSource implements WorkSource {
  readonly #maxHeights: number | undefined;
  readonly #dependencies: LocalWorkSourceDependencies;
  /** By first height; at most as many as the runner has places. */
  readonly #running = new Map<number, Running>();
  readonly #turns = new SporkTurns();
  /** Monotonic milliseconds before which an open range is not run, by its first height; at most MAX_OPEN_RANGES. */
  readonly #notBeforeMs = new Map<number, number>();
  /** What is being cancelled is not taken. */
  #withdrawn: readonly HeightRange[] = [];
  /** Changes happen one after another. */
  #turn: Promise<unknown> = Promise.resolve();
  #wake: (() => void) | undefined;
  /** Something changed while nobody waited. */
  #isChanged = false;

  constructor(options: LocalWorkSourceOptions, dependencies: LocalWorkSourceDependencies) {
    this.#maxHeights = options.maxRangeHeights;
    this.#dependencies = dependencies;
  }

  async next(signal: AbortSignal): Promise<RangeJob | undefined> {
    while (!signal.aborted) {
      this.#isChanged = false;
      const job = await this.#inTurn(() => this.#takeNext());
      if (job !== undefined) return job;
      await this.#changed(signal);
    }
    return undefined;
  }

  plan({ from, to, order }: WantedPlan): Promise<BackfillPlan> {
    return this.#inTurn(async () => {
      const { store } = this.#dependencies;
      const before = store.ranges.plans();
      const id = Math.max(0, ...before.map((other) => other.id)) + 1;
      const first = store.latestBlock() === undefined ? undefined : store.meta()?.firstHeight;
      const plan = newPlan({ from, to, order }, id, {
        plans: before,
        coverage: store.coverage(),
        live: first === undefined ? undefined : { from: first, to: store.latestIndexedHeight() },
      });
      await store.ranges.change({ plans: [...before, plan] });
      this.#dependencies.logger.info({ plan: id, from, to, order }, 'backfill planned');
      this.#notify();
      return plan;
    });
  }

  pause(id?: number): Promise<void> {
    return this.#inTurn(async () => {
      await this.#changePlans(id, (plan) => ({ ...plan, isPaused: true }));
      await this.#stopThose(({ range }) => !this.#mayRun(range));
    });
  }

  resume(id?: number): Promise<void> {
    return this.#inTurn(() => this.#changePlans(id, (plan) => ({ ...plan, isPaused: false })));
  }

  cancel(id?: number): Promise<void> {
    return this.#inTurn(async () => {
      const { ranges } = this.#dependencies.store;
      const { chosen, kept } = choosePlans(ranges.plans(), id);
      if (chosen.length === 0) return;
      const goes = (range: HeightRange): boolean => !kept.some((plan) => overlap(plan, range));
      this.#withdrawn = ranges.open().filter(goes);
      try {
        await this.#stopThose(({ range }) => goes(range));
        await ranges.change({ plans: kept, dropped: ranges.open().filter(goes).map(bare) });
      } finally {
        this.#withdrawn = [];
      }
      this.#dependencies.logger.info({ plans: kept.length }, 'backfill cancelled');
      this.#notify();
    });
  }

  redrive(): Promise<number> {
    return this.#inTurn(async () => {
      const { ranges } = this.#dependencies.store;
      const disputed = ranges.open().filter(isDisputed);
      if (disputed.length === 0) return 0;
      await ranges.change({ failed: disputed.map(({ from, to }) => ({ from, to, failures: 0 })) });
      for (const { from } of disputed) this.#notBeforeMs.delete(from);
      this.#notify();
      return disputed.length;
    });
  }

  status(): BackfillState {
    const { store, chain } = this.#dependencies;
    const plans = store.ranges.plans();
    const open = store.ranges.open();
    const there = [...store.coverage(), ...open.map(({ from, next }) => ({ from, to: next - 1 }))];
    const missing = lacking(plans, there);
    return {
      plans: plans.map((plan) => ({ ...plan, missingHeights: countHeights(lacking([plan], there)) })),
      ranges: open.map((range) => ({ ...range, phase: this.#phaseOf(range) })),
      unserved: lacking(missing, chain.served()),
      missingHeights: countHeights(missing),
    };
  }

  /** Something outside has changed: the coverage, or what the nodes serve. */
  notify(): void {
    this.#notify();
  }

  #phaseOf(range: OpenRange): RangePhase {
    if (this.#running.has(range.from)) return 'running';
    if (isDisputed(range)) return 'disputed';
    return range.failures > 0 ? 'failed' : 'waiting';
  }

  async #takeNext(): Promise<RangeJob | undefined> {
    const { chain, store } = this.#dependencies;
    // A range lies below a live one that holds something.
    const range = store.latestBlock() === undefined ? undefined : this.#chooseNext();
    if (range === undefined) return undefined;
    this.#notBeforeMs.delete(range.from);
    this.#turns.took(range, chain.borders());
    return this.#job(range, await store.ranges.run(range));
  }

  #chooseNext(): HeightRange | undefined {
    const { chain, clock, store } = this.#dependencies;
    const nowMs = clock.monotonic();
    const open = store.ranges.open();
    const ready = open
      .filter((range) => this.#phaseOf(range) !== 'running' && !isDisputed(range) && this.#mayRun(range))
      .filter(({ from }) => (this.#notBeforeMs.get(from) ?? -Infinity) <= nowMs);
    const running = [...this.#running.values()].map(({ range }) => range);
    const known = { plans: store.ranges.plans(), coverage: store.coverage(), chain };
    return chooseRange({ ...known, open, ready, running, maxHeights: this.#maxHeights }, this.#turns);
  }

  /** True while a plan that is not paused wants it. */
  #mayRun(range: HeightRange): boolean {
    const { ranges } = this.#dependencies.store;
    return (
      !this.#withdrawn.some(({ from }) => from === range.from) &&
      ranges.plans().some((plan) => !plan.isPaused && overlap(plan, range))
    );
  }

  #job(range: HeightRange, store: RangeStore): RangeJob {
    const controller = new AbortController();
    const planned = this.#dependencies.store.ranges.plans();
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    this.#running.set(range.from, { range, controller, ended });
    const over = async (change?: () => Promise<void>): Promise<void> => {
      try {
        await change?.();
      } finally {
        this.#running.delete(range.from);
        end();
        this.#notify();
      }
    };
    return {
      range,
      store,
      signal: controller.signal,
      succeed: async () => {
        await over();
        this.#tellFilled(planned, range);
      },
      fail: (reason, { startOver = false } = {}) => over(() => this.#failed(range, reason, startOver)),
      release: () => over(),
    };
  }

  /** The commit that filled the last range of a plan has removed it. */
  #tellFilled(before: readonly BackfillPlan[], range: HeightRange): void {
    const { logger, store } = this.#dependencies;
    const left = new Set(store.ranges.plans().map(({ id }) => id));
    for (const plan of before) {
      if (left.has(plan.id) || !overlap(plan, range)) continue;
      logger.info({ plan: plan.id, from: plan.from, to: plan.to }, 'backfill plan is filled');
    }
  }

  async #failed(range: HeightRange, reason: string, startOver: boolean): Promise<void> {
    const { clock, logger, random, store } = this.#dependencies;
    const before = store.ranges.open().find(({ from }) => from === range.from);
    const failures = (before?.failures ?? 0) + 1;
    const failed = [{ ...range, failures, reason }];
    await store.ranges.change({ failed, ...(startOver ? { dropped: [range] } : {}) });
    this.#notBeforeMs.set(range.from, clock.monotonic() + backoffMs(RETRY_BACKOFF, failures - 1, random));
    const fields = { from: range.from, to: range.to, failures, reason };
    if (failures === FAILURES_BEFORE_DISPUTE)
      logger.warn(fields, 'a range is disputed: it waits for "backfill redrive"');
    else logger.debug(fields, 'a range failed and runs again');
  }

  async #changePlans(id: number | undefined, change: (plan: BackfillPlan) => BackfillPlan): Promise<void> {
    const { ranges } = this.#dependencies.store;
    const { chosen } = choosePlans(ranges.plans(), id);
    if (chosen.length === 0) return;
    await ranges.change({
      plans: ranges.plans().map((plan) => (chosen.includes(plan) ? change(plan) : plan)),
    });
    this.#notify();
  }

  async #stopThose(goes: (running: Running) => boolean): Promise<void> {
    const stopped = [...this.#running.values()].filter(goes);
    for (const { controller } of stopped) controller.abort(new AbortError('the range is given back'));
    await Promise.all(stopped.map(({ ended }) => ended));
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(action);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  #notify(): void {
    this.#isChanged = true;
    this.#wake?.();
  }

  /** Resolves when there may be something to take: a change, a pause that ends, or a node that serves more. */
  #changed(signal: AbortSignal): Promise<void> {
    if (this.#isChanged || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const over = (): void => {
        timer?.cancel();
        signal.removeEventListener('abort', over);
        this.#wake = undefined;
        resolve();
      };
      const waitMs = this.#lookAgainInMs();
      const timer: Timer | undefined =
        waitMs === undefined ? undefined : this.#dependencies.clock.setTimer(waitMs, over);
      signal.addEventListener('abort', over, { once: true });
      this.#wake = over;
    });
  }

  /** `undefined`: only a change can bring something. */
  #lookAgainInMs(): number | undefined {
    if (this.#dependencies.store.ranges.plans().every(({ isPaused }) => isPaused)) return undefined;
    const nowMs = this.#dependencies.clock.monotonic();
    const due = [...this.#notBeforeMs.values()].filter((atMs) => atMs > nowMs).map((atMs) => atMs - nowMs);
    return Math.min(LOOK_AGAIN_MS, ...due);
  }
}

function bare({ from, to }: HeightRange): HeightRange {
  return { from, to };
}
