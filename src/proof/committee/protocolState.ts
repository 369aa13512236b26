import { encodeRlp, sha3Identifier } from '../../flow/index.js';
import type { Identifier, RlpItem } from '../../flow/index.js';
import { knownEpoch } from './EpochCommittees.js';
import type { EpochState } from './EpochCommittees.js';
import { decodeMessagePack } from './messagePack.js';
import type { Packed } from './messagePack.js';
import { idBytes, readCommit, readSetup } from './serviceEvents.js';
import type { EpochCommit, EpochSetup } from './serviceEvents.js';
import { list, record, safeInteger, ShapeError, text } from './ShapeError.js';

/** The newest version of the protocol state whose form is known. */
const NEWEST_VERSION = 3;
/** Versions 1 and 2 added no fields; each version is a list that begins with the version before. */
const LAST_BARE_VERSION = 2;

/**
 * The epochs at a block, from a snapshot as nodes serve it (JSON, parsed) and the block's proven `protocol_state_id`.
 * Nothing of the snapshot is used that does not hash to that id. Expected bad input is a reason, not an error.
 */
export function readProtocolState(
  snapshot: unknown,
  protocolStateId: Identifier,
): { readonly ok: true; readonly state: EpochState } | { readonly ok: false; readonly reason: string } {
  try {
    const entries = record(record(record(snapshot)['SealingSegment'])['ProtocolStateEntries']);
    const entry = entries[protocolStateId];
    if (entry === undefined) return { ok: false, reason: 'the snapshot does not have this protocol state' };
    return { ok: true, state: readEntry(record(entry), protocolStateId) };
  } catch (error) {
    if (error instanceof ShapeError) return { ok: false, reason: error.message };
    throw error;
  }
}

function readEntry(entry: Readonly<Record<string, unknown>>, protocolStateId: Identifier): EpochState {
  const { Version, Data } = record(entry['KVStore']);
  const values = record(decodeMessagePack(Buffer.from(text(Data), 'base64'))) as Readonly<
    Record<string, Packed>
  >;
  const version = safeInteger(Version);
  check(sha3Identifier(encodeRlp([version, model(version, values)])), protocolStateId, 'the protocol state');

  const fields = record(entry['EpochEntry']);
  const isFallback = fields['EpochFallbackTriggered'] === true;
  const epochState: RlpItem[] = ['PreviousEpoch', 'CurrentEpoch', 'NextEpoch'].map((name) =>
    epochItem(fields[name]),
  );
  const epochStateId = sha3Identifier(encodeRlp([...epochState, isFallback]));
  check(epochStateId, bytesOf(values['EpochStateID']).toString('hex'), 'the epoch state');

  const previous = readEpoch(fields, 'PreviousEpoch');
  const current = readEpoch(fields, 'CurrentEpoch');
  const next = readEpoch(fields, 'NextEpoch');
  if (current?.commit === undefined) throw new ShapeError('the current epoch is missing');
  return {
    ...(previous?.commit !== undefined && {
      previous: knownEpoch(previous.setup, previous.commit, previous.finalView),
    }),
    current: knownEpoch(current.setup, current.commit, current.finalView),
    ...(next !== undefined && { next: next.setup }),
    ...(next?.commit !== undefined && { nextCommit: next.commit }),
    isFallback,
    safetyThreshold: Number(integerOf(values[THRESHOLD] ?? values[OLD_THRESHOLD])),
    extensionViews: Number(integerOf(values['EpochExtensionViewCount'])),
  };
}

const THRESHOLD = 'FinalizationSafetyThreshold';
const OLD_THRESHOLD = 'EpochCommitSafetyThreshold';

/** One epoch of the entry: the events whose ids it names. */
function readEpoch(
  fields: Readonly<Record<string, unknown>>,
  name: string,
): { setup: EpochSetup; commit: EpochCommit | undefined; finalView: number } | undefined {
  const container = fields[name];
  if (container === null || container === undefined) return undefined;
  const { SetupID, CommitID, EpochExtensions } = record(container);
  const { setup } = readSetup(fields[`${name}Setup`]);
  check(setup.id, text(SetupID), `the setup of ${name}`);
  if (!setup.isSound) throw new ShapeError(`the setup of ${name} breaks a rule`);
  const isCommitted = !idBytes(CommitID).equals(Buffer.alloc(idBytes(CommitID).length));
  const commit = isCommitted ? readCommit(fields[`${name}Commit`]).commit : undefined;
  if (commit !== undefined) check(commit.id, text(CommitID), `the commit of ${name}`);
  const extension = list(EpochExtensions).at(-1);
  const finalView = extension === undefined ? setup.finalView : safeInteger(record(extension)['FinalView']);
  return { setup, commit, finalView };
}

function epochItem(container: unknown): RlpItem {
  if (container === null || container === undefined) return [];
  const { SetupID, CommitID, ActiveIdentities, EpochExtensions } = record(container);
  return [
    idBytes(SetupID),
    idBytes(CommitID),
    list(ActiveIdentities).map((identity) => {
      const { NodeID, Ejected } = record(identity);
      return [idBytes(NodeID), Ejected === true];
    }),
    list(EpochExtensions).map((extension) => {
      const { FirstView, FinalView } = record(extension);
      return [safeInteger(FirstView), safeInteger(FinalView)];
    }),
  ];
}

/** What is hashed of the key-value store. */
function model(version: number, values: Readonly<Record<string, Packed>>): RlpItem {
  if (version > NEWEST_VERSION) throw new ShapeError(`version ${version} of the protocol state is not known`);
  let item: RlpItem = [
    [activator(values['VersionUpgrade'], integerOf)],
    bytesOf(values['EpochStateID']),
    integerOf(values['EpochExtensionViewCount']),
    integerOf(values[THRESHOLD] ?? values[OLD_THRESHOLD]),
  ];
  for (let nested = 1; nested <= Math.min(version, LAST_BARE_VERSION); nested++) item = [item];
  if (version <= LAST_BARE_VERSION) return item;
  return [
    item,
    updatable(values['ExecutionMeteringParameters'], (parameters) => {
      const { ExecutionEffortWeights, ExecutionMemoryWeights, ExecutionMemoryLimit } = mapOf(parameters);
      return [pairs(ExecutionEffortWeights), pairs(ExecutionMemoryWeights), integerOf(ExecutionMemoryLimit)];
    }),
    ...['ExecutionComponentVersion', 'CadenceComponentVersion'].map((name) =>
      updatable(values[name], (component) => {
        const { Major, Minor } = mapOf(component);
        return [integerOf(Major), integerOf(Minor)];
      }),
    ),
  ];
}

function updatable(value: Packed | undefined, item: (value: Packed | undefined) => RlpItem): RlpItem {
  const { CurrentValue, Update } = mapOf(value);
  return [item(CurrentValue), activator(Update, item)];
}

function activator(value: Packed | undefined, item: (value: Packed | undefined) => RlpItem): RlpItem {
  if (value === null || value === undefined) return [];
  const { Data, ActivationView } = mapOf(value);
  return [item(Data), integerOf(ActivationView)];
}

/** A map of integers, ascending by key. */
function pairs(value: Packed | undefined): RlpItem {
  const entries = value === null || value === undefined ? [] : Object.entries(mapOf(value));
  const items = entries.map(([key, each]): [bigint, bigint] => [BigInt(key), integerOf(each)]);
  return items.sort(([a], [b]) => (a < b ? -1 : 1));
}

function integerOf(value: Packed | undefined): bigint {
  if (typeof value !== 'bigint') throw new ShapeError('a number of the protocol state is missing');
  return value;
}

function bytesOf(value: Packed | undefined): Buffer {
  if (!Buffer.isBuffer(value)) throw new ShapeError('bytes of the protocol state are missing');
  return value;
}

function mapOf(value: Packed | undefined): Readonly<Record<string, Packed>> {
  return record(value) as Readonly<Record<string, Packed>>;
}

function check(id: string, expected: string, what: string): void {
  if (id !== expected) throw new ShapeError(`${what} does not have the id that it should have`);
}
