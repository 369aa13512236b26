import { describe, expect, it } from 'vitest';
import { finalityProver, type FinalityProver, type NamedBlock } from '../../../src/finality/index.js';
import type { FinalityProverDependencies } from '../../../src/finality/proven/finalityProver.js';
import { identifierBytes, type Identifier } from '../../../src/flow/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { certificateThread, type CertificatePort, type StoredHeader } from '../../../src/proof/index.js';
import { DatabaseFault, StorageError } from '../../../src/storage/index.js';
import type { CommitteeEvidence, HeightRange } from '../../../src/storage/index.js';
import { certificatesHere, type Verdicts } from '../../support/certificates.js';
import type { FakeAccessNode } from './fakeAccessNodes.js';
import { MemoryIndexStore, counted } from '../../support/index.js';
import { recordedBlocks, recordedSnapshot } from '../../support/proofData.js';
import { World } from './bench.js';

// Of the recorded network: blocks 42 to 52 and 274 to 283 of its first epoch, and 385 to 399 about its end at 390. The
// protocol state of 274 does not name the next committee, that of 385 does.

const snapshot = recordedSnapshot();
const METHOD = 'GetProtocolStateSnapshotByHeight';
const FIVE_MINUTES_MS = 300_000;
/** Every prover here asks of the same certificates. */
const verdicts: Verdicts = new Map();

const headers = new Map(
  recordedBlocks().map((block) => [
    block.height,
    {
      ...block,
      ...{ form: 'H8P8', chainId: 'flow-localnet', timestamp: { seconds: 0n, nanos: 0 } },
      ...{ payloadHash: Buffer.alloc(32), proposerId: Buffer.alloc(32), parentVoterIds: [] },
      ...{ lastViewTC: undefined, protocolStateId: identifierBytes(block.protocolStateId) },
    } satisfies StoredHeader,
  ]),
);

const UNKNOWN_ID = 'f'.repeat(64) as Identifier;

function headerAt(height: number): StoredHeader {
  const header = headers.get(height);
  if (header === undefined) throw new Error(`height ${height} is not recorded`);
  return header;
}

/** A prover over stored heights from `from` on, whose nodes serve the recorded protocol states unless told otherwise. */
class Proving extends World {
  readonly metrics = createMetrics({ version: 'test', node: '' });
  readonly first: FakeAccessNode;
  readonly store: Map<number, StoredHeader>;
  readonly unproven = new Set<number>();
  /** The heights of the blocks that the block of a height seals. */
  readonly seals = new Map<number, readonly number[]>();
  readonly prover: FinalityProver;
  readonly range: { from: number; to: number };
  readonly kept: number[] = [];
  askedAgain = 0;
  /** Of what is kept only who signs. */
  readonly evidence: MemoryIndexStore;
  isFollowing = true;
  /** The newest stored block, unless told. `unknown`: until it was asked for. */
  head: number | 'unknown' | undefined;
  #moved: () => void = () => undefined;

  constructor(
    [from, to]: readonly [number, number],
    {
      named = [],
      isProving = true,
      thread = certificateThread(() => certificatesHere(verdicts)),
      names = ['a'],
      evidence = new MemoryIndexStore(),
      change = () => undefined,
    }: {
      readonly named?: readonly NamedBlock[];
      readonly isProving?: boolean;
      readonly thread?: FinalityProverDependencies['thread'];
      readonly names?: readonly string[];
      readonly evidence?: MemoryIndexStore;
      readonly change?: (proving: Proving) => unknown;
    } = {},
  ) {
    super(...names);
    this.first = this.node(names[0]!);
    for (const node of this.nodes.all) node.snapshot = () => snapshot;
    this.store = new Map(headers);
    this.range = { from, to };
    this.evidence = evidence;
    change(this);
    this.prover = finalityProver(
      { named, isProving },
      {
        ...{ clock: this.clock, logger: this.logger, metrics: this.metrics, nodes: this.nodes, thread },
        askAgain: () => (this.askedAgain += 1),
        store: this.evidence,
        blockAt: (height) => {
          const stored = height > this.range.to ? undefined : this.store.get(height);
          const header = this.unproven.has(height) ? undefined : stored;
          return Promise.resolve(stored && { id: stored.id, header });
        },
        sealedBy: (id) => {
          const by = [...this.store.values()].find((stored) => stored.id === id)?.height ?? -1;
          return (this.seals.get(by) ?? []).map((height) => headers.get(height)?.id ?? UNKNOWN_ID);
        },
        heightOf: (id) =>
          Promise.resolve([...this.store.values()].find((stored) => stored.id === id)?.height),
        keep: (height) => {
          this.kept.push(height);
          return Promise.resolve();
        },
        head: () => {
          const { head = this.range.to } = this;
          if (head !== 'unknown') return head;
          this.head = undefined;
          return undefined;
        },
        range: () => (this.isFollowing ? this.range : undefined),
        onMoved: (listener) => {
          this.#moved = listener;
          return () => (this.#moved = () => undefined);
        },
      },
    );
    this.run(this.prover);
  }

  get status() {
    return this.prover.status();
  }

  /** The store holds everything up to this height, and a second passes. */
  async reaches(to: number): Promise<void> {
    this.range.to = to;
    this.#moved();
    await this.clock.advance(1_000);
  }

  /** What there is once the store holds each of these heights. */
  async each<T>(from: number, to: number, what: () => T): Promise<T[]> {
    const found: T[] = [];
    for (let height = from; height <= to; height += 1)
      await this.reaches(height).then(() => found.push(what()));
    return found;
  }

  async checks(): Promise<{ valid: number; invalid: number }> {
    const of = (result: string) => counted(this.metrics, 'quorum_certificates_total', { result });
    return { valid: await of('valid'), invalid: await of('invalid') };
  }

  change(height: number, change: Partial<StoredHeader>): void {
    this.store.set(height, { ...headerAt(height), ...change });
  }
}

/** A prover that has had five seconds. */
async function proved(...made: ConstructorParameters<typeof Proving>): Promise<Proving> {
  const proving = new Proving(...made);
  await proving.clock.advance(5_000);
  return proving;
}

/** Block 385 has the protocol state of 274, which does not name the next committee. */
function startsAtOldState(proving: Proving): void {
  proving.change(385, { protocolStateId: headerAt(274).protocolStateId });
}

const flipped = (bytes: Uint8Array): Buffer => {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(copy.length - 60) ^ 1, copy.length - 60);
  return copy;
};

it('follows the newest block, passes over a skipped view, and verifies nothing twice', async () => {
  const proving = await proved([42, 43]);
  expect(proving.status).toMatchObject({ provenHeight: undefined, reason: undefined });
  const proven = await proving.each(44, 52, () => proving.status.provenHeight);
  // Block 52 holds the certificate of 51.
  const latestCertificate = { height: 51, view: 52, signers: 2, weight: 200, threshold: 134 };
  expect(proving.status).toMatchObject({ latestCertificate });
  // Block 50 has view 51, its parent view 49.
  expect(proven).toEqual([42, 43, 44, 45, 46, 47, 48, 48, 50]);
  expect(proving.kept).toEqual([42, 43, 44, 45, 46, 47, 48, 50]);
  expect(await proving.checks()).toEqual({ valid: 8, invalid: 0 });
  expect(proving.first.count(METHOD)).toBe(1);
});

it('knows the highest block that a block proven final seals, whatever newer blocks seal', async () => {
  const proving = await proved([42, 46], {
    change: ({ seals }) => seals.set(43, [42]).set(44, [41]).set(46, [44, 45, 43]).set(47, [46]),
  });
  expect(proving.status).toMatchObject({ provenHeight: 44 });
  // The block that 44 seals is not stored.
  expect(proving.prover.sealedHeight()).toBeUndefined();
  const sealed = await proving.each(47, 50, () => proving.prover.sealedHeight());
  expect(sealed).toEqual([undefined, 45, 46, 46]);
  // The store went back below what was proven final.
  await proving.reaches(44);
  expect(proving.prover.sealedHeight()).toBeUndefined();
});

it('verifies a certificate now and then while it catches up', async () => {
  // The recorded blocks at heights that are multiples of a thousand, or just below.
  const moved = (height: number): number => height + 1_948;
  const proving = await proved([moved(42), moved(51)], {
    change: (its) => {
      its.head = 3_000;
      for (let height = 42; height <= 52; height += 1)
        its.store.set(moved(height), { ...headerAt(height), height: moved(height) });
    },
  });
  const reason = 'while catching up, only every 1000th certificate is verified';
  expect(proving.status).toMatchObject({ provenHeight: undefined, reason });
  await proving.reaches(2_000);
  expect(proving.status).toMatchObject({ provenHeight: 1_998, reason });
  expect(await proving.checks()).toEqual({ valid: 1, invalid: 0 });
});

it('asks no node again for what it keeps, unless that is of another block or does not hash to the state', async () => {
  const change = startsAtOldState;
  const before = await proved([385, 399], { change });
  const { evidence } = before;
  const kept = (await evidence.evidence()).map(({ height, isAnchor }) => [height, isAnchor]);
  expect(Object.fromEntries(kept)).toEqual({ 385: true, 389: false });
  const again = await proved([385, 399], { change, evidence });
  expect(again.first.calls).toEqual([]);
  const { committee } = before.status;
  const anchor = { kind: 'first_use', height: 385, id: headerAt(385).id };
  expect(again.status).toMatchObject({ anchor, committee, provenHeight: 397 });
  const [first, later] = await evidence.evidence();
  await evidence.keepEvidence({ ...first!, epochState: flipped(first!.epochState) });
  await evidence.keepEvidence({ ...later!, id: first!.id });
  const doubting = await proved([385, 399], { change, evidence });
  expect(doubting.status.provenHeight).toBe(397);
  expect(doubting.first.calls.map(({ height }) => height)).toEqual([385, 389]);
});

it.each(['first_use', 'spork_root', 'checkpoint'] as const)(
  'takes no next committee on the word of nodes that withhold the state at the end of an epoch (%s)',
  async (kind) => {
    const change = (its: Proving): void => {
      startsAtOldState(its);
      its.first.snapshot = (height) => (height === 389 ? 'not_found' : snapshot);
    };
    const wanted = kind === 'first_use' ? [] : [named(kind, 385)];
    const proving = new Proving([385, 385], { named: wanted, change });
    await proving.reaches(399);
    await proving.clock.advance(2_000);
    expect(proving.first.calls.map(({ height }) => height)).toEqual([385, 389]);
    const anchor = { kind, height: 385, id: headerAt(385).id };
    expect(proving.status).toMatchObject({ anchor, provenHeight: 389 });
    expect(proving.status.reason).toContain(
      'who signs after view 399 is not known: no node or peer gives the protocol state of block 389',
    );
    // Neither does a restart.
    const again = await proved([385, 399], { evidence: proving.evidence, change });
    expect(again.status).toMatchObject({ anchor: { height: 385 }, provenHeight: 389 });
    again.first.snapshot = () => snapshot;
    await again.clock.advance(FIVE_MINUTES_MS);
    expect(again.status).toMatchObject({ provenHeight: 397, committee: { epoch: 1 } });
  },
);

it('proves the last blocks of an epoch by those further below, where none at its end has the view after its parent', async () => {
  const change = (its: Proving): void => {
    startsAtOldState(its);
    for (let height = 388; height <= 408; height += 1) {
      const { id: parentId, view: parentView } = its.store.get(height - 1)!;
      const [id, view] = [`${height}`.padStart(64, '0') as Identifier, height < 408 ? 395 : 400];
      its.store.set(height, { ...headerAt(388), height, id, parentId, view, parentView });
    }
  };
  const proving = await proved([385, 408], { change });
  expect(proving.status).toMatchObject({ provenHeight: 386, reason: undefined });
});

describe('beside a peer that keeps who signs', () => {
  /** What a peer keeps that has proven 385 to 399. */
  const keptBy = async (): Promise<readonly CommitteeEvidence[]> => {
    const source = await proved([385, 399], { change: startsAtOldState });
    return source.evidence.evidence();
  };
  const provingWith = (
    given: readonly CommitteeEvidence[],
    options: ConstructorParameters<typeof Proving>[1] = {},
    unproven: readonly HeightRange[] = [],
  ): Promise<Proving> =>
    proved([385, 399], {
      ...options,
      change: (its) => {
        startsAtOldState(its);
        its.first.snapshot = undefined;
        its.first.evidence = (height) => given.findLast((each) => each.height <= height);
        Object.assign(its.evidence, { unproven: () => unproven });
      },
    });

  it('proves what that proved, asks for no snapshot, and keeps it for others', async () => {
    const given = await keptBy();
    const proving = await provingWith(given);
    expect(proving.status).toMatchObject({ provenHeight: 397, committee: { epoch: 1 } });
    expect([proving.first.count(METHOD), proving.first.count('GetCommitteeEvidence')]).toEqual([0, 2]);
    expect(await proving.evidence.evidence()).toEqual(given);
  });

  it('takes it for a block below the checkpoint, unless an id between is on the word of others', async () => {
    const given = await keptBy();
    const anchor = named('checkpoint', 387);
    const proving = await provingWith(given, { named: [anchor] });
    expect(proving.status).toMatchObject({ anchor, provenHeight: 397 });
    const doubting = await provingWith(given, { named: [anchor] }, [{ from: 386, to: 386 }]);
    expect(doubting.status).toMatchObject({ anchor: undefined, provenHeight: undefined });
    expect(await doubting.evidence.evidence()).toEqual([]);
  });

  it('takes nothing that is of another block or does not hash to its state, and asks again soon', async () => {
    const given = await keptBy();
    const [first] = given as [CommitteeEvidence];
    const proving = await provingWith([{ ...first, events: first.events.map(flipped) }]);
    expect(proving.status).toMatchObject({ provenHeight: undefined });
    const detail = 'what it keeps of who signs is not that of block 385';
    const report = { node: 'a', fault: 'failing', method: 'GetCommitteeEvidence', detail };
    expect(proving.nodes.reported).toContainEqual(report);
    const more = [...first.events, Buffer.from('kept for nothing')];
    for (const lie of [{ id: headerAt(386).id }, { events: more }, { events: first.events.toReversed() }]) {
      proving.first.evidence = () => ({ ...first, ...lie });
      await proving.clock.advance(20_000);
      expect(await proving.evidence.evidence()).toEqual([]);
    }
    proving.first.evidence = () => first;
    await proving.clock.advance(20_000);
    expect(proving.status.provenHeight).toBe(389);
  });
});

it('says which certificate is invalid, warns once, and goes on with the next block', async () => {
  const proving = await proved([274, 279], {
    change: (its) => {
      for (const height of [280, 281])
        its.change(height, { parentVoterSigData: flipped(headerAt(height).parentVoterSigData) });
    },
  });
  // Where nodes have yet to tell the head, as after a start, blocks may be caught up with.
  proving.head = 'unknown';
  await proving.reaches(280);
  expect(proving.status).toMatchObject({ reason: 'the head is not known yet', failed: undefined });
  await proving.reaches(280);
  expect(proving.status).toMatchObject({
    provenHeight: 277,
    reason: 'the certificate in block 280 is invalid: the signatures do not hold',
    failed: { height: 280, rewindTo: 277, reason: 'the signatures do not hold' },
  });
  expect(proving.prover.finalBlock()?.height).toBe(277);
  await proving.reaches(281);
  const fields = { height: 280, reason: 'the signatures do not hold' };
  const message = 'a certificate of the chain is invalid';
  expect(proving.logger.of('warn')).toMatchObject([{ message, fields }]);
  let told = 0;
  proving.prover.onProven(() => (told += 1));
  await proving.reaches(282);
  expect(proving.status).toMatchObject({ provenHeight: 280, reason: undefined, failed: undefined });
  const { height, id, parentId } = headerAt(280);
  expect(proving.prover.finalBlock()).toEqual({ height, id, parentId });
  expect(told).toBe(1);
  expect(await proving.checks()).toEqual({ valid: 2, invalid: 2 });
  await proving.reaches(279);
  expect(proving.prover.finalBlock()?.height).toBe(277);
  expect(told).toBe(3);
});

it('takes no forged snapshot: the node is reported for that call, and the next one asked', async () => {
  const proving = await proved([42, 52], {
    names: ['liar', 'honest'],
    change: ({ first }) => {
      const forged = recordedSnapshot();
      for (const { EpochEntry } of Object.values(forged.SealingSegment.ProtocolStateEntries)) {
        for (const participant of EpochEntry.CurrentEpochSetup.Participants) participant.InitialWeight = 1;
      }
      first.snapshot = () => forged;
    },
  });
  const detail = 'the setup of CurrentEpoch does not hash to its id';
  expect(proving.nodes.reported).toEqual([{ node: 'liar', fault: 'failing', method: METHOD, detail }]);
  expect(proving.status).toMatchObject({ provenHeight: 50, committee: { weight: 200 } });
});

it('believes the nodes at the newest block only where none has the first, not while one does not answer', async () => {
  const proving = await proved([42, 50], { change: ({ first }) => (first.down = true) });
  expect(proving.status.reason).toContain('block 42');
  proving.first.down = false;
  proving.first.snapshot = (height) => (height < 50 ? 'below_root' : snapshot);
  await proving.clock.advance(15_000);
  const anchor = { kind: 'first_use', height: 50 };
  const committee = { epoch: 0 };
  expect(proving.status).toMatchObject({ anchor, provenHeight: undefined, committee, reason: undefined });
  await proving.reaches(52);
  expect(proving.status.provenHeight).toBe(50);
});

it.each([
  ['below all that is indexed', 41, 60, 1],
  ['above the head', 61, 60, 1],
  ['still to be caught up with', 60, 60, 0],
])('warns once of a checkpoint %s: %i of %i', async (_where, height, head, warnings) => {
  const wanted = [named('checkpoint', height, UNKNOWN_ID)];
  const proving = await proved([42, 44], { named: wanted, change: (its) => (its.head = head) });
  for (let to = 45; to < 48; to += 1) await proving.reaches(to);
  expect(proving.logger.of('warn')).toHaveLength(warnings);
});

it('rests on a checkpoint once it is indexed, and on nothing else', async () => {
  const anchor = named('checkpoint', 50);
  const proving = await proved([42, 49], { named: [anchor] });
  expect(proving.status.anchor).toBeUndefined();
  const reason = /^the checkpoint at height 50 is not among the heights from 42 to 49.*--start-h/;
  expect(proving.status.reason).toMatch(reason);
  proving.first.snapshot = () => 'not_found';
  await proving.reaches(52);
  expect(proving.status.anchor).toBeUndefined();
  expect(proving.first.calls.map(({ height }) => height)).toEqual([50]);
  proving.first.snapshot = () => snapshot;
  await proving.clock.advance(FIVE_MINUTES_MS);
  expect(proving.status).toMatchObject({ anchor, provenHeight: 50 });
});

const named = (kind: NamedBlock['kind'], height: number, id = headerAt(height).id): NamedBlock => ({
  ...{ kind, height, id },
});

it('rests on the root that the spork table names, and on the nodes where none has its protocol state', async () => {
  const proving = await proved([42, 52], { named: [named('spork_root', 42)] });
  const anchor = named('spork_root', 42);
  expect(proving.status).toMatchObject({ anchor, provenHeight: 50, reason: undefined });
  const lacking = await proved([42, 50], {
    named: [named('spork_root', 42)],
    change: ({ first }) => (first.snapshot = (height) => (height === 42 ? 'not_found' : snapshot)),
  });
  expect(lacking.status.anchor).toMatchObject({ kind: 'first_use', height: 50 });
  // After a restart no newer block is believed, even while that one is damaged.
  const again = await proved([42, 52], {
    ...{ named: [named('spork_root', 42)], evidence: lacking.evidence },
    change: ({ first, store }) => {
      first.snapshot = (height) => (height === 42 ? 'not_found' : snapshot);
      store.delete(50);
    },
  });
  expect(again.status).toMatchObject({ anchor: undefined, reason: 'block 50 cannot be read now' });
  again.store.set(50, headerAt(50));
  await again.reaches(52);
  expect(again.status).toMatchObject({ anchor: { kind: 'first_use', height: 50 }, provenHeight: 50 });
});

it('rests on the last block of a spork once it is indexed and proven itself, which proves all below without a certificate', async () => {
  const proving = await proved([42, 49], { named: [named('spork_table', 52)] });
  expect(proving.status.anchor).toMatchObject({ kind: 'first_use', height: 42 });
  await proving.reaches(51);
  const { valid } = await proving.checks();
  await proving.reaches(52);
  const { calls } = proving.first;
  const asked = calls.length;
  expect(proving.status).toMatchObject({
    ...{ anchor: named('spork_table', 52), provenHeight: 52 },
    ...{ latestCertificate: undefined, reason: undefined },
  });
  await proving.clock.advance(FIVE_MINUTES_MS);
  expect(await proving.checks()).toEqual({ valid, invalid: 0 });
  expect(calls).toHaveLength(asked);
  const change = (its: { readonly unproven: Set<number> }) => its.unproven.add(52);
  const unproven = await proved([42, 52], { named: [named('spork_table', 52)], change });
  const reason = 'block 52 itself is not proven';
  expect(unproven.status).toMatchObject({ anchor: undefined, provenHeight: undefined, reason });
});

it('prefers the checkpoint to the root, and that to the last block', async () => {
  const all = [named('checkpoint', 45), named('spork_root', 42), named('spork_table', 52)];
  for (const first of [0, 1, 2]) {
    const proving = await proved([42, 52], { named: all.slice(first) });
    expect(proving.status.anchor).toEqual(all[first]);
  }
  const withoutState = await proved([42, 52], {
    named: all.slice(1),
    change: ({ first }) => (first.snapshot = () => 'not_found'),
  });
  expect(withoutState.status).toMatchObject({ anchor: all[2], provenHeight: 52 });
});

it.each([
  ['checkpoint', 'proof.checkpoint', true],
  ['checkpoint', 'proof.checkpoint', false],
  ['spork_root', 'the spork table, as the root of a spork,', true],
  ['spork_table', 'the spork table, as the last block before a spork,', true],
  ['spork_table', 'the spork table, as the last block before a spork,', false],
] as const)('ends on a chain that contradicts the %s (%s, proving: %s)', async (kind, by, isProving) => {
  const proving = await proved([42, 49], { named: [named(kind, 50, headerAt(49).id)], isProving });
  await proving.reaches(50);
  await expect(proving.end()).rejects.toMatchObject({
    exit: 'foreign',
    message: expect.stringContaining(
      `Block 50 has the id ${headerAt(50).id}, but ${by} names ${headerAt(49).id}`,
    ) as string,
  });
});

it('ends when history that is filled in later contradicts a named block, far below its anchor', async () => {
  const proving = await proved([274, 283], {
    named: [named('spork_table', 50, headerAt(49).id)],
    change: ({ store }) => store.delete(50),
  });
  expect(proving.status.anchor).toMatchObject({ kind: 'first_use', height: 274 });
  proving.store.set(50, headerAt(50));
  await proving.reaches(283);
  await expect(proving.end()).rejects.toMatchObject({ exit: 'foreign' });
});

it('forgets what it knew when the store goes back, a spork begins, or another process follows the chain', async () => {
  const proving = await proved([42, 52]);
  await proving.reaches(47);
  expect(proving.status.provenHeight).toBe(45);
  proving.range.from = 44;
  await proving.reaches(47);
  expect(proving.status).toMatchObject({ anchor: { height: 44 }, provenHeight: 45 });
  proving.isFollowing = false;
  await proving.reaches(48);
  expect(proving.status).toMatchObject({
    ...{ anchor: undefined, provenHeight: undefined, committee: undefined },
    reason: 'this process has indexed no block yet, or does not follow the chain',
  });
  // It does not rest for what nodes lacked of the spork before.
  const lacking = await proved([42, 52], {
    change: ({ first }) => (first.snapshot = (height) => (height < 274 ? 'not_found' : snapshot)),
  });
  lacking.range.from = 274;
  await lacking.reaches(283);
  expect(lacking.status).toMatchObject({ anchor: { height: 274 }, reason: undefined });
});

it('takes the blocks of a spork that no node has named yet for no failure, and has the nodes asked again', async () => {
  const proving = await proved([274, 279], {
    change: (its) => {
      its.change(280, { parentVoterSigData: Buffer.alloc(0) });
      its.change(282, { parentVoterSigData: flipped(headerAt(282).parentVoterSigData) });
    },
  });
  // Its root may stay the newest block for hours.
  await proving.reaches(280);
  for (const askedAgain of [1, 2]) {
    expect(proving.status).toMatchObject({
      ...{ anchor: { height: 274 }, provenHeight: 277, failed: undefined },
      reason: 'a spork begins at 280, which no node has named yet',
    });
    expect(proving.askedAgain).toBe(askedAgain);
    proving.range.to = 282;
    await proving.clock.advance(15_500);
  }
  expect([proving.logger.of('warn'), await proving.checks()]).toEqual([[], { valid: 1, invalid: 0 }]);
  // A liar could say for ever that a spork begins.
  await proving.clock.advance(60_000);
  await proving.reaches(282);
  expect(proving.status.failed).toMatchObject({ height: 282, rewindTo: 277 });
  proving.range.from = 280;
  await proving.reaches(283);
  expect(proving.status).toMatchObject({ anchor: { height: 280 }, provenHeight: 281, reason: undefined });
});

it.each([
  ['at its first block', [42, 52], 0],
  ['at the end of an epoch', [385, 399], 1],
] as const)('says that it asks who signs, as long as that takes, %s', async (_when, heights, answered) => {
  const real = certificateThread(() => certificatesHere(verdicts));
  let settle: () => void = () => undefined;
  const late = new Promise<{ ok: false; reason: string }>((resolve) => {
    settle = () => resolve({ ok: false, reason: 'late' });
  });
  let asked = 0;
  const proving = await proved([...heights], {
    change: startsAtOldState,
    thread: {
      verify: (...of) => real.verify(...of),
      readState: (...of) => (asked++ < answered ? real.readState(...of) : late),
    },
  });
  await proving.clock.advance(20_000);
  const { reason } = proving.status;
  settle();
  expect(reason).toBe('nodes are being asked who signs');
});

it.each([
  new DatabaseFault('disk_full', 'the database has no room', {}),
  new StorageError('corrupt', 'a record is damaged'),
])('waits for what is mended while it runs: %s', async (fault) => {
  const evidence = new MemoryIndexStore();
  const keep = evidence.keepEvidence.bind(evidence);
  evidence.keepEvidence = () => Promise.reject(fault);
  const proving = await proved([42, 52], { evidence });
  expect(proving.status.reason).toBe(fault.message);
  evidence.keepEvidence = keep;
  await proving.clock.advance(20_000);
  expect(proving.status).toMatchObject({ provenHeight: 50, reason: undefined });
});

it.each([
  ['starts another after a while', ['a'], 15_000],
  ['asks another node, as what one sent may end it', ['liar', 'honest'], 0],
])('outlives the thread that verifies, and %s', async (_how, names, afterMs) => {
  let started = 0;
  const start = (): CertificatePort => {
    const port = certificatesHere();
    if (started++ > 0) return port;
    let end: () => void = () => undefined;
    return {
      ...port,
      // It takes the question with it.
      postMessage: () => queueMicrotask(end),
      on: (event: string, listener: never) => {
        if (event === 'exit') end = listener;
      },
    };
  };
  const proving = await proved([42, 52], { names, thread: certificateThread(start) });
  if (afterMs > 0) expect(proving.status.reason).toBe('the thread that verifies certificates ended');
  await proving.clock.advance(afterMs);
  expect(proving.status).toMatchObject({ provenHeight: 50, reason: undefined });
});
