import { expect, it } from 'vitest';
import { createMetrics, rememberHour } from '../../../src/observability/index.js';
import { MAX_MINUTES } from '../../../src/observability/progress/rememberHour.js';
import { untilEnd, VirtualClock } from '../../support/index.js';

const MINUTE_MS = 60_000;

async function running() {
  const clock = new VirtualClock();
  const metrics = createMetrics({ version: '1', node: 'v20' });
  const history = rememberHour({ clock, metrics });
  untilEnd(history.run);
  await clock.settle();
  return { clock, metrics, history };
}

it('tells who delivered first, for an hour and no longer', async () => {
  const { clock, metrics, history } = await running();
  metrics.collectionsReceived.inc({ source: 'edi' }, 30);
  metrics.duplicateCollections.inc({ source: 'edi' }, 4);
  for (let minute = 0; minute < 90; minute += 1) {
    await clock.advance(MINUTE_MS);
    metrics.collectionsReceived.inc({ source: 'requester' }, 7);
    if (minute === 0) expect(history.hour()?.races.edi).toEqual({ first: 26, late: 4 });
  }
  expect(history.hour()).toMatchObject({
    seconds: MAX_MINUTES * 60,
    races: { edi: { first: 0, late: 0 }, requester: { first: 7 * MAX_MINUTES, late: 0 } },
  });
});

it('tells the last half minute apart from what was before, and counts calls and errors by access node', async () => {
  const { clock, metrics, history } = await running();
  expect(history.now()).toBeUndefined();
  metrics.collectionsReceived.inc({ source: 'peer' }, 100);
  await clock.advance(MINUTE_MS);
  metrics.collectionsReceived.inc({ source: 'peer' }, 10);
  await clock.advance(2_000);
  expect(history.now()).toMatchObject({ seconds: 30, races: { peer: { first: 10, late: 0 } } });
  const count = (endpoint: string, method: string, calls: number): void =>
    metrics.upstreamRequests.inc({ endpoint, method }, calls);
  count('a:9000', 'GetBlockByHeight', 5);
  count('a:9000', 'GetCollectionByID', 2);
  for (const method of ['GetBlockByHeight', 'GetCollectionByID'])
    metrics.upstreamErrors.inc({ endpoint: 'a:9000', method, kind: 'deadline' }, 1);
  await clock.advance(2_000);
  count('b:9000', 'GetBlockByHeight', 3);
  await clock.advance(2_000);
  const nodes = history.hour()?.nodes;
  expect(nodes?.get('a:9000')).toEqual({ calls: 7, errors: 2, kinds: new Map([['deadline', 2]]) });
  expect(nodes?.get('b:9000')).toEqual({ calls: 3, errors: 0, kinds: new Map() });
});
