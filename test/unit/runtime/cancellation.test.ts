import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { AbortError, childOf, orAborted, Pause, places, sleep } from '../../../src/runtime/index.js';
import { unlessAborted } from '../../../src/runtime/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

const listeners = (...signals: readonly AbortSignal[]): number =>
  signals.reduce((sum, signal) => sum + getEventListeners(signal, 'abort').length, 0);

describe('a wait that may be cancelled', () => {
  /** Waits, and counts how often it began and ended. */
  function waiting(signal: AbortSignal | undefined) {
    const counts = { begun: 0, ended: 0 };
    let settle = (_value: string): void => undefined;
    const promise = unlessAborted<string>(signal, (resolve) => {
      counts.begun += 1;
      settle = resolve;
      return () => (counts.ended += 1);
    });
    promise.catch(() => undefined);
    return { counts, promise, settle: (value: string) => settle(value) };
  }

  it.each(['settled', 'aborted'])('ends once, and leaves no listener, when it is %s', async (how) => {
    const controller = new AbortController();
    const { counts, promise, settle } = waiting(controller.signal);
    expect(listeners(controller.signal)).toBe(1);
    if (how === 'settled') settle('first');
    controller.abort(new AbortError('over'));
    settle('second');
    expect([counts, listeners(controller.signal)]).toEqual([{ begun: 1, ended: 1 }, 0]);
    if (how === 'settled') expect(await promise).toBe('first');
    else await expect(promise).rejects.toThrow('over');
  });

  it('never begins where the signal has aborted, and ends as well when it is settled while it begins, and when it cannot begin', async () => {
    const { counts, promise } = waiting(AbortSignal.abort(new AbortError('before')));
    await expect(promise).rejects.toThrow('before');
    expect(counts).toEqual({ begun: 0, ended: 0 });
    const { signal } = new AbortController();
    let ended = 0;
    const value = await unlessAborted<number>(signal, (settle) => {
      settle(7);
      return () => (ended += 1);
    });
    expect([value, ended, listeners(signal)]).toEqual([7, 1, 0]);
    const failing = unlessAborted(signal, () => {
      throw new TypeError('a bug');
    });
    await expect(failing).rejects.toThrow('a bug');
    expect(listeners(signal)).toBe(0);
  });

  it('leaves neither timer nor listener as a sleep or a pause, however that ends', async () => {
    const clock = new VirtualClock();
    const pause = new Pause({ clock });
    const controller = new AbortController();
    const { signal } = controller;
    const all = [sleep(clock, 10, signal), pause.sleep(10_000, signal)];
    pause.wake();
    pause.wake();
    await clock.advance(10);
    await Promise.all(all);
    expect([listeners(signal), clock.pendingTimers]).toEqual([0, 0]);
    const unlimited = pause.sleep(Infinity, signal);
    expect(clock.pendingTimers).toBe(0);
    controller.abort(new AbortError('over'));
    await expect(unlimited).rejects.toThrow('over');
    expect(listeners(signal)).toBe(0);
  });
});

it('work is waited for until an abort, however often, and leaves no listener behind', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  for (let time = 0; time < 20; time += 1) expect(await orAborted(Promise.resolve(time), signal)).toBe(time);
  await expect(orAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no');
  expect(listeners(signal)).toBe(0);
  const endless = orAborted(new Promise(() => undefined), signal);
  controller.abort(new AbortError('over'));
  await expect(endless).rejects.toThrow('over');
  // Its failure after the abort is nobody's: it must not end the process.
  await expect(orAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('over');
  await new Promise(setImmediate);
});

it('a child of signals aborts with the first of them, for its reason, and leaves the others', () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const child = childOf(first.signal, second.signal);
  expect(listeners(first.signal, second.signal)).toBe(2);
  second.abort(new AbortError('the second'));
  expect(child.signal.reason).toMatchObject({ message: 'the second' });
  first.abort(new AbortError('the first'));
  expect(child.signal.reason).toMatchObject({ message: 'the second' });
  expect(listeners(first.signal, second.signal)).toBe(0);
  expect(childOf(new AbortController().signal, second.signal).signal.aborted).toBe(true);
});

it('a place is given back however its task ends, and a wait that is aborted leaves the line', async () => {
  const [left, stays] = [new AbortController(), new AbortController()];
  const inTurn = places(1);
  const fails = expect(inTurn(() => Promise.reject(new Error('no')), stays.signal)).rejects.toThrow('no');
  const leaves = expect(inTurn(() => Promise.reject(new Error('ran')), left.signal)).rejects.toThrow('over');
  const follows = inTurn(() => Promise.resolve('ran'), stays.signal);
  left.abort(new AbortError('over'));
  await Promise.all([fails, leaves]);
  expect([await follows, await inTurn(() => Promise.resolve('again'))]).toEqual(['ran', 'again']);
  expect(listeners(left.signal, stays.signal)).toBe(0);
});
