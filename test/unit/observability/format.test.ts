import fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatCount, formatDuration, formatRate } from '../../../src/observability/index.js';

it.each([
  [-5, '0s'],
  [0.9, '0s'],
  [5580, '1h 33m'],
  [86_400 * 12 + 3600 * 4 + 59, '12d 4h'],
  [86_400 * 1234, '1,234d 0h'],
])('writes a duration of %d seconds as %s', (seconds, text) => {
  expect(formatDuration(seconds)).toBe(text);
});

it.each([
  [0.823, '0.82/s'],
  [197.93, '197.9/s'],
  [12_345.6, '12,346/s'],
])('writes a rate of %d as %s', (rate, text) => {
  expect(formatRate(rate)).toBe(text);
});

it('separates thousands and loses no digit', () => {
  expect([formatCount(158_000_123), formatCount(-1234)]).toEqual(['158,000,123', '-1,234']);
  fc.assert(
    fc.property(fc.maxSafeInteger(), (count) => {
      const text = formatCount(count);
      expect(Number(text.replaceAll(',', ''))).toBe(count);
      expect(text).toMatch(/^-?\d{1,3}(,\d{3})*$/);
    }),
  );
});
