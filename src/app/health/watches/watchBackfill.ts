import type { BackfillRangeStatus, BackfillStatus, PlannedHeight } from '../../../api/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { edgeLog, formatDuration, measureProgress, withoutIds } from '../../../observability/index.js';
import { common, type BackfillState, type RangePhase, type RangeState } from '../../../ranges/index.js';
import type { RunningRange, SharedQueue } from '../../../ranges/index.js';
import { sleep } from '../../../runtime/index.js';
import type { HistoryLine } from '../../line/history/rangeLine.js';
import type { IndexingParts } from '../../line/runIndexing.js';
import { HELD_UP_AFTER_MS, heldUpByNobody, lineHeldUp, SILENT_FOR_MS } from '../heldUp.js';
import type { Surroundings } from '../heldUp.js';

const LOOK_EVERY_MS = 500;
const LOG_EVERY_MS = 10_000;

type Running = RunningRange<HistoryLine>;

/** Watches history: its progress, its rate, and what holds it up. */
export function watchBackfill(
  config: Pick<DaemonConfig, 'ediOnly' | 'roles'>,
  parts: Surroundings &
    Pick<IndexingParts, 'backfill' | 'logger' | 'pace'> & { readonly queue: SharedQueue | undefined },
) {
  const { backfill, clock, logger, pace, queue, store } = parts;
  /** A range is the queue's as well as the store's. */
  const both = {
    latestIndexedHeight: () => store.latestIndexedHeight(),
    meta: () => store.meta(),
    trouble: () => store.trouble?.() ?? queue?.trouble(),
  };
  const around = queue === undefined ? parts : { ...parts, store: both };
  const total = measureProgress({
    clock,
    source: {
      latestIndexedHeight: backfill.filled,
      headHeight: () => backfill.filled() + backfill.state().missingHeights,
    },
  });
  const edge = edgeLog(parts);
  let loggedAtMs = clock.monotonic();
  /** When history was last filled in, or there was none to fill in. */
  let ranAtMs = clock.monotonic();

  /** What a range that does not grow waits for, or how it yields to the live range if no fault is known; `undefined`: it grows. */
  const heldUp = ({ job, line }: Running) => {
    const ageMs = line.stillMs();
    const next = job.store.latestIndexedHeight() + 1;
    const { code, forMs = ageMs, height, message } = lineHeldUp(next, line.indexing, around, config);
    if (Math.min(ageMs, code === undefined ? forMs : ageMs) < HELD_UP_AFTER_MS) return undefined;
    const yields = code === undefined ? pace.heldBack()?.message : undefined;
    const words = yields === undefined ? message : `${message}: ${yields}`;
    return {
      code,
      range: job.range,
      isYielding: yields !== undefined,
      waitingFor: { height, message: words, ageSeconds: ageMs / 1_000 },
    };
  };
  /** Ranges that do not grow for another reason than yielding. */
  const allHeldUp = () =>
    backfill
      .running()
      .flatMap((range) => heldUp(range) ?? [])
      .filter(({ isYielding }) => !isYielding);

  const rangeStatus = (range: RangeState): BackfillRangeStatus => {
    const known = backfill.running().find(({ job }) => job.range.from === range.from);
    if (known === undefined) return rangeAtRest(range);
    const { rate, eta } = known.line.meter();
    return { ...rangeAtRest(range), rate, eta, waitingFor: heldUp(known)?.waitingFor ?? null };
  };

  const whyUnserved = (height: number): string =>
    heldUpByNobody(height, `waiting for height ${height}`, parts).message;

  /** What is planned and not paused, while nothing is filled in here or elsewhere because no node serves it. */
  const unserved = () => {
    const { plans, ranges, unserved } = backfill.state();
    if (!config.roles.includes('backfill') || ranges.some(({ phase }) => phase === 'running')) return [];
    const wanted = plans.filter(({ isPaused }) => !isPaused);
    return common(wanted, unserved).map((range) => {
      const ageSeconds = (clock.monotonic() - ranAtMs) / 1_000;
      return { code: 'unserved', range, waitingFor: { message: whyUnserved(range.from), ageSeconds } };
    });
  };
  /** One warning for all ranges: they often have the same cause, and one that is known comes first. */
  const logTrouble = (): void => {
    const waiting = unserved();
    if (waiting.length === 0) ranAtMs = clock.monotonic();
    const all = [...allHeldUp(), ...waiting];
    if (all.length === 0) edge.back({}, 'history continues');
    const reported = all.find(({ code, waitingFor: { ageSeconds } }) => {
      return ageSeconds * 1_000 >= (code === undefined || code === 'unserved' ? SILENT_FOR_MS : 0);
    });
    if (reported === undefined) return;
    const { from, to } = reported.range;
    const fields = { from, to, why: withoutIds(reported.waitingFor.message), ranges: all.length };
    edge.lost(fields, 'history is held up', reported.code);
  };
  const logProgress = ({ rate, eta }: ReturnType<typeof total>): void => {
    const nowMs = clock.monotonic();
    if (nowMs - loggedAtMs < LOG_EVERY_MS) return;
    loggedAtMs = nowMs;
    const ranges = backfill.running().length;
    if (ranges === 0) return;
    const fields = {
      missingHeights: backfill.state().missingHeights,
      ranges,
      rate: Math.round(rate * 100) / 100,
      eta: eta === null ? 'unknown' : formatDuration(eta),
      heldBack: pace.heldBack()?.message,
    };
    logger.info(fields, 'filling in history');
  };
  return {
    /** Watches the ranges. Expected errors: the signal's abort reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      for (;;) {
        for (const { line } of backfill.running()) line.meter();
        const progress = total();
        logTrouble();
        logProgress(progress);
        await sleep(clock, LOOK_EVERY_MS, signal);
      }
    },
    status: (): BackfillStatus => {
      const { rate, eta } = total();
      const document = documentOf(backfill.state(), rangeStatus);
      // Nothing is left: that has no rate.
      return { ...document, rate, eta: document.eta ?? eta, heldBack: pace.heldBack() ?? null };
    },
    /** The plan to fill a height in, if there is one. */
    plannedAt: (height: number): PlannedHeight | undefined => {
      const planned = plannedAt(height, backfill.state(), rangeStatus);
      const isUnserved = common([{ from: height, to: height }], backfill.state().unserved).length > 0;
      return planned && { ...planned, unserved: isUnserved ? whyUnserved(height) : undefined };
    },
    /** How many ranges are in each phase, and of those that run, how many are held up. */
    counts: () => {
      const phases = new Map<RangePhase, number>();
      for (const { phase } of backfill.state().ranges) phases.set(phase, (phases.get(phase) ?? 0) + 1);
      return { phases, heldUp: allHeldUp().length };
    },
  };
}

/** The plans of a work source as a document; without rates where nothing runs. */
export function documentOf(
  state: BackfillState,
  ofRange: (range: RangeState) => BackfillRangeStatus = rangeAtRest,
): BackfillStatus {
  return {
    missingHeights: state.missingHeights,
    rate: 0,
    eta: state.missingHeights === 0 ? 0 : null,
    heldBack: null,
    plans: state.plans.map(({ heals: _heals, isPaused, untakenVersion = null, ...plan }) => ({
      ...plan,
      untakenVersion,
      state: isPaused ? 'paused' : 'active',
    })),
    ranges: state.ranges.map(ofRange),
    unserved: state.unserved,
  };
}

/** The plan to fill a height in, if there is one. */
export function plannedAt(
  height: number,
  state: BackfillState,
  ofRange: (range: RangeState) => BackfillRangeStatus = rangeAtRest,
): PlannedHeight | undefined {
  const includes = ({ from, to }: { readonly from: number; readonly to: number }): boolean =>
    from <= height && height <= to;
  const plans = state.plans.filter(includes);
  const plan = plans.find(({ isPaused }) => !isPaused) ?? plans[0];
  const range = state.ranges.find(includes);
  return (
    plan && { plan: plan.id, isPaused: plan.isPaused, range: range === undefined ? null : ofRange(range) }
  );
}

/** A range that no process fills now. */
function rangeAtRest({ from, to, next, phase, failures, reason }: RangeState): BackfillRangeStatus {
  const none = { rate: 0, eta: null, waitingFor: null };
  return { from, to, state: phase, next, failures, reason: reason ?? null, ...none };
}
