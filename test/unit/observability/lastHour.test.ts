import { describe, expect, it } from 'vitest';
import { createMetrics, rememberHour, MAX_MINUTES, slowestUsual } from '../../../src/observability/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

const MINUTE_MS = 60_000;
const HALF_MINUTE_MS = 30_000;

/** The last hour of metrics that the test counts up. */
async function running() {
  const clock = new VirtualClock();
  const metrics = createMetrics({ version: '1', node: 'v20' });
  const history = rememberHour({ clock, metrics });
  const scope = new AbortController();
  const ended = expect(history.run(scope.signal)).rejects.toThrow();
  await clock.settle();
  const stop = async () => {
    scope.abort();
    await ended;
  };
  /** One commit. */
  const commit = (seconds: number, heights: number, bytes: number): void => {
    metrics.commitDuration.observe(seconds);
    metrics.commitHeights.observe(heights);
    metrics.commitBytes.observe(bytes);
  };
  return { clock, metrics, history, stop, commit };
}

describe('LastHour', () => {
  it('tells who delivered first, and what was written, in each minute', async () => {
    const { clock, metrics, history, stop, commit } = await running();
    metrics.collectionsReceived.inc({ source: 'edi' }, 30);
    metrics.duplicateCollections.inc({ source: 'edi' }, 4);
    commit(0.02, 8, 4_000);
    commit(0.04, 4, 2_000);
    await clock.advance(MINUTE_MS);
    metrics.collectionsReceived.inc({ source: 'requester' }, 7);
    await clock.advance(10_000);
    const [first, second, ...others] = history.minutes();
    expect(others).toEqual([]);
    expect(first).toMatchObject({
      ageSeconds: 70,
      edi: { first: 26, late: 4 },
      requester: { first: 0, late: 0 },
      commits: { count: 2, heights: 12, bytes: 6_000 },
    });
    expect(first?.commits.seconds).toBeCloseTo(0.06);
    expect(second).toMatchObject({
      ageSeconds: 10,
      edi: { first: 0, late: 0 },
      requester: { first: 7, late: 0 },
      commits: { count: 0 },
    });
    await stop();
  });

  it('keeps an hour and no more', async () => {
    const { clock, metrics, history, stop } = await running();
    for (let minute = 0; minute < 90; minute += 1) {
      metrics.collectionsReceived.inc({ source: 'edi' }, 1);
      await clock.advance(MINUTE_MS);
    }
    const minutes = history.minutes();
    expect(minutes).toHaveLength(MAX_MINUTES + 1);
    expect(minutes[0]?.ageSeconds).toBe(MAX_MINUTES * 60);
    expect(minutes.slice(0, -1).map(({ edi }) => edi.first)).toEqual(
      Array.from({ length: MAX_MINUTES }, () => 1),
    );
    expect(history.hour()?.seconds).toBe(MAX_MINUTES * 60);
    await stop();
  });

  it('tells the last half minute apart from what was before', async () => {
    const { clock, history, stop, commit } = await running();
    expect(history.now()).toBeUndefined();
    commit(2, 100, 1_000_000);
    await clock.advance(MINUTE_MS);
    commit(0.004, 10, 600);
    await clock.advance(2_000);
    const now = history.now();
    expect(now).toMatchObject({
      seconds: HALF_MINUTE_MS / 1_000,
      work: { commits: { count: 1, heights: 10 } },
    });
    expect(slowestUsual(now!.work.commits)).toBe(0.005);
    await clock.advance(HALF_MINUTE_MS + 2_000);
    expect(slowestUsual(history.now()!.work.commits)).toBeUndefined();
    await stop();
  });

  it('counts calls and errors by access node', async () => {
    const { clock, metrics, history, stop } = await running();
    const count = (endpoint: string, method: string, calls: number): void =>
      metrics.upstreamRequests.inc({ endpoint, method }, calls);
    count('a:9000', 'GetBlockByHeight', 5);
    count('a:9000', 'GetCollectionByID', 2);
    metrics.upstreamErrors.inc({ endpoint: 'a:9000', method: 'GetBlockByHeight', kind: 'deadline' }, 1);
    metrics.upstreamErrors.inc({ endpoint: 'a:9000', method: 'GetCollectionByID', kind: 'deadline' }, 1);
    await clock.advance(2_000);
    count('b:9000', 'GetBlockByHeight', 3);
    await clock.advance(2_000);
    const nodes = history.hour()?.nodes;
    expect(nodes?.get('a:9000')).toEqual({ calls: 7, errors: 2, kinds: new Map([['deadline', 2]]) });
    expect(nodes?.get('b:9000')).toEqual({ calls: 3, errors: 0, kinds: new Map() });
    await stop();
  });
});
