import { RLP } from '@ethereumjs/rlp';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeExecutionResult, encodeRlp, sha3Identifier } from '../../../src/flow/index.js';
import type { ExecutionResult, Identifier, RlpItem } from '../../../src/flow/index.js';
import { certificateIn } from '../../../src/proof/certificates/provenFinal.js';
import { prepareCommittee, verifyCertificate } from '../../../src/proof/certificates/verifyCertificate.js';
import { CURRENT_RULES, EpochCommittees } from '../../../src/proof/index.js';
import { thresholdOf } from '../../../src/proof/committee/committee.js';
import { MAX_UNSEALED_RESULTS } from '../../../src/proof/committee/EpochCommittees.js';
import type { EpochBlock } from '../../../src/proof/committee/EpochCommittees.js';
import type { EpochState } from '../../../src/proof/index.js';
import { bindResult } from '../../../src/proof/committee/executionResultId.js';
import { readProtocolState } from '../../../src/proof/committee/protocolState.js';
import { readServiceEvent } from '../../../src/proof/committee/serviceEvents.js';
import { loadMessages } from '../../support/flowWire.js';
import { knownAnswers, recordedBlock, recordedBlocks, recordedSnapshot } from '../../support/proofData.js';
import type { WireBlock } from '../../support/proofData.js';

const hex = (text: string): Buffer => Buffer.from(text, 'hex');

describe('the id of a result', () => {
  const modern = knownAnswers('block-v0.51.json') as { blockMessageFull: string; resultIDs: Identifier[] };
  const block = recordedBlock(
    loadMessages()('flow.entities.Block').decode(
      Buffer.from(modern.blockMessageFull, 'base64'),
    ) as unknown as WireBlock,
  );

  it('binds every kind of service event', () => {
    const bound = block.results.map((result) => bindResult(result, modern.resultIDs));
    expect(bound.map((each) => each?.id)).toEqual(modern.resultIDs);
    const types = block.results.flatMap(({ serviceEvents }) => serviceEvents.map(({ type }) => type));
    expect(new Set(types).size).toBe(7);
    expect(bound.flatMap((each) => each?.events.map(({ kind }) => kind))).toEqual([
      ...['setup', 'commit', 'recover', 'extension-length'],
    ]);
  });

  it('is that of older chunks too, with a count of service events and without', () => {
    const { block: older, resultIDs } = knownAnswers('block-v0.42.json') as {
      block: { Payload: { Results: OlderResult[] } };
      resultIDs: Identifier[];
    };
    const results = older.Payload.Results.map(olderResult);
    expect(results.map((result) => bindResult(result, resultIDs)?.id)).toEqual(resultIDs);
    const counts = results.flatMap(({ chunks }) => chunks.map((chunk) => chunk.serviceEventCount));
    expect(counts).toContain(0);
    expect(counts).toContain(0xffff_0000);
    // Nodes before the count did not send the field.
    const unmarked = results[1]!.chunks.map((chunk) => ({ ...chunk, serviceEventCount: 0 }));
    expect(bindResult({ ...results[1]!, chunks: unmarked }, resultIDs)?.id).toBe(resultIDs[1]);
  });

  it('is another once anything of an event is changed', () => {
    const [result] = block.results as [ExecutionResult];
    const leaves = result.serviceEvents.flatMap(({ payload }, event) =>
      pathsOf(JSON.parse(Buffer.from(payload).toString())).map((path) => ({ event, path })),
    );
    expect(leaves.length).toBeGreaterThan(60);
    for (const { event, path } of leaves) {
      const serviceEvents = result.serviceEvents.map((each, index) => {
        if (index !== event) return each;
        const changed: unknown = JSON.parse(Buffer.from(each.payload).toString());
        changeAt(changed, path);
        return { ...each, payload: Buffer.from(JSON.stringify(changed)) };
      });
      expect(bindResult({ ...result, serviceEvents }, modern.resultIDs), path.join('.')).toBeUndefined();
    }
    expect(bindResult({ ...result, serviceEvents: result.serviceEvents.slice(1) }, modern.resultIDs)).toBe(
      undefined,
    );
    expect(bindResult(result, [])).toBeUndefined();
  });

  it('is not made of events whose type or shape is not known', () => {
    const [result] = block.results as [ExecutionResult];
    for (const [type, payload] of [
      ['surprise', '{}'],
      ['setup', '{'],
      ['setup', '{"Counter": -1}'],
      ['eject-node', '{"NodeID": "ab"}'],
      ['commit', '[]'],
    ] as const) {
      const serviceEvents = [{ type, payload: Buffer.from(payload) }];
      expect(bindResult({ ...result, serviceEvents }, modern.resultIDs)).toBeUndefined();
    }
  });

  it('is read from the wire, whatever else is in the message', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        try {
          bindResult(decodeExecutionResult(bytes), []);
        } catch (error) {
          expect((error as Error).name).toBe('WireError');
        }
      }),
    );
  });
});

it('RLP of nested values is that of another implementation', () => {
  const leaf = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.nat(),
    fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
  );
  const { tree } = fc.letrec<{ tree: RlpItem }>((tie) => ({
    tree: fc.oneof({ depthSize: 'small' }, leaf, fc.array(tie('tree'), { maxLength: 8 })),
  }));
  fc.assert(
    fc.property(tree, (item) => {
      expect(Buffer.from(encodeRlp(item))).toEqual(
        Buffer.from(RLP.encode(item as Parameters<typeof RLP.encode>[0])),
      );
    }),
  );
});

describe('the protocol state of a block', () => {
  const ids = [...new Set(recordedBlocks().map(({ protocolStateId }) => protocolStateId))];

  it('is read from a snapshot: before the setup of the next epoch, after it, and after its commit', () => {
    const states = [...Object.keys(recordedSnapshot().SealingSegment.ProtocolStateEntries)].map((id) => {
      expect(ids).toContain(id);
      return stateOf(id as Identifier);
    });
    const seen = states.map(({ next }) => [next?.setup.counter, next?.commit?.counter]);
    expect(seen).toEqual([
      [undefined, undefined],
      [1, undefined],
      [1, 1],
    ]);
    for (const { current, safetyThreshold, extensionViews, isFallback } of states) {
      expect(current).toMatchObject({ firstView: 0, finalView: 399, committee: { epoch: 0 } });
      expect(current.committee.members.map(({ weight }) => weight)).toEqual([100, 100]);
      expect({ safetyThreshold, extensionViews, isFallback }).toEqual({
        ...{ safetyThreshold: 20, extensionViews: 600, isFallback: false },
      });
    }
  });

  it('is refused when anything of it was changed', () => {
    const changes: ((entry: ReturnType<typeof entryOf>) => void)[] = [
      (entry) => (entry.EpochEntry.CurrentEpochSetup.FinalView += 1),
      (entry) => (entry.EpochEntry.CurrentEpochSetup.Participants[0]!.InitialWeight += 1),
      (entry) => (entry.EpochEntry.CurrentEpochSetup.Participants[0]!.StakingPubKey = 'AAAA'),
      (entry) => (entry.EpochEntry['EpochFallbackTriggered'] = true),
      (entry) => (entry.EpochEntry['NextEpoch'] = null),
      (entry) => (entry.EpochEntry['CurrentEpochCommit'] = entry.EpochEntry['NextEpochCommit']),
      (entry) => (entry.KVStore.Version = 1),
      (entry) => (entry.KVStore.Version = 4),
      (entry) => (entry.KVStore.Data = entry.KVStore.Data.replace(/A(?=[^A]*$)/, 'B')),
      (entry) => (entry.KVStore.Data = entry.KVStore.Data.slice(0, 40)),
      (entry) => (entry.KVStore.Data = ''),
    ];
    const id = ids.at(-1)!;
    for (const change of changes) {
      const snapshot = recordedSnapshot();
      const known = Object.keys(snapshot.SealingSegment.ProtocolStateEntries).at(-1)!;
      change(entryOf(snapshot, known));
      expect(readProtocolState(snapshot, known as Identifier).ok, change.toString()).toBe(false);
    }
    expect(readProtocolState(recordedSnapshot(), id)).toEqual({
      ...{ ok: false, reason: 'the snapshot does not have this protocol state' },
    });
    for (const junk of [null, 7, {}, { SealingSegment: null }]) {
      expect(readProtocolState(junk, id).ok).toBe(false);
    }
  });

  it.each([
    // The older forms have the same fields, nested less deeply.
    [0, (base: unknown): unknown => base, {}],
    [1, (base: unknown): unknown => [base], {}],
    [
      3,
      (base: unknown): unknown => [
        [[base]],
        // By number of the kind, not in the order in which they were packed.
        [
          [
            [
              [2, 300],
              [10, 1],
            ],
            [],
            (1n << 64n) - 1n,
          ],
          [],
        ],
        [
          [1, 0],
          [[1, 2], 700],
        ],
        [[0, 0], []],
      ],
      {
        ExecutionMeteringParameters: {
          CurrentValue: {
            ExecutionEffortWeights: new Map([
              [10, 1],
              [2, 300],
            ]),
            ExecutionMemoryWeights: new Map(),
            ExecutionMemoryLimit: (1n << 64n) - 1n,
          },
          Update: null,
        },
        ExecutionComponentVersion: {
          CurrentValue: { Major: 1, Minor: 0 },
          Update: { Data: { Major: 1, Minor: 2 }, ActivationView: 700 },
        },
        CadenceComponentVersion: { CurrentValue: { Major: 0, Minor: 0 }, Update: null },
      },
    ],
  ] as const)('of version %i is known', (version, model, more) => {
    const [, entry] = Object.entries(recordedSnapshot().SealingSegment.ProtocolStateEntries)[0]!;
    const epochStateId = Buffer.from(entry.KVStore.Data, 'base64').subarray(32, 64);
    const values = {
      VersionUpgrade: { Data: 3, ActivationView: 100_000 },
      ...{ EpochStateID: epochStateId, EpochExtensionViewCount: 600, FinalizationSafetyThreshold: 20 },
      ...more,
    };
    entry.KVStore = { Version: version, Data: packed(values).toString('base64') };
    const base = [[[3, 100_000]], epochStateId, 600, 20];
    const item = [version, model(base)] as Parameters<typeof RLP.encode>[0];
    const id = sha3Identifier(RLP.encode(item));
    const read = readProtocolState({ SealingSegment: { ProtocolStateEntries: { [id]: entry } } }, id);
    expect(read.ok || read.reason).toBe(true);
  });

  function stateOf(id: Identifier): EpochState {
    const read = readProtocolState(recordedSnapshot(), id);
    if (!read.ok) throw new Error(read.reason);
    return read.state;
  }

  function entryOf(snapshot: ReturnType<typeof recordedSnapshot>, id: string) {
    return snapshot.SealingSegment.ProtocolStateEntries[id]!;
  }
});

describe('the committees of a recorded network', () => {
  const blocks = recordedBlocks();
  const anchored = (): EpochCommittees => {
    const read = readProtocolState(recordedSnapshot(), blocks[0]!.protocolStateId);
    if (!read.ok) throw new Error(read.reason);
    return new EpochCommittees(read.state);
  };

  it('change by sealed events of the blocks alone, and certify each block around the border', () => {
    let committees = anchored();
    const changes: number[] = [];
    const epochs = new Map<number, ReturnType<typeof prepareCommittee>>();
    for (const block of blocks) {
      if (block.height > 384) {
        const committee = committees.committeeAt(block.parentView)!;
        if (!epochs.has(committee.epoch)) epochs.set(committee.epoch, prepareCommittee(committee));
        const verdict = verifyCertificate(certificateIn(block), epochs.get(committee.epoch)!, CURRENT_RULES);
        expect(verdict.valid, String(block.height)).toBe(true);
      }
      if (committees.apply(block).isChanged) changes.push(block.height);
      // A restart after each block changes nothing.
      const saved = JSON.stringify(committees);
      expect(saved.length).toBeLessThan(10_000);
      committees = EpochCommittees.restore(JSON.parse(saved) as ReturnType<EpochCommittees['toJSON']>);
    }
    expect(changes).toEqual([50, 281, 391]);
    expect([...epochs.keys()]).toEqual([0, 1]);
    expect(committees.committeeAt(399)?.epoch).toBe(0);
    expect(committees.committeeAt(400)?.epoch).toBe(1);
    // The border in the other epoch's hands.
    const border = blocks.find(({ parentView }) => parentView === 400)!;
    expect(verifyCertificate(certificateIn(border), epochs.get(0)!, CURRENT_RULES).valid).toBe(false);
  });

  it('do not change by events of a result that no seal names, and count what is missing', () => {
    const committees = anchored();
    for (const block of blocks) {
      const seals = block.seals.filter(({ resultId }) => resultId !== setupResult);
      committees.apply({ ...block, seals });
    }
    expect(committees.committeeAt(401)?.epoch).toBe(0);
    expect(committees.state.next).toBeUndefined();

    const withheld = anchored();
    const missing = blocks.flatMap((block) => {
      const results = block.results.filter((result) => result.serviceEvents.length === 0);
      return withheld.apply({ ...block, results }).missing;
    });
    expect(missing).toContain(setupResult);
    expect(withheld.missed).toBe(missing.length);
  });

  it('do not change by events that a node made up', () => {
    const committees = anchored();
    for (const block of blocks) {
      const results = block.results.map((result) => ({
        ...result,
        serviceEvents: result.serviceEvents.map(({ type, payload }) => ({
          type,
          payload: Buffer.from(
            Buffer.from(payload).toString().replace('"InitialWeight":100', '"InitialWeight":900'),
          ),
        })),
      }));
      committees.apply({ ...block, results });
    }
    expect(committees.state.next).toBeUndefined();
    expect(committees.state.current.committee.epoch).toBe(0);
  });

  const setupResult = blocks.flatMap(({ results, resultIds }) =>
    results.flatMap((result) =>
      result.serviceEvents.some(({ type }) => type === 'setup')
        ? (bindResult(result, resultIds)?.id ?? [])
        : [],
    ),
  )[0]!;
});

describe('epochs', () => {
  it('go on beyond their end without a committed next one, in extensions, until they are recovered', () => {
    const chain = new MadeChain();
    chain.block(10, setup(2, 101, 200));
    expect(chain.committees.state.next?.setup.counter).toBe(2);
    // The deadline: 20 views before the end.
    chain.block(80);
    expect(chain.committees.state).toMatchObject({ isFallback: true, current: { finalView: 400 } });
    expect(chain.committees.state.next).toBeUndefined();
    chain.block(90, setup(2, 401, 500), commit(2));
    expect(chain.committees.state.next).toBeUndefined();
    expect(chain.committees.committeeAt(350)?.epoch).toBe(1);
    chain.block(100, recover(2, 301, 500));
    expect(chain.committees.state.isFallback).toBe(true);
    chain.block(110, recover(2, 401, 500));
    expect(chain.committees.state.isFallback).toBe(false);
    expect(chain.committees.committeeAt(400)?.epoch).toBe(1);
    expect(chain.committees.committeeAt(401)).toMatchObject({ epoch: 2, beaconKey: '02'.repeat(96) });
    chain.block(401);
    expect(chain.committees.state).toMatchObject({
      current: { firstView: 401 },
      previous: { finalView: 400 },
    });
    expect(chain.committees.committeeAt(0)?.epoch).toBe(1);
  });

  it('are extended by what the network was told last', () => {
    const chain = new MadeChain();
    const length = (views: number) => ['set-epoch-extension-view-count', { Value: views }] as const;
    chain.block(10, length(1000));
    // Less than twice the safety threshold: ignored.
    chain.block(11, length(39));
    chain.block(85);
    expect(chain.committees.state.current.finalView).toBe(1100);
    chain.block(1079);
    expect(chain.committees.state.current.finalView).toBe(1100);
    chain.block(1080);
    expect(chain.committees.state.current.finalView).toBe(2100);
  });

  it('go on in fallback after an event that breaks the rules, but keep a next epoch that was committed', () => {
    const broken = [
      [setup(3, 101, 200)],
      [setup(2, 102, 200)],
      [setup(2, 101, 101)],
      [commit(2)],
      [setup(2, 101, 200), setup(2, 101, 200)],
      [setup(2, 101, 200), commit(3)],
      [recover(3, 101, 200)],
    ];
    for (const events of broken) {
      const chain = new MadeChain();
      chain.block(10, ...events);
      expect(chain.committees.state, JSON.stringify(events)).toMatchObject({ isFallback: true });
      expect(chain.committees.committeeAt(150)?.epoch).toBe(1);
    }
    const chain = new MadeChain();
    chain.block(10, setup(2, 101, 200), commit(2));
    chain.block(11, commit(2));
    expect(chain.committees.state.isFallback).toBe(true);
    chain.block(105);
    expect(chain.committees.state).toMatchObject({ isFallback: true, current: { committee: { epoch: 2 } } });
  });

  it('count the events of one block in the order of the results, whatever the order of its seals', () => {
    const chain = new MadeChain();
    const first = chain.result(setup(2, 101, 200));
    const second = chain.result(commit(2));
    chain.committees.apply({ view: 9, seals: [], ...chain.payload([first, second]) });
    chain.committees.apply({ view: 10, seals: [second.seal, first.seal], results: [], resultIds: [] });
    expect(chain.committees.committeeAt(101)?.epoch).toBe(2);
  });

  it('remember a bounded number of results', () => {
    const chain = new MadeChain();
    const results = Array.from({ length: MAX_UNSEALED_RESULTS + 5 }, () => chain.result());
    const seals = results.slice(0, 6).map(({ seal }) => seal);
    chain.committees.apply({ view: 9, seals: [], ...chain.payload(results) });
    const { missing } = chain.committees.apply({ view: 10, seals, results: [], resultIds: [] });
    expect(missing).toEqual(seals.slice(0, 5).map(({ resultId }) => resultId));
  });
});

it('the threshold is more than two thirds', () => {
  expect([1, 2, 3, 4, 5, 6, 100, 1100, 123_000].map(thresholdOf)).toEqual([
    1, 2, 3, 3, 4, 5, 67, 734, 82_001,
  ]);
});

type MadeEvent = readonly [type: string, event: unknown];

/** A chain of one consensus node, whose epoch 1 has the views up to 100. */
class MadeChain {
  readonly committees: EpochCommittees;
  #results = 0;

  constructor() {
    const read = readServiceEvent(...setup(1, 0, 100)).meaning;
    if (read?.kind !== 'setup') throw new Error('no setup');
    const { committee, firstView, finalView } = read.setup;
    this.committees = new EpochCommittees({
      current: { firstView, finalView, committee },
      ...{ isFallback: false, safetyThreshold: 20, extensionViews: 300 },
    });
  }

  /** A block that seals a result with these events. */
  block(view: number, ...events: MadeEvent[]): void {
    const made = this.result(...events);
    this.committees.apply({ view, seals: [made.seal], ...this.payload([made]) });
  }

  result(...events: MadeEvent[]) {
    const blockId = sha3Identifier(Buffer.from(String(++this.#results)));
    const result: ExecutionResult = {
      previousResultId: Buffer.alloc(32, 1),
      blockId: hex(blockId),
      chunks: [],
      serviceEvents: events.map(([type, event]) => ({ type, payload: Buffer.from(JSON.stringify(event)) })),
      executionDataId: Buffer.alloc(32, 2),
    };
    const items = events.map(([type, event]) => [type, readServiceEvent(type, event).rlp]);
    const resultId = sha3Identifier(
      encodeRlp([result.previousResultId, result.blockId, [], items, result.executionDataId]),
    );
    return { result, seal: { blockId, resultId } };
  }

  payload(made: readonly ReturnType<MadeChain['result']>[]): Pick<EpochBlock, 'results' | 'resultIds'> {
    return { results: made.map(({ result }) => result), resultIds: made.map(({ seal }) => seal.resultId) };
  }
}

function setup(counter: number, firstView: number, finalView: number): MadeEvent {
  const participant = {
    ...{ NodeID: 'aa'.repeat(32), Address: 'here:1', Role: 'consensus', InitialWeight: 100 },
    ...{ StakingPubKey: Buffer.alloc(96, counter).toString('base64'), NetworkPubKey: null },
  };
  const phases = { DKGPhase1FinalView: 1, DKGPhase2FinalView: 2, DKGPhase3FinalView: 3 };
  return [
    'setup',
    {
      ...{ Counter: counter, FirstView: firstView, FinalView: finalView, ...phases },
      ...{ Participants: [participant], Assignments: [[]], RandomSource: null },
    },
  ];
}

function commit(counter: number): MadeEvent {
  const cluster = { SigData: null, VoterIDs: null };
  const key = Buffer.alloc(96, counter).toString('hex');
  return ['commit', { Counter: counter, ClusterQCs: [cluster], DKGGroupKey: key, DKGParticipantKeys: [] }];
}

function recover(counter: number, firstView: number, finalView: number): MadeEvent {
  const [[, EpochSetup], [, EpochCommit]] = [setup(counter, firstView, finalView), commit(counter)];
  return ['recover', { EpochSetup, EpochCommit }];
}

interface OlderResult {
  PreviousResultID: string;
  BlockID: string;
  Chunks: {
    CollectionIndex: number;
    StartState: string;
    EventCollection: string;
    ServiceEventCount: number | null;
    BlockID: string;
    TotalComputationUsed: number;
    NumberOfTransactions: number;
    Index: number;
    EndState: string;
  }[];
  ServiceEvents: { Type: string; Event: unknown }[] | null;
  ExecutionDataID: string;
}

/** As a node converts it for the wire. */
function olderResult(result: OlderResult): ExecutionResult {
  return {
    previousResultId: hex(result.PreviousResultID),
    blockId: hex(result.BlockID),
    chunks: result.Chunks.map((chunk) => ({
      collectionIndex: chunk.CollectionIndex,
      startState: hex(chunk.StartState),
      eventCollection: hex(chunk.EventCollection),
      blockId: hex(chunk.BlockID),
      totalComputationUsed: BigInt(chunk.TotalComputationUsed),
      numberOfTransactions: chunk.NumberOfTransactions,
      index: BigInt(chunk.Index),
      endState: hex(chunk.EndState),
      serviceEventCount: chunk.ServiceEventCount ?? 0xffff_0000,
    })),
    serviceEvents: (result.ServiceEvents ?? []).map(({ Type, Event }) => ({
      ...{ type: Type, payload: Buffer.from(JSON.stringify(Event)) },
    })),
    executionDataId: hex(result.ExecutionDataID),
  };
}

/** The paths of all texts and numbers in JSON. */
function pathsOf(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return value === null ? [] : [path];
  return Object.entries(value).flatMap(([key, each]) => pathsOf(each, [...path, key]));
}

/** Another value of the same shape. */
function changeAt(value: unknown, path: readonly string[]): void {
  const parent = path.slice(0, -1).reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], value);
  const fields = parent as Record<string, unknown>;
  const key = path.at(-1)!;
  const old = fields[key];
  if (typeof old === 'number') fields[key] = old + 1;
  else if (key === 'Role') fields[key] = old === 'access' ? 'consensus' : 'access';
  else fields[key] = (old as string).replace(/^./, (first) => (first === '1' ? '2' : '1'));
}

/** MessagePack as Go's nodes write it, in small. */
function packed(value: unknown): Buffer {
  if (value === null) return Buffer.of(0xc0);
  if (typeof value === 'number' || typeof value === 'bigint') {
    const bytes = Buffer.alloc(9, 0xcf);
    bytes.writeBigUInt64BE(BigInt(value), 1);
    return bytes;
  }
  if (typeof value === 'string') return Buffer.concat([Buffer.of(0xa0 | value.length), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([Buffer.of(0xc4, value.length), value]);
  const entries = value instanceof Map ? [...value] : Object.entries(value as object);
  const parts = entries.flatMap(([key, each]) => [packed(key), packed(each)]);
  return Buffer.concat([Buffer.of(0x80 | entries.length), ...parts]);
}
