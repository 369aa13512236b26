import type { StatusDocument } from '../../../api/index.js';
import type { IndexingParts } from '../../line/runIndexing.js';

/** Within this time another process takes over from a leader that is gone. */
const LEADER_LOST_AFTER_MS = 12_000;

/** Watches that some process leads, of those that share the store. */
export class LeaderWatch {
  readonly #parts: Pick<IndexingParts, 'clock' | 'leadership' | 'store'>;
  /** When a leader was last seen, or there was a known reason to see none. */
  #heardAtMs: number;

  constructor(parts: Pick<IndexingParts, 'clock' | 'leadership' | 'store'>) {
    this.#parts = parts;
    this.#heardAtMs = parts.clock.monotonic();
  }

  /** As far as this process knows. */
  leader(): NonNullable<StatusDocument['cluster']>['leader'] {
    const leader = this.#parts.leadership.leader();
    if (leader === undefined) return null;
    const { worker, host, beatAgeMs } = leader;
    return { worker, host, ageSeconds: beatAgeMs / 1_000 };
  }

  leaderAgeSeconds(): number | undefined {
    const { shared } = this.#parts.store;
    if (shared === undefined) return undefined;
    return shared.isLeading() ? 0 : this.leader()?.ageSeconds;
  }

  /** Call it about every second. */
  lost(): { readonly message: string } | undefined {
    const { clock, store } = this.#parts;
    const nowMs = clock.monotonic();
    const leader = this.leader();
    // While the database is away, no leader can be seen: that is reported on its own.
    const isKnown = store.shared?.isLeading() !== false || store.trouble?.() !== undefined;
    if (isKnown) this.#heardAtMs = nowMs;
    else if (leader !== null) this.#heardAtMs = Math.max(this.#heardAtMs, nowMs - leader.ageSeconds * 1_000);
    const forMs = nowMs - this.#heardAtMs;
    if (forMs <= LEADER_LOST_AFTER_MS) return undefined;
    const seconds = Math.floor(forMs / 1_000);
    const who =
      leader === null
        ? `no process has led for ${seconds} s`
        : `the process that leads, ${leader.worker} on ${leader.host}, has not been heard of for ${seconds} s`;
    return { message: `${who}: new blocks are not indexed; start a process with the role live` };
  }
}
