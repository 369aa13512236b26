import { highestShared, type AccessNodes } from '../../access/index.js';
import { WireError, type Identifier } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { CertificateThreadError, committeesIn, lastViewOf } from '../../proof/index.js';
import { provenFinal, weightOf } from '../../proof/index.js';
import type { Certificate, CertificateThread, CertificateVerdict } from '../../proof/index.js';
import type { Committee, StoredHeader } from '../../proof/index.js';
import { abortReason, messageOf, sleep, type Clock, type Timer } from '../../runtime/index.js';
import { StorageError, type BlockHead, type HeightRange, type IndexStore } from '../../storage/index.js';
import { AGAIN_MS, FinalityAnchor, NotProvenError } from './FinalityAnchor.js';
import type { KnownEpochs, NamedBlock } from './FinalityAnchor.js';

/** Less than the time between two blocks, so it delays nothing at the tip; while catching up, it bounds the work. */
const PACE_MS = 500;
/** How far below the newest block two blocks of consecutive views are sought: a network with more gaps hardly moves. */
const MAX_HEADERS = 16;
/** Heights behind the head that still count as following it. */
const TIP_LAG = 3;
/** While catching up, certificates are verified in blocks whose height is a multiple of this. */
const SPARSE_HEIGHTS = 1_000;
const CATCHING_UP = `while blocks are caught up with, only every ${SPARSE_HEIGHTS}th certificate is verified`;
/** How long nodes may take to name a spork of which they give blocks, before its certificates count as false. */
const SPORK_NAMED_WITHIN_MS = 60_000;
const NOTHING_YET = 'this process has indexed no block yet, or does not follow the chain';
/** A node may take half a minute to answer. */
const ASKING = 'nodes are being asked who signs';

export interface FinalityProverDependencies {
  /** A stored block, with its header where it has a proof. Expected errors: `StorageError`; `WireError`. */
  readonly blockAt: (
    height: number,
  ) => Promise<{ readonly id: Identifier; readonly header: StoredHeader | undefined } | undefined>;
  /**
   * Blocks that link, of one spork: nothing is signed across sporks. `undefined`: there are none, or this process does not
   * follow the chain.
   */
  readonly range: () => HeightRange | undefined;
  /** The blocks whose seals are in the payload of a recent block; none where that is not known. */
  readonly sealedBy: (id: Identifier) => readonly Identifier[];
  /** The height of a stored block. Expected errors: `StorageError`. */
  readonly heightOf: (id: Identifier) => Promise<number | undefined>;
  /** The chain's head; `undefined` while unknown. */
  readonly head: () => number | undefined;
  /** Calls back when the range or the head has moved. Returns a function that unsubscribes. */
  readonly onMoved: (listener: () => void) => () => void;
  /** Keeps the height of a block that was proven final, for other processes. Expected errors: `StorageError`. */
  readonly keep?: ((height: number) => Promise<void>) | undefined;
  readonly store: Pick<IndexStore, 'evidence' | 'keepEvidence' | 'unproven'>;
  /** They are asked at the rank of history. */
  readonly nodes: AccessNodes;
  /** The nodes may be of another spork than when they identified themselves. */
  readonly askAgain: () => void;
  readonly thread: Pick<CertificateThread, 'readState' | 'verify'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'quorumCertificates'>;
}

type Proven = Extract<Awaited<ReturnType<typeof provenFinal>>, { kind: 'final' }>;

/**
 * Proves that the stored chain is final: consensus nodes signed for its newest blocks, and one certificate proves all
 * below, those that came meanwhile included. It holds up nothing: what is missing is a reason in its status.
 */
export class FinalityProver {
  readonly #isProving: boolean;
  readonly #checkpoint: number | undefined;
  readonly #deps: FinalityProverDependencies;
  readonly #anchor: FinalityAnchor;
  readonly #moved = new WorkSignal();
  #proven: Proven | undefined;
  /** The highest block that was proven final, also in an earlier spork; `undefined` once the store was rewound below. */
  #final: BlockHead | undefined;
  #sealedHeight: number | undefined;
  /** The newest certificate is invalid: what is stored above `rewindTo` may be of a chain that nobody signed. */
  #failed: { readonly height: number; readonly rewindTo: number; readonly reason: string } | undefined;
  /** Since when there are blocks of a spork that no node has named. */
  #unnamedSinceMs: number | undefined;
  #onProven: () => void = () => undefined;
  #signers: Committee | undefined;
  #reason: string | undefined = NOTHING_YET;
  /** Nothing is tried until it is due. */
  #rest: Timer | undefined;
  /** Where the blocks began that were looked at last. */
  #from = -1;
  #hasWarned = false;

  constructor(
    options: {
      /** Blocks that the configuration names, best first; see `FinalityAnchor`. */
      readonly named: readonly NamedBlock[];
      /** False: blocks come without proofs, so named blocks are compared, and that is all. */
      readonly isProving: boolean;
    },
    dependencies: FinalityProverDependencies,
  ) {
    this.#isProving = options.isProving;
    this.#checkpoint = options.named.find(({ kind }) => kind === 'checkpoint')?.height;
    this.#deps = dependencies;
    this.#anchor = new FinalityAnchor({
      named: options.named,
      ...dependencies,
      idAt: async (height) => (await dependencies.blockAt(height))?.id,
      header: (height) => this.#header(height),
    });
  }

  /** What finality rests on, and how far it is proven. */
  status() {
    const { anchor, known } = this.#anchor;
    const committee = this.#signers ?? known?.state.current.committee;
    return {
      anchor,
      /** All below follow by hash. */
      provenHeight: this.#proven?.height ?? (anchor?.kind === 'spork_table' ? anchor.height : undefined),
      /** Who signed the last valid certificate, or signs at the anchor. */
      committee: committee && {
        epoch: committee.epoch,
        members: committee.members.length,
        weight: weightOf(committee),
      },
      /** `height` and `view` are those of the block that it is for: the child of the proven one. */
      latestCertificate: this.#proven?.certificate,
      /** Why nothing more is proven; `undefined` while all is that can be. */
      reason: this.#reason,
      failed: this.#failed,
    };
  }

  /** The block up to which readers may read where they see only what is proven. */
  finalBlock(): BlockHead | undefined {
    return this.#final;
  }

  /**
   * The highest block whose seal is in the payload of a block that is proven final; `undefined`: not known, because no seal was
   * seen since the start, or because they are of blocks that are not stored.
   */
  sealedHeight(): number | undefined {
    return this.#sealedHeight;
  }

  /** Calls back when `finalBlock` has changed. One listener. */
  onProven(listener: () => void): void {
    this.#onProven = listener;
  }

  /**
   * Runs until the signal aborts. Expected errors: OperatorError (`foreign`) when a named block is not of our chain; the
   * signal's abort reason.
   */
  async run(signal: AbortSignal): Promise<void> {
    const stop = this.#deps.onMoved(() => this.#moved.notify());
    this.#moved.notify();
    try {
      for (;;) {
        await this.#moved.wait(signal);
        await this.#look(signal);
        await sleep(this.#deps.clock, PACE_MS, signal);
      }
    } finally {
      stop();
      this.#rest?.cancel();
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const range = this.#deps.range();
    if (range === undefined || range.to < range.from) {
      this.#forget();
      return;
    }
    const { anchor, known } = this.#anchor;
    const isBack = range.to < Math.max(anchor?.height ?? 0, known?.height ?? 0, this.#proven?.height ?? 0);
    // The store went back, or another spork began.
    if (range.to < (this.#final?.height ?? 0)) this.#reached(undefined);
    if (isBack || range.from > this.#from) this.#forget();
    this.#from = range.from;
    if (this.#rest !== undefined) return;
    if (this.#reason === NOTHING_YET) this.#reason = ASKING;
    try {
      this.#reason = await this.#prove(range, signal);
    } catch (error) {
      if (signal.aborted) throw abortReason(signal);
      this.#rested(error, range);
    }
  }

  /** Resolves with the reason why the newest blocks are not proven, if they should be. */
  async #prove(range: HeightRange, signal: AbortSignal): Promise<string | undefined> {
    await this.#anchor.compare();
    if (!this.#isProving) return undefined;
    if (this.#anchor.isOutdone(range)) this.#forget();
    if (this.#anchor.anchor === undefined) await this.#anchor.begin(range, signal);
    const { known } = this.#anchor;
    if (known === undefined) return undefined;
    const { to } = range;
    const lastView = lastViewOf(known.state);
    const head = this.#deps.head();
    const isAtTip = (head ?? to) - to <= TIP_LAG;
    const isWithin = (await this.#header(to)).view <= lastView;
    const sparse = isAtTip ? to : to - (to % SPARSE_HEIGHTS);
    const top = isWithin ? sparse : await this.#firstBeyond(lastView, known.height, to);
    const reason = await this.#check(known, top, head);
    if (reason !== undefined && this.#proven === undefined) await this.#checkBelow(known, top, head);
    if (isWithin || reason !== undefined) return reason ?? (isAtTip ? undefined : CATCHING_UP);
    this.#reason ??= ASKING;
    await this.#anchor.follow(known, this.#proven?.height ?? 0, signal);
    this.#moved.notify();
    return undefined;
  }

  /** Proves what a certificate in the block at `top`, or just below, can prove. Resolves with what is wrong with it. */
  async #check({ state, height }: KnownEpochs, top: number, head?: number): Promise<string | undefined> {
    const committeeAt = committeesIn(state);
    const { logger, metrics, thread } = this.#deps;
    let signers: Committee | undefined;
    const verify = async (certificate: Certificate): Promise<CertificateVerdict> => {
      signers = committeeAt(certificate.view);
      if (signers === undefined) return { valid: false, reason: 'its epoch is not known' };
      return thread.verify(certificate, signers);
    };
    const lowest = Math.max(height, (this.#proven?.height ?? -1) + 1, top - MAX_HEADERS + 1);
    const headers: StoredHeader[] = [];
    for (let next = top; next >= lowest; next--) {
      headers.unshift(await this.#header(next));
      const verdict = await provenFinal(headers, verify);
      if (verdict.kind === 'undecided') continue;
      // Blocks may still have to be caught up with, where few certificates count: a simulated chain has only those.
      if (verdict.kind === 'refused' && head === undefined) return 'the head is not known yet';
      if (verdict.kind === 'refused' && signers !== undefined) await this.#refuseNewSpork(verdict.height);
      metrics.quorumCertificates.inc({ result: verdict.kind === 'final' ? 'valid' : 'invalid' });
      if (verdict.kind === 'refused') {
        const { reason } = verdict;
        const rewindTo = this.#proven?.height ?? height;
        if (signers !== undefined) this.#failed = { height: verdict.height, rewindTo, reason };
        this.#warn({ height: verdict.height, reason }, 'a certificate of the chain is invalid');
        return `the certificate in block ${verdict.height} is invalid: ${reason}`;
      }
      const sealedHeight = await this.#sealedBy(verdict);
      if (this.#proven === undefined) logger.info({ height: verdict.height }, 'the chain is proven final');
      // All at once: what is said of it and what readers see must agree.
      this.#proven = verdict;
      this.#sealedHeight = sealedHeight;
      this.#failed = this.#unnamedSinceMs = undefined;
      this.#signers = signers;
      this.#hasWarned = false;
      this.#reached({ height: verdict.height, id: verdict.id, parentId: verdict.parentId });
      await this.#deps.keep?.(verdict.height);
      return undefined;
    }
    return undefined;
  }

  /**
   * Others sign from the root of a spork on, the only block without a certificate, and a node that moved there tells of it in its
   * next handshake. Expected errors: `NotProvenError` for a root; `StorageError`; `WireError`.
   */
  async #refuseNewSpork(height: number): Promise<void> {
    const lowest = Math.max(this.#proven?.height ?? this.#from, height - SPARSE_HEIGHTS);
    for (let at = height; at > lowest && this.#failed === undefined; at--) {
      if ((await this.#header(at)).parentVoterSigData.length > 0) continue;
      const nowMs = this.#deps.clock.monotonic();
      if (nowMs - (this.#unnamedSinceMs ??= nowMs) >= SPORK_NAMED_WITHIN_MS) return;
      this.#deps.askAgain();
      throw new NotProvenError(`a spork begins at ${at}, which no node has named yet`, AGAIN_MS);
    }
  }

  /**
   * The highest block that a block, or one below it, seals. Seals come in the order of the blocks that they are for, so the
   * newest block with any has the highest.
   */
  async #sealedBy({ height, id }: Pick<BlockHead, 'height' | 'id'>): Promise<number | undefined> {
    let newest: Identifier | undefined = id;
    for (let step = 1; newest !== undefined && step <= MAX_HEADERS; step++) {
      const sealed = await Promise.all(this.#deps.sealedBy(newest).map(this.#deps.heightOf));
      const known = sealed.filter((each) => each !== undefined);
      if (known.length > 0) return Math.max(this.#sealedHeight ?? 0, ...known);
      if (sealed.length > 0) break;
      newest = (await this.#deps.blockAt(height - step))?.id;
    }
    return this.#sealedHeight;
  }

  /** After a start above blocks that too few signed: what was proven before stays readable. */
  async #checkBelow(known: KnownEpochs, top: number, head?: number): Promise<void> {
    const failed = this.#failed;
    const provenHeight = () => this.#proven?.height;
    // Shared with the chain that was signed.
    await highestShared({ firstHeight: known.height + 1, differing: top }, async (height) => {
      const before = provenHeight();
      await this.#check(known, height, head);
      return provenHeight() !== before;
    });
    this.#failed = failed && { ...failed, rewindTo: provenHeight() ?? failed.rewindTo };
  }

  /** The lowest height above `within` whose view is beyond; that of `beyond` is, and views ascend. */
  async #firstBeyond(view: number, within: number, beyond: number): Promise<number> {
    while (beyond - within > 1) {
      const middle = Math.floor((within + beyond) / 2);
      const header = (await this.#deps.blockAt(middle))?.header;
      if (header !== undefined && header.view <= view) within = middle;
      else beyond = middle;
    }
    return beyond;
  }

  async #header(height: number): Promise<StoredHeader> {
    const block = await this.#deps.blockAt(height);
    if (block === undefined) throw new NotProvenError(`block ${height} cannot be read now`);
    if (block.header === undefined) throw new NotProvenError(`block ${height} itself is not proven`);
    return block.header;
  }

  /** Throws what is not expected. Whoever named a checkpoint counts on it, once blocks are caught up with that far. */
  #rested(error: unknown, { to }: HeightRange): void {
    const isKnown = error instanceof NotProvenError;
    if (!isKnown && ![CertificateThreadError, StorageError, WireError].some((type) => error instanceof type))
      throw error;
    const reason = (this.#reason = messageOf(error));
    const { head } = this.#deps;
    const isMissed =
      this.#checkpoint !== undefined && (this.#checkpoint <= to || this.#checkpoint > (head() ?? Infinity));
    if (!isKnown || isMissed) this.#warn({ reason }, 'finality cannot be proven now');
    const pauseMs = isKnown ? error.pauseMs : AGAIN_MS;
    if (pauseMs === undefined) return;
    this.#rest = this.#deps.clock.setTimer(pauseMs, () => {
      this.#rest = undefined;
      this.#moved.notify();
    });
  }

  #warn(fields: object, message: string): void {
    if (!this.#hasWarned) this.#deps.logger.warn(fields, message);
    this.#hasWarned = true;
  }

  #reached(block: BlockHead | undefined): void {
    this.#final = block;
    if (block === undefined) this.#sealedHeight = undefined;
    this.#onProven();
  }

  #forget(): void {
    this.#anchor.forget();
    this.#rest?.cancel();
    this.#rest = undefined;
    this.#proven = this.#signers = this.#failed = this.#sealedHeight = this.#unnamedSinceMs = undefined;
    this.#reason = NOTHING_YET;
  }
}
