import type { AccessNetwork } from '../../../access/index.js';
import type { DaemonConfig, HeightsToFill } from '../../../config/index.js';
import { WorkSignal } from '../../../jobqueue/index.js';
import { common, countHeights, LocalWorkSource, RangeRunner } from '../../../ranges/index.js';
import type {
  BackfillState,
  BossWorkSource,
  FillOrder,
  RunningRange,
  SharedQueue,
} from '../../../ranges/index.js';
import { every, Listeners, messageOf, OperatorError, wasAborted } from '../../../runtime/index.js';
import { rangesInWords, sharedRangesOf } from '../../../storage/index.js';
import type { BackfillPlan, FoundDamage, HeightRange } from '../../../storage/index.js';
import { MAX_HEIGHT, readHeightsToFill } from '../../../config/index.js';
import { heightsOf } from './plans.js';
import { startRangeLine } from './rangeLine.js';
import type { HistoryLine, HistoryParts } from './rangeLine.js';

/**
 * How often the nodes are asked again while no node serves some planned heights. It may never find one, so it should be cheap:
 * each time costs every node one handshake.
 */
const UNSERVED_ASKED_EVERY_MS = 30_000;

/** `queue`: shared with other processes. Default: no other process has the store. */
type BackfillParts = HistoryParts & { readonly queue?: SharedQueue | undefined };

/** Fills in history below the live range, while that follows the head. */
export class Backfill {
  readonly #config: DaemonConfig;
  readonly #parts: BackfillParts;
  readonly #source: LocalWorkSource | BossWorkSource;
  readonly #runner: RangeRunner<HistoryLine>;
  readonly #begun = new WorkSignal();
  readonly #published = new Listeners();
  #onDamage: (damage: FoundDamage) => void = () => undefined;
  /** The damaged heights of running ranges, by first height. */
  readonly #healing = new Map<number, readonly HeightRange[]>();
  /** The plan of the configuration has been made, or was refused. */
  #isPlanned = false;

  /** Heights of one range at most: as many as the store takes, unless given. */
  constructor(
    options: { readonly config: DaemonConfig; readonly maxRangeHeights?: number | undefined },
    parts: BackfillParts,
  ) {
    const { config, maxRangeHeights } = options;
    const { clock, logger, network, queue, random, store } = parts;
    this.#config = config;
    this.#parts = parts;
    const chain = { borders: () => network.heights.sporkRoots(), served: () => servedBy(network) };
    const book = sharedRangesOf(store);
    this.#source =
      queue !== undefined && book !== undefined
        ? queue.source({ maxRangeHeights }, { book, chain })
        : new LocalWorkSource({ maxRangeHeights }, { store, chain, clock, random, logger });
    this.#runner = new RangeRunner(config.backfill, {
      source: this.#source,
      onPublished: (range) => {
        this.#healed(range);
        this.#published.tell();
      },
      onDamage: (damage) => this.#onDamage(damage),
      startLine: (job) => {
        const healing = common([job.range], store.healing());
        if (healing.length > 0) this.#healing.set(job.range.from, healing);
        return startRangeLine(config, parts, job, { isUrgent: healing.length > 0 });
      },
      logger,
    });
  }

  get source(): Pick<LocalWorkSource, 'pause' | 'resume' | 'cancel' | 'redrive'> {
    return this.#source;
  }

  state(): BackfillState {
    return this.#source.status();
  }

  running(): readonly RunningRange<HistoryLine>[] {
    return this.#runner.running();
  }

  /** True while something is planned and not paused. */
  hasWork(): boolean {
    const { store } = this.#parts;
    const isWanted = this.#config.backfill.plan !== undefined && !this.#isPlanned;
    return isWanted || store.ranges.plans().some(({ isPaused }) => !isPaused);
  }

  /** Expected errors: OperatorError `usage`. */
  async plan(wanted: HeightsToFill, order: FillOrder): Promise<BackfillPlan> {
    return this.#source.plan({ ...heightsOf(wanted, this.#parts.store, this.#parts), order });
  }

  /** Call it when the live range has grown. */
  notify(): void {
    this.#begun.notify();
    // Only its first block matters: plans lie below it.
    if (this.#parts.store.ranges.plans().length > 0 && 'notify' in this.#source) this.#source.notify();
  }

  /** Takes no more ranges; `run` resolves when the running ones are done. False: none runs. */
  finish(): boolean {
    if (!('drain' in this.#source)) return false;
    this.#source.drain();
    return this.running().length > 0;
  }

  /** Calls back when more history can be read. The callback must not throw. */
  onPublished(callback: () => void): void {
    this.#published.add(callback);
  }

  /** Calls back when a range meets damage beside it. The callback must not throw. */
  onDamage(callback: (damage: FoundDamage) => void): void {
    this.#onDamage = callback;
  }

  /** Fills in the plans until `signal` aborts; then closes everything and resolves. Rejects as the line. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      while (this.#parts.store.latestBlock() === undefined) await this.#begun.wait(signal);
      await this.#planAsConfigured();
      const asking = every(this.#parts.clock, UNSERVED_ASKED_EVERY_MS, () => this.#askForUnserved());
      try {
        await this.#runner.run(signal);
      } finally {
        asking.cancel();
      }
    } catch (error) {
      if (!wasAborted(error, signal)) throw error;
    }
  }

  /** Plans what the configuration asks for, once: after a restart it is planned, or filled in, already. */
  async #planAsConfigured(): Promise<void> {
    const wanted = this.#config.backfill.plan;
    if (wanted !== undefined) {
      const heights = readHeightsToFill(wanted);
      try {
        if (heights !== undefined) await this.plan(heights, 'newest');
      } catch (error) {
        if (!(error instanceof OperatorError)) throw error;
        this.#parts.logger.info({ why: messageOf(error) }, 'nothing is planned by backfill.plan');
      }
    }
    this.#isPlanned = true;
    this.#published.tell();
  }

  #healed({ from }: HeightRange): void {
    const heights = this.#healing.get(from);
    if (heights === undefined) return;
    this.#healing.delete(from);
    this.#parts.metrics.healedHeights.inc(countHeights(heights));
    this.#parts.logger.info({ heights: rangesInWords(heights) }, 'damaged heights are whole again');
  }

  #askForUnserved(): void {
    if (this.hasWork() && this.state().unserved.length > 0) this.#parts.network.heights.askAgain();
  }
}

function servedBy(network: AccessNetwork): readonly HeightRange[] {
  return network.heights.servedRanges().map(({ lowest = 0, endExclusive }) => ({
    from: lowest,
    to: endExclusive === undefined ? MAX_HEIGHT : endExclusive - 1,
  }));
}
