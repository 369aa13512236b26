import { outcomeOf, UpstreamError, type AccessNodes } from '../../access/index.js';
import { toIdentifier, type Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { lastViewOf, readParts } from '../../proof/index.js';
import type { CertificateThread, EpochState, StoredHeader } from '../../proof/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { HeightRange, IndexStore } from '../../storage/index.js';
import { askProtocolState, type ProtocolStateAnswer } from './askProtocolState.js';

const EVIDENCE = 'GetCommitteeEvidence';
/** Pause before nodes are asked again for a protocol state that none has. */
const LACKING_MS = 300_000;
/** The same where one may have it and does not answer. */
export const AGAIN_MS = 15_000;

/** Why nothing more can be proven final now. */
export class NotProvenError extends Error {
  override readonly name = 'NotProvenError';
  /** To be tried again after so long, whether blocks come or not. `undefined`: with the next block. */
  readonly pauseMs: number | undefined;

  constructor(reason: string, pauseMs?: number) {
    super(reason);
    this.pauseMs = pauseMs;
  }
}

/**
 * A block whose id is taken for true, best first: named by the operator (`checkpoint`), by the spork table as the root of a
 * spork (`spork_root`) or as the last block before the next one (`spork_table`), or taken on the nodes' word (`first_use`).
 */
export interface Anchor {
  readonly kind: 'checkpoint' | 'spork_root' | 'spork_table' | 'first_use';
  readonly height: number;
  readonly id: Identifier;
}

/** What the configuration says of a block. */
export type NamedBlock = Anchor & { readonly kind: Exclude<Anchor['kind'], 'first_use'> };

export const NAMED_BY: Readonly<Record<NamedBlock['kind'], string>> = {
  checkpoint: 'proof.checkpoint',
  spork_root: 'the spork table, as the root of a spork,',
  spork_table: 'the spork table, as the last block before a spork,',
};

interface Parts {
  /** Best first, the checkpoint, if any, alone of its kind. Without one in range: the first block, on the nodes' word. */
  readonly named: readonly NamedBlock[];
  /** The id of a stored block; `undefined` where none is. Expected errors: `StorageError`. */
  readonly idAt: (height: number) => Promise<Identifier | undefined>;
  /** Expected errors: `NotProvenError` for a block without a proof; `StorageError`; `WireError`. */
  readonly header: (height: number) => Promise<StoredHeader>;
  /** Keeps who signs, so that no node is asked for it again. */
  readonly store: Pick<IndexStore, 'evidence' | 'keepEvidence' | 'unproven'>;
  readonly nodes: AccessNodes;
  readonly thread: Pick<CertificateThread, 'readState'>;
  readonly logger: Logger;
}

/** The epochs as of a block, which is proven or believed. */
export interface KnownEpochs {
  readonly state: EpochState;
  readonly height: number;
}

/**
 * The block that finality rests on, and who signs from there on: its protocol state says so, and for each later epoch that
 * of a block that those before have proven (docs/decisions/0015-who-signs-next.md).
 *
 * On first use the nodes are believed once: that our first block is of the chain, or, where no node gives its protocol
 * state any more, or that of the spork's root, that our newest one is (which then is the anchor, and stays it after a restart).
 * A checkpoint is never replaced like that, and no anchor is once it is found: whoever can withhold the state at the end of
 * an epoch would have us believe a next one of his own.
 */
export class FinalityAnchor {
  readonly #parts: Parts;
  /** This and the next are set here alone. */
  anchor: Anchor | undefined;
  /** Who signs above its height; `undefined` until there is an anchor. */
  known: KnownEpochs | undefined;
  /** Heights of named blocks that are stored and have the named ids. */
  readonly #compared = new Set<number>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  forget(): void {
    this.anchor = this.known = undefined;
    this.#compared.clear();
  }

  /** True where the last block of the spork is stored by now, which is better than the nodes' word. */
  isOutdone(range: HeightRange): boolean {
    return this.anchor?.kind === 'first_use' && this.#namedIn(range, 'spork_table') !== undefined;
  }

  /**
   * Compares every named block that is stored, wherever. Expected errors: OperatorError (`foreign`) when one has another id;
   * `StorageError`.
   */
  async compare(): Promise<void> {
    for (const { height, id, kind } of this.#parts.named) {
      if (this.#compared.has(height)) continue;
      const stored = await this.#parts.idAt(height);
      if (stored === undefined) continue;
      if (stored !== id)
        throw new OperatorError(
          'foreign',
          `Block ${height} has the id ${stored}, but ${NAMED_BY[kind]} names ${id}: the nodes or the store belong to another chain, or what names it is wrong. Correct it, or index from other nodes into another directory.`,
        );
      this.#compared.add(height);
    }
  }

  /**
   * Finds the anchor, and who signs there. The last block of a spork needs nobody: nothing is signed above it, and all
   * below follow by hash. Expected errors: those of the dependencies; the abort reason.
   */
  async begin(range: HeightRange, signal: AbortSignal): Promise<void> {
    const { from, to } = range;
    const checkpoint = this.#parts.named.find(({ kind }) => kind === 'checkpoint');
    if (checkpoint !== undefined && (checkpoint.height < from || checkpoint.height > to))
      throw new NotProvenError(
        `the checkpoint at height ${checkpoint.height} is not among the heights from ${from} to ${to}, which are indexed without a gap and of one spork; unless it is still to come, name one of those (--proof-checkpoint), or begin a new store at or below it (--start-height)`,
      );
    const named = checkpoint ?? this.#namedIn(range, 'spork_root');
    const last = checkpoint === undefined ? this.#namedIn(range, 'spork_table') : undefined;
    if (named === undefined && last !== undefined)
      return this.#begin(last, await this.#parts.header(last.height));
    const [believed] = checkpoint === undefined ? await this.#kept(range, { isAnchor: true }) : [];
    // What is kept of a block below follows from the named one by hash.
    const { header, answer } = await this.#newestIn({ from, to: named?.height ?? believed ?? from }, signal);
    if (answer.state !== undefined)
      return this.#begin(named ?? { kind: 'first_use', ...header }, header, answer);
    if (last !== undefined) return this.#begin(last, await this.#parts.header(last.height));
    if (checkpoint !== undefined || !answer.isLacking || to <= from) throw this.#pausing(answer);
    const { header: newest, answer: newer } = await this.#newestIn({ from, to: believed ?? to }, signal);
    if (newer.state === undefined) throw this.#pausing(newer);
    await this.#begin({ kind: 'first_use', ...newest }, newest, newer);
  }

  /** Who signs at the newest block of the range of which that is kept, here or by a peer; else at its last one, as nodes tell. */
  async #newestIn(range: HeightRange, signal: AbortSignal) {
    const { to } = range;
    await this.#borrow(range, signal);
    const [kept = to] = await this.#kept(range);
    const header = await this.#parts.header(this.#isLinked(kept, to) ? kept : to);
    return { header, answer: await this.#stateAt(header, signal) };
  }

  /** Learns of a later epoch from the highest block that is proven. Expected errors: as for `begin`. */
  async follow({ state, height }: KnownEpochs, provenHeight: number, signal: AbortSignal): Promise<void> {
    const lastView = lastViewOf(state);
    let why = 'no block just before is proven';
    let isLacking = true;
    await this.#borrow({ from: height + 1, to: provenHeight }, signal);
    const [learned = provenHeight] = await this.#kept({ from: height + 1, to: provenHeight });
    for (const at of provenHeight > height ? new Set([learned, provenHeight]) : []) {
      const header = await this.#parts.header(at);
      const answer = await this.#stateAt(header, signal);
      if (answer.state === undefined) {
        why = answer.reason;
        isLacking &&= answer.isLacking;
      } else if (lastViewOf(answer.state) <= lastView) why = 'the last proven block does not say';
      else {
        this.known = { state: answer.state, height: at };
        return this.#keep(header, answer, false);
      }
    }
    const reason = `who signs after view ${lastView} is not known: ${why}`;
    throw this.#pausing({ state: undefined, reason, isLacking });
  }

  #namedIn({ from, to }: HeightRange, wanted: NamedBlock['kind']): NamedBlock | undefined {
    return this.#parts.named.find(({ height, kind }) => kind === wanted && height >= from && height <= to);
  }

  /** Heights of what is kept of our chain, the highest first. */
  async #kept({ from, to }: HeightRange, wanted: { readonly isAnchor?: boolean } = {}): Promise<number[]> {
    const heights: number[] = [];
    for (const { height, id, isAnchor } of (await this.#parts.store.evidence()).toReversed()) {
      if (height < from || height > to || isAnchor !== (wanted.isAnchor ?? isAnchor)) continue;
      const stored = await this.#parts.idAt(height);
      // Damaged: without it others would be believed.
      if (stored === undefined && isAnchor) throw new NotProvenError(`block ${height} cannot be read now`);
      if (stored === id) heights.push(height);
    }
    return heights;
  }

  /**
   * Where nothing is kept of these heights: keeps what a peer has of the highest, if it is of our chain, follows from the
   * block at `to` by hash, and hashes to its state.
   */
  async #borrow(range: HeightRange, signal: AbortSignal): Promise<void> {
    const { from, to } = range;
    if (from > to || (await this.#kept(range)).length > 0) return;
    const { idAt, header, nodes, store } = this.#parts;
    for (const node of nodes.peers().filter((peer) => peer.supports(EVIDENCE))) {
      const evidence = await outcomeOf(node.getCommitteeEvidence(to, { signal }));
      // A peer that keeps nothing yet has done no wrong.
      if (evidence instanceof UpstreamError) continue;
      const { height, id } = evidence;
      if (height < from || height > to || !this.#isLinked(height, to) || (await idAt(height)) !== id)
        continue;
      if (readParts(evidence, toIdentifier((await header(height)).protocolStateId)) === undefined)
        nodes.report(node, 'failing', `what it keeps of who signs is not that of block ${height}`, EVIDENCE);
      else return store.keepEvidence({ ...evidence, isAnchor: false });
    }
  }

  /** Whether the ids of all blocks between are recomputed. */
  #isLinked(from: number, to: number): boolean {
    const unproven = this.#parts.store.unproven();
    return from === to || !unproven.some((range) => range.from <= to && from <= range.to);
  }

  /** As it was kept, or else as a node gives it. */
  async #stateAt(header: StoredHeader, signal: AbortSignal): Promise<StateAnswer> {
    const { height, id, protocolStateId } = header;
    const kept = (await this.#parts.store.evidence()).find(
      (each) => each.height === height && each.id === id,
    );
    const state = kept && readParts(kept, toIdentifier(protocolStateId));
    return kept === undefined || state === undefined
      ? askProtocolState(header, this.#parts, signal)
      : { state, parts: kept, wasAnchor: kept.isAnchor };
  }

  async #keep({ height, id }: StoredHeader, { parts, wasAnchor }: Known, isAnchor: boolean): Promise<void> {
    if (wasAnchor === undefined || (isAnchor && !wasAnchor))
      await this.#parts.store.keepEvidence({ ...parts, height, id, isAnchor });
  }

  /** `header`: whose state the answer is, the block itself or one below. */
  async #begin({ kind, height, id }: Anchor, header: StoredHeader, answer?: Known): Promise<void> {
    const state = answer?.state;
    if (answer !== undefined) await this.#keep(header, answer, true);
    this.anchor = { kind, height, id };
    this.known = state && { state, height: header.height };
    const { epoch, members } = state?.current.committee ?? {};
    this.#parts.logger.info(
      { kind, height, id, epoch, members: members?.length },
      'anchored at a block: its id is 32 bytes that you can compare with other sources',
    );
  }

  /** A peer learns who signs at any time. */
  #pausing({ reason, isLacking }: Extract<ProtocolStateAnswer, { state: undefined }>): NotProvenError {
    const isHopeless = isLacking && this.#parts.nodes.peers().length === 0;
    return new NotProvenError(reason, isHopeless ? LACKING_MS : AGAIN_MS);
  }
}

/** `wasAnchor`: it was kept, as that of an anchor or not. */
type Known = Exclude<ProtocolStateAnswer, { state: undefined }> & { readonly wasAnchor?: boolean };
type StateAnswer = Exclude<ProtocolStateAnswer, { parts: object }> | Known;
