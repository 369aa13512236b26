import type { StatusDocument } from '../../../api/index.js';
import { slowestUsual } from '../../../observability/index.js';
import type { LastHour } from '../../../observability/index.js';

/** Current throughput, and the last hour by minute. */
export function activityReport(history: LastHour): Pick<StatusDocument, 'throughput' | 'lastHour'> {
  const now = history.now();
  return {
    throughput: now === undefined ? null : throughputOf(now),
    lastHour: history.minutes().map(({ ageSeconds, requester, edi, peer, commits }) => ({
      ...{ ageSeconds, requester, edi, peer, heights: commits.heights, bytes: commits.bytes },
      ...{ commits: commits.count, commitSeconds: commits.seconds },
    })),
  };
}

function throughputOf({
  seconds,
  work: { requester, edi, peer, commits },
}: NonNullable<ReturnType<LastHour['now']>>): StatusDocument['throughput'] {
  const mean = (total: number): number | null => (commits.count === 0 ? null : total / commits.count);
  return {
    heightsPerSecond: commits.heights / seconds,
    collectionsPerSecond: (requester.first + edi.first + peer.first) / seconds,
    bytesPerSecond: commits.bytes / seconds,
    commits: {
      perSecond: commits.count / seconds,
      heights: mean(commits.heights),
      bytes: mean(commits.bytes),
      seconds: mean(commits.seconds),
      usualSeconds: slowestUsual(commits) ?? null,
    },
  };
}
