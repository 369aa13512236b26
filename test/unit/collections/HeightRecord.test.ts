import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MissingCollectionQueue } from '../../../src/collections/index.js';
import { HeightRecord, NEXT_STATUSES } from '../../../src/collections/heights/HeightRecord.js';
import type { HeightStatus } from '../../../src/collections/heights/HeightRecord.js';
import { block, received } from './meetingHarness.js';
import { windowOf } from '../../support/windowOf.js';

const STATUSES = Object.keys(NEXT_STATUSES) as HeightStatus[];
const status = fc.constantFrom(...STATUSES);

/** One that fulfils what every status promises. */
function whole(): HeightRecord {
  return new HeightRecord(block(1, ['a']));
}

/** A height collects as long as it lacks something, and no longer. */
function lack(record: HeightRecord, to: HeightStatus): void {
  record.missingCount = to === 'collecting' ? 1 : 0;
}

describe('the life of a height', () => {
  it('goes from status to status as the table says, and in no other way', () => {
    fc.assert(
      fc.property(fc.array(status, { maxLength: 12 }), (steps) => {
        const record = whole();
        for (const to of steps) {
          const from = record.status;
          lack(record, to);
          if (NEXT_STATUSES[from].includes(to)) {
            record.moveTo(to);
            expect(record.status).toBe(to);
          } else {
            expect(() => record.moveTo(to)).toThrow(`from ${from} to ${to}`);
            expect(record.status).toBe(from);
          }
        }
      }),
    );
  });

  it.each([
    ['collecting', 0, 'linked'],
    ['complete', 1, 'linked'],
    ['committing', 1, 'complete'],
    ['durable', 1, 'linked'],
  ] as const)('enters %s only with what that promises', (to, missing, from) => {
    const record = whole();
    if (from !== 'linked') record.moveTo(from);
    record.missingCount = missing;
    expect(() => record.moveTo(to)).toThrow('not one that');
    expect(record.status).toBe(from);
  });

  it('keeps its block from the moment it is complete', () => {
    const record = whole();
    record.replaceBlock(block(1, ['b'], 'other'), undefined);
    record.moveTo('complete');
    expect(() => record.replaceBlock(block(1, ['a']), undefined)).toThrow('its block stays');
  });
});

/** What may happen to heights, in any order; whatever is not possible at the moment is left out. */
type Step =
  | { readonly do: 'link' | 'take' | 'unlink' | 'commit' | 'durable'; readonly height: number }
  | { readonly do: 'come'; readonly name: string }
  | { readonly do: 'pass' };

const NAMES = ['a', 'b', 'c'];
const height = fc.integer({ min: 1, max: 6 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constantFrom('link', 'take', 'unlink', 'commit', 'durable'), height }),
  fc.record({ do: fc.constant('come' as const), name: fc.constantFrom(...NAMES) }),
  fc.record({ do: fc.constant('pass' as const) }),
);

describe('the window of heights', () => {
  it('counts what is in hand, finds the lowest, and lets go of what the watermark has passed', () => {
    const lists = fc.array(fc.subarray(NAMES), { minLength: 7, maxLength: 7 });
    fc.assert(
      fc.property(lists, fc.array(step, { maxLength: 60 }), (names, steps) => {
        let watermark = 0;
        const store = { latestIndexedHeight: () => watermark, hasHeight: () => false };
        const heights = windowOf(store, { heights: 8 });
        const mcq = new MissingCollectionQueue(heights);
        const durable = new Set<number>();
        for (const one of steps) {
          const record = 'height' in one ? heights.at(one.height) : undefined;
          if (one.do === 'link' && !durable.has(one.height))
            heights.link(block(one.height, names[one.height]!));
          else if (one.do === 'take' && record?.status === 'linked')
            mcq.enqueueMissingCollections(record.block, 0, () => undefined);
          else if (one.do === 'unlink') heights.unlink(one.height);
          else if (one.do === 'come') mcq.onReceivedCollection(received(one.name, 'edi'));
          else if (one.do === 'commit' && record?.status === 'complete') heights.move(record, 'committing');
          else if (one.do === 'durable' && record?.status === 'committing') {
            heights.move(record, 'durable');
            durable.add(one.height);
          } else if (one.do === 'pass') {
            while (durable.has(watermark + 1)) watermark += 1;
            heights.moved();
          }
          const all = [...heights.all()].sort((left, right) => left.height - right.height);
          const inHand = all.filter(({ isInHand }) => isInHand);
          const collecting = all.filter((each) => each.status === 'collecting');
          expect([heights.inHand, heights.collecting]).toEqual([inHand.length, collecting.length]);
          expect(heights.lowestInHand()).toBe(inHand[0]);
          expect(heights.lowestCollecting()).toBe(collecting[0]);
          for (const each of collecting) expect(mcq.missingIds(each.height)).toHaveLength(each.missingCount);
          expect(mcq.missingCollections).toBe(
            new Set(collecting.flatMap(({ height: at }) => mcq.missingIds(at))).size,
          );
          for (const each of all) expect(each.height).toBeGreaterThan(watermark);
        }
      }),
    );
  });
});
