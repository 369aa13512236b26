import type { AccessNodes } from '../../access/index.js';
import { toIdentifier } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { EpochCommittees, readParts } from '../../proof/index.js';
import type { CertificateThread, StoredHeader } from '../../proof/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { askProtocolState } from './askProtocolState.js';
import type { ProtocolStateAnswer } from './askProtocolState.js';

/** Pause before nodes are asked again for a protocol state that none has. */
const LACKING_MS = 300_000;
/** The same where one may have it and does not answer. */
export const AGAIN_MS = 15_000;

const ANCHORED = 'anchored at a block: its id is 32 bytes that you can compare with other sources';

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

/** In messages. */
export const NAMED_BY: Readonly<Record<NamedBlock['kind'], string>> = {
  checkpoint: 'proof.checkpoint',
  spork_root: 'the spork table, as the root of a spork,',
  spork_table: 'the spork table, as the last block before a spork,',
};

/** Blocks that link, of one spork: nothing is signed across sporks. */
export interface LinkedHeights {
  readonly from: number;
  readonly to: number;
}

export interface FinalityAnchorOptions {
  /** Best first, the checkpoint, if any, alone of its kind. Without one in range: the first block, on the nodes' word. */
  readonly named: readonly NamedBlock[];
}

export interface FinalityAnchorDependencies {
  /** The id of a stored block; `undefined` where none is. Expected errors: `StorageError`. */
  readonly idAt: (height: number) => Promise<Identifier | undefined>;
  /** Expected errors: `NotProvenError` for a block without a proof; `StorageError`; `WireError`. */
  readonly header: (height: number) => Promise<StoredHeader>;
  /** Keeps who signs, so that no node is asked for it again. */
  readonly store: Pick<IndexStore, 'evidence' | 'keepEvidence'>;
  readonly nodes: AccessNodes;
  readonly thread: Pick<CertificateThread, 'readState'>;
  readonly logger: Logger;
}

/**
 * The block that finality rests on, and who signs from there on: its protocol state says so, and for later epochs that of
 * a block that is proven already.
 *
 * On first use the nodes are believed once: that our first block is of the chain, or, where no node gives its protocol
 * state any more, or that of the spork's root, that our newest one is (which then is the anchor, and stays it after a restart).
 * A checkpoint is never replaced like that.
 */
export class FinalityAnchor {
  readonly #options: FinalityAnchorOptions;
  readonly #deps: FinalityAnchorDependencies;
  #anchor: Anchor | undefined;
  /** Heights of named blocks that are stored and have the named ids. */
  readonly #compared = new Set<number>();
  #known: { readonly committees: EpochCommittees; readonly height: number } | undefined;

  constructor(options: FinalityAnchorOptions, dependencies: FinalityAnchorDependencies) {
    this.#options = options;
    this.#deps = dependencies;
  }

  get anchor(): Anchor | undefined {
    return this.#anchor;
  }

  /** Who signs above `height`; `undefined` until there is an anchor. */
  get known(): { readonly committees: EpochCommittees; readonly height: number } | undefined {
    return this.#known;
  }

  forget(): void {
    this.#anchor = this.#known = undefined;
    this.#compared.clear();
  }

  /**
   * Logs the block that finality will rest on, as far as the configuration and the store tell. Expected errors:
   * `StorageError`; `WireError`.
   */
  async announce(range: LinkedHeights | undefined): Promise<void> {
    const named = this.#options.named.find(
      ({ height, kind }) =>
        kind === 'checkpoint' || (range !== undefined && height >= range.from && height <= range.to),
    );
    const id = range && range.to >= range.from ? await this.#deps.idAt(range.from) : undefined;
    const first = id && range && { kind: 'first_use' as const, height: range.from, id };
    const anchor = named ?? first;
    if (anchor !== undefined) this.#deps.logger.info({ ...anchor }, ANCHORED);
  }

  /** True where the last block of the spork is stored by now, which is better than the nodes' word. */
  isOutdone(range: LinkedHeights): boolean {
    return this.#anchor?.kind === 'first_use' && this.#namedIn(range, 'spork_table') !== undefined;
  }

  /**
   * Compares every named block that is stored, wherever. Expected errors: OperatorError (`foreign`) when one has another id;
   * `StorageError`.
   */
  async compare(): Promise<void> {
    for (const { height, id, kind } of this.#options.named) {
      if (this.#compared.has(height)) continue;
      const stored = await this.#deps.idAt(height);
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
  async begin(range: LinkedHeights, signal: AbortSignal): Promise<void> {
    const { from, to } = range;
    const checkpoint = this.#options.named.find(({ kind }) => kind === 'checkpoint');
    if (checkpoint !== undefined && (checkpoint.height < from || checkpoint.height > to))
      throw new NotProvenError(
        `the checkpoint at height ${checkpoint.height} is not among the heights from ${from} to ${to}, which are indexed without a gap and of one spork`,
      );
    const named = checkpoint ?? this.#namedIn(range, 'spork_root');
    const last = checkpoint === undefined ? this.#namedIn(range, 'spork_table') : undefined;
    if (named === undefined && last !== undefined) return this.#beginAtLast(last);
    const [believed] = checkpoint === undefined ? await this.#kept(range, { isAnchor: true }) : [];
    const header = await this.#deps.header(named?.height ?? believed ?? from);
    const answer = await this.#stateAt(header, signal);
    if (answer.state !== undefined) await this.#begin(named?.kind ?? 'first_use', header, answer);
    else if (last !== undefined) await this.#beginAtLast(last);
    else if (checkpoint === undefined && answer.isLacking && to > from)
      await this.#believe(believed ?? to, signal);
    else throw pausing(answer);
  }

  /**
   * Learns of a later epoch from the highest block that is proven. `to`: our newest block, which may become the anchor
   * of first use unless newest blocks were proven before. Expected errors: as for `begin`.
   */
  async follow(
    provenHeight: number,
    { to, hasReachedTip }: { readonly to: number; readonly hasReachedTip: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const { committees, height } = this.#known ?? { height: to };
    if (committees === undefined) return;
    let answer: StateAnswer = {
      state: undefined,
      isLacking: true,
      reason: 'no block just before is proven',
    };
    const [learned = provenHeight] = await this.#kept({ from: height + 1, to: provenHeight });
    for (const at of provenHeight > height ? new Set([learned, provenHeight]) : []) {
      const header = await this.#deps.header(at);
      answer = await this.#stateAt(header, signal);
      const later = answer.state && new EpochCommittees(answer.state);
      if (answer.state === undefined || later === undefined || later.lastView <= committees.lastView)
        continue;
      this.#known = { committees: later, height: at };
      await this.#keep(header, answer, { isAnchor: false });
      return;
    }
    const isLacking = answer.state !== undefined || answer.isLacking;
    if (isLacking && !hasReachedTip && this.#anchor?.kind !== 'checkpoint') return this.#believe(to, signal);
    const why = answer.state === undefined ? answer.reason : 'the last proven block does not say';
    throw new NotProvenError(
      `who signs after view ${committees.lastView} is not known: ${why}`,
      isLacking ? LACKING_MS : AGAIN_MS,
    );
  }

  /** Takes the nodes' word for our newest block. */
  async #believe(height: number, signal: AbortSignal): Promise<void> {
    const header = await this.#deps.header(height);
    const answer = await this.#stateAt(header, signal);
    if (answer.state === undefined) throw pausing(answer);
    await this.#begin('first_use', header, answer);
  }

  async #beginAtLast({ height }: NamedBlock): Promise<void> {
    await this.#begin('spork_table', await this.#deps.header(height));
  }

  #namedIn({ from, to }: LinkedHeights, wanted: NamedBlock['kind']): NamedBlock | undefined {
    return this.#options.named.find(({ height, kind }) => kind === wanted && height >= from && height <= to);
  }

  /** Heights of what is kept of our chain, the highest first. */
  async #kept({ from, to }: LinkedHeights, wanted: { readonly isAnchor?: boolean } = {}): Promise<number[]> {
    const heights: number[] = [];
    for (const { height, id, isAnchor } of (await this.#deps.store.evidence()).toReversed()) {
      if (height < from || height > to || isAnchor !== (wanted.isAnchor ?? isAnchor)) continue;
      if ((await this.#deps.idAt(height)) === id) heights.push(height);
    }
    return heights;
  }

  /** As it was kept, or else as a node gives it. */
  async #stateAt(header: StoredHeader, signal: AbortSignal): Promise<StateAnswer> {
    const { height, id, protocolStateId } = header;
    const kept = (await this.#deps.store.evidence()).find((each) => each.height === height && each.id === id);
    const state = kept && readParts(kept, toIdentifier(protocolStateId));
    return kept === undefined || state === undefined
      ? askProtocolState(header, this.#deps, signal)
      : { state, parts: kept, wasAnchor: kept.isAnchor };
  }

  async #keep(
    { height, id }: StoredHeader,
    { parts, wasAnchor }: Known,
    { isAnchor }: { readonly isAnchor: boolean },
  ): Promise<void> {
    if (wasAnchor === undefined || (isAnchor && !wasAnchor))
      await this.#deps.store.keepEvidence({ ...parts, height, id, isAnchor });
  }

  async #begin(kind: Anchor['kind'], header: StoredHeader, answer?: Known): Promise<void> {
    const { height, id } = header;
    const state = answer?.state;
    if (answer !== undefined) await this.#keep(header, answer, { isAnchor: true });
    this.#anchor = { kind, height, id };
    this.#known = state && { committees: new EpochCommittees(state), height };
    const { epoch, members } = state?.current.committee ?? {};
    this.#deps.logger.info({ kind, height, id, epoch, members: members?.length }, ANCHORED);
  }
}

/** `wasAnchor`: it was kept, as that of an anchor or not. */
type Known = Exclude<ProtocolStateAnswer, { state: undefined }> & { readonly wasAnchor?: boolean };
type StateAnswer = Exclude<ProtocolStateAnswer, { parts: object }> | Known;

function pausing({ reason, isLacking }: Extract<ProtocolStateAnswer, { state: undefined }>): NotProvenError {
  return new NotProvenError(reason, isLacking ? LACKING_MS : AGAIN_MS);
}
