import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { Admission, ForwardingAdmission } from '../../../src/access/index.js';
import { DOWN_AFTER_MS, HUNG_AFTER_MS, keepReaderThread } from '../../../src/app/threads/keepReaderThread.js';
import { MAX_RECORDS_UNDER_WAY, serveReaders } from '../../../src/app/threads/serveReaders.js';
import { callsOver } from '../../../src/app/threads/calls.js';
import type { IndexerCalls, ReaderData, ReaderState } from '../../../src/app/threads/messages.js';
import type { ReaderHandle } from '../../../src/app/threads/startWorker.js';
import type { ReaderSources } from '../../../src/app/threads/keepReaderThread.js';
import type { MetricsSnapshot } from '../../../src/observability/index.js';
import { createMetrics, createReaderMetrics, mergedPage } from '../../../src/observability/index.js';
import { AbortError, EndGate, systemClock } from '../../../src/runtime/index.js';
import { readerOptions } from '../../support/readerOptions.js';
import { RecordingLogger, ScrapedMetrics, scratchDirectory, VirtualClock } from '../../support/index.js';

const host = '127.0.0.1';
const addresses = { api: { host, port: 4001 }, grpc: { host, port: 4002 } } as const;

interface Got {
  readonly id?: number;
  readonly call?: string;
  readonly args?: readonly unknown[];
  readonly answer?: unknown;
}

/** A reader thread that does what the test says. */
class FakeThread extends EventEmitter implements ReaderHandle {
  readonly options: ReaderData;
  readonly gate: EndGate;
  readonly got: Got[] = [];
  isTerminated = false;
  /** What it says when its metrics are asked for; nothing before. */
  counted: MetricsSnapshot | undefined;
  readonly #fromOwner = new EventEmitter();
  readonly #unanswered: number[] = [];
  readonly owner = callsOver<IndexerCalls>(
    { postMessage: (message) => this.emit('message', message), on: this.#fromOwner.on.bind(this.#fromOwner) },
    {},
  );

  constructor(options: ReaderData) {
    super();
    this.options = options;
    this.gate = EndGate.loaded(options.gate);
  }

  postMessage(message: Got): void {
    this.got.push(message);
    if (message.call === 'show') this.#unanswered.push(message.id ?? 0);
    else if (message.call === 'metrics' && this.counted !== undefined)
      this.emit('message', { id: message.id, answer: this.counted });
    else if (message.call === undefined) this.#fromOwner.emit('message', message);
  }

  terminate(): void {
    this.isTerminated = true;
    this.ends();
  }

  async acks(): Promise<void> {
    for (const id of this.#unanswered.splice(0)) this.emit('message', { id });
    await Promise.resolve();
  }

  ends(error?: unknown): void {
    if (error !== undefined) this.emit('error', error);
    this.emit('exit');
  }

  /** The states that it was shown since the last time. */
  shown(): ReaderState[] {
    return this.got.splice(0).flatMap(({ args, call }) => (call === 'show' ? (args as [ReaderState]) : []));
  }
}

function owner(admission: ForwardingAdmission = { admit: () => Promise.resolve('busy') }) {
  const clock = new VirtualClock();
  const logger = new RecordingLogger();
  const metrics = createMetrics({ version: '', node: '' });
  const threads: FakeThread[] = [];
  const state = { height: 1, isReady: true };
  const shown = { meta: undefined, coverage: [], latestBlock: undefined, rewinds: 0, accounts: undefined };
  const thread = keepReaderThread(readerOptions(), {
    ...{ clock, logger, metrics },
    start: (options) => {
      const made = new FakeThread(options);
      threads.push(made);
      return made;
    },
  });
  const sources: ReaderSources = {
    state: () => ({
      shown: { ...shown, latestIndexedHeight: state.height },
      ...{ head: null, sealed: null, isReady: state.isReady, forwardingOff: undefined, nodes: [] },
    }),
    status: () => ({ chainId: 'flow-localnet' }) as never,
    momentAt: (height) => ({ height }) as never,
    damaged: () => undefined,
    admission,
  };
  const last = (): FakeThread => threads[threads.length - 1]!;
  const scrape = async (): Promise<ScrapedMetrics> =>
    new ScrapedMetrics((await mergedPage(metrics.registry, await thread.metrics())).text);
  const listens = async (): Promise<void> => {
    await last().acks();
    last().owner.tell('listens', addresses);
  };
  return { clock, last, listens, logger, metrics, scrape, sources, state, thread, threads };
}

/** One that listens and has acknowledged what it was sent. */
async function serving(...how: Parameters<typeof owner>) {
  const made = owner(...how);
  const served = made.thread.serve(made.sources);
  await made.listens();
  await served;
  made.last().got.splice(0);
  return made;
}

const heights = (states: readonly ReaderState[]): number[] =>
  states.map(({ shown }) => shown.latestIndexedHeight);

it('the state of the index is sent when it changes, one message at a time, of the newest, and every second, with what changes slowly', async () => {
  const { clock, last, state, thread } = await serving();
  for (state.height = 2; state.height <= 1_000; state.height += 1) thread.notify();
  expect(heights(last().shown())).toEqual([2]);
  await last().acks();
  expect(heights(last().shown())).toEqual([1_001]);
  await last().acks();
  expect(last().shown()).toEqual([]);
  state.isReady = false;
  await clock.advance(1_000);
  expect(last().shown()[0]).toMatchObject({ isReady: false });
});

it('log records of the thread are bounded while the indexing thread is busy; the rest is counted there, and told', async () => {
  const posted: Got[] = [];
  let receive = (_message: unknown): void => undefined;
  const postMessage = (message: unknown): void => void posted.push(message as Got);
  const { last, logger, metrics, sources } = await serving();
  const options = readerOptions({}, scratchDirectory());
  const served = serveReaders(
    { ...options(), gate: new EndGate().memory },
    {
      ...{ port: { postMessage, on: (_event, listener) => (receive = listener) }, clock: systemClock },
      // There is no store to open.
      fail: () => undefined,
      onLogger: (ofThread) => {
        for (let record = 0; record < MAX_RECORDS_UNDER_WAY + 5; record += 1)
          ofThread.info({ record }, 'said');
      },
    },
  );
  receive({ call: 'show', args: [sources.state()] });
  await served;
  expect(posted.filter(({ call }) => call === 'log')).toHaveLength(MAX_RECORDS_UNDER_WAY);
  for (const message of posted) if (message.call === 'logLost') last().emit('message', message);
  expect((await metrics.logLinesLost.get()).values).toMatchObject([{ value: 5 }]);
  expect(logger.records).toMatchObject([
    { level: 'warn', fields: { records: 5 }, message: 'log records of the reader thread were dropped' },
  ]);
});

describe('a thread that does not answer', () => {
  it('is told of after three seconds, replaced after eight, and counted', async () => {
    const { clock, last, listens, logger, metrics, thread, threads } = await serving();
    await clock.advance(HUNG_AFTER_MS - 1_000);
    expect(thread.down()).toBeDefined();
    // It answers in time.
    await last().acks();
    expect([thread.down(), threads.length]).toEqual([undefined, 1]);
    await clock.advance(DOWN_AFTER_MS);
    expect(thread.down()).toBeUndefined();
    await clock.advance(1_000);
    expect(thread.down()).toMatch(/has not answered for 3 s/);
    await clock.advance(HUNG_AFTER_MS);
    expect(threads.map(({ isTerminated }) => isTerminated)).toEqual([true, false]);
    // On the ports that the first one was given.
    expect(last().options.config.api).toMatchObject({ port: 4001, grpcPort: 4002 });
    expect(thread.down()).toMatch(/a new one is starting/);
    expect(heights(last().shown())).toEqual([1]);
    await listens();
    expect(thread.down()).toBeUndefined();
    expect((await metrics.readersReplaced.get()).values).toMatchObject([
      { labels: { reason: 'died' }, value: 0 },
      { labels: { reason: 'hung' }, value: 1 },
    ]);
    expect(logger.messages()).toEqual(['the reader thread has ended', 'readers are served again']);
  });

  it('is not ended while it makes what nobody would free, but not waited for without end', async () => {
    const { clock, last } = await serving();
    const thread = last();
    let ends = (): void => undefined;
    const within = new Promise<void>((resolve) => (ends = resolve));
    thread.gate.within(() => {
      // Time passes elsewhere while this thread is here.
      void clock.advance(HUNG_AFTER_MS + 1_000).then(ends);
    });
    await within;
    expect(thread.isTerminated).toBe(true);
  });

  it('while it loads is waited for, however long', async () => {
    const { clock, last, thread } = owner();
    const { options } = last();
    // As at the beginning of a thread.
    Atomics.store(new Int32Array(options.gate), 0, 0);
    const closing = thread.close();
    await clock.advance(60_000);
    expect(last().isTerminated).toBe(false);
    EndGate.loaded(options.gate);
    await clock.advance(100);
    expect(last().isTerminated).toBe(true);
    await closing;
  });
});

it('a thread that ends is followed by another one at once, after longer pauses when that ends as well, and at once again after one that served for a minute', async () => {
  const { clock, last, listens, logger, thread, threads } = await serving();
  for (const expected of [0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    const count = threads.length;
    last().ends(new Error('broken'));
    expect(thread.down()).toMatch(/has ended \(broken\)/);
    await clock.advance(Math.max(0, expected - 1));
    if (expected > 0) expect(threads).toHaveLength(count);
    await clock.advance(1);
    expect(threads).toHaveLength(count + 1);
    expect(logger.records.at(-1)?.fields).toMatchObject({ restartInMs: expected });
  }
  await listens();
  const count = threads.length;
  for (let seconds = 0; seconds < 61; seconds += 1) {
    await clock.advance(1_000);
    await last().acks();
  }
  last().ends(new Error('broken'));
  await clock.advance(1);
  expect(threads).toHaveLength(count + 1);
});

it('a thread that ends keeps what it counted, and not its levels', async () => {
  const { clock, last, listens, scrape } = await serving();
  const tell = async (requests: number): Promise<void> => {
    const told = createReaderMetrics();
    told.apiRequests.inc({ interface: 'http', route: '/', status: '200' }, requests);
    told.apiLatency.observe({ interface: 'http', route: '/', status: '200' }, 0.1);
    told.upstreamRequests.inc({ endpoint: 'node', method: 'Ping' }, 2);
    told.feedFollowers.set({ kind: 'events' }, 5);
    last().counted = await told.snapshot();
  };
  const scraped = async (): Promise<ScrapedMetrics> => {
    const page = scrape();
    await clock.advance(250);
    return page;
  };
  await tell(3);
  expect((await scraped()).sum('api_requests_total')).toBe(3);
  last().ends(new Error('broken'));
  await clock.advance(1);
  const between = await scraped();
  expect([between.sum('api_requests_total'), between.series('feed_followers')]).toEqual([3, []]);
  await listens();
  await tell(4);
  const after = await scraped();
  expect(after.sum('api_requests_total')).toBe(7);
  expect(after.sum('api_request_seconds_count')).toBe(2);
  expect(after.sum('upstream_requests_total')).toBe(4);
  expect(after.value('feed_followers', { kind: 'events' })).toBe(5);
});

describe('what the thread asks', () => {
  it('is answered, the status behind the state that it tells of', async () => {
    const { last } = await serving();
    const { got, owner: asked } = last();
    const [moment, status] = [{ height: 12 }, { chainId: 'flow-localnet' }];
    expect(await asked.ask(undefined, 'momentAt', 12)).toEqual(moment);
    expect(await asked.ask(undefined, 'status')).toEqual(status);
    expect(got.map(({ answer, call }) => call ?? answer)).toEqual([moment, 'show', status]);
  });

  it('of a call to be forwarded is answered when its turn comes, withdrawn when it gives up, and given back when the thread ends', async () => {
    const ends: string[] = [];
    let admit: (admission: Admission) => void = () => undefined;
    let makeWay = (): void => undefined;
    let signal: AbortSignal | undefined;
    const { clock, last } = await serving({
      admit: (_node, { method }, given) => {
        signal = given;
        if (method === 'Busy') return Promise.resolve('busy');
        return new Promise((resolve, reject) => {
          admit = resolve;
          given.addEventListener('abort', () => reject(new AbortError()));
        });
      },
    });
    const { got, owner: asked } = last();
    const call = { method: 'Busy', isStream: false };
    const admitted = asked.ask(undefined, 'admit', 2, 'node', { ...call, method: 'Some' });
    expect(await asked.ask(undefined, 'admit', 1, 'node', call)).toBe('busy');
    admit({ over: (end) => ends.push(end), onMakeWay: (end) => (makeWay = end) });
    expect(await admitted).toBe('admitted');
    makeWay();
    expect(got.at(-1)).toEqual({ call: 'makeWay', args: [2] });
    asked.tell('admit', 3, 'node', { ...call, method: 'Some' });
    await clock.settle();
    asked.tell('over', 3, 'other');
    expect(signal?.aborted).toBe(true);
    last().ends(new Error('broken'));
    expect(ends).toEqual(['other']);
  });
});

it('the first thread that breaks is a bug', async () => {
  const { last, sources, thread } = owner();
  const bug = new Error('broken');
  const served = thread.serve(sources);
  last().ends(bug);
  await expect(served).rejects.toBe(bug);
});

it.each(['by itself', 'when it is terminated', 'at once, as it hangs'])(
  'closing: the thread ends %s',
  async (how) => {
    const { clock, last, thread, threads } = await serving();
    const hangs = how.includes('hangs');
    if (hangs) await clock.advance(DOWN_AFTER_MS + 1_500);
    const closing = thread.close();
    if (!hangs) expect(last().got.at(-1)).toEqual({ call: 'stop', args: [] });
    if (how === 'by itself') last().ends();
    else await clock.advance(hangs ? 0 : 4_000);
    expect(last().isTerminated).toBe(how !== 'by itself');
    await closing;
    expect([threads.length, clock.pendingTimers]).toEqual([1, 0]);
    if (!hangs) expect(thread.down()).toBeUndefined();
  },
);
