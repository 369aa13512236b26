import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { common, countHeights } from '../../../src/ranges/index.js';
import { cutNext } from '../../../src/ranges/planner.js';
import { joined, without, type HeightRange } from '../../../src/storage/index.js';

const TOP = 60;
const range = fc
  .tuple(fc.nat(TOP), fc.nat(12))
  .map(([from, more]): HeightRange => ({ from, to: Math.min(TOP, from + more) }));
const ranges = fc.array(range, { maxLength: 6 });

function heightsOf(all: readonly HeightRange[]): Set<number> {
  const heights = new Set<number>();
  for (const { from, to } of all) for (let height = from; height <= to; height += 1) heights.add(height);
  return heights;
}

it('sets of heights are what sets of numbers are, ascending, and never two that touch', () => {
  fc.assert(
    fc.property(ranges, ranges, (a, b) => {
      const inB = heightsOf(b);
      const expected = {
        joined: new Set([...heightsOf(a), ...inB]),
        without: new Set([...heightsOf(a)].filter((height) => !inB.has(height))),
        common: new Set([...heightsOf(a)].filter((height) => inB.has(height))),
      };
      const got = { joined: joined([...a, ...b]), without: without(a, b), common: common(a, b) };
      for (const [name, result] of Object.entries(got)) {
        expect([...heightsOf(result)]).toEqual(
          [...expected[name as keyof typeof expected]].sort((x, y) => x - y),
        );
        expect(countHeights(result)).toBe(expected[name as keyof typeof expected].size);
        result.forEach(({ from }, at) => {
          if (at > 0) expect(from).toBeGreaterThan(result[at - 1]!.to + 1);
        });
      }
    }),
  );
});

describe('cutting a plan into ranges', () => {
  const cuts = fc.record({
    missing: ranges,
    order: fc.constantFrom('newest' as const, 'oldest' as const),
    borders: fc.array(fc.nat(TOP), { maxLength: 4 }),
    maxHeights: fc.integer({ min: 1, max: 9 }),
  });

  it('takes every missing height once, none twice, none across a border, and none beyond the bound', () => {
    fc.assert(
      fc.property(cuts, ({ missing, ...options }) => {
        const taken: HeightRange[] = [];
        for (;;) {
          const cut = cutNext(without(missing, taken), options);
          if (cut === undefined) break;
          const heights = cut.to - cut.from + 1;
          expect(heights).toBeGreaterThan(0);
          expect(heights).toBeLessThanOrEqual(options.maxHeights);
          expect(options.borders.some((border) => border > cut.from && border <= cut.to)).toBe(false);
          expect(common([cut], taken)).toEqual([]);
          taken.push(cut);
        }
        expect(joined(taken)).toEqual(joined(missing));
        const froms = taken.map(({ from }) => from);
        const sorted = [...froms].sort((a, b) => (options.order === 'newest' ? b - a : a - b));
        expect(froms).toEqual(sorted);
      }),
    );
  });

  it('begins at the newest, or at the oldest, with 1,000 heights', () => {
    const missing = [{ from: 0, to: 2_499 }];
    expect(cutNext(missing, { order: 'newest', borders: [] })).toEqual({ from: 1_500, to: 2_499 });
    expect(cutNext(missing, { order: 'oldest', borders: [] })).toEqual({ from: 0, to: 999 });
  });
});
