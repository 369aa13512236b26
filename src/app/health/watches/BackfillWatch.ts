import type { BackfillRangeStatus, BackfillStatus, PlannedHeight } from '../../../api/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { EdgeLog, formatDuration, ProgressMeter, withoutIds } from '../../../observability/index.js';
import type { BackfillState, RangePhase, RangeState, RunningRange } from '../../../ranges/index.js';
import { sleep } from '../../../runtime/index.js';
import type { HistoryLine } from '../../line/history/rangeLine.js';
import type { IndexingParts } from '../../line/runIndexing.js';
import { lineHeldUp } from '../heldUp.js';
import type { HeldUp, Surroundings } from '../heldUp.js';

/** How often the ranges are looked at. */
const LOOK_EVERY_MS = 500;
/** Pause between log lines about the progress of history. */
const LOG_EVERY_MS = 10_000;
/** A range that has not grown for this long is held up. */
const HELD_UP_AFTER_MS = 5_000;

interface Watched {
  readonly running: RunningRange<HistoryLine>;
  readonly meter: ProgressMeter;
  watermark: number;
  sinceMs: number;
}

type BackfillWatchParts = Surroundings & Pick<IndexingParts, 'backfill' | 'logger' | 'pace'>;

/** Watches history: its progress, its rate, and what holds it up. */
export class BackfillWatch {
  readonly #config: Pick<DaemonConfig, 'ediOnly'>;
  readonly #parts: BackfillWatchParts;
  /** The ranges that run, by first height. */
  readonly #watched = new Map<number, Watched>();
  readonly #meter: ProgressMeter;
  readonly #edge: EdgeLog;
  /** Heights that became durable since the start. */
  #filled = 0;
  #isHeldUp = false;
  #loggedAtMs: number;

  constructor(config: Pick<DaemonConfig, 'ediOnly'>, parts: BackfillWatchParts) {
    const { backfill, clock } = parts;
    this.#config = config;
    this.#parts = parts;
    this.#meter = new ProgressMeter({
      clock,
      source: {
        latestIndexedHeight: () => this.#filled,
        headHeight: () => this.#filled + backfill.state().missingHeights,
      },
    });
    this.#edge = new EdgeLog(parts);
    this.#loggedAtMs = clock.monotonic();
  }

  /** Looks at the ranges. Expected errors: the signal's abort reason. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.#look();
      await sleep(this.#parts.clock, LOOK_EVERY_MS, signal);
    }
  }

  status(): BackfillStatus {
    const state = this.#parts.backfill.state();
    const { ratePerSecond, etaSeconds } = this.#meter.state();
    return {
      ...documentOf(state, (range) => this.#rangeStatus(range)),
      rate: ratePerSecond,
      eta: state.missingHeights === 0 ? 0 : (etaSeconds ?? null),
      heldBack: this.#parts.pace.heldBack() ?? null,
    };
  }

  /** The plan to fill a height in, if there is one. */
  plannedAt(height: number): PlannedHeight | undefined {
    return plannedAt(height, this.#parts.backfill.state(), (range) => this.#rangeStatus(range));
  }

  /** How many ranges are in each phase, and of those that run, how many are held up. */
  counts(): { readonly phases: ReadonlyMap<RangePhase, number>; readonly heldUp: number } {
    const phases = new Map<RangePhase, number>();
    for (const { phase } of this.#parts.backfill.state().ranges)
      phases.set(phase, (phases.get(phase) ?? 0) + 1);
    return { phases, heldUp: this.#heldUp().length };
  }

  #rangeStatus(range: RangeState): BackfillRangeStatus {
    const watched = this.#watched.get(range.from);
    const progress = watched?.meter.state();
    return {
      ...rangeDocument(range),
      rate: progress?.ratePerSecond ?? 0,
      eta: progress?.etaSeconds ?? null,
      waitingFor: watched === undefined ? null : this.#waitingFor(watched),
    };
  }

  #waitingFor(watched: Watched): BackfillRangeStatus['waitingFor'] {
    if (!this.#isStill(watched)) return null;
    const { height, message } = this.#causeOf(watched);
    const yields = this.#isYielding(watched) ? this.#parts.pace.heldBack()?.message : undefined;
    return {
      height,
      message: yields === undefined ? message : `${message}: ${yields}`,
      ageSeconds: (this.#parts.clock.monotonic() - watched.sinceMs) / 1_000,
    };
  }

  #causeOf({ running, watermark }: Watched): HeldUp {
    return lineHeldUp(watermark + 1, running.line.indexing, this.#parts, this.#config);
  }

  /** True when it yields to the live range, and no fault is known. */
  #isYielding(watched: Watched): boolean {
    return this.#parts.pace.heldBack() !== undefined && this.#causeOf(watched).code === undefined;
  }

  /** Ranges that do not grow for another reason than yielding. */
  #heldUp(): readonly Watched[] {
    return [...this.#watched.values()].filter((range) => this.#isStill(range) && !this.#isYielding(range));
  }

  #isStill({ sinceMs }: Watched): boolean {
    return this.#parts.clock.monotonic() - sinceMs >= HELD_UP_AFTER_MS;
  }

  #look(): void {
    this.#update();
    for (const { meter } of this.#watched.values()) meter.state();
    const progress = this.#meter.state();
    this.#tellTrouble();
    const nowMs = this.#parts.clock.monotonic();
    if (nowMs - this.#loggedAtMs < LOG_EVERY_MS) return;
    this.#loggedAtMs = nowMs;
    if (this.#watched.size === 0) return;
    const { ratePerSecond, etaSeconds } = progress;
    const fields = {
      missingHeights: this.#parts.backfill.state().missingHeights,
      ranges: this.#watched.size,
      rate: Math.round(ratePerSecond * 100) / 100,
      eta: etaSeconds === undefined ? 'unknown' : formatDuration(etaSeconds),
      heldBack: this.#parts.pace.heldBack()?.message,
    };
    this.#parts.logger.info(fields, 'filling in history');
  }

  /** Updates which ranges run, and how far each has come. */
  #update(): void {
    const { backfill, clock, store } = this.#parts;
    const running = backfill.running();
    for (const [from, { running: gone, watermark }] of this.#watched) {
      if (running.includes(gone)) continue;
      this.#watched.delete(from);
      const { to } = gone.job.range;
      if (store.coverage().some((range) => range.from <= to && to <= range.to))
        this.#filled += to - watermark;
    }
    for (const one of running) {
      const { range, store: run } = one.job;
      const watermark = run.latestIndexedHeight();
      const known = this.#watched.get(range.from);
      if (known === undefined) {
        const source = { latestIndexedHeight: () => run.latestIndexedHeight(), headHeight: () => range.to };
        const meter = new ProgressMeter({ clock, source });
        this.#watched.set(range.from, { running: one, meter, watermark, sinceMs: clock.monotonic() });
      } else if (watermark > known.watermark) {
        this.#filled += watermark - known.watermark;
        known.watermark = watermark;
        known.sinceMs = clock.monotonic();
      }
    }
  }

  /** One warning for all ranges: they often have the same cause. */
  #tellTrouble(): void {
    const heldUp = this.#heldUp();
    const [first] = heldUp;
    if ((first !== undefined) === this.#isHeldUp) return;
    this.#isHeldUp = first !== undefined;
    if (first === undefined) {
      this.#edge.back({}, 'history continues');
      return;
    }
    const { from, to } = first.running.job.range;
    const why = withoutIds(this.#waitingFor(first)?.message ?? '');
    this.#edge.lost({ from, to, why, ranges: heldUp.length }, 'history is held up');
  }
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
    plans: state.plans.map(({ id, from, to, order, isPaused, missingHeights, untakenVersion = null }) => ({
      id,
      from,
      to,
      order,
      missingHeights,
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
  ofRange: (range: RangeState) => BackfillRangeStatus,
): PlannedHeight | undefined {
  const plans = state.plans.filter(({ from, to }) => from <= height && height <= to);
  const plan = plans.find(({ isPaused }) => !isPaused) ?? plans[0];
  if (plan === undefined) return undefined;
  const range = state.ranges.find(({ from, to }) => from <= height && height <= to);
  return { plan: plan.id, isPaused: plan.isPaused, range: range === undefined ? null : ofRange(range) };
}

/** A range that no process fills now. */
export function rangeAtRest(range: RangeState): BackfillRangeStatus {
  return { ...rangeDocument(range), rate: 0, eta: null, waitingFor: null };
}

function rangeDocument({ from, to, next, phase, failures, reason }: RangeState) {
  return { from, to, state: phase, next, failures, reason: reason ?? null };
}
