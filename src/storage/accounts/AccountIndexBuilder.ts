import type { Logger } from '../../observability/index.js';
import { sleep, type Clock } from '../../runtime/index.js';
import type { AccountCoverage, AccountIndex } from '../port/AccountIndex.js';
import type { WriteRoom } from '../port/IndexStore.js';
import { isCorruption } from '../StorageError.js';

/** The largest share of time spent on building: after each step it rests four times as long. */
const BUILD_SHARE = 0.2;
/** A step with almost nothing in it takes almost no time. */
const MIN_REST_MS = 1;
/** Between two log lines. */
const REPORT_EVERY_MS = 10_000;

interface AccountIndexProgress {
  /** `stopped`: a stored block is damaged, and the index cannot get past it. */
  readonly state: 'off' | 'building' | 'stopped' | 'complete';
  /** `undefined`: off. */
  readonly coverage: AccountCoverage | undefined;
}

/** Builds the missing part of the account index from the store alone, newest first. */
export class AccountIndexBuilder {
  readonly #deps: ConstructorParameters<typeof AccountIndexBuilder>[0];
  #isStopped = false;

  constructor(dependencies: {
    readonly accounts: AccountIndex;
    readonly clock: Clock;
    readonly logger: Logger;
    /** Default: there is always room. */
    readonly room?: WriteRoom | undefined;
  }) {
    this.#deps = dependencies;
  }

  progress(): AccountIndexProgress {
    const coverage = this.#deps.accounts.coverage();
    if (coverage === undefined) return { state: 'off', coverage };
    if (coverage.missingHeights === 0) return { state: 'complete', coverage };
    return { state: this.#isStopped ? 'stopped' : 'building', coverage };
  }

  /**
   * Resolves when the index is complete, or cannot be built further. Expected errors: `StorageError`, but not for damage,
   * which reads report as well; the signal's abort reason.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, room } = this.#deps;
    // What was damaged may have been healed.
    this.#isStopped = false;
    if (!this.#isBuilding()) return;
    this.#log('building the account index');
    let reportedAtMs = clock.monotonic();
    while (this.#isBuilding()) {
      await room?.whenRoom(signal);
      const startedAtMs = clock.monotonic();
      await this.#step();
      const nowMs = clock.monotonic();
      if (nowMs - reportedAtMs >= REPORT_EVERY_MS) {
        reportedAtMs = nowMs;
        this.#log('building the account index');
      }
      const restMs = (nowMs - startedAtMs) * (1 / BUILD_SHARE - 1);
      await sleep(clock, Math.max(MIN_REST_MS, restMs), signal);
    }
    if (this.progress().state === 'complete') this.#log('the account index is complete');
  }

  async #step(): Promise<void> {
    try {
      await this.#deps.accounts.extend();
    } catch (error) {
      // Damage must not stop the daemon here: reads report it too.
      if (!isCorruption(error)) throw error;
      this.#isStopped = true;
      this.#deps.logger.error({ kind: error.kind, error }, 'the account index cannot be built further');
    }
  }

  #isBuilding(): boolean {
    return this.progress().state === 'building';
  }

  #log(message: string): void {
    const { coverage } = this.progress();
    const fields = { coveredFrom: coverage?.from, missingHeights: coverage?.missingHeights };
    this.#deps.logger.info(fields, message);
  }
}
