import { formatCount } from '../../observability/index.js';
import { backoffMs, OperatorError, runTogether, sleep, wasAborted } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { HeightRange, IndexStore } from '../../storage/index.js';
import { common } from '../planner.js';
import { lastCommon } from './lastCommon.js';
import { migrateStore } from './migrateStore.js';
import type { MigrationProgress } from './migrateStore.js';
import type { MigrationSource } from './MigrationSource.js';
import { SourceTroubleError } from './SourceTroubleError.js';

/** Pause before looking again at a source that has nothing new, or ends lower than before. */
const LOOK_EVERY_MS = 500;
/** After a failure. */
const BACKOFF = { minMs: 500, maxMs: 10_000 };
/** How often to check whether the target answers. */
const TARGET_LOOK_MS = 1_000;
/**
 * A source that ends below the target counts as rewound only after this time: it may have restarted and lag. A source with
 * another block counts at once.
 */
const LOWER_END_MS = 5_000;

/** An index that grows. */
export interface FollowedSource {
  /** The current index. This and its `blocks` reject with SourceTroubleError, or OperatorError `damage`, `foreign`. */
  look(): Promise<MigrationSource>;
}

export interface FollowDependencies {
  readonly source: FollowedSource;
  readonly target: IndexStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: MigrationProgress) => void;
  /** The target has everything that the source has, up to this height. */
  readonly onInStep: (height: number) => void;
  /** Why nothing can be written now, and what to do; `undefined`: writing continues. */
  readonly onHeldUp: (reason: string | undefined) => void;
  /** The heights above this one are about to be retracted. */
  readonly onRewind: (height: number, from: number) => void;
}

/**
 * Keeps a store in step with an index that grows: copies missing heights as `migrateStore` does, and retracts heights that the
 * source no longer has. The target's coverage is the cursor and part of every write, so each height is written once, even when
 * this is killed at any moment. Resolves when the signal aborts. Nothing else may write to the target.
 *
 * Expected errors: `StorageError`; OperatorError: `foreign` when the two never had the same block, `usage` as `migrateStore`.
 */
export async function followStore(parts: FollowDependencies): Promise<void> {
  const following = new Following(parts);
  await runTogether(parts.signal, [
    (signal) => following.run(signal),
    (signal) => following.watchTarget(signal),
  ]);
}

class Following {
  readonly #parts: FollowDependencies;
  #isCompared = false;
  /** The last pass found a contradiction, which a rewind at that moment would explain. */
  #hasContradicted = false;
  #lowerSinceMs: number | undefined;
  #sourceTrouble: string | undefined;
  #targetTrouble: string | undefined;

  constructor(parts: FollowDependencies) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#parts;
    for (let failures = 0; ;) {
      const trouble = await this.#pass(signal).catch((error: unknown) => {
        if (wasAborted(error, signal)) throw error;
        return this.#tolerated(error);
      });
      failures = trouble?.isFailure === true ? failures + 1 : 0;
      this.#sourceTrouble = trouble?.reason;
      this.#tell();
      const delayMs = failures === 0 ? LOOK_EVERY_MS : backoffMs(BACKOFF, failures - 1, random);
      await sleep(clock, delayMs, signal);
    }
  }

  /** Reports a target database that is away: writes to it wait silently. */
  async watchTarget(signal: AbortSignal): Promise<void> {
    const { clock, target } = this.#parts;
    for (;;) {
      await sleep(clock, TARGET_LOOK_MS, signal);
      this.#targetTrouble = target.trouble?.();
      this.#tell();
    }
  }

  #tell(): void {
    this.#parts.onHeldUp(this.#targetTrouble ?? this.#sourceTrouble);
  }

  /** One pass. Returns what holds it up; `undefined`: everything is copied. */
  async #pass(signal: AbortSignal): Promise<HeldUp | undefined> {
    const { onInStep, source, target } = this.#parts;
    const now = await source.look();
    const covered = now.coverage();
    const latest = covered.at(-1)?.to;
    if (latest === undefined) return waiting('The daemon has indexed nothing yet');
    const retracted = await this.#retract(now, latest);
    if (retracted !== undefined) return retracted;
    const next = target.meta() === undefined ? latest : target.latestIndexedHeight() + 1;
    const reachable = covered.filter(({ from }) => from <= next);
    if (reachable.length > 0) {
      const parts = { ...this.#parts, signal, source: { ...now, coverage: () => reachable } };
      await migrateStore({ ...parts, isCompared: this.#isCompared });
      this.#isCompared = true;
      this.#hasContradicted = false;
    }
    const beyond = covered[reachable.length];
    if (beyond === undefined) onInStep(target.latestIndexedHeight());
    else return waiting(hole(target.latestIndexedHeight() + 1, beyond));
    return undefined;
  }

  /** Rewinds the target to the last common block, if the source has other blocks or none above it. */
  async #retract(now: MigrationSource, latest: number): Promise<HeldUp | undefined> {
    const { clock, onRewind, target } = this.#parts;
    const ours = target.coverage();
    const end = ours.at(-1)?.to;
    if (end === undefined) return undefined;
    const shared = common(now.coverage(), ours);
    const top = shared.at(-1)?.to;
    if (top === undefined && latest < end) throw nothingShared(latest, ours);
    const same = await lastCommon(shared, now, target);
    if (same === undefined && top !== undefined) throw unrelated(top);
    const isReplaced = same !== undefined && top !== undefined && same < top;
    if (!isReplaced && latest >= end) {
      this.#lowerSinceMs = undefined;
      return undefined;
    }
    this.#lowerSinceMs ??= clock.monotonic();
    if (!isReplaced && clock.monotonic() - this.#lowerSinceMs < LOWER_END_MS) {
      return waiting(
        `The index of the daemon ends at height ${latest}, but heights up to ${end} were copied. ` +
          'They will be retracted unless the daemon soon has them again',
      );
    }
    this.#lowerSinceMs = undefined;
    const height = isReplaced ? same : latest;
    onRewind(height, end);
    await target.rewind(height);
    return undefined;
  }

  /** Tolerates an error that may pass, or can be fixed while this waits; rethrows others. */
  #tolerated(error: unknown): HeldUp {
    if (error instanceof SourceTroubleError) return { reason: error.message, isFailure: true };
    if (!(error instanceof OperatorError)) throw error;
    const isNew = error.exit === 'foreign' && this.#isCompared && !this.#hasContradicted;
    if (error.exit !== 'damage' && !isNew) throw error;
    this.#hasContradicted ||= isNew;
    return { reason: error.message, isFailure: true };
  }
}

interface HeldUp {
  readonly reason: string;
  readonly isFailure: boolean;
}

function waiting(reason: string): HeldUp {
  return { reason: `${reason}.`, isFailure: false };
}

function hole(next: number, { from }: HeightRange): string {
  const heights = next === from - 1 ? `Height ${next} is` : `Heights ${next} to ${from - 1} are`;
  return (
    `${heights} missing at the daemon, which continues at height ${formatCount(from)}. Heights above cannot be written before ` +
    `these: fill them in with "backfill plan --from ${next}"`
  );
}

function nothingShared(latest: number, ours: readonly HeightRange[]): OperatorError {
  return new OperatorError(
    'usage',
    `The index of the daemon ends at height ${latest}, below the target, which begins at height ${ours[0]?.from}. ` +
      'Nothing was changed. Name the daemon that the target was copied from, or choose an empty target.',
  );
}

function unrelated(height: number): OperatorError {
  return new OperatorError(
    'foreign',
    `The daemon and the target have no block in common, from height ${height} down: they are of different chains. Nothing was ` +
      'changed. Choose another target.',
  );
}
