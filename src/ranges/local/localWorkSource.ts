import type { Logger } from '../../observability/index.js';
import { backoffMs, Pause, places, type Clock, type Random } from '../../runtime/index.js';
import { overlap, MAX_OPEN_RANGES, without } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, IndexStore, OpenRange } from '../../storage/index.js';
import { backfillState, choosePlans, isDisputed, newPlan, redriven, RETRY_BACKOFF } from '../plans.js';
import { withPaused } from '../plans.js';
import type { BackfillState, RangeJob, ServedHeights, WantedPlan, WorkSource } from '../ports.js';
import { sporkTurns } from '../sporkTurns.js';
import { runningRanges } from '../runningRanges.js';
import { cutNext } from '../planner.js';

/** How often to check whether nodes serve planned heights, while there is nothing to do. */
const LOOK_AGAIN_MS = 5_000;

/**
 * The work source of one machine. The store keeps plans and open ranges, and its commits publish them. Which ranges run, and
 * when a failed one may run again, is only in memory: after a restart, all open ranges are waiting. `maxRangeHeights`: heights
 * of one range at most; default: the maximum of the store.
 */
export function localWorkSource(
  { maxRangeHeights: maxHeights }: { readonly maxRangeHeights?: number | undefined },
  dependencies: {
    readonly store: Pick<IndexStore, 'coverage' | 'latestBlock' | 'ranges'>;
    readonly chain: ServedHeights;
    readonly clock: Clock;
    readonly random: Random;
    readonly logger: Logger;
  },
) {
  const { chain, clock, logger, random, store } = dependencies;
  const { ranges } = store;
  /** Monotonic milliseconds before which an open range is not run, by its first height; at most MAX_OPEN_RANGES. */
  const notBeforeMs = new Map<number, number>();
  const turns = sporkTurns(chain);
  const pausing = new Pause(dependencies);
  /** Changes run one after another. */
  const inTurn = places(1);
  /** Something changed while no caller waited. */
  let isChanged = false;

  /** Call it when the coverage, or what the nodes serve, has changed. */
  const notify = (): void => {
    isChanged = true;
    pausing.wake();
  };
  const running = runningRanges(ranges, logger, notify);
  const active = (): readonly BackfillPlan[] => ranges.plans().filter(({ isPaused }) => !isPaused);

  /** The next range of the active plans. Within a plan and a spork, open ranges come before new ones. */
  const choose = (): HeightRange | undefined => {
    const open = ranges.open();
    const nowMs = clock.monotonic();
    const firsts = new Set(open.map(({ from }) => from));
    // Forget the pauses of ranges that were closed.
    for (const from of notBeforeMs.keys()) if (!firsts.has(from)) notBeforeMs.delete(from);
    const mayRun = (range: OpenRange): boolean => !running.has(range) && !isDisputed(range);
    const isDue = ({ from }: OpenRange): boolean => (notBeforeMs.get(from) ?? -Infinity) <= nowMs;
    const ready = open.filter((range) => mayRun(range) && isDue(range) && turns.isServed(range));
    const taken = [...store.coverage(), ...open];
    for (const { plan, heights } of turns.places(active(), running.all())) {
      const begun = ready.filter((range) => heights.some((some) => overlap(some, range)));
      const next = begun.at(plan.order === 'oldest' ? 0 : -1);
      if (next !== undefined) return { from: next.from, to: next.to };
      if (open.length >= MAX_OPEN_RANGES) continue;
      const cut = cutNext(without(heights, taken), { order: plan.order, maxHeights });
      if (cut !== undefined) return cut;
    }
    return undefined;
  };
  const failed = async (range: HeightRange, reason: string): Promise<number> => {
    const before = ranges.open().find(({ from }) => from === range.from);
    const failures = (before?.failures ?? 0) + 1;
    await ranges.change({ failed: [{ ...range, failures, reason }], dropped: [range] });
    notBeforeMs.set(range.from, clock.monotonic() + backoffMs(RETRY_BACKOFF, failures - 1, random));
    return failures;
  };
  const takeNext = async (): Promise<RangeJob | undefined> => {
    // Ranges lie below a live range that has a block.
    const range = store.latestBlock() && choose();
    if (range === undefined) return undefined;
    notBeforeMs.delete(range.from);
    turns.took(range);
    const run = { range, store: await ranges.run(range), controller: new AbortController() };
    return running.begin(run, { failed: (reason) => failed(range, reason) });
  };
  /** How long `next` may sleep unless something changes: until a retry pause ends, or nodes may serve more. */
  const lookAgainInMs = (): number => {
    if (isChanged) return 0;
    const pauses = [...notBeforeMs.values()].map((atMs) => atMs - clock.monotonic());
    return active().length === 0 ? Infinity : Math.min(LOOK_AGAIN_MS, ...pauses.filter((ms) => ms > 0));
  };
  const setPaused = async (id: number | undefined, isPaused: boolean): Promise<void> => {
    if (withPaused(ranges.plans(), id, isPaused).length > 0)
      await ranges.change({ plans: (now) => withPaused(now, id, isPaused) });
    notify();
  };

  return {
    notify,
    next: async (signal: AbortSignal): Promise<RangeJob | undefined> => {
      while (!signal.aborted) {
        isChanged = false;
        const job = await inTurn(takeNext);
        if (job !== undefined) return job;
        await pausing.sleep(lookAgainInMs(), signal).catch(() => undefined);
      }
      return undefined;
    },
    plan: (wanted: WantedPlan): Promise<BackfillPlan> =>
      inTurn(async () => {
        let plan = newPlan(wanted, 0, { plans: ranges.plans(), coverage: store.coverage() });
        await ranges.change({
          plans: (now) => [...now, (plan = { ...plan, id: (now.at(-1)?.id ?? 0) + 1 })],
        });
        const { id, from, to, order } = plan;
        logger.info({ plan: id, from, to, order }, 'backfill planned');
        notify();
        return plan;
      }),
    pause: (id?: number): Promise<void> =>
      inTurn(async () => {
        await setPaused(id, true);
        const wanted = active();
        await running.giveBack(({ range }) => !wanted.some((plan) => overlap(plan, range)));
      }),
    resume: (id?: number): Promise<void> => inTurn(() => setPaused(id, false)),
    cancel: (id?: number): Promise<void> =>
      inTurn(async () => {
        const { chosen, kept } = choosePlans(ranges.plans(), id);
        if (chosen.length === 0) return;
        const isDropped = (range: HeightRange): boolean => !kept.some((plan) => overlap(plan, range));
        await running.giveBack(({ range }) => isDropped(range));
        const gone = new Set(chosen.map((plan) => plan.id));
        // Meanwhile a damaged height may have been planned, under an id that has become free.
        const isLeft = (plan: BackfillPlan): boolean => plan.heals === true || !gone.has(plan.id);
        await ranges.change({ plans: (now) => now.filter(isLeft), dropped: ranges.open().filter(isDropped) });
        logger.info({ plans: kept.length }, 'backfill cancelled');
        notify();
      }),
    redrive: (): Promise<number> =>
      inTurn(async () => {
        const again = redriven(ranges.open());
        if (again.length > 0) await ranges.change({ failed: again });
        for (const { from } of again) notBeforeMs.delete(from);
        notify();
        return again.length;
      }),
    status: (): BackfillState => {
      const known = { plans: ranges.plans(), open: ranges.open(), coverage: store.coverage() };
      return backfillState(known, chain, (range) => running.has(range));
    },
  } satisfies WorkSource & { readonly notify: () => void };
}
