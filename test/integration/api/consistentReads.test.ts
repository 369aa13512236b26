import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ChangingIndex, ExchangeableIndex } from '../../support/changingIndex.js';
import type { Change } from '../../support/changingIndex.js';
import { atEnd } from '../../support/cleanup.js';
import { refusalOf } from '../../support/grpcProbe.js';
import { getJson } from '../../support/httpProbe.js';
import { apiServerOver } from '../../support/servedChain.js';
import { grpcOver } from '../../support/servedOverGrpc.js';
import { chainOf, idOf, transactionIds, transactionWith } from '../../support/smallChain.js';

/** Some thousand requests, one after the other. */
const TIMEOUT_MS = 300_000;
const FIRST = 100;
const shared = transactionWith({ gasLimit: 1n });
const own = (height: number) => transactionWith({ gasLimit: BigInt(height) });
/** One transaction stands in every block, one collection in every third. */
const chain = chainOf(FIRST, 9, (index) => [
  [own(FIRST + index), shared],
  ...(index % 3 === 2 ? [[shared]] : []),
]);
const top = FIRST + chain.length - 1;
const entry = (height: number) => chain[height - FIRST]!;

function commit(latestIndexedHeight: number, ...heights: number[]): Change[] {
  return [{ kind: 'begin', batch: { blocks: heights.map(entry), latestIndexedHeight } }, { kind: 'end' }];
}
const spork = { rootHeight: 107, sporkId: idOf('spork') };
const options = {
  firstHeight: FIRST,
  sporks: [{ rootHeight: 90, sporkId: idOf('earlier spork') }],
  changes: [
    ...commit(101, 100, 101),
    { kind: 'heads', sealed: 100, head: 104 },
    ...commit(102, 102),
    { kind: 'heads', sealed: 102, head: 106 },
    // Above a gap, which closes after it.
    ...commit(102, 104),
    ...commit(104, 103),
    { kind: 'heads', sealed: 104, head: 108 },
    { kind: 'begin', batch: { blocks: [entry(107)], latestIndexedHeight: 104, spork } },
    { kind: 'end' },
    ...commit(105, 105),
    ...commit(107, 106),
    { kind: 'heads', sealed: 107, head: 108 },
    ...commit(108, 108),
  ] satisfies Change[],
};

const bytes = (id: string): Buffer => Buffer.from(id, 'hex');
const heights = Array.from({ length: chain.length + 2 }, (_, index) => FIRST - 1 + index);
/** Below, at both ends and around the gap, and above. */
const some = [FIRST - 1, FIRST, 103, 104, 107, top, top + 1];
const someBlocks = chain.filter(({ block }) => some.includes(block.height));
const blockIds = [...someBlocks.map(({ block }) => block.id), idOf('nothing')];
const collectionIds = [...new Set([entry(102), ...someBlocks].flatMap(({ block }) => block.collectionIds))];
const ids = [...new Set(someBlocks.flatMap((one) => transactionIds(one, 0)))];

const paths = [
  ...['final', 'sealed', heights.join(','), heights.slice(1, -1).reverse().join(',')].map(
    (height) => `/v1/blocks?height=${height}`,
  ),
  ...some.map((height) => `/v1/blocks?height=${height}&expand=payload`),
  `/v1/blocks?start_height=${FIRST}&end_height=final`,
  `/v1/blocks?start_height=${FIRST}&end_height=sealed`,
  `/v1/blocks/${blockIds.slice(1, 4).join(',')}`,
  ...blockIds.flatMap((id) => [
    `/v1/blocks/${id}`,
    `/v1/blocks/${id}/payload`,
    `/v1/transactions?block_id=${id}`,
  ]),
  ...some.map((height) => `/v1/blocks/${height}/collections?expand=transactions`),
  ...collectionIds.flatMap((id) => [`/v1/collections/${id}?expand=transactions`, `/lookup/collection/${id}`]),
  ...ids.flatMap((id) => [`/v1/transactions/${id}`, `/lookup/transaction/${id}`]),
  ...some.map((height) => `/lookup/block/${height}`),
  '/v1/node_version_info',
];
const calls: readonly (readonly [method: string, request: object])[] = [
  ['GetNodeVersionInfo', {}],
  ['GetLatestBlock', {}],
  ['GetLatestBlock', { is_sealed: true }],
  ...some.map((height) => ['GetBlockByHeight', { height }] as const),
  ...blockIds.flatMap((id) => [
    ['GetBlockByID', { id: bytes(id) }] as const,
    ['GetTransactionsByBlockID', { block_id: bytes(id) }] as const,
  ]),
  ...collectionIds.flatMap((id) => [
    ['GetCollectionByID', { id: bytes(id) }] as const,
    ['GetFullCollectionByID', { id: bytes(id) }] as const,
  ]),
  ...ids.map((id) => ['GetTransaction', { id: bytes(id) }] as const),
];

/** Both servers over one index, and every question to them, each answered with all that a caller gets to see. */
async function questionsTo(index: ExchangeableIndex): Promise<readonly (() => Promise<unknown>)[]> {
  const { server: rest, failures } = apiServerOver(index.store, () => index.status.range());
  await rest.start();
  atEnd(async () => {
    await rest.close();
    expect(failures).toEqual([]);
  });
  const grpc = await grpcOver(index.store, () => index.status.range(), { accessNodes: ['grpc://node:9000'] });
  const probe = grpc.probe();
  return [
    ...paths.map((path) => async () => {
      const { status, headers, body } = await getJson(`http://127.0.0.1:${rest.address().port}${path}`);
      return { path, status, tag: headers.get('etag'), keep: headers.get('cache-control'), body };
    }),
    ...calls.map(([method, request]) => async () => {
      const call = probe.call(method, request);
      const answer = await call.catch(() => refusalOf(call));
      return { method, request, answer };
    }),
  ];
}

it(
  'an answer is that of one moment, whatever is committed while it is made',
  async () => {
    const index = new ExchangeableIndex();
    const questions = await questionsTo(index);
    const known = new Map<string, string>();
    /** What a question is answered at a moment, while nothing changes. */
    const still = async (moment: number, which: number): Promise<string> => {
      const key = `${moment} ${which}`;
      const before = known.get(key);
      if (before !== undefined) return before;
      index.index = await ChangingIndex.after(moment, options);
      const answer = JSON.stringify(await questions[which]?.());
      await index.index.settle();
      known.set(key, answer);
      return answer;
    };
    // The first ones of each kind, which every change but the beginnings of commits shows in.
    const last = options.changes.length;
    const telling = [0, 1, 2, paths.length, paths.length + 1];
    const seen = new Set<string>();
    for (let moment = 0; moment <= last; moment += 1) {
      const answers: string[] = [];
      for (const which of telling) answers.push(await still(moment, which));
      seen.add(answers.join());
    }
    expect(seen.size).toBeGreaterThan(last / 2);
    expect(await still(last, paths.length + 1)).toContain(`"latest_finalized_height":"${top}"`);

    await fc.assert(
      fc.asyncProperty(
        fc.nat(options.changes.length),
        fc.nat(questions.length - 1),
        fc.array(fc.nat(3), { minLength: 4, maxLength: 8 }),
        async (moment, which, between) => {
          index.index = await ChangingIndex.after(moment, options);
          index.index.between = [...between];
          const answer = JSON.stringify(await questions[which]?.());
          const reached = index.index.at;
          await index.index.settle();
          const possible: string[] = [];
          for (let at = moment; at <= reached; at += 1) possible.push(await still(at, which));
          expect(possible).toContain(answer);
        },
      ),
      { numRuns: 120 },
    );
  },
  TIMEOUT_MS,
);
