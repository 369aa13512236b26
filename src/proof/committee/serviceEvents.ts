// The service events that a system transaction emits: nodes send them as JSON, ids are hashed over RLP of their fields.
import { decodeRlp, encodeRlp, identifierBytes, parseIdentifier, rlpBytes } from '../../flow/index.js';
import { rlpItems, rlpNumber, sha3Identifier, WireError } from '../../flow/index.js';
import type { Chunk, ExecutionResult, Identifier, RlpItem } from '../../flow/index.js';
import type { Committee } from './committee.js';
import { list, record, safeInteger, text } from './shape.js';

const DKG_VIEWS = ['DKGPhase1FinalView', 'DKGPhase2FinalView', 'DKGPhase3FinalView'];
const SETUP_NUMBERS = ['Counter', 'FirstView', ...DKG_VIEWS, 'FinalView'];
const ROLES = ['collection', 'consensus', 'execution', 'verification', 'access'];
const CONSENSUS = 2;
/** Marks a chunk's count of service events as absent. */
const NO_COUNT = 0xffff_0000;
const KEY_BYTES = 96;

/**
 * Hashes a result, with its service events, in each form it may have, and returns the id that is among `ids`, which the caller
 * has proven. `undefined` if none is: the result was changed, or has an unknown form.
 */
export function executionResultId(
  result: ExecutionResult,
  ids: ReadonlySet<Identifier>,
): Identifier | undefined {
  let events: RlpItem[];
  try {
    events = result.serviceEvents.map(({ type, payload }) => [
      type,
      eventItem(type, JSON.parse(Buffer.from(payload).toString())),
    ]);
  } catch (error) {
    if (error instanceof WireError || error instanceof SyntaxError) return undefined;
    throw error;
  }
  const { previousResultId, blockId, executionDataId } = result;
  return [true, false]
    .map((isCounted) => result.chunks.map((chunk) => chunkItem(chunk, isCounted)))
    .map((chunks) => sha3Identifier(encodeRlp([previousResultId, blockId, chunks, events, executionDataId])))
    .find((id) => ids.has(id));
}

/** With the count of service events, as since protocol version 2, unless the chunk marks it as absent; or without. */
function chunkItem(of: Chunk, isCounted: boolean): RlpItem {
  const count = isCounted && (of.serviceEventCount & NO_COUNT) === 0 ? [of.serviceEventCount] : [];
  const body = [of.collectionIndex, of.startState, of.eventCollection, ...count];
  return [[...body, of.blockId, of.totalComputationUsed, of.numberOfTransactions], of.index, of.endState];
}

/** A service event from its JSON, as part of a result. Expected errors: `WireError` if its type or shape is unknown. */
function eventItem(type: string, event: unknown): RlpItem {
  switch (type) {
    case 'setup':
      return readSetup(event).rlp;
    case 'commit':
      return readCommit(event).rlp;
    case 'recover': {
      const { EpochSetup, EpochCommit } = record(event);
      return [readSetup(EpochSetup).rlp, readCommit(EpochCommit).rlp];
    }
    case 'version-beacon': {
      const { VersionBoundaries, Sequence } = record(event);
      const boundaries = list(VersionBoundaries).map((boundary) => {
        const { BlockHeight, Version } = record(boundary);
        return [safeInteger(BlockHeight), text(Version)];
      });
      return [boundaries, safeInteger(Sequence)];
    }
    case 'protocol-state-version-upgrade': {
      const { NewProtocolStateVersion, ActiveView } = record(event);
      return [safeInteger(NewProtocolStateVersion), safeInteger(ActiveView)];
    }
    case 'set-epoch-extension-view-count':
      return [safeInteger(record(event)['Value'])];
    case 'eject-node':
      return [idBytes(record(event)['NodeID'])];
    default:
      throw new WireError(`the service event type ${type} is unknown`);
  }
}

/** Expected errors: `WireError`. */
export function readSetup(event: unknown) {
  const fields = record(event);
  const participants = list(fields['Participants']).map((participant): RlpItem => {
    const { NodeID, Address, Role, InitialWeight, StakingPubKey, NetworkPubKey } = record(participant);
    const role = ROLES.indexOf(text(Role)) + 1;
    if (role === 0) throw new WireError('a role is unknown');
    const keys = [bytesIn(StakingPubKey, 'base64'), bytesIn(NetworkPubKey, 'base64')];
    return [idBytes(NodeID), text(Address), role, safeInteger(InitialWeight), ...keys];
  });
  const rlp: RlpItem[] = [
    ...SETUP_NUMBERS.map((name) => safeInteger(fields[name])),
    participants,
    list(fields['Assignments']).map((cluster) => list(cluster).map(idBytes)),
    bytesIn(fields['RandomSource'], 'base64'),
  ];
  // Since v0.35.
  if (fields['TargetEndTime'] !== undefined)
    rlp.push(safeInteger(fields['TargetDuration']), safeInteger(fields['TargetEndTime']));
  return { rlp, setup: setupOf(encodeRlp(rlp)) };
}

/**
 * What this room needs of an EpochSetup event, from its RLP. Views are those in which the epoch's blocks are proposed.
 * Expected errors: `WireError`.
 */
export function setupOf(bytes: Uint8Array) {
  const fields = rlpItems(decodeRlp(bytes));
  const [firstView, finalView] = [rlpNumber(fields[1]), rlpNumber(fields[5])];
  const participants = rlpItems(fields[6]).map((each) => {
    const [nodeId, , role, weight, stakingKey] = rlpItems(each);
    return {
      nodeId: rlpBytes(nodeId).toString('hex') as Identifier,
      role: rlpNumber(role),
      weight: rlpNumber(weight),
      stakingKey: rlpBytes(stakingKey).toString('hex'),
    };
  });
  const members = participants
    .filter(({ role, weight }) => role === CONSENSUS && weight > 0)
    .map(({ nodeId, stakingKey, weight }) => ({ nodeId, stakingKey, weight }))
    .sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
  const isAscending = participants.every(
    ({ nodeId }, index) => index === 0 || (participants[index - 1]?.nodeId ?? '') < nodeId,
  );
  // Whether it keeps the protocol's rules, as far as this room depends on them; the network ignores others.
  const isSound =
    firstView < finalView &&
    isAscending &&
    members.length > 0 &&
    members.every(({ stakingKey }) => stakingKey.length === 2 * KEY_BYTES) &&
    Number.isSafeInteger(members.reduce((sum, { weight }) => sum + weight, 0));
  // Without a beacon key: the commit event has it.
  const committee: Committee = { epoch: rlpNumber(fields[0]), members };
  return { id: sha3Identifier(bytes), firstView, finalView, isSound, committee };
}

/** Expected errors: `WireError`. */
export function readCommit(event: unknown) {
  const fields = record(event);
  const clusters = list(fields['ClusterQCs']).map((cluster) => {
    const { SigData, VoterIDs } = record(cluster);
    return [bytesIn(SigData, 'base64'), list(VoterIDs).map(idBytes)];
  });
  const rlp: RlpItem[] = [
    safeInteger(fields['Counter']),
    clusters,
    bytesIn(fields['DKGGroupKey'], 'hex'),
    list(fields['DKGParticipantKeys']).map((key) => bytesIn(key, 'hex')),
  ];
  const indexMap = fields['DKGIndexMap'];
  if (indexMap !== undefined && indexMap !== null) {
    const entries = Object.entries(record(indexMap)).sort(([, a], [, b]) => safeInteger(a) - safeInteger(b));
    if (entries.some(([, index], place) => index !== place)) throw new WireError('a DKG index is missing');
    rlp.push(entries.map(([id]) => idBytes(id)));
  }
  return { rlp, commit: commitOf(encodeRlp(rlp)) };
}

/** What this room needs of an EpochCommit event, from its RLP. Expected errors: `WireError`. */
export function commitOf(bytes: Uint8Array) {
  const [, , beaconKey] = rlpItems(decodeRlp(bytes));
  return { id: sha3Identifier(bytes), beaconKey: rlpBytes(beaconKey).toString('hex') };
}

/** Expected errors: `WireError`. */
export function idBytes(value: unknown): Buffer {
  const id = parseIdentifier(text(value));
  if (id === undefined) throw new WireError('an id is not 64 hex digits');
  return identifierBytes(id);
}

/** Go writes an absent byte string as null. */
function bytesIn(value: unknown, encoding: 'base64' | 'hex'): Buffer {
  return value === null || value === undefined ? Buffer.alloc(0) : Buffer.from(text(value), encoding);
}
