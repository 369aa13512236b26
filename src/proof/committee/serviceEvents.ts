// The service events that a system transaction emits: nodes send them as JSON, ids are hashed over RLP of their fields.
import { decodeRlp, identifierBytes, parseIdentifier, encodeRlp, sha3Identifier } from '../../flow/index.js';
import type { Identifier, RlpItem } from '../../flow/index.js';
import type { Committee } from './committee.js';
import { items, list, number, record, safeInteger, ShapeError, string, text } from './ShapeError.js';

/** What this room needs of an EpochSetup event. Views are those in which the epoch's blocks are proposed. */
export interface EpochSetup {
  readonly id: Identifier;
  readonly counter: number;
  readonly firstView: number;
  readonly finalView: number;
  /** Without a beacon key: the commit event has it. */
  readonly committee: Committee;
  /** Whether it keeps the protocol's rules, as far as this room depends on them; the network ignores others. */
  readonly isSound: boolean;
  readonly clusters: number;
}

/** What this room needs of an EpochCommit event. */
export interface EpochCommit {
  readonly id: Identifier;
  readonly counter: number;
  readonly clusters: number;
  readonly beaconKey: string;
}

/** An event that changes who signs, or how. */
export type EpochEvent =
  | { readonly kind: 'setup'; readonly setup: EpochSetup }
  | { readonly kind: 'commit'; readonly commit: EpochCommit }
  | { readonly kind: 'recover'; readonly setup: EpochSetup; readonly commit: EpochCommit }
  | { readonly kind: 'extension-length'; readonly views: number };

const ROLES = ['collection', 'consensus', 'execution', 'verification', 'access'];
const CONSENSUS = 2;
const KEY_BYTES = 96;

/**
 * A service event from its JSON: its RLP as part of a result, and what it means here (`undefined`: nothing). Expected
 * errors: `ShapeError` for a type or a shape that is not known.
 */
export function readServiceEvent(
  type: string,
  event: unknown,
): { readonly rlp: RlpItem; readonly meaning: EpochEvent | undefined } {
  switch (type) {
    case 'setup': {
      const { rlp, setup } = readSetup(event);
      return { rlp, meaning: { kind: 'setup', setup } };
    }
    case 'commit': {
      const { rlp, commit } = readCommit(event);
      return { rlp, meaning: { kind: 'commit', commit } };
    }
    case 'recover': {
      const { EpochSetup, EpochCommit } = record(event);
      const [setup, commit] = [readSetup(EpochSetup), readCommit(EpochCommit)];
      return {
        rlp: [setup.rlp, commit.rlp],
        meaning: { kind: 'recover', setup: setup.setup, commit: commit.commit },
      };
    }
    case 'version-beacon': {
      const { VersionBoundaries, Sequence } = record(event);
      const boundaries = list(VersionBoundaries).map((boundary) => {
        const { BlockHeight, Version } = record(boundary);
        return [safeInteger(BlockHeight), text(Version)];
      });
      return { rlp: [boundaries, safeInteger(Sequence)], meaning: undefined };
    }
    case 'protocol-state-version-upgrade': {
      const { NewProtocolStateVersion, ActiveView } = record(event);
      return { rlp: [safeInteger(NewProtocolStateVersion), safeInteger(ActiveView)], meaning: undefined };
    }
    case 'set-epoch-extension-view-count': {
      const views = safeInteger(record(event)['Value']);
      return { rlp: [views], meaning: { kind: 'extension-length', views } };
    }
    case 'eject-node':
      // The committee of an epoch is fixed: an ejected node stays a member until the next one.
      return { rlp: [idBytes(record(event)['NodeID'])], meaning: undefined };
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
    counter,
    firstView,
    finalView,
    isSound,
    committee: { epoch: counter, members },
    clusters: items(fields[7]).length,
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
  const [counter, clusters, beaconKey] = items(decodeRlp(bytes));
  return {
    id: sha3Identifier(bytes),
    counter: number(counter),
    clusters: items(clusters).length,
    beaconKey: string(beaconKey).toString('hex'),
  };
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
