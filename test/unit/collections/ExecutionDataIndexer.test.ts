import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ExecutionDataIndexer, PEER } from '../../../src/collections/index.js';
import type { ExecutionDataIndexerOptions } from '../../../src/collections/executionData/ExecutionDataIndexer.js';
import { UpstreamError } from '../../../src/access/index.js';
import type { BlockExecutionData, FinalizedBlock } from '../../../src/flow/index.js';
import { AbortError } from '../../../src/runtime/index.js';
import { NodesInMemory, counted } from '../../support/index.js';
import { FAILURES, makeBlock, methodsOf, RecordedNodes, sources } from './sourceHarness.js';
import type { FakeNode, FakeStream, MadeBlock } from './sourceHarness.js';

const OPTIONS: ExecutionDataIndexerOptions = {
  ...{ silenceMs: 10_000, backoffMinMs: 200, backoffMaxMs: 10_000 },
  lookaheadHeights: 256,
};
const WITHIN_MS = 500;
const METHOD = 'SubscribeExecutionDataFromStartBlockHeight';
const DEPRECATED = 'SubscribeExecutionData';

let { clock, ends, durable, headMoves, sink, window, waiters, logger, metrics, a, b } = sources();
let nodes: NodesInMemory<FakeNode>;
let sealed: number | undefined;
let made: Map<number, MadeBlock>;
let controller: AbortController;
let running: Promise<void> | undefined;
let bug: unknown;

beforeEach(() => {
  ({ clock, ends, durable, headMoves, sink, window, waiters, logger, metrics, a, b } = sources(99));
  nodes = new NodesInMemory([a]);
  sealed = 1_000;
  made = new Map();
  controller = new AbortController();
  running = undefined;
  bug = undefined;
});

/** Every run ends cleanly: the stream is closed and no timer is left. */
afterEach(async () => {
  controller.abort(new AbortError());
  await clock.settle();
  await running;
  for (const node of [a, b]) for (const stream of node.streams) expect(stream.isClosed).toBe(true);
  expect(clock.pendingTimers).toBe(0);
  expect(waiters()).toBe(0);
});

function start(options: Partial<ExecutionDataIndexerOptions> = {}): ExecutionDataIndexer {
  const indexer = new ExecutionDataIndexer(
    { ...OPTIONS, ...options },
    {
      ...{ nodes, window, sink, clock, logger, metrics },
      ...{ dueHeight: () => sealed, random: { next: () => 0 } },
    },
  );
  running = indexer.run(controller.signal).catch((error: unknown) => {
    bug = error;
  });
  return indexer;
}

/** A block of the chain; the same height always gives the same block. */
function blockAt(height: number, collections = 2): MadeBlock {
  const known = made.get(height) ?? makeBlock(height, collections);
  made.set(height, known);
  return known;
}

const dataOf = (height: number): BlockExecutionData => blockAt(height).data;

function handOut(
  from: number,
  to: number,
  collections = 2,
  change: (height: number) => Partial<FinalizedBlock> = () => ({}),
): void {
  for (let height = from; height <= to; height += 1) {
    const record = window.link({ ...blockAt(height, collections).block, ...change(height) });
    record.missingCount = 1;
    if (record.status === 'linked') window.move(record, 'collecting');
  }
  window.notify();
}

function index(to: number): void {
  ends.indexed = to;
  for (const record of [...window.all()]) {
    if (record.height > to) continue;
    record.missingCount = 0;
    window.move(record, 'complete');
    window.move(record, 'durable');
  }
  window.moved();
}

/** A node that has the true data of the chain, from wherever it is asked. */
function serves(to: number): (stream: FakeStream) => void {
  return (stream) => {
    for (let height = stream.startHeight; height <= to; height += 1) stream.push(dataOf(height));
  };
}

/** Blocks up to this height are handed out, and the stream is followed for so long. */
async function following(
  to: number,
  ms = 0,
  options: Partial<ExecutionDataIndexerOptions> = {},
): Promise<ExecutionDataIndexer> {
  handOut(100, to);
  const indexer = start(options);
  await clock.advance(ms);
  return indexer;
}

const deliveredHeights = (): number[] => sink.blocks.map(({ height }) => height);
const opened = (node: FakeNode): number[] => node.streams.map((stream) => stream.startHeight);

it('following the stream: lets others have their turn in the midst of a burst', async () => {
  // Ten messages of 100 kB that have all arrived: three per turn, and they need no time.
  handOut(100, 109);
  a.onStream = (stream) => {
    for (let height = 100; height <= 109; height += 1)
      stream.push({ ...dataOf(height), byteLength: 100_000 });
  };
  start();
  await clock.turn();
  expect(deliveredHeights()).toEqual([100, 101, 102]);
  expect(a.stream.pulls).toBe(3);
  await clock.settle();
  expect(deliveredHeights()).toHaveLength(10);
});

it('following the stream: never asks for height 0, which older nodes take for one that was not given', async () => {
  ends.indexed = -1;
  handOut(0, 0, 0);
  handOut(1, 1);
  start();
  await clock.settle();
  expect(opened(a)).toEqual([1]);
  a.stream.push(dataOf(1));
  await clock.settle();
  expect(deliveredHeights()).toEqual([1]);
});

it('back-pressure passes over durable heights unread, even when their data is nonsense', async () => {
  durable.add(100);
  await following(103);
  durable.add(101).add(102);
  a.stream.push({ ...dataOf(101), chunks: [] }, { ...dataOf(102), blockId: dataOf(99).blockId }, dataOf(103));
  await clock.settle();
  expect(deliveredHeights()).toEqual([103]);
  expect(await counted(metrics, 'execution_data_skipped_total')).toBe(2);
  expect(await counted(metrics, 'invalid_collections_total')).toBe(0);
});

const first =
  (chunk: readonly Uint8Array[]) =>
  (data: BlockExecutionData): BlockExecutionData => ({ ...data, chunks: [chunk, ...data.chunks.slice(1)] });
const another = makeBlock(8, 1);
// Which chunks there may be: test/unit/flow/collections.test.ts.
const cases: readonly [string, (data: BlockExecutionData) => BlockExecutionData, string][] = [
  ['another block', (data) => ({ ...data, blockId: another.block.id }), 'wrong_block'],
  ['a wrong body', first(another.data.chunks[0]!), 'id_mismatch'],
  ['bytes that are no transaction', first([Buffer.from('nonsense')]), 'malformed'],
  ['a height too high', (data) => ({ ...data, height: data.height + 1 }), 'malformed'],
  ['a height again', (data) => ({ ...data, height: data.height - 1 }), 'malformed'],
];

it.each([
  ['guarantees', 'id_mismatch'],
  ['block', 'wrong_block'],
] as const)('a lie is one at once where our %s are certain', async (what, reason) => {
  nodes = new NodesInMemory([a, b]);
  handOut(100, 102, 2, (height) =>
    what === 'block' ? { parentId: blockAt(height - 1).block.id } : { proof: new Uint8Array(1) },
  );
  await following(102);
  const [, lie] = cases.find(([, , each]) => each === reason)!;
  a.stream.push(dataOf(100), lie(dataOf(101)));
  await clock.settle();
  expect(nodes.faults()).toEqual(['a:9000 lied']);
});

it.each(cases)(
  'a lie, %s: refused, counted, held against the node, asked elsewhere',
  async (_, lie, reason) => {
    nodes = new NodesInMemory([a, b]);
    b.onStream = serves(102);
    await following(102);
    a.stream.push(dataOf(100), lie(dataOf(101)), dataOf(102));
    await clock.settle();
    expect(deliveredHeights()).toEqual([100]);
    expect(a.stream.isClosed).toBe(true);
    await clock.advance(200);
    expect(opened(b)).toEqual([101]);
    expect(deliveredHeights()).toEqual([100, 101, 102]);
    // What does not match the guarantees may be the truth, and they the lie.
    const isOpen = reason !== 'malformed';
    expect(nodes.faults()).toEqual(isOpen ? [] : ['a:9000 lied']);
    expect(await counted(metrics, 'invalid_collections_total')).toBe(1);
    expect(await counted(metrics, 'invalid_collections_total', { source: 'edi', reason })).toBe(1);
    expect(await counted(metrics, 'stream_reopens_total', { stream: 'execution_data' })).toBe(1);
  },
);

const notYet = ['not_yet', 'not_found', 'below_root', 'rate_limited'] as const;
const refusals = [...notYet, 'invalid_argument', 'failed_precondition'] as const;
it.each(refusals)('a stream that fails at its start is opened again after a pause: %s', async (kind) => {
  a.onStream = (stream) => stream.push(a.error(kind, METHOD));
  await following(100, 199);
  expect(nodes.reported).toEqual([]);
  await clock.advance(1 + 400 + 800);
  expect(opened(a)).toEqual([100, 100, 100, 100]);
  a.onStream = serves(100);
  await clock.advance(1_600);
  expect(deliveredHeights()).toEqual([100]);
  // What keeps a sealed height from us is better asked by the other call.
  expect([...new Set(nodes.faults())]).toEqual(['a:9000 failing']);
});

it('a stream that fails is not held against a node that we kept waiting', async () => {
  await following(100);
  a.stream.push(dataOf(100), a.error('deadline', METHOD));
  await clock.advance(40_000);
  handOut(101, 101);
  await clock.advance(200);
  expect(opened(a)).toEqual([100, 101]);
  expect(nodes.reported).toEqual([]);
});

it('a stream that fails waits 10 s at most between attempts, and 200 ms again once it delivered', async () => {
  const openedAtMs: number[] = [];
  a.onStream = (stream) => {
    openedAtMs.push(clock.monotonic());
    stream.push('end');
  };
  await following(102, 120_000);
  const pauses = openedAtMs.slice(1).map((atMs, place) => atMs - openedAtMs[place]!);
  expect(pauses.slice(0, 8)).toEqual([200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
  a.onStream = (stream) => {
    openedAtMs.push(clock.monotonic());
    stream.push(dataOf(stream.startHeight), 'end');
  };
  await clock.advance(10_200);
  expect(openedAtMs.at(-1)! - openedAtMs.at(-2)!).toBe(200);
});

it('a stream that stands still is opened again, elsewhere, when data is due', async () => {
  nodes = new NodesInMemory([a, b]);
  b.onStream = serves(101);
  await following(101);
  a.stream.push(dataOf(100));
  await clock.advance(9_999);
  expect(a.stream.isClosed).toBe(false);
  await clock.advance(2_501 + 200);
  expect(a.stream.isClosed).toBe(true);
  expect(deliveredHeights()).toEqual([100, 101]);
  expect(nodes.faults()).toEqual(['a:9000 stale']);
  expect(await counted(metrics, 'stream_reopens_total', { stream: 'execution_data', reason: 'silent' })).toBe(
    1,
  );
});

it('a stream that stands still is waited for longer where messages take long, as over a slow line', async () => {
  const TAKES_MS = 35_000;
  sealed = 103;
  const push = (stream: FakeStream, height: number): void => {
    if (height > 103) return;
    clock.setTimer(TAKES_MS, () => {
      stream.push(dataOf(height));
      push(stream, height + 1);
    });
  };
  a.onStream = (stream) => push(stream, stream.startHeight);
  const { state } = await following(104, 4_000 + 4_200 + 8_400 + 16_800 + 33_600 + 3_200);
  // The chain grows meanwhile.
  sealed = 200;
  await clock.advance(2.5 * TAKES_MS);
  expect([state.troubles(), state.trouble()], 'it takes its time').toEqual([[], undefined]);
  await clock.advance(1.5 * TAKES_MS);
  expect(deliveredHeights()).toEqual([100, 101, 102, 103]);
  expect(opened(a)).toEqual([100, 100, 100, 100, 100, 100]);
  expect(state.trouble()).toBeUndefined();
  await clock.advance(70_000);
  expect(a.streams.length, 'silence for good is not borne').toBeGreaterThan(6);
});

it('a stream is there soon after its node gives streams again that were silent from the first', async () => {
  const wellAtMs = clock.monotonic() + 10_000;
  a.onStream = ({ startHeight }) => {
    if (clock.monotonic() >= wellAtMs) a.stream.push(dataOf(startHeight));
  };
  await following(100, 20_000);
  expect(deliveredHeights()).toEqual([100]);
});

it('a stream that stands still is left in peace while it is we who do not read', async () => {
  a.onStream = (stream) => stream.push(dataOf(100));
  const { state } = await following(100);
  for (let minute = 0; minute < 60; minute += 1) {
    sealed = 1_000 + 60 * minute;
    await clock.advance(60_000);
  }
  expect(a.streams).toHaveLength(1);
  handOut(101, 101);
  await clock.settle();
  expect(state.status().state).toBe('streaming');
  expect(state.expects(101, WITHIN_MS)).toBe(true);
  a.stream.push(dataOf(101));
  await clock.settle();
  expect(deliveredHeights()).toEqual([100, 101]);
});

it('a stream that lags is left for another one when it is slower than the chain grows', async () => {
  nodes = new NodesInMemory([a, b]);
  sealed = 500;
  handOut(100, 200, 0);
  start();
  await clock.settle();
  for (let second = 0; second < 60 && b.streams.length === 0; second += 1) {
    sealed += 1;
    if (second % 5 === 0) a.stream.push(dataOf(100 + second / 5));
    await clock.advance(1_000);
  }
  expect(b.streams).toHaveLength(1);
  expect(nodes.faults()).toEqual(['a:9000 stale']);
  expect(await counted(metrics, 'stream_reopens_total', { reason: 'lagging' })).toBe(1);
});

it('a stream that lags hides no bug of the sink where its node serves no more', async () => {
  sealed = 102;
  const indexer = await following(102);
  await expect(indexer.run(controller.signal)).rejects.toThrow('already running');
  const error = new TypeError('a bug of the sink');
  sink.onReceivedCollectionsForBlock = () => {
    nodes.all = [b];
    throw error;
  };
  a.stream.push(dataOf(100));
  await clock.settle();
  expect(bug).toBe(error);
});

it('a stream that lags is left without report where its node goes on with blocks that the next spork discarded', async () => {
  sealed = 102;
  await following(102);
  a.stream.push(dataOf(100));
  await clock.settle();
  nodes.all = [b];
  b.onStream = serves(102);
  a.stream.push({ ...dataOf(101), blockId: makeBlock(7, 0).block.id });
  await clock.advance(200);
  expect(opened(b)).toEqual([101]);
  expect(deliveredHeights()).toEqual([100, 101, 102]);
  expect(nodes.reported).toEqual([]);
  expect(await counted(metrics, 'invalid_collections_total')).toBe(0);
});

it('nodes without execution data are asked again every minute, and used once they have it', async () => {
  const unimplemented = (stream: FakeStream): void => stream.push(a.error('unimplemented', METHOD));
  a.onStream = unimplemented;
  const { state } = await following(100, 59_999);
  expect(state.status().state).toBe('unavailable');
  expect(state.trouble()).toContain('no access node');
  const said = expect.stringMatching(/ does not offer execution data: .*unimplemented/) as string;
  expect(state.troubles()).toMatchObject([{ node: a.name, said, count: 1 }]);
  expect(a.streams).toHaveLength(1);
  await clock.advance(1);
  expect(a.streams).toHaveLength(2);
  await clock.advance(540_000);
  expect(a.streams).toHaveLength(11);
  expect(state.troubles()).toMatchObject([{ said, count: 11 }]);
  expect(logger.messages()).toEqual(['no access node offers execution data']);
  a.onStream = serves(100);
  await clock.advance(60_000);
  expect(deliveredHeights()).toEqual([100]);
  expect(state.trouble()).toBeUndefined();
});

it('what may be expected the next heights of a fresh stream, as far as they are sealed', async () => {
  sealed = 105;
  const { state } = await following(101, 0, { freshMs: 2_000 });
  a.stream.push(dataOf(100));
  await clock.advance(2_000);
  const expected = [99, 100, 101, 105, 106].filter((height) => state.expects(height, WITHIN_MS));
  expect(expected).toEqual([101, 105]);
  sealed = undefined;
  expect(state.expects(101, WITHIN_MS)).toBe(false);
  sealed = 105;
  await clock.advance(1);
  expect(state.expects(101, WITHIN_MS), 'it has gone stale').toBe(false);
});

it('what may be expected only what the present pace brings in time', async () => {
  const { state } = await following(140);
  for (let height = 100; height < 130; height += 1) {
    await clock.advance(100);
    a.stream.push(dataOf(height));
    await clock.settle();
  }
  expect([130, 134, 135].map((height) => state.expects(height, WITHIN_MS))).toEqual([true, true, false]);
});

it.each<readonly [string, () => unknown]>([
  ['while it reads', () => undefined],
  ['while it waits for the window', () => (ends.head = 99)],
  ['while it pauses', () => (a.onStream = (stream) => stream.push('end'))],
  [
    'while it reads from one that does not heed its signal',
    () => (a.onStream = (stream) => (stream.next = () => new Promise(() => undefined))),
  ],
  [
    'while no node has the feed',
    () => (a.onStream = (stream) => stream.push(a.error('unimplemented', METHOD))),
  ],
])('stopping ends at once %s', async (_, arrange) => {
  arrange();
  const { state } = await following(100);
  controller.abort(new AbortError());
  await running;
  expect(bug).toBeUndefined();
  expect(state.status()).toMatchObject({ state: 'off', endpoint: null });
  expect(state.trouble()).toContain('is not followed');
  expect(state.troubles()).toEqual([]);
});

it('of an error that shows in a stream that was left already, nobody hears', async () => {
  let break_: (error: Error) => void = () => undefined;
  a.onStream = (stream) => {
    stream.next = () => new Promise((_, reject) => (break_ = reject));
  };
  await following(100, 4_100);
  expect([a.streams.length, a.stream.isLeft]).toEqual([1, true]);
  break_(a.error('unavailable', METHOD));
  await clock.advance(200);
  expect(bug).toBeUndefined();
});

/** The node plays this for the current call, and that for the deprecated one. */
function playing(current: (stream: FakeStream) => void, other: (stream: FakeStream) => void): void {
  a.onStream = (stream) => (stream.method === METHOD ? current : other)(stream);
}

const faults: Readonly<Record<string, () => (BlockExecutionData | Error | 'end')[]>> = {
  ...Object.fromEntries(
    ([...FAILURES, 'below_root', 'rate_limited', 'deadline'] as const).map((kind) => [
      kind,
      () => [a.error(kind, METHOD)],
    ]),
  ),
  'an end': () => ['end'],
  silence: () => [],
  'another block': () => [{ ...dataOf(100), blockId: dataOf(99).blockId }],
  'chunks in another order': () => [{ ...dataOf(100), chunks: dataOf(100).chunks.toReversed() }],
  'a height too high': () => [dataOf(101)],
};

it.each(Object.entries(faults))(
  'the other call is taken while the first one fails by %s',
  async (_, sent) => {
    nodes = new RecordedNodes(clock, a);
    handOut(100, 102);
    playing((stream) => stream.push(...sent()), serves(102));
    start();
    await clock.advanceUntil(() => deliveredHeights().includes(102), 15_000);
    expect(methodsOf(a.streams).slice(0, 2)).toContain(METHOD);
    expect(methodsOf(a.streams).at(-1)).toBe(DEPRECATED);
    expect(new Set(methodsOf(nodes.reported))).toEqual(new Set([METHOD]));
    expect(new Set(methodsOf(nodes.confirmed))).toEqual(new Set([DEPRECATED]));
  },
);

it.each([
  ['says each height twice', 1, (height: number) => dataOf(height)],
  ['breaks after each height', 2, () => a.error('internal', METHOD)],
] as const)('the other call is taken soon from one that %s', async (_, times, second) => {
  nodes = new RecordedNodes(clock, a);
  handOut(100, 105);
  const current = ({ startHeight }: FakeStream): void =>
    a.stream.push(dataOf(startHeight), second(startHeight));
  playing(current, serves(105));
  start();
  await clock.advance(2_000);
  expect(methodsOf(a.streams)).toEqual([...Array.from({ length: times }, () => METHOD), DEPRECATED]);
  expect(deliveredHeights().at(-1)).toBe(105);
});

it('the other call that a node does not know leaves the one that it knows', async () => {
  nodes = new RecordedNodes(clock, a);
  handOut(100, 100);
  let isBroken = true;
  playing(
    (stream) => (isBroken ? stream.push(a.error('internal', METHOD)) : serves(100)(stream)),
    (stream) => {
      a.unknown.add(DEPRECATED);
      stream.push(a.error('unimplemented', DEPRECATED));
    },
  );
  const { state } = start();
  await clock.advance(1_500);
  expect(state.status().state).not.toBe('unavailable');
  isBroken = false;
  await clock.advance(5_000);
  expect(deliveredHeights()).toEqual([100]);
});

describe('why execution data does not come', () => {
  it('a node that names where it begins is asked for nothing below, and says so', async () => {
    const words = 'start height 100 is lower than lowest indexed height 103';
    a.onStream = (stream) => {
      if (stream.startHeight < 103)
        stream.push(new UpstreamError('invalid_argument', { node: a.name, method: METHOD }, words));
      else serves(104)(stream);
    };
    const { state } = await following(104, 500_000);
    expect(opened(a)).toEqual([100]);
    expect(state.status().state).toBe('unavailable');
    const said = 'a:9000 has no execution data below 103';
    expect(state.trouble()).toBe(said);
    const trouble = { node: 'a:9000', method: METHOD, kind: 'refused', count: 1, sinceMs: 0, said };
    expect(state.troubles()).toEqual([trouble]);
    expect(nodes.reported).toEqual([]);
    index(102);
    await clock.advance(1_000);
    expect(opened(a)).toEqual([100, 103]);
    expect(deliveredHeights()).toEqual([103, 104]);
    expect([state.trouble(), state.troubles()]).toEqual([undefined, []]);
  });

  it('a node that waits and says nothing for a sealed height is said to have pruned it', async () => {
    const { state } = await following(100, 2_999);
    expect(state.troubles()).toEqual([]);
    await clock.advance(1);
    expect(state.troubles()).toMatchObject([
      { node: 'a:9000', method: METHOD, kind: 'unreachable', count: 0, sinceMs: 0 },
    ]);
    await clock.advance(2_000);
    const said = `${METHOD} at a:9000: nothing came within 4 s, although the height is sealed; it may have pruned it, or the line is slow`;
    expect(state.trouble()).toBe(`the execution-data stream does not deliver: ${said}`);
    expect(state.troubles()).toMatchObject([{ node: 'a:9000', said, count: 1 }]);
  });

  it.each([
    ['not_found', `${METHOD}: not_found`, 'denied'],
    ['rate_limited', `${METHOD}: rate_limited`, 'rate_limited'],
    ['internal', `${METHOD}: internal`, 'refused'],
    ['malformed', `${METHOD}: malformed`, 'invalid'],
    ['another order', 'wrong_order: chunk 0', 'invalid'],
  ] as const)('%s is told in the words of the node, and as its trouble', async (kind, words, trouble) => {
    const data = dataOf(100);
    const twice = { ...data, chunks: [data.chunks[1]!, ...data.chunks.slice(1)] };
    a.onStream = (stream) => stream.push(kind === 'another order' ? twice : a.error(kind, METHOD));
    const { state } = await following(100, 1_000);
    const [only, ...more] = state.troubles();
    expect(state.trouble()).toBe(`the execution-data stream does not deliver: ${only?.said}`);
    expect(only?.said).toContain(`${METHOD} at a:9000: ${words}`);
    expect(only).toMatchObject({ node: 'a:9000', kind: trouble, sinceMs: 0 });
    expect(only!.count).toBe(a.streams.length);
    expect(more).toEqual([]);
  });

  it('that no node serves the height is said', async () => {
    nodes.all = [];
    const { state } = await following(100, 1_000);
    expect(state.trouble()).toContain('no access node serves the next height');
    expect(state.troubles()).toEqual([]);
    nodes.all = [a];
    a.onStream = serves(100);
    await clock.advance(60_000);
    expect(deliveredHeights()).toEqual([100]);
  });

  it('a sealed head that stands still is told, and is no trouble of a node', async () => {
    sealed = 100;
    a.onStream = serves(100);
    const { state } = await following(101, 9_000);
    expect(state.trouble()).toBeUndefined();
    await clock.advance(3_000);
    expect(state.trouble()).toBe('waiting for height 101 to be sealed for 12 s: the sealed head is at 100');
    expect(state.troubles()).toEqual([]);
    sealed = undefined;
    expect(state.trouble()).toContain('no node reports the sealed head');
    sealed = 101;
    a.stream.push(dataOf(101));
    await clock.settle();
    expect(state.trouble()).toBeUndefined();
  });
});

it('a refused stream is tried again every other second, with one warning in the words of the node', async () => {
  a.onStream = (stream) => stream.push(a.error('rate_limited', METHOD));
  const { state } = await following(100, 60_000);
  expect(a.streams.length).toBeGreaterThanOrEqual(30);
  const warnings = logger.of('warn');
  expect(warnings).toHaveLength(1);
  expect(warnings[0]?.fields).toEqual({ node: 'a:9000', error: `${METHOD}: rate_limited` });
  a.onStream = serves(100);
  await clock.advance(2_000);
  expect(deliveredHeights()).toEqual([100]);
  expect(state.trouble()).toBeUndefined();
});

it('one unreadable height costs the stream alone: nothing is counted on, and it is opened above as soon as that height has come', async () => {
  a.onStream = (stream) => {
    if (stream.startHeight === 101) stream.push(a.error('internal', METHOD));
    else if (stream.startHeight < 101) stream.push(dataOf(100), a.error('internal', METHOD));
    else serves(103)(stream);
  };
  const { state } = await following(103);
  expect(state.expects(101, WITHIN_MS)).toBe(false);
  expect(state.expects(102, WITHIN_MS)).toBe(false);
  await clock.advance(300);
  expect(state.expects(102, WITHIN_MS)).toBe(false);
  durable.add(101);
  window.notify();
  await clock.advance(300);
  expect(opened(a).at(-1)).toBe(102);
  expect(deliveredHeights()).toEqual([100, 102, 103]);
  expect(nodes.reported.every(({ fault }) => fault === 'failing')).toBe(true);
});

it('a node that could not be reached is asked again as soon as a new head shows that it can be', async () => {
  a.onStream = (stream) => stream.push(a.error('unavailable', METHOD));
  await following(100, 25_000);
  const before = a.streams.length;
  a.onStream = serves(100);
  // Where all goes well beside it, the window changes at each height: that may cost a pause nothing.
  const timers = vi.spyOn(clock, 'setTimer');
  for (let height = 0; height < 5; height += 1) await clock.turn().then(() => window.notify());
  expect(timers).not.toHaveBeenCalled();
  headMoves();
  await clock.settle();
  expect(a.streams).toHaveLength(before + 1);
  expect(deliveredHeights()).toEqual([100]);
});

const PEER_METHOD = 'SubscribeIndexedBlocks';
/** What a peer has of a height: no system chunk. */
const bodiesOf = (height: number): BlockExecutionData => {
  const data = dataOf(height);
  const chunks = data.chunks.slice(0, blockAt(height).block.collectionIds.length);
  return { ...data, chunks, isWithoutSystem: true };
};

it.each<[string, reason: string, (data: BlockExecutionData) => BlockExecutionData]>([
  ['another height', 'malformed', (data) => ({ ...data, height: data.height + 1 })],
  ['another block', 'wrong_block', (data) => ({ ...data, blockId: bodiesOf(101).blockId })],
  ['too few collections', 'wrong_count', (data) => ({ ...data, chunks: data.chunks.slice(1) })],
  ['another collection', 'id_mismatch', (data) => ({ ...data, chunks: bodiesOf(101).chunks })],
])(
  'the stream of a peer that gives %s is refused, counted, named, and asked again later',
  async (_, reason, lie) => {
    const { state } = await following(101, 0, { stream: PEER });
    a.stream.push(lie(bodiesOf(100)));
    await clock.settle();
    expect(deliveredHeights()).toEqual([]);
    expect(await counted(metrics, 'invalid_collections_total', { source: 'peer', reason })).toBe(1);
    expect(await counted(metrics, 'stream_reopens_total', { stream: 'peer' })).toBe(1);
    expect(state.trouble()).toContain(`the stream of the peer does not deliver: ${PEER_METHOD} at a:9000: `);
    expect(opened(a)).toEqual([100]);
    await clock.advance(500);
    expect(opened(a)).toEqual([100, 100]);
  },
);

it('the stream of a peer that begins above the next height is not asked below it', async () => {
  const where = { node: a.name, method: PEER_METHOD } as const;
  const said = 'height 100 is below the first indexed height 500';
  a.onStream = (stream) => stream.push(new UpstreamError('invalid_argument', where, said));
  const { state } = await following(100, 30_000, { stream: PEER });
  expect(opened(a)).toEqual([100]);
  expect(state.trouble()).toBe('a:9000 has no blocks below 500');
});
