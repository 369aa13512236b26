import { describe, expect, it } from 'vitest';
import { HeightRecord } from '../../../src/collections/heights/HeightRecord.js';
import { block } from './meetingHarness.js';

/** One that fulfils what every status promises. */
const whole = (): HeightRecord => new HeightRecord(block(1, ['a']));

describe('the life of a height', () => {
  it.each([
    ['collecting', 0, 'linked'],
    ['complete', 1, 'linked'],
    ['committing', 1, 'complete'],
    ['durable', 1, 'linked'],
  ] as const)('enters %s only with what that promises', (to, missing, from) => {
    const record = whole();
    if (from !== 'linked') record.moveTo(from);
    record.missingCount = missing;
    expect(() => record.moveTo(to)).toThrow(`and lacks ${missing}`);
    expect(record.status).toBe(from);
  });

  it('keeps its block from the moment it is complete, and never goes back', () => {
    const record = whole();
    record.replaceBlock(block(1, ['b'], 'other'), undefined);
    record.moveTo('complete');
    expect(() => record.replaceBlock(block(1, ['a']), undefined)).toThrow('its block stays');
    expect(() => record.moveTo('linked')).toThrow('from complete to linked');
  });
});
