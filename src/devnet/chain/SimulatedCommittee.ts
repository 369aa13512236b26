import {
  encodeRlp,
  type Identifier,
  identifierBytes,
  sha3Identifier,
  toIdentifier,
} from '../../flow/index.js';
import {
  type Certificate,
  type Committee,
  loadCertificates,
  readCommit,
  readSetup,
  type SigningKey,
} from '../../proof/index.js';
import { SizedCache } from './SizedCache.js';

// Not with the door of the room, so that a daemon does not load it.
const { CURRENT_RULES, signCertificate, signingKeyOf } = await loadCertificates();

/** Of five, four must sign. */
const MEMBERS = 5;
const WEIGHT = 100;
const SEED_BYTES = 48;
const KEY_BYTES = 96;
/** Longer than any devnet runs: there is one epoch alone. */
const EPOCH_VIEWS = 1_000_000_000;
const DKG_PHASE_VIEWS = 1_000;
const EXTENSION_VIEWS = 10_000;
const SAFETY_THRESHOLD_VIEWS = 1_000;
/** Has the fields of the first version, nested more deeply. */
const STATE_VERSION = 2;
/** Signing takes some 10 ms, and a block is made twice: for its id, and when it is served. */
const MAX_CERTIFICATES = 1_000;

/** A node of the identity table, as JSON of a snapshot has it. */
interface Participant {
  readonly NodeID: Identifier;
  readonly Address: string;
  readonly Role: string;
  readonly InitialWeight: number;
  /** Base64, as the next. */
  readonly StakingPubKey: string;
  readonly NetworkPubKey: string;
}

/**
 * The consensus nodes of a simulated chain, in its only epoch, and the protocol state that names them. It has no random
 * beacon: a second signature would double the time that a certificate takes.
 */
export class SimulatedCommittee {
  /** 32 bytes, for every block of the chain. */
  readonly protocolStateId: Buffer;
  readonly #committee: Committee;
  /** In the order of the members. */
  readonly #keys: readonly SigningKey[];
  readonly #entry: object;
  /** By view: the chain has one block for each. */
  readonly #certificates = new SizedCache<Certificate>({ maxSize: MAX_CERTIFICATES });

  /** `derive` gives 32 bytes for a name. */
  constructor(
    { firstView }: { readonly firstView: number },
    { derive }: { readonly derive: (name: string) => Buffer },
  ) {
    const { participants, keys } = participantsOf(derive);
    const setupEvent = setupEventOf(firstView, participants, derive);
    const commitEvent = commitEventOf(participants, derive);
    const { setup } = readSetup(setupEvent);
    const { commit } = readCommit(commitEvent);
    this.#committee = setup.committee;
    this.#keys = setup.committee.members.flatMap(({ nodeId }) => keys.get(nodeId) ?? []);

    const current = [
      identifierBytes(setup.id),
      identifierBytes(commit.id),
      participants.map(({ NodeID }) => [identifierBytes(NodeID), false]),
      [],
    ];
    const epochStateId = identifierBytes(sha3Identifier(encodeRlp([[], current, [], false])));
    const values = [[[]], epochStateId, EXTENSION_VIEWS, SAFETY_THRESHOLD_VIEWS];
    this.protocolStateId = identifierBytes(sha3Identifier(encodeRlp([STATE_VERSION, [[values]]])));
    this.#entry = {
      KVStore: { Version: STATE_VERSION, Data: packedValues(epochStateId).toString('base64') },
      EpochEntry: {
        PreviousEpoch: null,
        CurrentEpoch: {
          SetupID: setup.id,
          CommitID: commit.id,
          ActiveIdentities: participants.map(({ NodeID }) => ({ NodeID, Ejected: false })),
          EpochExtensions: null,
        },
        NextEpoch: null,
        EpochFallbackTriggered: false,
        PreviousEpochSetup: null,
        PreviousEpochCommit: null,
        CurrentEpochSetup: setupEvent,
        CurrentEpochCommit: commitEvent,
        NextEpochSetup: null,
        NextEpochCommit: null,
      },
    };
  }

  /** Of all members but one, which differs from view to view; of a minority, only that one. Takes some 10 ms the first time. */
  certificateOf({
    isMinority = false,
    ...block
  }: {
    readonly view: number;
    readonly blockId: Identifier;
    readonly isMinority?: boolean;
  }): Certificate {
    const known = this.#certificates.get(block.view);
    if (known?.blockId === block.blockId) return known;
    const signers = this.#keys
      .map((_, index) => index)
      .filter((index) => (index === block.view % MEMBERS) === isMinority);
    const certificate = signCertificate(
      block,
      { committee: this.#committee, keys: this.#keys, signers },
      CURRENT_RULES,
    );
    this.#certificates.set(block.view, certificate, 1);
    return certificate;
  }

  /** `SealingSegment.ProtocolStateEntries` of a snapshot: the parts that the state's id is the hash of. */
  entries(): Readonly<Record<string, object>> {
    return { [toIdentifier(this.protocolStateId)]: this.#entry };
  }
}

/** The members of the committee with their keys, and one node of each other role. Ascending by id, as the protocol wants. */
function participantsOf(derive: (name: string) => Buffer) {
  const keys = new Map<Identifier, SigningKey>();
  const participant = (role: string, index: number): Participant => {
    const name = `${role} ${index}`;
    const nodeId = toIdentifier(derive(name));
    const key =
      role === 'consensus' ? signingKeyOf(seedOf(derive, `secret of ${name}`, SEED_BYTES)) : undefined;
    if (key !== undefined) keys.set(nodeId, key);
    // Only consensus nodes sign anything.
    const stakingKey =
      key === undefined ? seedOf(derive, `key of ${name}`, KEY_BYTES) : Buffer.from(key.publicKey, 'hex');
    return {
      NodeID: nodeId,
      Address: `${role}_${index + 1}:3569`,
      Role: role,
      InitialWeight: WEIGHT,
      StakingPubKey: stakingKey.toString('base64'),
      NetworkPubKey: seedOf(derive, `network key of ${name}`, 64).toString('base64'),
    };
  };
  const others = ['collection', 'execution', 'verification', 'access'].map((role) => participant(role, 0));
  const members = Array.from({ length: MEMBERS }, (_, index) => participant('consensus', index));
  const participants = [...others, ...members].sort((a, b) => (a.NodeID < b.NodeID ? -1 : 1));
  return { participants, keys };
}

function setupEventOf(
  firstView: number,
  participants: readonly Participant[],
  derive: (name: string) => Buffer,
) {
  const finalView = firstView + EPOCH_VIEWS - 1;
  const collectors = participants.filter(({ Role }) => Role === 'collection');
  return {
    Counter: 0,
    FirstView: firstView,
    DKGPhase1FinalView: finalView - 3 * DKG_PHASE_VIEWS,
    DKGPhase2FinalView: finalView - 2 * DKG_PHASE_VIEWS,
    DKGPhase3FinalView: finalView - DKG_PHASE_VIEWS,
    FinalView: finalView,
    Participants: participants,
    Assignments: collectors.map(({ NodeID }) => [NodeID]),
    RandomSource: derive('random source').subarray(0, 16).toString('base64'),
    TargetDuration: EPOCH_VIEWS,
    TargetEndTime: finalView,
  };
}

function commitEventOf(participants: readonly Participant[], derive: (name: string) => Buffer) {
  const collectors = participants.filter(({ Role }) => Role === 'collection');
  return {
    Counter: 0,
    ClusterQCs: collectors.map(({ NodeID }) => ({
      SigData: seedOf(derive, `votes of ${NodeID}`, 48).toString('base64'),
      VoterIDs: [NodeID],
    })),
    DKGGroupKey: null,
    DKGParticipantKeys: null,
    DKGIndexMap: null,
  };
}

/** The key-value store in MessagePack, as Flow writes it. */
function packedValues(epochStateId: Buffer): Buffer {
  const text = (value: string) => Buffer.concat([Buffer.of(0xa0 | value.length), Buffer.from(value)]);
  const number = (value: number) => {
    const bytes = Buffer.alloc(9, 0xcf);
    bytes.writeBigUInt64BE(BigInt(value), 1);
    return bytes;
  };
  return Buffer.concat([
    Buffer.of(0x84),
    ...[text('VersionUpgrade'), Buffer.of(0xc0)],
    ...[text('EpochStateID'), Buffer.of(0xc4, epochStateId.length), epochStateId],
    ...[text('EpochExtensionViewCount'), number(EXTENSION_VIEWS)],
    ...[text('FinalizationSafetyThreshold'), number(SAFETY_THRESHOLD_VIEWS)],
  ]);
}

/** As many bytes as wanted, for a name. */
function seedOf(derive: (name: string) => Buffer, name: string, length: number): Buffer {
  const parts = Array.from({ length: Math.ceil(length / 32) }, (_, index) => derive(`${name} ${index}`));
  return Buffer.concat(parts).subarray(0, length);
}
