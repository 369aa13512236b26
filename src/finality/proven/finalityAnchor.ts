import { outcomeOf, UpstreamError, type AccessNodes } from '../../access/index.js';
import { toIdentifier, type Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { lastViewOf, readParts } from '../../proof/index.js';
import type { CertificateThread, EpochState, StoredHeader } from '../../proof/index.js';
import type { CommitteeEvidence, HeightRange, IndexStore } from '../../storage/index.js';
import { askProtocolState, type ProtocolStateAnswer } from './askProtocolState.js';
import { NotProvenError } from './NotProvenError.js';

const EVIDENCE = 'GetCommitteeEvidence';
/** Pause before nodes are asked again for a protocol state that none of them has. */
const LACKING_MS = 300_000;
/** The same where one may have it and does not answer. */
export const AGAIN_MS = 15_000;

/**
 * A block whose id is trusted, best first: named by the operator (`checkpoint`), by the spork table as the root of a
 * spork (`spork_root`) or as the last block before the next one (`spork_table`), or by the nodes (`first_use`).
 */
export interface Anchor {
  readonly kind: 'checkpoint' | 'spork_root' | 'spork_table' | 'first_use';
  readonly height: number;
  readonly id: Identifier;
}

/** A block that the configuration names. */
export type NamedBlock = Anchor & { readonly kind: Exclude<Anchor['kind'], 'first_use'> };

export const NAMED_BY: Readonly<Record<NamedBlock['kind'], string>> = {
  checkpoint: 'proof.checkpoint',
  spork_root: 'the spork table, as the root of a spork,',
  spork_table: 'the spork table, as the last block before a spork,',
};

export interface AnchorDependencies {
  /** A stored block, with its header where it has a proof. Expected errors: `StorageError`; `WireError`. */
  readonly blockAt: (
    height: number,
  ) => Promise<{ readonly id: Identifier; readonly header: StoredHeader | undefined } | undefined>;
  /** Keeps who signs, so that no node is asked for it again. */
  readonly store: Pick<IndexStore, 'evidence' | 'keepEvidence' | 'unproven'>;
  /** They are asked at the rank of history. */
  readonly nodes: AccessNodes;
  readonly thread: Pick<CertificateThread, 'readState'>;
  readonly logger: Logger;
}

/** The epochs as of a block, which is proven or believed. */
export interface KnownEpochs {
  readonly state: EpochState;
  readonly height: number;
}

type GivenState = Extract<ProtocolStateAnswer, { parts: object }>;

/** The block that finality rests on, and who signs above: `undefined` where nothing is signed. */
export interface Begun {
  anchor: Anchor;
  known: KnownEpochs | undefined;
}

/**
 * Finds the block that finality rests on, and who signs from there on: its protocol state names them, and for each later
 * epoch that of a block that the earlier signers have proven (docs/decisions/0015-who-signs-next.md).
 *
 * On first use the nodes are believed once: that our first block is of the chain, or, where no node still has its
 * protocol state, or that of the spork's root, that our newest one is (which stays the anchor after a restart).
 * A checkpoint is never replaced like that, nor any anchor once it is found: a node that withholds the state at the end
 * of an epoch could otherwise make us accept a next committee of its choice.
 *
 * `named`: best first, with at most one checkpoint. Without one in range: the first block, as the nodes report it.
 */
export function finalityAnchor(named: readonly NamedBlock[], parts: AnchorDependencies) {
  const { blockAt, logger, nodes, store } = parts;

  /** Expected errors: `NotProvenError` for a block without a proof; `StorageError`; `WireError`. */
  const headerAt = async (height: number): Promise<StoredHeader> => {
    const block = await blockAt(height);
    if (block?.header !== undefined) return block.header;
    throw new NotProvenError(
      `block ${height} ${block === undefined ? 'cannot be read now' : 'itself is not proven'}`,
    );
  };

  const namedIn = ({ from, to }: HeightRange, wanted: NamedBlock['kind']): NamedBlock | undefined =>
    named.find(({ height, kind }) => kind === wanted && height >= from && height <= to);

  /** Whether the ids of all blocks between are recomputed. */
  const isLinked = (from: number, to: number): boolean =>
    from === to || !store.unproven().some((range) => range.from <= to && from <= range.to);

  /** The evidence kept for our chain, highest first. */
  const keptIn = async ({ from, to }: HeightRange): Promise<readonly CommitteeEvidence[]> => {
    const kept: CommitteeEvidence[] = [];
    for (const evidence of (await store.evidence()).toReversed()) {
      const { height, id, isAnchor } = evidence;
      if (height < from || height > to) continue;
      const stored = (await blockAt(height))?.id;
      // Damaged: without it another anchor would be trusted.
      if (stored === undefined && isAnchor) throw new NotProvenError(`block ${height} cannot be read now`);
      if (stored === id) kept.push(evidence);
    }
    return kept;
  };

  /**
   * The highest evidence kept. If there is none, keeps a peer's highest, provided that it is of our chain, follows from
   * the block at `to` by hash, and hashes to its state.
   */
  const newestKept = async (
    range: HeightRange,
    signal: AbortSignal,
  ): Promise<CommitteeEvidence | undefined> => {
    const { from, to } = range;
    const [kept] = await keptIn(range);
    if (kept !== undefined || from > to) return kept;
    for (const node of nodes.peers().filter((peer) => peer.supports(EVIDENCE))) {
      const evidence = await outcomeOf(node.getCommitteeEvidence(to, { signal }));
      // A peer that keeps nothing yet has done no wrong.
      if (evidence instanceof UpstreamError) continue;
      const { height, id } = evidence;
      const isOurs = height >= from && height <= to && isLinked(height, to);
      if (!isOurs || (await blockAt(height))?.id !== id) continue;
      if (readParts(evidence, toIdentifier((await headerAt(height)).protocolStateId)) !== undefined) {
        const borrowed = { ...evidence, isAnchor: false };
        await store.keepEvidence(borrowed);
        return borrowed;
      }
      nodes.report(node, 'failing', `what it keeps of who signs is not that of block ${height}`, EVIDENCE);
    }
    return undefined;
  };

  /** The state that was kept, or else the one that a node gives. */
  const stateAt = async (
    header: StoredHeader,
    kept: CommitteeEvidence | undefined,
    signal: AbortSignal,
  ): Promise<ProtocolStateAnswer> => {
    const mine = kept?.height === header.height ? kept : undefined;
    const state = mine && readParts(mine, toIdentifier(header.protocolStateId));
    return mine === undefined || state === undefined
      ? askProtocolState(header, parts, signal)
      : { state, parts: mine, wasAnchor: mine.isAnchor };
  };

  /** Who signs at the newest block of the range with evidence, ours or a peer's; else, by the nodes, at its last one. */
  const newestIn = async (range: HeightRange, signal: AbortSignal) => {
    const { to } = range;
    const kept = await newestKept(range, signal);
    const header = await headerAt(kept !== undefined && isLinked(kept.height, to) ? kept.height : to);
    return { header, answer: await stateAt(header, kept, signal) };
  };

  /** `header`: the block that the answer is for, the anchor itself or one below. */
  const beginAt = async (
    { kind, height, id }: Anchor,
    header: StoredHeader,
    answer?: GivenState,
  ): Promise<Begun> => {
    const { parts: given, state, wasAnchor } = answer ?? {};
    const { height: at, id: block } = header;
    if (given !== undefined && wasAnchor !== true)
      await store.keepEvidence({ ...given, height: at, id: block, isAnchor: true });
    const { epoch, members } = state?.current.committee ?? {};
    logger.info(
      { kind, height, id, epoch, members: members?.length },
      'anchored at a block: its id is 32 bytes that you can compare with other sources',
    );
    return { anchor: { kind, height, id }, known: state && { state, height: at } };
  };

  /** A peer may learn who signs at any time. */
  const pausing = ({ reason, isLacking }: Exclude<ProtocolStateAnswer, GivenState>) =>
    new NotProvenError(reason, isLacking && nodes.peers().length === 0 ? LACKING_MS : AGAIN_MS);

  /**
   * The anchor, and who signs there. The last block of a spork needs no committee: nothing is signed above it, and all
   * blocks below follow by hash. Expected errors: those of the dependencies; the abort reason.
   */
  const begin = async (range: HeightRange, signal: AbortSignal): Promise<Begun> => {
    const { from, to } = range;
    const checkpoint = named.find(({ kind }) => kind === 'checkpoint');
    if (checkpoint !== undefined && (checkpoint.height < from || checkpoint.height > to))
      throw new NotProvenError(
        `the checkpoint at height ${checkpoint.height} is not among the heights from ${from} to ${to}, which are indexed without a gap and of one spork; unless it is still to come, name one of those (--proof-checkpoint), or begin a new store at or below it (--start-height)`,
      );
    const root = checkpoint ?? namedIn(range, 'spork_root');
    const last = checkpoint === undefined ? namedIn(range, 'spork_table') : undefined;
    if (root === undefined && last !== undefined) return beginAt(last, await headerAt(last.height));
    const believed = checkpoint ? undefined : (await keptIn(range)).find(({ isAnchor }) => isAnchor)?.height;
    // Evidence kept for a block below follows from the named one by hash.
    const { header, answer } = await newestIn({ from, to: root?.height ?? believed ?? from }, signal);
    if (answer.state !== undefined) return beginAt(root ?? { kind: 'first_use', ...header }, header, answer);
    if (last !== undefined) return beginAt(last, await headerAt(last.height));
    if (checkpoint !== undefined || !answer.isLacking || to <= from) throw pausing(answer);
    const { header: newest, answer: newer } = await newestIn({ from, to: believed ?? to }, signal);
    if (newer.state === undefined) throw pausing(newer);
    return beginAt({ kind: 'first_use', ...newest }, newest, newer);
  };

  /** Who signs in a later epoch, according to the highest proven block. Expected errors: as for `begin`. */
  const follow = async (
    { state, height }: KnownEpochs,
    provenHeight: number,
    signal: AbortSignal,
  ): Promise<KnownEpochs> => {
    const lastView = lastViewOf(state);
    let why = 'no block just before is proven';
    let isLacking = true;
    const kept = await newestKept({ from: height + 1, to: provenHeight }, signal);
    const heights = new Set([kept?.height ?? provenHeight, provenHeight]);
    for (const at of provenHeight > height ? heights : []) {
      const header = await headerAt(at);
      const answer = await stateAt(header, kept, signal);
      if (answer.state === undefined) {
        why = answer.reason;
        isLacking &&= answer.isLacking;
      } else if (lastViewOf(answer.state) <= lastView) why = 'the last proven block does not say';
      else {
        const { parts: given, wasAnchor } = answer;
        if (wasAnchor === undefined)
          await store.keepEvidence({ ...given, height: at, id: header.id, isAnchor: false });
        return { state: answer.state, height: at };
      }
    }
    const reason = `who signs after view ${lastView} is not known: ${why}`;
    throw pausing({ state: undefined, reason, isLacking });
  };

  return { begin, follow, headerAt, namedIn };
}
