import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError, explainDocument, workOfStore } from '../../../src/api/index.js';
import type { HeightWork, IndexedRange, WorkMoment } from '../../../src/api/index.js';
import type { HeightWorkSource } from '../../../src/api/documents/explanation.js';
import type { Identifier } from '../../../src/flow/index.js';
import { chainOf, idOf, matching, MemoryIndexStore, transactionIds } from '../../support/index.js';
import { transactionWith } from '../../support/index.js';

const FIRST = 100;
const chain = chainOf(FIRST, 8, (index) => [[transactionWith({ gasLimit: BigInt(index) })]]);
const indexed = chain.slice(0, 5);
const LATEST = FIRST + 4;
const above = chain[6]!;
const UPPER = 110;
const HEAD = 120;

let store: MemoryIndexStore;
let range: IndexedRange;

beforeEach(async () => {
  store = await MemoryIndexStore.startingAt(FIRST);
  await store.commit({ blocks: [...indexed, above], latestIndexedHeight: LATEST });
  range = { firstIndexed: FIRST, latestIndexed: LATEST, head: HEAD, sealed: 90 };
});

const missing = {
  ...{ collectionId: idOf('lost'), isUnderWay: false, attempts: 2, notFound: 2 },
  ...{ lastNode: 'node:9000', lastError: 'not_found', lastAskedAt: '2026-01-01T00:00:00.000Z' },
  failures: [{ node: 'node:9000', count: 2, lastError: 'not_found', lastAt: '2026-01-01T00:00:00.000Z' }],
};

function working(stage: HeightWork['stage'], change: Partial<HeightWork> = {}): HeightWork {
  const work = {
    ...{ ageSeconds: 3, collections: 2, missing: 1, missingCollections: [missing] },
    ...{ executionData: null, peer: null, reportedBy: null },
  };
  return {
    ...{ stage, blockId: idOf('block in hand'), upperBound: UPPER, stopHeight: null },
    work: stage === 'collecting' || stage === 'committing' ? work : null,
    holdingUp: { height: LATEST + 1, message: 'waiting for a node', ageSeconds: 3 },
    sources: {
      nodes: [{ name: 'node:9000', state: 'healthy', servesHeight: true, trouble: null }],
      executionData: { state: 'off', endpoint: null, height: null, ageSeconds: null, reason: null },
      peer: { state: 'off', endpoint: null, height: null, ageSeconds: null, reason: null },
    },
    ...change,
  };
}

type Naming = (id: number | Identifier) => WorkMoment['named'];
const reasons = [{ code: 'behind', message: 'far behind', sinceSeconds: 1 } as const];

function explained(key: number | string, work?: HeightWork, naming: Naming = () => undefined) {
  const closed = workOfStore(store, () => range);
  const source: HeightWorkSource = {
    momentAt: async (asked) => {
      const moment = await closed.momentAt(asked);
      return { ...moment, named: moment.named ?? naming(asked), daemon: { reasons, work } };
    },
  };
  return explainDocument(store, String(key), source);
}

function atRest(key: number | string, reader = store) {
  const source = workOfStore(store, () => range);
  return explainDocument(reader, String(key), source);
}

const says = (summary: RegExp | string, more: object = {}) => ({ summary: matching(summary), ...more });

describe('a height', () => {
  /** Who was asked and when, what holds it up, and why the daemon is not ready. */
  const inHand = {
    ...{ blockId: idOf('block in hand'), holdingUp: { height: LATEST + 1 }, reasons },
    work: { collections: 2, missing: 1, missingCollections: [missing] },
    sources: { nodes: [{ name: 'node:9000', servesHeight: true }] },
  };
  const atPeace = { blockId: indexed.at(-1)!.block.id, work: null, holdingUp: null, reasons: [] };

  it.each([
    ['indexed', LATEST, working('durable'), says(/can be read/, atPeace)],
    ['below_first_indexed', FIRST - 1, working('outside'), says(/below the first height of this store, 100/)],
    ['fetching', LATEST + 1, working('collecting'), says(/1 of 2 collections missing/, inHand)],
    ['committing', LATEST + 2, working('committing'), says(/complete.*105 comes first: waiting for a node/)],
    ['waiting_for_gap', LATEST + 2, working('durable'), says(/on disk.*Height 105 comes first/)],
    ['queued', LATEST + 3, working('queued', { blockId: null }), says(/not arrived yet: waiting for a node/)],
    ['outside_window', UPPER + 1, working('outside', { blockId: null }), says(/window, which ends at 110/)],
    ['above_head', HEAD + 1, working('outside'), says(/above the finalized head, 120/)],
    ['beyond_stop', 116, working('outside', { stopHeight: 115 }), says(/above the stop height, 115/)],
    ['starting', LATEST + 1, undefined, says(/has not started/)],
  ] as const)('is %s', async (stage, height, work, expected) => {
    const about = { kind: 'height', stage, height, ...range };
    expect(await explained(height, work)).toMatchObject({ ...about, ...expected });
  });

  it('that was damaged is called so', async () => {
    const unserved = 'no access node serves height 102';
    const plan = { plan: 2, isPaused: false, range: null };
    const ofPlan = (height: number) => (height === FIRST + 2 ? { ...plan, unserved } : plan);
    range = { ...range, coverage: [{ from: FIRST + 3, to: LATEST }], healing: [{ from: FIRST, to: FIRST }] };
    const rest = workOfStore(store, () => range, ofPlan);
    const daemon = { reasons: [], work: undefined };
    const run: HeightWorkSource = { momentAt: async (at) => ({ ...(await rest.momentAt(at)), daemon }) };
    for (const [source, height, summary] of [
      [rest, FIRST, 'Height 100 is damaged, and plan 2 fetches it again; no daemon is running to do that.'],
      [run, FIRST, 'Height 100 is damaged, and plan 2 fetches it again; its turn has not come yet.'],
      [run, FIRST + 1, 'Height 101 is history that plan 2 fills in; its turn has not come yet.'],
      [run, FIRST + 2, `Height 102 is history that plan 2 fills in; ${unserved}.`],
    ] as const)
      expect(await explainDocument(store, `${height}`, source)).toMatchObject({ summary });
  });

  it('that is stored is not called readable before it is proven final', async () => {
    range = {
      ...{ ...range, latestIndexed: FIRST + 1, coverage: [{ from: FIRST, to: FIRST + 1 }] },
      awaitsProof: [{ from: FIRST, to: LATEST }],
    };
    const hidden = working('durable');
    expect(await explained(FIRST + 1, hidden)).toMatchObject({ stage: 'indexed' });
    const { id: blockId } = indexed.at(-1)!.block;
    const waiting = { stage: 'awaiting_proof', latestIndexed: FIRST + 1, blockId, reasons };
    expect(await explained(LATEST, hidden)).toMatchObject(says('not proven yet', waiting));
    expect(await explained(above.block.height, hidden)).toMatchObject({ stage: 'waiting_for_gap' });
    range = { ...range, latestIndexed: FIRST - 1, coverage: [] };
    expect(await explained(FIRST, hidden)).toMatchObject(
      says('Nothing is proven yet', { stage: 'awaiting_proof', latestIndexed: null }),
    );
    const unknown = says(`stored up to ${LATEST} and not`, { stage: 'unknown_id' });
    expect(await explained(idOf('any'), hidden)).toMatchObject(unknown);
  });

  it.each([
    ['not_indexed', LATEST + 1, /the store ends at 104, and no daemon is running/],
    ['waiting_for_gap', above.block.height, /on disk/],
    ['indexed', FIRST, /can be read/],
    ['below_first_indexed', 1, /will not be indexed/],
  ] as const)('is %s where no daemon runs', async (stage, height, summary) => {
    const nobody = { stage, sources: null, work: null, reasons: [] };
    expect(await atRest(height)).toMatchObject(says(summary, nobody));
  });

  it('is not indexed in an empty store', async () => {
    range = { firstIndexed: null, latestIndexed: null, head: null, sealed: null };
    const empty = says('store is empty', { stage: 'not_indexed' });
    expect(await atRest(5, new MemoryIndexStore())).toMatchObject(empty);
  });
});

describe('an id', () => {
  const entry = indexed[2]!;
  const place = { height: entry.block.height, blockId: entry.block.id, stage: 'indexed' };

  it.each([
    ['block', entry.block.id],
    ['collection', entry.collections[0]!.id],
    ['transaction', transactionIds(entry, 0)[0]!],
  ])('of an indexed %s is found, with 0x too', async (kind, id) => {
    for (const key of [id, `0x${id}`])
      expect(await explained(key, working('durable'))).toMatchObject({ kind, key, ...place });
  });

  const inHand =
    (kind: 'block' | 'collection', id: Identifier): Naming =>
    (asked) =>
      asked === id ? { kind, height: LATEST + 1 } : undefined;

  it('that is missing is being fetched, one that has come waits for the others, and a block in hand, or on disk above a gap, is known', async () => {
    const [lost, come] = [missing.collectionId, idOf('come')];
    const fetching = { kind: 'collection', stage: 'fetching', height: LATEST + 1 };
    const ask = (id: Identifier) => explained(id, working('collecting'), inHand('collection', id));
    expect(await ask(lost)).toMatchObject(says('is being fetched', fetching));
    expect(await ask(come)).toMatchObject(says('has arrived and waits for the others', fetching));
    const id = idOf('block in hand');
    expect(await explained(id, working('queued'), inHand('block', id))).toMatchObject({
      ...{ kind: 'block', stage: 'queued', blockId: id },
    });
    expect(await atRest(above.block.id)).toMatchObject({
      ...{ kind: 'block', stage: 'waiting_for_gap', height: above.block.height },
    });
  });

  it('that is committed between the looks is found all the same', async () => {
    const late = chain[5]!;
    const naming = (): undefined => {
      // It has just left the work, and is in the index before the next look.
      void store.commit({ blocks: [late], latestIndexedHeight: late.block.height });
      range = { ...range, latestIndexed: late.block.height };
      return undefined;
    };
    expect(await explained(late.collections[0]!.id, working('durable'), naming)).toMatchObject({
      ...{ kind: 'collection', stage: 'indexed', height: late.block.height },
    });
  });

  it('that nobody knows is unknown', async () => {
    const nowhere = { kind: 'unknown', stage: 'unknown_id', height: null, blockId: null };
    expect(await explained(idOf('nothing'), working('queued'))).toMatchObject(
      says(/^Nothing in heights 100..104, and nothing in progress, has/, nowhere),
    );
    const coverage = Array.from({ length: 1_000 }, (_, index) => ({ from: 3 * index, to: 3 * index + 1 }));
    range = { ...range, coverage, healing: [{ from: 2, to: 2 }] };
    const { summary } = await explained(idOf('nothing'), working('queued'));
    expect(summary).toMatch(/2994\.\.2995, 2997\.\.2998 and 984 ranges below.*What was damaged is reco/);
    expect(summary.length).toBeLessThan(700);
  });

  it('that is none is refused with what is expected', async () => {
    const refused = { name: ApiError.name, code: 400, reason: 'malformed_id' };
    for (const key of ['latest', '0x00', '-1', ''])
      await expect(explained(key)).rejects.toMatchObject(refused);
  });
});
