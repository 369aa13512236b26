import type { StatusDocument } from '../../../api/index.js';
import type { IndexingParts } from '../../line/runIndexing.js';

/** Within this time another process takes over from a leader that is gone. */
const LEADER_LOST_AFTER_MS = 12_000;

export type LeaderWatch = ReturnType<typeof watchLeader>;

/** Watches that some process leads, of those that share the store. */
export function watchLeader({
  clock,
  leadership,
  store,
}: Pick<IndexingParts, 'clock' | 'leadership' | 'store'>) {
  /** When a leader was last seen, or there was a known reason to see none. */
  let heardAtMs = clock.monotonic();

  /** As far as this process knows. */
  const leader = (): NonNullable<StatusDocument['cluster']>['leader'] => {
    const known = leadership.leader();
    return known === undefined
      ? null
      : { worker: known.id, host: known.host, ageSeconds: known.beatAgeMs / 1_000 };
  };
  return {
    leader,
    leaderAgeSeconds: (): number | undefined =>
      store.shared && (store.shared.isLeading() ? 0 : leader()?.ageSeconds),
    /** Call it about every second. */
    lost: (): { readonly message: string } | undefined => {
      const nowMs = clock.monotonic();
      const seen = leader();
      // While the database is away, no leader can be seen: that is reported on its own.
      const isKnown = store.shared?.isLeading() !== false || store.trouble?.() !== undefined;
      if (isKnown) heardAtMs = nowMs;
      else if (seen !== null) heardAtMs = Math.max(heardAtMs, nowMs - seen.ageSeconds * 1_000);
      const forMs = nowMs - heardAtMs;
      if (forMs <= LEADER_LOST_AFTER_MS) return undefined;
      const seconds = Math.floor(forMs / 1_000);
      const who =
        seen === null
          ? `no process has led for ${seconds} s`
          : `the process that leads, ${seen.worker} on ${seen.host}, has not been heard of for ${seconds} s`;
      return { message: `${who}: new blocks are not indexed; start a process with the role live` };
    },
  };
}
