import type { Logger } from '../../observability/index.js';
import { backoffMs, Pause, places, type Clock, type Random } from '../../runtime/index.js';
import { overlap, MAX_OPEN_RANGES } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, IndexStore, OpenRange } from '../../storage/index.js';
import {
  backfillState,
  choosePlans,
  isDisputed,
  newPlan,
  redriven,
  RETRY_BACKOFF,
  withPaused,
} from '../plans.js';
import type { BackfillState, RangeJob, ServedHeights, WantedPlan, WorkSource } from '../ports.js';
import { SporkTurns } from '../SporkTurns.js';
import { RunningRanges, type RangeRun } from '../RunningRanges.js';
import { cutNext, lacking } from '../planner.js';

/** How often to check whether nodes serve planned heights, while there is nothing to do. */
const LOOK_AGAIN_MS = 5_000;

/**
 * The work source of one machine. The store keeps plans and open ranges, and its commits publish them. Which ranges run, and
 * when a failed one may run again, is only in memory: after a restart, all open ranges are waiting.
 */
export class LocalWorkSource implements WorkSource {
  readonly #maxHeights: number | undefined;
  readonly #dependencies: ConstructorParameters<typeof LocalWorkSource>[1];
  readonly #running: RunningRanges<RangeRun>;
  /** Monotonic milliseconds before which an open range is not run, by its first height; at most MAX_OPEN_RANGES. */
  readonly #notBeforeMs = new Map<number, number>();
  readonly #turns: SporkTurns;
  /** Changes run one after another. */
  readonly #inTurn = places(1);
  readonly #pause: Pause;
  /** Something changed while no caller waited. */
  #isChanged = false;

  /** `maxRangeHeights`: heights of one range at most; default: the maximum of the store. */
  constructor(
    { maxRangeHeights }: { readonly maxRangeHeights?: number | undefined },
    dependencies: {
      readonly store: Pick<IndexStore, 'coverage' | 'latestBlock' | 'ranges'>;
      readonly chain: ServedHeights;
      readonly clock: Clock;
      readonly random: Random;
      readonly logger: Logger;
    },
  ) {
    this.#maxHeights = maxRangeHeights;
    this.#dependencies = dependencies;
    this.#pause = new Pause(dependencies);
    this.#turns = new SporkTurns(dependencies.chain);
    const { logger, store } = dependencies;
    this.#running = new RunningRanges(store.ranges, logger, () => this.notify());
  }

  async next(signal: AbortSignal): Promise<RangeJob | undefined> {
    while (!signal.aborted) {
      this.#isChanged = false;
      const job = await this.#inTurn(() => this.#takeNext());
      if (job !== undefined) return job;
      await this.#pause.sleep(this.#lookAgainInMs(), signal).catch(() => undefined);
    }
    return undefined;
  }

  plan(wanted: WantedPlan): Promise<BackfillPlan> {
    return this.#inTurn(async () => {
      const { logger, store } = this.#dependencies;
      let plan = newPlan(wanted, 0, { plans: store.ranges.plans(), coverage: store.coverage() });
      await store.ranges.change({
        plans: (now) => [...now, (plan = { ...plan, id: (now.at(-1)?.id ?? 0) + 1 })],
      });
      const { id, from, to, order } = plan;
      logger.info({ plan: id, from, to, order }, 'backfill planned');
      this.notify();
      return plan;
    });
  }

  pause(id?: number): Promise<void> {
    return this.#inTurn(async () => {
      await this.#setPaused(id, true);
      const active = this.#active();
      await this.#running.giveBack(({ range }) => !active.some((plan) => overlap(plan, range)));
    });
  }

  resume(id?: number): Promise<void> {
    return this.#inTurn(() => this.#setPaused(id, false));
  }

  cancel(id?: number): Promise<void> {
    return this.#inTurn(async () => {
      const { ranges } = this.#dependencies.store;
      const { chosen, kept } = choosePlans(ranges.plans(), id);
      if (chosen.length === 0) return;
      const isDropped = (range: HeightRange): boolean => !kept.some((plan) => overlap(plan, range));
      await this.#running.giveBack(({ range }) => isDropped(range));
      const gone = new Set(chosen.map((plan) => plan.id));
      // A damaged height may have been planned meanwhile, with an id that is free again.
      const isLeft = (plan: BackfillPlan): boolean => plan.heals === true || !gone.has(plan.id);
      await ranges.change({ plans: (now) => now.filter(isLeft), dropped: ranges.open().filter(isDropped) });
      this.#dependencies.logger.info({ plans: kept.length }, 'backfill cancelled');
      this.notify();
    });
  }

  redrive(): Promise<number> {
    return this.#inTurn(async () => {
      const { ranges } = this.#dependencies.store;
      const failed = redriven(ranges.open());
      if (failed.length > 0) await ranges.change({ failed });
      for (const { from } of failed) this.#notBeforeMs.delete(from);
      this.notify();
      return failed.length;
    });
  }

  status(): BackfillState {
    const { store, chain } = this.#dependencies;
    const { ranges } = store;
    const known = { plans: ranges.plans(), open: ranges.open(), coverage: store.coverage() };
    return backfillState(known, chain, (range) => this.#running.has(range));
  }

  /** Call it when the coverage, or what the nodes serve, has changed. */
  notify(): void {
    this.#isChanged = true;
    this.#pause.wake();
  }

  async #takeNext(): Promise<RangeJob | undefined> {
    const { store } = this.#dependencies;
    // Ranges lie below a live range that has a block.
    if (store.latestBlock() === undefined) return undefined;
    const range = this.#choose();
    if (range === undefined) return undefined;
    this.#notBeforeMs.delete(range.from);
    this.#turns.took(range);
    const run = { range, store: await store.ranges.run(range), controller: new AbortController() };
    return this.#running.begin(run, { failed: (reason) => this.#failed(range, reason) });
  }

  async #failed(range: HeightRange, reason: string): Promise<number> {
    const { clock, random, store } = this.#dependencies;
    const before = store.ranges.open().find(({ from }) => from === range.from);
    const failures = (before?.failures ?? 0) + 1;
    await store.ranges.change({ failed: [{ ...range, failures, reason }], dropped: [range] });
    this.#notBeforeMs.set(range.from, clock.monotonic() + backoffMs(RETRY_BACKOFF, failures - 1, random));
    return failures;
  }

  /** The open ranges that neither run nor pause after a failure. The pauses of those that were closed are forgotten. */
  #ready(open: readonly OpenRange[]): readonly OpenRange[] {
    const firsts = new Set(open.map(({ from }) => from));
    for (const from of this.#notBeforeMs.keys()) if (!firsts.has(from)) this.#notBeforeMs.delete(from);
    const nowMs = this.#dependencies.clock.monotonic();
    return open.filter(
      (range) => !this.#running.has(range) && (this.#notBeforeMs.get(range.from) ?? -Infinity) <= nowMs,
    );
  }

  /** The next range of the active plans: of what a plan has in a spork, an open range before a new one. */
  #choose(): HeightRange | undefined {
    const { store } = this.#dependencies;
    const open = store.ranges.open();
    const ready = this.#ready(open).filter((range) => !isDisputed(range) && this.#turns.isServed(range));
    const there = [...store.coverage(), ...open];
    for (const { plan, heights } of this.#turns.places(this.#active(), this.#running.all())) {
      const begun = ready.filter((range) => heights.some((some) => overlap(some, range)));
      const next = begun.at(plan.order === 'oldest' ? 0 : -1);
      if (next !== undefined) return { from: next.from, to: next.to };
      if (open.length >= MAX_OPEN_RANGES) continue;
      const cut = cutNext(lacking(heights, there), { order: plan.order, maxHeights: this.#maxHeights });
      if (cut !== undefined) return cut;
    }
    return undefined;
  }

  #active(): readonly BackfillPlan[] {
    return this.#dependencies.store.ranges.plans().filter(({ isPaused }) => !isPaused);
  }

  async #setPaused(id: number | undefined, isPaused: boolean): Promise<void> {
    const { ranges } = this.#dependencies.store;
    if (withPaused(ranges.plans(), id, isPaused).length > 0)
      await ranges.change({ plans: (now) => withPaused(now, id, isPaused) });
    this.notify();
  }

  /** Until then, only after a change there may be a range to take: a retry pause ends, or nodes may serve more. */
  #lookAgainInMs(): number {
    if (this.#isChanged) return 0;
    if (this.#active().length === 0) return Infinity;
    const nowMs = this.#dependencies.clock.monotonic();
    const due = [...this.#notBeforeMs.values()].filter((atMs) => atMs > nowMs).map((atMs) => atMs - nowMs);
    return Math.min(LOOK_AGAIN_MS, ...due);
  }
}
