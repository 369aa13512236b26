import { expect, it } from 'vitest';
import { edgeLog } from '../../../src/observability/index.js';
import { RecordingLogger, VirtualClock } from '../../support/index.js';

it('warns of what flaps once a minute, and tells that it is back once for each warning', async () => {
  const clock = new VirtualClock();
  const logger = new RecordingLogger();
  const edge = edgeLog({ clock, logger });
  for (let second = 0; second < 61; second += 1) {
    edge.lost({ second }, 'lost');
    edge.back({ second }, 'back');
    await clock.advance(1_000);
  }
  const told = logger.records.filter(({ level }) => level !== 'debug');
  expect(told).toEqual([
    { level: 'warn', message: 'lost', fields: { second: 0 } },
    { level: 'info', message: 'back', fields: { second: 0 } },
    { level: 'warn', message: 'lost', fields: { second: 60 } },
    { level: 'info', message: 'back', fields: { second: 60 } },
  ]);
  expect(logger.records).toHaveLength(122);
  logger.records.length = 0;
  // What is lost in that minute and stays lost is told after it, and what it is lost for then.
  for (let second = 61; second < 241; second += 1) {
    edge.lost({ second }, 'lost', second < 150 ? 'a' : 'b');
    await clock.advance(1_000);
  }
  edge.back({}, 'back');
  expect(logger.records.map(({ level, fields }) => [level, fields['second']])).toEqual([
    ['debug', 61],
    ['warn', 120],
    ['warn', 180],
    ['info', undefined],
  ]);
});
