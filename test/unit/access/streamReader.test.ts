import { beforeEach, describe, expect, it } from 'vitest';
import { StreamReader, UpstreamError } from '../../../src/access/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

const LIMIT_MS = 5_000;

let clock: VirtualClock;
let stop: AbortController;
let late: unknown[];

beforeEach(() => {
  clock = new VirtualClock();
  stop = new AbortController();
  late = [];
});

/** A stream that heeds no signal: each read is answered when the test says so. */
class DeafStream implements AsyncIterableIterator<number> {
  #pending: { resolve(result: IteratorResult<number>): void; reject(error: Error): void } | undefined;
  left = 0;

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<number>> {
    return new Promise((resolve, reject) => (this.#pending = { resolve, reject }));
  }

  return(): Promise<IteratorResult<number>> {
    this.left += 1;
    return Promise.resolve({ done: true, value: undefined });
  }

  give(value: number): void {
    this.#pending?.resolve({ done: false, value });
  }

  fail(error: Error): void {
    this.#pending?.reject(error);
  }
}

function reading(limitMs?: number): { readonly stream: DeafStream; readonly reader: StreamReader<number> } {
  const stream = new DeafStream();
  const dependencies = { open: () => stream, signal: stop.signal, clock };
  const onLateError = (error: unknown): void => void late.push(error);
  return {
    stream,
    reader: new StreamReader({ ...dependencies, onLateError, ...(limitMs === undefined ? {} : { limitMs }) }),
  };
}

describe('a stream that is read', () => {
  it('gives one item at a time', async () => {
    const { stream, reader } = reading();
    const first = reader.read();
    stream.give(7);
    expect(await first).toEqual({ done: false, value: 7 });
  });

  it('ends a pending read at once when it is cancelled, whatever the stream does, with the first reason', async () => {
    const { stream, reader } = reading();
    const reason = new Error('left');
    const pending = reader.read();
    reader.cancel(reason);
    reader.cancel(new Error('left twice'));
    await expect(pending).rejects.toBe(reason);
    await expect(reader.read()).rejects.toBe(reason);
    expect(stream.left).toBe(1);
  });

  it('ends with the signal that it was given', async () => {
    const { stream, reader } = reading();
    const pending = reader.read();
    stop.abort(new Error('the daemon stops'));
    await expect(pending).rejects.toThrow('the daemon stops');
    expect(stream.left).toBe(1);
  });

  it('tells silence, counted from the read and not from the last timer, and leaves no timer behind', async () => {
    const { stream, reader } = reading(LIMIT_MS);
    const first = reader.read();
    await clock.advance(LIMIT_MS - 1_000);
    stream.give(1);
    await first;
    let silent: unknown;
    void reader.read().then((result) => (silent = result));
    await clock.advance(LIMIT_MS - 1);
    expect(silent).toBeUndefined();
    await clock.advance(1);
    expect(silent).toBe('silent');
    reader.cancel();
    expect(clock.pendingTimers).toBe(0);
  });

  it('passes on a bug that shows after it was cancelled, and nothing else', async () => {
    for (const error of [
      new UpstreamError('unavailable', { node: 'a:1', method: 'SubscribeExecutionData' }, 'gone'),
      new TypeError('a bug'),
    ]) {
      const { stream, reader } = reading();
      const pending = reader.read();
      reader.cancel(new Error('left'));
      await expect(pending).rejects.toThrow('left');
      stream.fail(error);
      await clock.settle();
    }
    expect(late).toEqual([new TypeError('a bug')]);
  });
});
