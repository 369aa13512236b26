import { describe, expect, it } from 'vitest';
import { WindowEnds } from '../../../src/collections/index.js';

function windowOf({
  share,
  ...options
}: { readonly stopHeight?: number; readonly share?: () => number } = {}) {
  const at = { watermark: 10, head: undefined as number | undefined };
  const ends = new WindowEnds(
    { windowHeights: 5, ...options },
    {
      watermark: { latestIndexedHeight: () => at.watermark },
      finalizedHeight: () => at.head,
      ...(share === undefined ? {} : { share }),
    },
  );
  return { at, ends };
}

describe('WindowEnds', () => {
  it('is bounded by K, by the head and by the stop height, whichever is lowest', () => {
    const { at, ends } = windowOf({ stopHeight: 14 });
    expect([ends.limit(), ends.target(), ends.upperBound()]).toEqual([15, undefined, 0]);
    at.head = 12;
    expect([ends.target(), ends.upperBound()]).toEqual([12, 12]);
    at.head = 100;
    expect([ends.target(), ends.upperBound()]).toEqual([14, 14]);
    at.watermark = 2;
    expect([ends.limit(), ends.upperBound()]).toEqual([7, 7]);
  });

  it('begins less by its share, but a block and its child in any case', () => {
    let share = 1;
    const { at, ends } = windowOf({ share: () => share });
    at.head = 100;
    const bounds = [1, 0.61, 0.5, 0.001].map((each) => {
      share = each;
      return [ends.upperBound(), ends.limit()];
    });
    expect(bounds).toEqual([
      [15, 15],
      [13, 15],
      [12, 15],
      [12, 15],
    ]);
  });

  it('tells every subscriber of a move, in the order in which they came, until they leave', () => {
    const { ends } = windowOf();
    const told: string[] = [];
    const leave = ends.onMoved(() => {
      told.push('first');
      leave();
    });
    ends.onMoved(() => told.push('second'));
    ends.moved();
    ends.moved();
    expect(told).toEqual(['first', 'second', 'second']);
  });
});
