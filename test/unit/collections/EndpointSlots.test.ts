import { describe, expect, it } from 'vitest';
import { EndpointSlots } from '../../../src/collections/index.js';

const NODE = 'a:1';

function take(slots: EndpointSlots, use: 'lowest' | 'other' | 'history'): number {
  let taken = 0;
  while (slots.tryAcquire(NODE, use)) taken += 1;
  return taken;
}

describe('the slots of an endpoint', () => {
  it('are never all taken by history, so that the live range finds some free at once', () => {
    const slots = new EndpointSlots({ concurrency: 8 });
    expect(take(slots, 'history')).toBe(6);
    expect(take(slots, 'other')).toBe(2);
    expect(take(slots, 'lowest')).toBe(0);
  });

  it('are left to the live range alone while that takes them', () => {
    const slots = new EndpointSlots({ concurrency: 8 });
    expect(take(slots, 'other')).toBe(7);
    expect(take(slots, 'lowest')).toBe(1);
    expect(take(slots, 'history')).toBe(0);
    slots.release(NODE, 'other');
    expect(take(slots, 'history')).toBe(0);
  });

  it('are given to history by its share, one of them in any case, and to the live range all the same', async () => {
    let share = 1;
    const slots = new EndpointSlots({ concurrency: 8 }, { historyShare: () => share });
    expect(take(slots, 'history')).toBe(6);
    for (let released = 0; released < 6; released += 1) slots.release(NODE, 'history');
    share = 0.5;
    expect(take(slots, 'history')).toBe(3);
    share = 0.001;
    expect(take(slots, 'history')).toBe(0);
    for (let released = 0; released < 3; released += 1) slots.release(NODE, 'history');
    expect(take(slots, 'history')).toBe(1);
    expect(take(slots, 'other')).toBe(7);
    for (let released = 0; released < 7; released += 1) slots.release(NODE, 'other');
    await Promise.resolve();
    let told = 0;
    slots.onFreed('history', () => (told += 1));
    share = 1;
    slots.moreForHistory();
    await Promise.resolve();
    expect(told).toBe(1);
    expect(take(slots, 'history')).toBe(5);
  });

  it('go to the live range first when history gives one back', async () => {
    const slots = new EndpointSlots({ concurrency: 4 });
    const order: string[] = [];
    let wanted = 2;
    slots.onFreed('history', () => {
      if (slots.tryAcquire(NODE, 'history')) order.push('history');
    });
    slots.onFreed('live', () => {
      while (wanted > 0 && slots.tryAcquire(NODE, 'lowest')) {
        wanted -= 1;
        order.push('live');
      }
    });
    expect(take(slots, 'history')).toBe(3);
    expect(take(slots, 'lowest')).toBe(1);
    // Whoever gives a slot back would take it again at once.
    slots.release(NODE, 'history');
    expect(slots.tryAcquire(NODE, 'history')).toBe(false);
    await Promise.resolve();
    expect(order).toEqual(['live']);
    slots.release(NODE, 'history');
    await Promise.resolve();
    slots.release(NODE, 'lowest');
    slots.release(NODE, 'lowest');
    await Promise.resolve();
    expect(order).toEqual(['live', 'live', 'history']);
  });
});
