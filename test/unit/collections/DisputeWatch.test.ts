import { describe, expect, it } from 'vitest';
import { Disputes, DisputeReviewer, MissingCollectionQueue } from '../../../src/collections/index.js';
import type { BlockVerdict } from '../../../src/collections/index.js';
import { VirtualClock } from '../../support/virtualClock.js';
import { block, id } from './meetingHarness.js';
import { FakeNode, passedTable } from './sourceHarness.js';

/** A watch over heights 1 to 3, each of which lacks one collection; `notFound` is what the requester met. */
function watching(
  options: {
    readonly ediOnly?: boolean;
    readonly review?: (mcq: MissingCollectionQueue, height: number) => Promise<BlockVerdict>;
  } = {},
) {
  const clock = new VirtualClock();
  const heights = passedTable();
  const mcq = new MissingCollectionQueue({ maxHeights: 8 }, { heights });
  const disputes = new Disputes({ nodes: { report: () => undefined }, heights });
  const notFound = new Map<string, number>();
  const reviewed: { readonly height: number; readonly atMs: number }[] = [];
  const verdict: BlockVerdict = { kind: 'upheld', giver: 'a:9000', confirmedBy: 1 };
  const trail = (each: string) => ({
    ...{ attempts: 9, lastNode: 'a:9000', lastError: 'not found', notFound: notFound.get(each) ?? 0 },
    ...{ isUnderWay: false, failures: new Map() },
  });
  const watch = new DisputeReviewer({
    ...{ mcq, disputes, clock },
    requests: options.ediOnly === true ? undefined : { trail },
    reviewer: {
      review: (height) => {
        reviewed.push({ height, atMs: clock.monotonic() });
        return options.review?.(mcq, height) ?? Promise.resolve(verdict);
      },
    },
  });
  const stop = new AbortController();
  const running = watch.run(stop.signal);
  for (const height of [1, 2, 3])
    mcq.enqueueMissingCollections(block(height, [`of ${height}`]), 0, () => undefined);
  const end = async (reason?: Error): Promise<void> => {
    stop.abort(reason);
    await running;
    expect(clock.pendingTimers).toBe(0);
  };
  return { clock, mcq, disputes, notFound, reviewed, running, end };
}

describe('DisputeReviewer', () => {
  it('leaves heights alone that nothing speaks against, however old they are', async () => {
    const { clock, notFound, reviewed, end } = watching();
    notFound.set(id('of 1'), 2);
    await clock.advance(600_000);
    expect(reviewed).toEqual([]);
    await end();
  });

  it('has a block reviewed whose collection no node has, not at once, and ever more slowly', async () => {
    const { clock, disputes, notFound, reviewed, end } = watching();
    notFound.set(id('of 2'), 3);
    await clock.advance(4_000);
    expect(reviewed).toEqual([]);
    await clock.advance(120_000);
    expect(reviewed[0]).toEqual({ height: 2, atMs: 5_000 });
    expect(reviewed.map(({ height }) => height)).toEqual(reviewed.map(() => 2));
    const pauses = reviewed.slice(1).map(({ atMs }, place) => atMs - reviewed[place]!.atMs);
    expect(pauses).toEqual([2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    expect(disputes.reason(2)).toContain('1 other nodes give the same');
    await end();
  });

  it('forgets a verdict that comes when the height has its collections, or is not worked on any more', async () => {
    const late = watching({
      review: (mcq, height) => {
        // Complete, and durable, while the nodes were being asked.
        mcq.replaceBlock(block(height, []));
        mcq.onIndexedForBlock(mcq.get(height)!);
        return Promise.resolve({ kind: 'alone', giver: 'a:9000', confirmedBy: 0 });
      },
    });
    late.notFound.set(id('of 1'), 3);
    await late.clock.advance(60_000);
    expect(late.reviewed).toEqual([{ height: 1, atMs: 5_000 }]);
    expect(late.disputes.reason(1)).toBeUndefined();
    await late.end(new Error('whatever reason it is given'));

    const gone = watching({
      review: () => Promise.resolve({ kind: 'gone', giver: 'a:9000', confirmedBy: 0 }),
    });
    gone.notFound.set(id('of 1'), 3);
    await gone.clock.advance(6_000);
    expect(gone.reviewed).toHaveLength(1);
    expect(gone.disputes.reason(1)).toBeUndefined();
    await gone.end();
  });

  it('ends with what nobody expects of a review, and with nothing when it is stopped', async () => {
    const broken = watching({ review: () => Promise.reject(new TypeError('a bug')) });
    const ended = expect(broken.running).rejects.toThrow('a bug');
    broken.notFound.set(id('of 1'), 3);
    await broken.clock.advance(5_000);
    await ended;
  });

  it('has a block reviewed that execution data contradicts, where nobody asks for collections too', async () => {
    const { clock, disputes, mcq, reviewed, end } = watching({ ediOnly: true });
    const by = { node: new FakeNode('b:9000', clock), method: 'SubscribeExecutionData' } as const;
    for (const height of [3, 1]) disputes.contradicted(height, by, 'id_mismatch');
    await clock.advance(5_000);
    expect(reviewed.map(({ height }) => height)).toEqual([1, 3]);
    mcq.replaceBlock(block(1, []));
    disputes.replaced(mcq.get(3)!);
    await clock.advance(60_000);
    expect(reviewed.filter(({ height }) => height === 1)).toHaveLength(1);
    await end();
  });
});
