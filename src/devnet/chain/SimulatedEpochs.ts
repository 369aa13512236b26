import { encodeRlp, identifierBytes, sha3Identifier, toIdentifier } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { readCommit, readSetup, type Certificate, type Committee } from '../../proof/index.js';
import { signCertificate, signingKeyOf, type SigningKey } from './signCertificate.js';
import { SizedCache } from './SizedCache.js';

/** Of five, four must sign. */
const MEMBERS = 5;
const WEIGHT = 100;
const SEED_BYTES = 48;
const KEY_BYTES = 96;
/** Longer than any devnet runs: there is one epoch alone. */
const ENDLESS_VIEWS = 1_000_000_000;
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

export interface EpochOptions {
  readonly firstView: number;
  /** Views of each epoch; 0: the first one does not end. */
  readonly epochViews: number;
  /** The epoch that ends without a committed next one: it goes on for as many views again, and then recovers. */
  readonly fallbackEpoch: number | undefined;
  /** From the first block of this epoch on, another committee than the one that was committed signs. */
  readonly forgedEpoch: number | undefined;
}

/** The events of an epoch, and who signs in it. */
interface Epoch {
  readonly setupEvent: object;
  readonly commitEvent: object;
  readonly setupId: Identifier;
  readonly commitId: Identifier;
  readonly identities: readonly { readonly NodeID: Identifier; readonly Ejected: false }[];
  readonly committee: Committee;
  /** In the order of the members. */
  readonly keys: readonly SigningKey[];
}

interface State {
  readonly id: Buffer;
  /** The parts that the id is the hash of, as a snapshot has them. */
  readonly entry: object;
}

/**
 * The consensus nodes of a simulated chain, others in each epoch, and the protocol states that name them. They have no
 * random beacon: a second signature would double the time that a certificate takes. Each next epoch is committed in the
 * middle of the one before.
 */
export class SimulatedEpochs {
  readonly #options: EpochOptions;
  readonly #views: number;
  readonly #derive: (name: string) => Buffer;
  readonly #extensionViews: number;
  readonly #safetyThreshold: number;
  /** By name. Bounded by how far the chain has come, as the next. */
  readonly #epochs = new Map<string, Epoch>();
  readonly #states = new Map<string, State>();
  /** By view: the chain has one block for each. */
  readonly #certificates = new SizedCache<Certificate>({ maxSize: MAX_CERTIFICATES });

  /** `derive` gives 32 bytes for a name. */
  constructor(options: EpochOptions, { derive }: { readonly derive: (name: string) => Buffer }) {
    this.#options = options;
    this.#derive = derive;
    this.#views = options.epochViews || ENDLESS_VIEWS;
    this.#extensionViews = options.epochViews || EXTENSION_VIEWS;
    this.#safetyThreshold = Math.min(SAFETY_THRESHOLD_VIEWS, Math.floor(this.#views / 5));
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
    const counter = this.#counterAt(block.view);
    const { committee, keys } = this.#epoch(counter, this.#isForged(counter));
    const signers = keys
      .map((_, index) => index)
      .filter((index) => (index === block.view % MEMBERS) === isMinority);
    const certificate = signCertificate(block, { committee, keys, signers });
    this.#certificates.set(block.view, certificate, 1);
    return certificate;
  }

  /** 32 bytes. */
  protocolStateId(view: number): Buffer {
    return this.#stateAt(view).id;
  }

  /** `SealingSegment.ProtocolStateEntries` of a snapshot at a block of this view. */
  entries(view: number): Readonly<Record<string, object>> {
    const { entry, id } = this.#stateAt(view);
    return { [toIdentifier(id)]: entry };
  }

  #counterAt(view: number): number {
    const { fallbackEpoch = Infinity, firstView } = this.#options;
    const spans = Math.floor((view - firstView) / this.#views);
    return spans > fallbackEpoch ? spans - 1 : spans;
  }

  #firstViewOf(counter: number): number {
    const { fallbackEpoch = Infinity, firstView } = this.#options;
    return firstView + (counter > fallbackEpoch ? counter + 1 : counter) * this.#views;
  }

  #isForged(counter: number): boolean {
    return counter >= (this.#options.forgedEpoch ?? Infinity);
  }

  #stateAt(view: number): State {
    const counter = this.#counterAt(view);
    const first = this.#firstViewOf(counter);
    const last = this.#firstViewOf(counter + 1) - 1;
    const setUpFinalView = first + this.#views - 1;
    const isExtended = last > setUpFinalView && view + this.#safetyThreshold >= setUpFinalView;
    const isCommitted = this.#options.epochViews > 0 && view > last - this.#views / 2;
    const name = `${counter} ${isExtended} ${isCommitted}`;
    const known = this.#states.get(name);
    if (known !== undefined) return known;
    const isForged = this.#isForged(counter);
    const state = this.#stateOf(
      [
        counter === 0 ? undefined : this.#epoch(counter - 1, this.#isForged(counter - 1)),
        this.#epoch(counter, isForged),
        isCommitted ? this.#epoch(counter + 1, isForged) : undefined,
      ],
      isExtended ? { FirstView: setUpFinalView + 1, FinalView: last } : undefined,
      isExtended && !isCommitted,
    );
    this.#states.set(name, state);
    return state;
  }

  #stateOf(
    epochs: readonly [Epoch | undefined, Epoch, Epoch | undefined],
    extension: { readonly FirstView: number; readonly FinalView: number } | undefined,
    isFallback: boolean,
  ): State {
    const [, current] = epochs;
    const extensionOf = (epoch: Epoch) => (epoch === current && extension ? [extension] : []);
    const items = epochs.map((epoch) =>
      epoch === undefined
        ? []
        : [
            identifierBytes(epoch.setupId),
            identifierBytes(epoch.commitId),
            epoch.identities.map(({ NodeID }) => [identifierBytes(NodeID), false]),
            extensionOf(epoch).map(({ FirstView, FinalView }) => [FirstView, FinalView]),
          ],
    );
    const epochStateId = identifierBytes(sha3Identifier(encodeRlp([...items, isFallback])));
    const values = [[[]], epochStateId, this.#extensionViews, this.#safetyThreshold];
    const entryOf = (name: string, epoch: Epoch | undefined) => ({
      [name]:
        epoch === undefined
          ? null
          : {
              SetupID: epoch.setupId,
              CommitID: epoch.commitId,
              ActiveIdentities: epoch.identities,
              EpochExtensions: epoch === current && extension ? [extension] : null,
            },
      [`${name}Setup`]: epoch?.setupEvent ?? null,
      [`${name}Commit`]: epoch?.commitEvent ?? null,
    });
    const data = packedValues(epochStateId, this.#extensionViews, this.#safetyThreshold);
    return {
      id: identifierBytes(sha3Identifier(encodeRlp([STATE_VERSION, [[values]]]))),
      entry: {
        KVStore: { Version: STATE_VERSION, Data: data.toString('base64') },
        EpochEntry: {
          ...entryOf('PreviousEpoch', epochs[0]),
          ...entryOf('CurrentEpoch', current),
          ...entryOf('NextEpoch', epochs[2]),
          EpochFallbackTriggered: isFallback,
        },
      },
    };
  }

  #epoch(counter: number, isForged: boolean): Epoch {
    const prefix = `${isForged ? 'forged ' : ''}${counter === 0 ? '' : `epoch ${counter} `}`;
    const known = this.#epochs.get(prefix);
    if (known !== undefined) return known;
    const derive = (name: string) => this.#derive(`${prefix}${name}`);
    const { participants, keys } = participantsOf(derive);
    const setupEvent = setupEventOf(
      { counter, firstView: this.#firstViewOf(counter), views: this.#views },
      participants,
      derive,
    );
    const commitEvent = commitEventOf(counter, participants, derive);
    const { setup } = readSetup(setupEvent);
    const epoch: Epoch = {
      ...{ setupEvent, commitEvent, setupId: setup.id, commitId: readCommit(commitEvent).commit.id },
      identities: participants.map(({ NodeID }) => ({ NodeID, Ejected: false })),
      committee: setup.committee,
      keys: setup.committee.members.flatMap(({ nodeId }) => keys.get(nodeId) ?? []),
    };
    this.#epochs.set(prefix, epoch);
    return epoch;
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
  {
    counter,
    firstView,
    views,
  }: { readonly counter: number; readonly firstView: number; readonly views: number },
  participants: readonly Participant[],
  derive: (name: string) => Buffer,
) {
  const finalView = firstView + views - 1;
  const phaseViews = Math.min(DKG_PHASE_VIEWS, Math.floor(views / 8));
  const collectors = participants.filter(({ Role }) => Role === 'collection');
  return {
    Counter: counter,
    FirstView: firstView,
    DKGPhase1FinalView: finalView - 3 * phaseViews,
    DKGPhase2FinalView: finalView - 2 * phaseViews,
    DKGPhase3FinalView: finalView - phaseViews,
    FinalView: finalView,
    Participants: participants,
    Assignments: collectors.map(({ NodeID }) => [NodeID]),
    RandomSource: derive('random source').subarray(0, 16).toString('base64'),
    TargetDuration: views,
    TargetEndTime: finalView,
  };
}

function commitEventOf(
  counter: number,
  participants: readonly Participant[],
  derive: (name: string) => Buffer,
) {
  const collectors = participants.filter(({ Role }) => Role === 'collection');
  return {
    Counter: counter,
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
function packedValues(epochStateId: Buffer, extensionViews: number, safetyThreshold: number): Buffer {
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
    ...[text('EpochExtensionViewCount'), number(extensionViews)],
    ...[text('FinalizationSafetyThreshold'), number(safetyThreshold)],
  ]);
}

/** As many bytes as wanted, for a name. */
function seedOf(derive: (name: string) => Buffer, name: string, length: number): Buffer {
  const parts = Array.from({ length: Math.ceil(length / 32) }, (_, index) => derive(`${name} ${index}`));
  return Buffer.concat(parts).subarray(0, length);
}
