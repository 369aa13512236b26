// The service events that a system transaction emits: nodes send them as JSON, ids are hashed over RLP of their fields.
import {
  decodeRlp,
  encodeRlp,
  identifierBytes,
  parseIdentifier,
  sha3Identifier,
  WireError,
} from '../../flow/index.js';
import type { Chunk, ExecutionResult, Identifier, RlpItem } from '../../flow/index.js';
import type { Committee } from './committee.js';
import { items, list, number, record, safeInteger, ShapeError, string, text } from './ShapeError.js';

/** What this room needs of an EpochSetup event. Views are those in which the epoch's blocks are proposed. */
export interface EpochSetup {
  readonly id: Identifier;
  readonly firstView: number;
  readonly finalView: number;
  /** Without a beacon key: the commit event has it. */
  readonly committee: Committee;
  /** Whether it keeps the protocol's rules, as far as this room depends on them; the network ignores others. */
  readonly isSound: boolean;
}

/** What this room needs of an EpochCommit event. */
export interface EpochCommit {
  readonly id: Identifier;
  readonly beaconKey: string;
}

const ROLES = ['collection', 'consensus', 'execution', 'verification', 'access'];
const CONSENSUS = 2;
/** Set in a chunk's count of service events where it has none. */
const NO_COUNT = 0xffff_0000;
const KEY_BYTES = 96;

/**
 * Hashes a result, with its service events, in each form it may have, and takes the one whose id is among `ids`, which the
 * caller has proven. `undefined` when none is: the result was changed, or has a form that is not known.
 */
export function executionResultId(
  result: ExecutionResult,
  ids: readonly Identifier[],
): Identifier | undefined {
  let events: RlpItem[];
  try {
    events = result.serviceEvents.map(({ type, payload }) => [
      type,
      eventItem(type, JSON.parse(Buffer.from(payload).toString())),
    ]);
  } catch (error) {
    if (error instanceof ShapeError || error instanceof SyntaxError || error instanceof WireError)
      return undefined;
    throw error;
  }
  const { previousResultId, blockId, executionDataId } = result;
  return [chunk, chunkWithoutCount]
    .map((item) => [previousResultId, blockId, result.chunks.map(item), events, executionDataId])
    .map((fields) => sha3Identifier(encodeRlp(fields)))
    .find((id) => ids.includes(id));
}

/** Protocol version 2 and later: with the count of service events, unless the chunk is marked to have none. */
function chunk(of: Chunk): RlpItem {
  const { serviceEventCount: count } = of;
  return (count & NO_COUNT) === 0 ? chunkItem(of, [count]) : chunkItem(of, []);
}

function chunkWithoutCount(of: Chunk): RlpItem {
  return chunkItem(of, []);
}

function chunkItem(of: Chunk, count: readonly number[]): RlpItem {
  const body = [of.collectionIndex, of.startState, of.eventCollection, ...count];
  return [[...body, of.blockId, of.totalComputationUsed, of.numberOfTransactions], of.index, of.endState];
}

/** A service event from its JSON, as part of a result. Expected errors: `ShapeError` where its type or shape is not known. */
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
      throw new ShapeError(`service events of type ${type} are not known`);
  }
}

/** Expected errors: `ShapeError`. */
export function readSetup(event: unknown): { readonly rlp: RlpItem; readonly setup: EpochSetup } {
  const fields = record(event);
  const participants = list(fields['Participants']).map((participant) => {
    const { NodeID, Address, Role, InitialWeight, StakingPubKey, NetworkPubKey } = record(participant);
    return {
      nodeId: idBytes(NodeID),
      address: text(Address),
      role: ROLES.indexOf(text(Role)) + 1,
      weight: safeInteger(InitialWeight),
      stakingKey: base64(StakingPubKey),
      networkKey: base64(NetworkPubKey),
    };
  });
  if (participants.some(({ role }) => role === 0)) throw new ShapeError('a role is not known');
  const clusters = list(fields['Assignments']).map((cluster) => list(cluster).map(idBytes));
  const rlp: RlpItem[] = [safeInteger(fields['Counter']), safeInteger(fields['FirstView'])];
  for (const phase of [1, 2, 3]) rlp.push(safeInteger(fields[`DKGPhase${phase}FinalView`]));
  rlp.push(
    safeInteger(fields['FinalView']),
    participants.map((each) => [
      ...[each.nodeId, each.address, each.role, each.weight, each.stakingKey, each.networkKey],
    ]),
    clusters,
    base64(fields['RandomSource']),
  );
  // Since v0.35.
  if (fields['TargetEndTime'] !== undefined) {
    rlp.push(safeInteger(fields['TargetDuration']), safeInteger(fields['TargetEndTime']));
  }
  return { rlp, setup: setupOf(encodeRlp(rlp)) };
}

/** What an EpochSetup event says, from its RLP. Expected errors: `ShapeError`; `WireError`. */
export function setupOf(bytes: Uint8Array): EpochSetup {
  const fields = items(decodeRlp(bytes));
  const [counter, firstView, finalView] = [fields[0], fields[1], fields[5]].map(number) as [
    number,
    number,
    number,
  ];
  const participants = items(fields[6]).map((each) => {
    const [nodeId, , role, weight, stakingKey] = items(each);
    return {
      nodeId: string(nodeId).toString('hex') as Identifier,
      role: number(role),
      weight: number(weight),
      stakingKey: string(stakingKey).toString('hex'),
    };
  });
  const members = participants
    .filter(({ role, weight }) => role === CONSENSUS && weight > 0)
    .map(({ nodeId, stakingKey, weight }) => ({ nodeId, stakingKey, weight }))
    .sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
  const isAscending = participants.every(
    ({ nodeId }, index) => index === 0 || (participants[index - 1]?.nodeId ?? '') < nodeId,
  );
  const isSound =
    firstView < finalView &&
    isAscending &&
    members.length > 0 &&
    members.every(({ stakingKey }) => stakingKey.length === 2 * KEY_BYTES) &&
    Number.isSafeInteger(members.reduce((sum, { weight }) => sum + weight, 0));
  return {
    id: sha3Identifier(bytes),
    firstView,
    finalView,
    isSound,
    committee: { epoch: counter, members },
  };
}

/** Expected errors: `ShapeError`. */
export function readCommit(event: unknown): { readonly rlp: RlpItem; readonly commit: EpochCommit } {
  const fields = record(event);
  const clusters = list(fields['ClusterQCs']).map((cluster) => {
    const { SigData, VoterIDs } = record(cluster);
    return [base64(SigData), list(VoterIDs).map(idBytes)];
  });
  const beaconKey = hexBytes(fields['DKGGroupKey']);
  const rlp: RlpItem[] = [
    safeInteger(fields['Counter']),
    clusters,
    beaconKey,
    list(fields['DKGParticipantKeys']).map(hexBytes),
  ];
  const indexMap = fields['DKGIndexMap'];
  if (indexMap !== undefined && indexMap !== null) {
    const entries = Object.entries(record(indexMap)).map(([id, index]) => ({
      id,
      index: safeInteger(index),
    }));
    entries.sort((a, b) => a.index - b.index);
    if (entries.some(({ index }, place) => index !== place)) throw new ShapeError('a DKG index is missing');
    rlp.push(entries.map(({ id }) => idBytes(id)));
  }
  return { rlp, commit: commitOf(encodeRlp(rlp)) };
}

/** What an EpochCommit event says, from its RLP. Expected errors: `ShapeError`; `WireError`. */
export function commitOf(bytes: Uint8Array): EpochCommit {
  const [, , beaconKey] = items(decodeRlp(bytes));
  return { id: sha3Identifier(bytes), beaconKey: string(beaconKey).toString('hex') };
}

/** Expected errors: `ShapeError`. */
export function idBytes(value: unknown): Buffer {
  const id = parseIdentifier(text(value));
  if (id === undefined) throw new ShapeError('an id is not 64 hex digits');
  return identifierBytes(id);
}

/** Go writes an absent byte string as null. */
function base64(value: unknown): Buffer {
  return value === null || value === undefined ? Buffer.alloc(0) : Buffer.from(text(value), 'base64');
}

function hexBytes(value: unknown): Buffer {
  return value === null || value === undefined ? Buffer.alloc(0) : Buffer.from(text(value), 'hex');
}
