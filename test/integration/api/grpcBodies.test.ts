import { beforeEach, describe, expect, it } from 'vitest';
import { refusalOf } from '../../support/grpcProbe.js';
import type { GrpcProbe, Message } from '../../support/grpcProbe.js';
import { servedOverGrpc } from '../../support/servedOverGrpc.js';
import { smallChain, transactionWith } from '../../support/smallChain.js';

const METHOD = 'SubscribeIndexedBlocks';
const FIRST = 100;
const LATEST = 159;
const BIG = 130;
const EVENT_BYTES = 256 * 1024;

const small = transactionWith({ gasLimit: 1n });
/** Two of these are more than one message takes. */
const large = transactionWith({ script: Buffer.alloc(200_000, 'x') });
const chain = smallChain(
  FIRST,
  Array.from({ length: 80 }, (_, index) => {
    if (FIRST + index === BIG) return [[large], [large]];
    return index % 2 === 0 ? [[small, small], []] : [];
  }),
);

let served: Awaited<ReturnType<typeof servedOverGrpc>>;
let client: GrpcProbe;

async function serve(blocks: typeof chain): Promise<void> {
  served = await servedOverGrpc(blocks, { sealed: null, head: 170 });
  client = served.probe();
}
const commit = (count: number): Promise<void> => {
  const from = served.index.store.latestIndexedHeight() + 1 - FIRST;
  return served.index.commit(chain.slice(from, from + count));
};

beforeEach(() => serve(chain.slice(0, LATEST + 1 - FIRST)));

const blocksOf = (messages: readonly Message[]): Message[] =>
  messages.flatMap((message) => message['blocks'] as Message[]);
const heightsOf = (messages: readonly Message[]): number[] =>
  blocksOf(messages).map(({ height }) => Number(height));
const upwards = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at);

/** What it promises as every stream does: streams.test.ts. */
describe('SubscribeIndexedBlocks', () => {
  it('puts several small blocks into a message, and a large one into one of its own', async () => {
    const reader = client.follow(METHOD, { start_height: 100, end_height: LATEST });
    await reader.finished();
    expect(heightsOf(reader.messages)).toEqual(upwards(100, LATEST));
    const counts = reader.messages.map((message) => blocksOf([message]).length);
    expect(Math.max(...counts)).toBeGreaterThan(1);
    const holding = reader.messages.find((message) => heightsOf([message]).includes(BIG))!;
    const index = heightsOf([holding]).indexOf(BIG);
    expect([heightsOf([holding]).length, index]).toEqual([1, 0]);
    const script = (blocksOf([holding])[0]!['collections'] as { transactions: { script: Buffer }[] }[])[1]!
      .transactions[0]!.script;
    expect(script.length).toBe(200_000);
    expect(2 * script.length).toBeGreaterThan(EVENT_BYTES);
  });

  it('waits for an end that is not indexed yet', async () => {
    const reader = client.follow(METHOD, { start_height: LATEST, end_height: LATEST + 2 });
    await reader.first(1);
    await commit(5);
    await reader.finished();
    expect(heightsOf(reader.messages)).toEqual(upwards(LATEST, LATEST + 2));
    expect(served.feed.followers).toBe(0);
  });

  it('reads nothing for a caller who takes nothing', async () => {
    const bodies = Array.from({ length: 60 }, () => [[large]]);
    await serve(smallChain(FIRST, bodies));
    const reads: number[] = [];
    const { store } = served.index;
    const read = store.wholeBlock.bind(store);
    store.wholeBlock = (height) => {
      reads.push(height);
      return read(height);
    };
    const stream = client.stream(METHOD, { start_height: FIRST });
    const heights: number[] = [];
    await new Promise<void>((resolve) => {
      stream.on('data', (message: Message) => {
        heights.push(...heightsOf([message]));
        if (heights.length === 2) stream.pause();
        if (heights.length >= 2) resolve();
      });
    });
    for (let calls = 0; calls < 300; calls += 1) await client.call('Ping');
    expect(reads.length).toBeLessThan(30);
    stream.resume();
    while (heights.length < 60) await client.call('Ping');
    expect(heights).toEqual(upwards(FIRST, LATEST));
    stream.on('error', () => undefined);
    stream.cancel();
  });

  it('ends at a hole with the reason, or waits there', async () => {
    const coverage = [
      { from: FIRST, to: 104 },
      { from: 110, to: LATEST },
    ];
    served.index.change({ firstIndexed: 110, coverage });
    const reader = client.follow(METHOD, { start_height: 102 });
    expect(await refusalOf(reader.ended())).toMatchObject({
      code: 'NOT_FOUND',
      metadata: { reason: 'hole' },
    });
    expect(heightsOf(reader.messages)).toEqual([102, 103, 104]);
    const request = { start_height: 102, end_height: 112, wait: true };
    const patient = client.follow(METHOD, request);
    await patient.first(1);
    expect(heightsOf(patient.messages)).toEqual([102, 103, 104]);
    served.index.change({ firstIndexed: FIRST, coverage: [{ from: FIRST, to: LATEST }] });
    await patient.finished();
    expect(heightsOf(patient.messages)).toEqual(upwards(102, 112));
  });

  it.each([
    [{ start_height: 110, end_height: 109 }, 'INVALID_ARGUMENT', 'invalid_argument'],
    [{ start_height: '9007199254740993' }, 'INVALID_ARGUMENT', 'invalid_argument'],
  ] as const)('of %j is refused', async (request, code, reason) => {
    const call = client.follow(METHOD, request).ended();
    expect(await refusalOf(call)).toMatchObject({ code, metadata: { reason } });
  });
});
