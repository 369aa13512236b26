import { expect, it } from 'vitest';
import { endpointSlots, type EndpointSlots } from '../../../src/collections/index.js';

const NODE = 'a:1';

type Use = 'lowest' | 'other' | 'history';

/** The releases of slots that are taken, by their use, latest last. */
const held = new WeakMap<EndpointSlots, Record<Use, (() => void)[]>>();

function take(slots: EndpointSlots, use: Use): number {
  const releases = held.get(slots) ?? { lowest: [], other: [], history: [] };
  held.set(slots, releases);
  let taken = 0;
  for (;;) {
    const release = slots.tryAcquire(NODE, use);
    if (release === undefined) return taken;
    releases[use].push(release);
    taken += 1;
  }
}

function giveBack(slots: EndpointSlots, use: Use, count = 1): void {
  for (let given = 0; given < count; given += 1) {
    const release = held.get(slots)![use].pop()!;
    // However often it is called, it gives one back.
    for (let times = 0; times < 3; times += 1) release();
  }
}

it('are never all taken by history, and left to the live range alone while that takes them', () => {
  const slots = endpointSlots(8);
  expect(take(slots, 'history')).toBe(6);
  expect(take(slots, 'other')).toBe(2);
  expect(take(slots, 'lowest')).toBe(0);
  giveBack(slots, 'history', 6);
  expect([take(slots, 'other'), take(slots, 'lowest'), take(slots, 'history')]).toEqual([5, 1, 0]);
  giveBack(slots, 'other');
  expect(take(slots, 'history')).toBe(0);
});

it('are given to history by its share, one of them in any case, and to the live range all the same', async () => {
  let share = 1;
  const slots = endpointSlots(8, () => share);
  expect(take(slots, 'history')).toBe(6);
  giveBack(slots, 'history', 6);
  share = 0.5;
  expect(take(slots, 'history')).toBe(3);
  share = 0.001;
  expect(take(slots, 'history')).toBe(0);
  giveBack(slots, 'history', 3);
  expect(take(slots, 'history')).toBe(1);
  expect(take(slots, 'other')).toBe(7);
  giveBack(slots, 'other', 7);
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
  const slots = endpointSlots(4);
  const order: string[] = [];
  let wanted = 2;
  const lives: (() => void)[] = [];
  slots.onFreed('history', () => {
    if (slots.tryAcquire(NODE, 'history') !== undefined) order.push('history');
  });
  slots.onFreed('live', () => {
    while (wanted > 0) {
      const release = slots.tryAcquire(NODE, 'lowest');
      if (release === undefined) return;
      lives.push(release);
      wanted -= 1;
      order.push('live');
    }
  });
  expect(take(slots, 'history')).toBe(3);
  expect(take(slots, 'lowest')).toBe(1);
  // Whoever gives a slot back would take it again at once.
  giveBack(slots, 'history');
  expect(slots.tryAcquire(NODE, 'history')).toBeUndefined();
  await Promise.resolve();
  expect(order).toEqual(['live']);
  giveBack(slots, 'history');
  await Promise.resolve();
  for (const release of lives) release();
  await Promise.resolve();
  expect(order).toEqual(['live', 'live', 'history']);
});

it('are halved where no call is answered in time, down to two, and grow with each answer', () => {
  const slots = endpointSlots(8);
  const free = (): number => {
    const taken = take(slots, 'other') + take(slots, 'lowest');
    giveBack(slots, 'lowest');
    giveBack(slots, 'other', taken - 1);
    return taken;
  };
  const answered = (answeredAtMs: number): void => slots.returned(NODE, 0, answeredAtMs);
  const late = (sentAtMs: number): void => slots.returned(NODE, sentAtMs);
  answered(10);
  // Others were answered meanwhile: this one hung.
  late(10);
  expect(free()).toBe(8);
  late(11);
  expect(free()).toBe(4);
  for (let times = 0; times < 8; times += 1) late(11);
  expect(free()).toBe(2);
  answered(20);
  expect(free()).toBe(3);
  for (let times = 0; times < 8; times += 1) answered(20);
  expect(free()).toBe(8);
});

it('go to the live range first where there is a single one', async () => {
  const slots = endpointSlots(1);
  slots.onFreed('history', () => slots.tryAcquire(NODE, 'history'));
  slots.onFreed('live', () => take(slots, 'lowest'));
  expect([take(slots, 'history'), take(slots, 'lowest')]).toEqual([1, 0]);
  giveBack(slots, 'history');
  expect(take(slots, 'history')).toBe(0);
  await Promise.resolve();
  expect([take(slots, 'history'), slots.inUse]).toEqual([0, 1]);
  slots.tryAcquire('b:1', 'lowest');
  expect(slots.inUse).toBe(2);
  giveBack(slots, 'lowest');
  expect(slots.inUse).toBe(1);
});
