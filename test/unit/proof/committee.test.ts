import { RLP } from '@ethereumjs/rlp';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeExecutionResult, encodeRlp, sha3Identifier } from '../../../src/flow/index.js';
import type { ExecutionResult, Identifier, RlpItem } from '../../../src/flow/index.js';
import { certificateIn } from '../../../src/proof/certificates/provenFinal.js';
import { prepareCommittee, verifyCertificate } from '../../../src/proof/certificates/verifyCertificate.js';
import { committeesIn, lastViewOf, readParts } from '../../../src/proof/index.js';
import { readProtocolState } from '../../../src/proof/committee/protocolState.js';
import { executionResultId } from '../../../src/proof/committee/serviceEvents.js';
import { loadMessages } from '../../support/flowWire.js';
import { knownAnswers, recordedBlock, recordedBlocks, recordedSnapshot } from '../../support/proofData.js';
import type { WireBlock } from '../../support/proofData.js';

const hex = (text: string): Buffer => Buffer.from(text, 'hex');
const MOST = (1n << 64n) - 1n;

const modern = knownAnswers('block-v0.51.json') as { blockMessageFull: string; resultIDs: Identifier[] };
const block = recordedBlock(
  loadMessages()('flow.entities.Block').decode(
    Buffer.from(modern.blockMessageFull, 'base64'),
  ) as unknown as WireBlock,
);
const modernIds = new Set(modern.resultIDs);

it('the id of a result binds every kind of service event', () => {
  expect(block.results.map((result) => executionResultId(result, modernIds))).toEqual([...modernIds]);
  const types = block.results.flatMap(({ serviceEvents }) => serviceEvents.map(({ type }) => type));
  expect(new Set(types).size).toBe(7);
});

it('the id of a result is that of older chunks too, with a count of service events and without', () => {
  const { block: older, resultIDs } = knownAnswers('block-v0.42.json') as {
    block: { Payload: { Results: OlderResult[] } };
    resultIDs: Identifier[];
  };
  const results = older.Payload.Results.map(olderResult);
  expect(results.map((result) => executionResultId(result, new Set(resultIDs)))).toEqual(resultIDs);
  const counts = results.flatMap(({ chunks }) => chunks.map((chunk) => chunk.serviceEventCount));
  expect(counts).toContain(0);
  expect(counts).toContain(0xffff_0000);
  // Nodes before the count did not send the field.
  const unmarked = results[1]!.chunks.map((chunk) => ({ ...chunk, serviceEventCount: 0 }));
  expect(executionResultId({ ...results[1]!, chunks: unmarked }, new Set(resultIDs))).toBe(resultIDs[1]);
});

it('the id of a result is another once anything of an event is changed', () => {
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
    expect(executionResultId({ ...result, serviceEvents }, modernIds), path.join('.')).toBeUndefined();
  }
  expect(executionResultId({ ...result, serviceEvents: result.serviceEvents.slice(1) }, modernIds)).toBe(
    undefined,
  );
  expect(executionResultId(result, new Set())).toBeUndefined();
});

it('the id of a result is not made of events whose type or shape is not known', () => {
  const [result] = block.results as [ExecutionResult];
  for (const [type, payload] of [
    ['surprise', '{}'],
    ['setup', '{'],
    ['setup', '{"Counter": -1}'],
    ['setup', '{"Participants": 7}'],
    ['setup', '{"Participants": [{"Role": "poet"}]}'],
    ['eject-node', '{"NodeID": "ab"}'],
    ['commit', '[]'],
  ] as const) {
    const serviceEvents = [{ type, payload: Buffer.from(payload) }];
    expect(executionResultId({ ...result, serviceEvents }, modernIds)).toBeUndefined();
  }
});

it('the id of a result is read from the wire, whatever else is in the message', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      try {
        executionResultId(decodeExecutionResult(bytes), new Set());
      } catch (error) {
        expect((error as Error).name).toBe('WireError');
      }
    }),
  );
});

it('RLP of nested values is that of another implementation', () => {
  const leaf = fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.nat(), fc.bigInt({ min: 0n, max: MOST }));
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

type Entry = ReturnType<typeof recordedSnapshot>['SealingSegment']['ProtocolStateEntries'][string];

describe('the protocol state of a block', () => {
  const ids = [...new Set(recordedBlocks().map(({ protocolStateId }) => protocolStateId))];

  it('is read from a snapshot: before the setup of the next epoch, after it, and after its commit', () => {
    const states = [...Object.keys(recordedSnapshot().SealingSegment.ProtocolStateEntries)].map((id) => {
      expect(ids).toContain(id);
      return readOf(id as Identifier).state;
    });
    expect(states.map(({ next }) => next?.committee.epoch)).toEqual([undefined, undefined, 1]);
    expect(states.map(lastViewOf)).toEqual([399, 399, 799]);
    for (const { current } of states) {
      expect(current).toMatchObject({ firstView: 0, finalView: 399, committee: { epoch: 0 } });
      expect(current.committee.members.map(({ weight }) => weight)).toEqual([100, 100]);
    }
  });

  it('names who certifies each block around the end of an epoch', () => {
    const blocks = recordedBlocks().filter(({ height }) => height > 387 && height < 394);
    const committeeAt = committeesIn(readOf(ids.at(-2)!).state);
    const epochs = new Map<number, ReturnType<typeof prepareCommittee>>();
    for (const block of blocks) {
      const committee = committeeAt(block.parentView)!;
      if (!epochs.has(committee.epoch)) epochs.set(committee.epoch, prepareCommittee(committee));
      const verdict = verifyCertificate(certificateIn(block), epochs.get(committee.epoch)!);
      expect(verdict.valid, String(block.height)).toBe(true);
    }
    expect([...epochs.keys()]).toEqual([0, 1]);
    expect([0, 399, 400, 799, 800].map((view) => committeeAt(view)?.epoch)).toEqual([0, 0, 1, 1, undefined]);
    // The border in the other epoch's hands.
    const border = blocks.find(({ parentView }) => parentView === 400)!;
    expect(verifyCertificate(certificateIn(border), epochs.get(0)!).valid).toBe(false);
  });

  it('is refused when anything of it was changed', () => {
    const changes: ((entry: Entry) => void)[] = [
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
      // A key that is no text, and maps within maps.
      (entry) => (entry.KVStore.Data = Buffer.of(0x81, 0xc0).toString('base64')),
      (entry) => (entry.KVStore.Data = Buffer.alloc(40, 0x81).toString('base64')),
    ];
    const id = ids.at(-1)!;
    for (const change of changes) {
      const snapshot = recordedSnapshot();
      const known = Object.keys(snapshot.SealingSegment.ProtocolStateEntries).at(-1)!;
      change(snapshot.SealingSegment.ProtocolStateEntries[known]!);
      const { ok } = readProtocolState(JSON.stringify(snapshot), known as Identifier);
      expect(ok, change.toString()).toBe(false);
    }
    expect(readProtocolState(JSON.stringify(recordedSnapshot()), id)).toEqual({
      ...{ ok: false, reason: 'the snapshot does not have this protocol state' },
    });
    for (const junk of ['', 'null', '7', '{}', '{ "SealingSegment": null }'])
      expect(readProtocolState(junk, id).ok).toBe(false);
  });

  it('is all that is read of a snapshot, whatever a node sends around it', () => {
    const whole = JSON.stringify(recordedSnapshot());
    const known = Object.keys(recordedSnapshot().SealingSegment.ProtocolStateEntries).at(-1) as Identifier;
    expect(readProtocolState('[{'.repeat(1_000_000) + whole, known).ok).toBe(true);
    const from = whole.indexOf(`"${known}":`);
    // A text without an end, full of escaped quotes, ends as soon as any other.
    for (const [cut, more] of [[from], [from + 200], [from + 67, '{"' + '\\"'.repeat(500_000)]] as const)
      expect(readProtocolState(whole.slice(0, cut) + (more ?? ''), known).ok).toBe(false);
  });

  const weights = new Map([[2 ** 41, 1]]).set(2 ** 40, 5).set(2, 300);
  const listOf = (...items: readonly unknown[]) => items;
  it.each([
    // The older forms have the same fields, nested less deeply.
    [0, (base: unknown): unknown => base, {}],
    [1, (base: unknown): unknown => [base], {}],
    [
      3,
      (base: unknown): unknown => [
        [[base]],
        // By number of the kind, not in the order in which they were packed.
        [[[...weights].toReversed(), [], MOST], []],
        listOf(listOf(1, 0), listOf(listOf(1, 2), 700)),
        [[0, 0], []],
      ],
      {
        ExecutionMeteringParameters: {
          CurrentValue: {
            ExecutionEffortWeights: weights,
            ExecutionMemoryWeights: null,
            ExecutionMemoryLimit: MOST,
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
    const read = readProtocolState(
      JSON.stringify({ SealingSegment: { ProtocolStateEntries: { [id]: entry } } }),
      id,
    );
    expect(read.ok || read.reason).toBe(true);
  });

  it('ends where an epoch was extended to, and is not read of a later version or with an epoch that breaks a rule', () => {
    const { parts, state: whole } = readOf(ids[0]!);
    const { protocolState, epochState, events } = parts;
    /** The same state with something changed, and ids that fit. */
    const rebuilt = (change: { version?: number; extension?: number[]; firstView?: number }) => {
      const setup = RLP.decode(events[0]) as Uint8Array[];
      if (change.firstView !== undefined)
        setup[1] = Buffer.from(change.firstView.toString(16).padStart(4, '0'), 'hex');
      const setupEvent = RLP.encode(setup);
      const epochs = RLP.decode(epochState) as [unknown, [Uint8Array, Uint8Array, unknown, unknown], unknown];
      epochs[1][0] = hex(sha3Identifier(setupEvent));
      if (change.extension !== undefined) epochs[1][3] = [change.extension];
      const newEpochs = RLP.encode(epochs as never);
      const bytes = Buffer.from(protocolState);
      bytes.set(hex(sha3Identifier(newEpochs)), bytes.indexOf(hex(sha3Identifier(epochState))));
      const [, model] = RLP.decode(bytes) as [Uint8Array, Uint8Array[]];
      const state = change.version === undefined ? bytes : RLP.encode([change.version, model]);
      const parts = { protocolState: state, epochState: newEpochs, events: [setupEvent, ...events.slice(1)] };
      return readParts(parts, sha3Identifier(state));
    };
    expect(rebuilt({})).toEqual(whole);
    expect(rebuilt({ extension: [400, 600] })?.current).toMatchObject({ firstView: 0, finalView: 600 });
    expect(rebuilt({ version: 4 })).toBeUndefined();
    expect(rebuilt({ firstView: 500 })).toBeUndefined();
  });

  function readOf(id: Identifier) {
    const read = readProtocolState(JSON.stringify(recordedSnapshot()), id);
    if (!read.ok) throw new Error(read.reason);
    return read;
  }
});

type OlderChunk = Record<'StartState' | 'EventCollection' | 'BlockID' | 'EndState', string> &
  Record<'CollectionIndex' | 'TotalComputationUsed' | 'NumberOfTransactions' | 'Index', number> & {
    ServiceEventCount: number | null;
  };
type OlderResult = Record<'PreviousResultID' | 'BlockID' | 'ExecutionDataID', string> & {
  Chunks: OlderChunk[];
  ServiceEvents: { Type: string; Event: unknown }[] | null;
};

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

function pathsOf(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return value === null ? [] : [path];
  return Object.entries(value).flatMap(([key, each]) => pathsOf(each, [...path, key]));
}

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
  if (typeof value === 'string') {
    // Long ones have their length in a byte of its own, and so have maps of numbers.
    const header = value.length < 24 ? [0xa0 | value.length] : [0xd9, value.length];
    return Buffer.concat([Buffer.from(header), Buffer.from(value)]);
  }
  if (Buffer.isBuffer(value)) return Buffer.concat([Buffer.of(0xc4, value.length), value]);
  const entries = value instanceof Map ? [...value] : Object.entries(value as object);
  const parts = entries.flatMap(([key, each]) => [packed(key), packed(each)]);
  const header = value instanceof Map ? [0xde, 0, entries.length] : [0x80 | entries.length];
  return Buffer.concat([Buffer.from(header), ...parts]);
}
