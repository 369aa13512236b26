import { decodeRlp, encodeRlp, rlpBytes, rlpItems, rlpNumber } from '../../flow/index.js';
import { sha3Identifier, WireError, ZERO_ID } from '../../flow/index.js';
import type { Identifier, RlpItem, RlpTree } from '../../flow/index.js';
import type { EpochState, KnownEpoch } from './committee.js';
import { commitOf, idBytes, readCommit, readSetup, setupOf } from './serviceEvents.js';
import { list, record, safeInteger, text } from './shape.js';

/** The newest version of the protocol state that this program knows. */
const NEWEST_VERSION = 3;
/** Versions 1 and 2 added no fields; each version is a list that begins with the version before. */
const LAST_BARE_VERSION = 2;
const EPOCHS = ['PreviousEpoch', 'CurrentEpoch', 'NextEpoch'];

/** Room for the three epochs of some thousands of nodes. */
const MAX_ENTRY_LENGTH = 8 * 2 ** 20;
/** Deeper values are refused. */
const MAX_DEPTH = 16;

/** Integers become bigints, map keys text. */
type Packed = null | bigint | string | Buffer | { readonly [key: string]: Packed };

/** The preimages of a protocol state's id, as RLP: each names the next by its hash. */
export interface StateParts {
  /** Its hash is the id; it names the epoch state. */
  readonly protocolState: Uint8Array;
  /** It names the events. */
  readonly epochState: Uint8Array;
  /** Setup and commit events of its epochs; an epoch whose events are left out stays unknown. */
  readonly events: readonly Uint8Array[];
}

/**
 * The epochs at a block, from a snapshot as nodes serve it (JSON) and the block's proven `protocol_state_id`. Uses only
 * what hashes to that id. Bad input gives a reason, not an error.
 */
export function readProtocolState(
  snapshot: string,
  protocolStateId: Identifier,
):
  | { readonly ok: true; readonly state: EpochState; readonly parts: StateParts }
  | { readonly ok: false; readonly reason: string } {
  try {
    const entry = entryOf(snapshot, protocolStateId);
    if (entry === undefined) return { ok: false, reason: 'the snapshot does not have this protocol state' };
    const parts = partsOf(record(JSON.parse(entry)));
    return { ok: true, state: epochsOf(parts, protocolStateId), parts };
  } catch (error) {
    if (error instanceof SyntaxError) return { ok: false, reason: 'the snapshot is not JSON' };
    if (error instanceof WireError) return { ok: false, reason: error.message };
    throw error;
  }
}

/**
 * The JSON of a protocol state: the one object that a snapshot has under this id. Nothing else is parsed, as a node may send
 * JSON that takes gigabytes and minutes. `undefined`: it is missing, unterminated, or too long.
 */
function entryOf(snapshot: string, id: Identifier): string | undefined {
  const key = snapshot.indexOf(`"${id}":`);
  const from = key < 0 ? -1 : snapshot.indexOf('{', key);
  const within = from < 0 ? '' : snapshot.slice(from, from + MAX_ENTRY_LENGTH);
  let depth = 0;
  let isText = false;
  // Not whole strings: an unterminated one would be scanned again from each of its quotes, for days.
  for (const { 0: token, index } of within.matchAll(/\\.|["{}]/gs)) {
    if (token === '"') isText = !isText;
    else if (token === '{' && !isText) depth++;
    else if (token === '}' && !isText && --depth === 0) return within.slice(0, index + 1);
  }
  return undefined;
}

/**
 * The epochs of a protocol state; `undefined` if the parts do not hash to the id, or have an unknown form. Also refuses events
 * that no epoch names, or in another order: no hash covers those, and a caller that keeps the parts would keep them too.
 */
export function readParts(parts: StateParts, id: Identifier): EpochState | undefined {
  try {
    const state = epochsOf(parts, id);
    const given = parts.events.map((event): string => sha3Identifier(event));
    const named = epochsIn(parts.epochState).flatMap((epoch) => epoch.slice(0, 2).map(hexOf));
    return given.join() === named.filter((each) => given.includes(each)).join() ? state : undefined;
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
}

/** The epochs of a protocol state. Expected errors: `WireError`, also if the parts do not hash to the id. */
export function epochsOf({ protocolState, epochState, events }: StateParts, id: Identifier): EpochState {
  check(sha3Identifier(protocolState), id, 'the protocol state');
  const [version, outermost] = rlpItems(decodeRlp(protocolState));
  if (rlpNumber(version) > NEWEST_VERSION)
    throw new WireError('the version of the protocol state is unknown');
  let values = rlpItems(outermost);
  for (let nested = rlpNumber(version); nested > 0; nested--) values = rlpItems(values[0]);
  const [, epochStateId] = values;
  check(sha3Identifier(epochState), hexOf(epochStateId), 'the epoch state');
  const byId = new Map(events.map((event) => [sha3Identifier(event), event]));
  const [previous, current, next] = epochsIn(epochState).map((epoch) => readEpoch(epoch, byId));
  if (current === undefined) throw new WireError('the current epoch is missing');
  return { previous, current, next };
}

function epochsIn(epochState: Uint8Array): readonly (readonly RlpTree[])[] {
  return rlpItems(decodeRlp(epochState)).slice(0, EPOCHS.length).map(rlpItems);
}

/** `undefined` until it is committed. */
function readEpoch(epoch: readonly RlpTree[], byId: ReadonlyMap<string, Uint8Array>): KnownEpoch | undefined {
  const [setupEvent, commitEvent] = epoch.slice(0, 2).map((id) => byId.get(hexOf(id)));
  if (setupEvent === undefined || commitEvent === undefined) return undefined;
  const { committee, firstView, finalView, isSound } = setupOf(setupEvent);
  if (!isSound) throw new WireError('the setup of an epoch breaks a rule');
  const extension = rlpItems(epoch[3]).at(-1);
  const { beaconKey } = commitOf(commitEvent);
  return {
    firstView,
    finalView: extension === undefined ? finalView : rlpNumber(rlpItems(extension)[1]),
    // A simulated network may have no beacon; on Flow every epoch that is committed has one.
    committee: beaconKey === '' ? committee : { ...committee, beaconKey },
  };
}

/** Packs what JSON has unpacked. */
function partsOf(entry: Readonly<Record<string, unknown>>): StateParts {
  const { Version, Data } = record(entry['KVStore']);
  const values = mapOf(decodeMessagePack(Buffer.from(text(Data), 'base64')));
  const version = safeInteger(Version);
  const fields = record(entry['EpochEntry']);
  const isFallback = fields['EpochFallbackTriggered'] === true;
  return {
    protocolState: encodeRlp([version, model(version, values)]),
    epochState: encodeRlp([...EPOCHS.map((name) => epochItem(fields[name])), isFallback]),
    events: EPOCHS.flatMap((name) => eventsOf(fields, name)),
  };
}

/** The events that an epoch of the entry names: all must be there. */
function eventsOf(fields: Readonly<Record<string, unknown>>, name: string): Uint8Array[] {
  const container = fields[name];
  if (container === null || container === undefined) return [];
  const { SetupID, CommitID } = record(container);
  const { rlp, setup } = readSetup(fields[`${name}Setup`]);
  check(setup.id, text(SetupID), `the setup of ${name}`);
  if (text(CommitID) === ZERO_ID) return [encodeRlp(rlp)];
  const committed = readCommit(fields[`${name}Commit`]);
  check(committed.commit.id, text(CommitID), `the commit of ${name}`);
  return [encodeRlp(rlp), encodeRlp(committed.rlp)];
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

/** The hashed form of the key-value store. */
function model(version: number, values: Readonly<Record<string, Packed>>): RlpItem {
  if (version > NEWEST_VERSION) throw new WireError(`version ${version} of the protocol state is not known`);
  const { EpochStateID: epochStateId } = values;
  if (!Buffer.isBuffer(epochStateId)) throw new WireError('bytes of the protocol state are missing');
  let item: RlpItem = [
    [activator(values['VersionUpgrade'], integerOf)],
    epochStateId,
    integerOf(values['EpochExtensionViewCount']),
    // Versions before 2 had another name for it.
    integerOf(values['FinalizationSafetyThreshold'] ?? values['EpochCommitSafetyThreshold']),
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
  if (typeof value !== 'bigint') throw new WireError('a number of the protocol state is missing');
  return value;
}

function mapOf(value: Packed | undefined): Readonly<Record<string, Packed>> {
  return record(value) as Readonly<Record<string, Packed>>;
}

function hexOf(item: RlpTree | undefined): string {
  return rlpBytes(item).toString('hex');
}

function check(id: string, expected: string, what: string): void {
  if (id !== expected) throw new WireError(`${what} does not hash to its id`);
}

/**
 * Decodes MessagePack, as far as Flow's protocol state uses it: unsigned integers, text, bytes, maps and nil. Expected
 * errors: `WireError`.
 */
function decodeMessagePack(bytes: Buffer): Packed {
  let position = 0;
  const take = (length: number): Buffer => {
    if (length > bytes.length - position) throw new WireError('packed data ends early');
    position += length;
    return bytes.subarray(position - length, position);
  };
  const size = (length: number): number => take(length).readUIntBE(0, length);
  const map = (count: number, depth: number): Packed => {
    const entries: [string, Packed][] = [];
    for (let index = 0; index < count; index++) {
      const key = value(depth);
      if (typeof key !== 'string' && typeof key !== 'bigint')
        throw new WireError('a packed key is neither text nor an integer');
      entries.push([String(key), value(depth)]);
    }
    return Object.fromEntries(entries);
  };
  const value = (above: number): Packed => {
    const depth = above + 1;
    if (depth > MAX_DEPTH) throw new WireError('packed data is nested too deeply');
    const tag = size(1);
    if (tag < 0x80) return BigInt(tag);
    if (tag < 0x90) return map(tag & 0x0f, depth);
    if (tag >= 0xa0 && tag < 0xc0) return take(tag & 0x1f).toString();
    if (tag === 0xc0) return null;
    if (tag === 0xc4) return take(size(1));
    if (tag >= 0xcc && tag <= 0xcf) return BigInt(`0x${take(1 << (tag - 0xcc)).toString('hex')}`);
    if (tag === 0xd9) return take(size(1)).toString();
    if (tag === 0xde) return map(size(2), depth);
    throw new WireError('packed data has an unknown type');
  };
  return value(0);
}
