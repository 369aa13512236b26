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
  const [endpoint, method] = ['a:9000', 'GetBlockByHeight'];
  for (const [index, calls] of [5, 2].entries()) {
    metrics.upstreamRequests.inc({ endpoint, method: `${method}${index}` }, calls);
    metrics.upstreamErrors.inc({ endpoint, method: `${method}${index}`, kind: 'deadline' }, 1);
  }
  await clock.advance(2_000);
  metrics.upstreamRequests.inc({ endpoint: 'b:9000', method }, 3);
  await clock.advance(2_000);
  const kinds = [{ kind: 'deadline', count: 2 }];
  expect(history.hour()?.callsTo(endpoint)).toEqual({ calls: 7, errors: 2, kinds });
  expect(history.hour()?.callsTo('b:9000')).toEqual({ calls: 3, errors: 0, kinds: [] });
});
