import { ok as assert } from 'node:assert/strict';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { IndexedRange } from '../../../src/api/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { LevelIndexStore, SCHEMA_VERSION } from '../../../src/storage/index.js';
import type { CommitBatch, IndexStore } from '../../../src/storage/index.js';
import { DISK_PATH, DiskDatabase, SimulatedDisk } from '../../simulation/SimulatedDisk.js';
import { accountsOff } from '../../support/accountsOff.js';
import { apiServerOver, atEnd, chainOf, getJson, grpcOver, idOf } from '../../support/index.js';
import { RecordingLogger, refusalOf, standIn, transactionIds, transactionWith } from '../../support/index.js';

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

/** What happens to the index beside its readers; `begin` and `end` are the halves of a commit. */
type Change =
  | { readonly kind: 'heads'; readonly sealed: number; readonly head: number }
  | { readonly kind: 'begin'; readonly batch: CommitBatch }
  | { readonly kind: 'end' };

function commit(latestIndexedHeight: number, heights: readonly number[], more: object = {}): Change[] {
  const batch = { blocks: heights.map(entry), latestIndexedHeight, ...more };
  return [{ kind: 'begin', batch }, { kind: 'end' }];
}
const changes: readonly Change[] = [
  ...commit(101, [100, 101]),
  { kind: 'heads', sealed: 100, head: 104 },
  ...commit(102, [102]),
  { kind: 'heads', sealed: 102, head: 106 },
  // Above a gap, which closes after it.
  ...commit(102, [104]),
  ...commit(104, [103]),
  { kind: 'heads', sealed: 104, head: 108 },
  ...commit(104, [107], { sporks: [{ rootHeight: 107, sporkId: idOf('spork') }] }),
  ...commit(105, [105]),
  ...commit(107, [106]),
  { kind: 'heads', sealed: 107, head: 108 },
  ...commit(108, [108]),
];

/** A database whose reads are held up before and after, and whose writes, once on disk, are told of later. */
class HeldUpDatabase extends DiskDatabase {
  holdUp = (): Promise<void> => Promise.resolve();
  untold = (): Promise<void> => Promise.resolve();

  protected override async read<T>(answer: () => T): Promise<T> {
    await this.holdUp();
    const found = answer();
    await this.holdUp();
    return found;
  }

  protected override async write(...batch: Parameters<DiskDatabase['write']>): Promise<void> {
    await super.write(...batch);
    await this.untold();
  }
}

/**
 * The real store over a disk in memory, and the heads of its chain, that go through the changes one by one: those that
 * `between` counts out happen while a read of the store is under way, before the database has looked and after it has.
 */
class ChangingIndex {
  readonly store: LevelIndexStore;
  /** Changes to happen at the next steps of reads; none when there are no more. */
  between: number[] = [];
  /** Changes that have happened. */
  at = 0;
  #heads: Pick<IndexedRange, 'sealed' | 'head'> = { sealed: null, head: null };
  #committing: Promise<void> | undefined;
  #tell = (): void => undefined;
  #written = (): void => undefined;

  private constructor(store: LevelIndexStore) {
    this.store = store;
  }

  /** With the first `at` changes behind it. */
  static async after(at: number): Promise<ChangingIndex> {
    const database = new HeldUpDatabase(new SimulatedDisk());
    const options = { path: DISK_PATH, chainId: 'flow-localnet' };
    const parts = { logger: new RecordingLogger(), clock: systemClock };
    const index = new ChangingIndex(await LevelIndexStore.over(database, options, parts));
    await index.store.initialise({
      ...{ schemaVersion: SCHEMA_VERSION, chainId: 'flow-localnet', createdBy: 'test', firstHeight: FIRST },
      sporks: [{ rootHeight: 90, sporkId: idOf('earlier spork') }],
    });
    database.holdUp = () => index.#go(index.between.shift() ?? 0);
    // A commit is on disk, and its writer waits to be told.
    database.untold = () =>
      new Promise((resolve) => {
        index.#tell = resolve;
        index.#written();
      });
    await index.#go(at);
    return index;
  }

  range(): IndexedRange {
    return { firstIndexed: FIRST, latestIndexed: this.store.latestIndexedHeight(), ...this.#heads };
  }

  /** Changes that are still to come stay away; a commit under way comes to its end. */
  async settle(): Promise<void> {
    this.between = [];
    this.#tell();
    await this.#committing;
  }

  async #go(count: number): Promise<void> {
    for (const change of changes.slice(this.at, this.at + count)) {
      this.at += 1;
      if (change.kind === 'heads') this.#heads = { sealed: change.sealed, head: change.head };
      else if (change.kind === 'begin') {
        const written = new Promise<void>((resolve) => (this.#written = resolve));
        this.#committing = this.store.commit(change.batch);
        await written;
      } else {
        this.#tell();
        await this.#committing;
      }
    }
  }
}

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

/** Both servers over what may be another index each time, and every question to them, each answered with all that a caller gets to see. */
async function questionsTo(index: () => ChangingIndex): Promise<readonly (() => Promise<unknown>)[]> {
  const store = standIn<IndexStore>(() => index().store, {
    accounts: accountsOff,
    // The server asks before there is any.
    rewinds: () => 0,
  });
  const range = () => index().range();
  const { server: rest, failures } = apiServerOver(store, range);
  await rest.start();
  atEnd(async () => {
    await rest.close();
    expect(failures).toEqual([]);
  });
  const probe = (await grpcOver(store, range, { accessNodes: ['grpc://node:9000'] })).probe();
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
  { timeout: TIMEOUT_MS },
  async () => {
    let index: ChangingIndex | undefined;
    const questions = await questionsTo(() => {
      assert(index !== undefined);
      return index;
    });
    const ask = async (of: ChangingIndex, which: number): Promise<string> => {
      index = of;
      return JSON.stringify(await questions[which]?.());
    };
    /** The index at each moment, as it stays while nothing changes. */
    const still: ChangingIndex[] = [];
    // The first questions of each kind, which every change but the beginnings of commits shows in.
    const telling = [0, 1, 2, paths.length, paths.length + 1];
    const seen = new Set<string>();
    let latest = '';
    for (let moment = 0; moment <= changes.length; moment += 1) {
      const now = await ChangingIndex.after(moment);
      still.push(now);
      atEnd(() => now.settle());
      const answers: string[] = [];
      for (const which of telling) answers.push((latest = await ask(now, which)));
      seen.add(answers.join());
    }
    expect(seen.size).toBeGreaterThan(changes.length / 2);
    expect(latest).toContain(`"latest_finalized_height":"${top}"`);

    await fc.assert(
      fc.asyncProperty(
        fc.nat(changes.length),
        fc.nat(questions.length - 1),
        fc.array(fc.nat(3), { minLength: 4, maxLength: 8 }),
        async (moment, which, between) => {
          const changing = await ChangingIndex.after(moment);
          changing.between = [...between];
          const answer = await ask(changing, which);
          await changing.settle();
          const possible: string[] = [];
          for (const now of still.slice(moment, changing.at + 1)) possible.push(await ask(now, which));
          expect(possible).toContain(answer);
        },
      ),
      { numRuns: 120 },
    );
  },
);
