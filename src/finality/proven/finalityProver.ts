import { highestShared } from '../../access/index.js';
import { WireError, type Identifier } from '../../flow/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import type { Metrics } from '../../observability/index.js';
import { CertificateThreadError, committeesIn, lastViewOf } from '../../proof/index.js';
import { provenFinal, weightOf } from '../../proof/index.js';
import type { Certificate, CertificateThread, CertificateVerdict } from '../../proof/index.js';
import type { Committee, StoredHeader } from '../../proof/index.js';
import { abortReason, messageOf, OperatorError, sleep } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { StorageError, type BlockHead, type HeightRange } from '../../storage/index.js';
import { AGAIN_MS, finalityAnchor, NAMED_BY } from './finalityAnchor.js';
import type { AnchorDependencies, Begun, KnownEpochs, NamedBlock } from './finalityAnchor.js';
import { NotProvenError } from './NotProvenError.js';

/** Less than the time between two blocks, so it delays nothing at the tip; while catching up, it bounds the work. */
const PACE_MS = 500;
/** How far below the newest block two blocks of consecutive views are sought: a network with more gaps hardly moves. */
const MAX_HEADERS = 16;
/** Heights behind the head that still count as following it. */
const TIP_LAG = 3;
/** While catching up, certificates are verified in blocks whose height is a multiple of this. */
const SPARSE_HEIGHTS = 1_000;
const CATCHING_UP = `while catching up, only every ${SPARSE_HEIGHTS}th certificate is verified`;
/** How long nodes may give blocks of a spork that they do not name, before its certificates count as invalid. */
const SPORK_NAMED_WITHIN_MS = 60_000;
/** Failures that are retried. */
const PASSING = [CertificateThreadError, StorageError, WireError];
const NOTHING_YET = 'this process has indexed no block yet, or does not follow the chain';
/** A node may take half a minute to answer. */
const ASKING = 'nodes are being asked who signs';

export interface FinalityProverDependencies extends AnchorDependencies {
  /**
   * Blocks that link, of one spork: nothing is signed across sporks. `undefined`: there are none, or this process does not
   * follow the chain.
   */
  readonly range: () => HeightRange | undefined;
  /** The blocks that the payload of a recent block seals; empty where unknown. */
  readonly sealedBy: (id: Identifier) => readonly Identifier[];
  /** The height of a stored block. Expected errors: `StorageError`. */
  readonly heightOf: (id: Identifier) => Promise<number | undefined>;
  /** The chain's head; `undefined` while unknown. */
  readonly head: () => number | undefined;
  /** Calls back when the range or the head has moved. Returns a function that unsubscribes. */
  readonly onMoved: (listener: () => void) => () => void;
  /** Keeps the height of a block that was proven final, for other processes. Expected errors: `StorageError`. */
  readonly keep?: ((height: number) => Promise<void>) | undefined;
  /** Identifies the nodes again: they may have moved to another spork. */
  readonly askAgain: () => void;
  readonly thread: Pick<CertificateThread, 'readState' | 'verify'>;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'quorumCertificates'>;
}

type Proven = Extract<Awaited<ReturnType<typeof provenFinal>>, { kind: 'final' }>;

/** What is known of a chain: forgotten when the store is rewound, or another spork begins. */
interface Found extends Partial<Begun> {
  /** Heights of named blocks that are stored and have the named ids. */
  readonly compared: Set<number>;
  /** The last block of a valid certificate, who signed it, and the highest block that it or one below seals. */
  proven?: Proven & { readonly signers: Committee | undefined; readonly sealedHeight: number | undefined };
  /** The newest certificate is invalid: what is stored above `rewindTo` may be of an unsigned chain. */
  failed?: { readonly height: number; readonly rewindTo: number; readonly reason: string } | undefined;
  /** Since when there are blocks of a spork that no node has named. */
  unnamedSinceMs?: number | undefined;
  /** Nothing is tried until it is due. */
  rest?: Timer | undefined;
}

export type FinalityProver = ReturnType<typeof finalityProver>;

/**
 * Proves that the stored chain is final: consensus nodes signed its newest blocks, and one certificate proves all blocks
 * below, those that arrived meanwhile included. It never delays indexing: its status says why anything is unproven.
 */
export function finalityProver(
  options: {
    /** Blocks that the configuration names, best first; see `finalityAnchor`. */
    readonly named: readonly NamedBlock[];
    /** False: blocks come without proofs, so named blocks are compared, and that is all. */
    readonly isProving: boolean;
  },
  dependencies: FinalityProverDependencies,
) {
  const { named, isProving } = options;
  const { blockAt, clock, logger, metrics, thread } = dependencies;
  const checkpoint = named.find(({ kind }) => kind === 'checkpoint')?.height;
  const { begin, follow, headerAt, namedIn } = finalityAnchor(named, dependencies);
  const moved = new WorkSignal();
  let found: Found = { compared: new Set() };
  /** The highest block that was proven final, also in an earlier spork; `undefined` once the store was rewound below. */
  let final: BlockHead | undefined;
  let notify: () => void = () => undefined;
  let reason: string | undefined = NOTHING_YET;
  /** The first height of the range that was last examined. */
  let lookedFrom = -1;
  let hasWarned = false;

  const warn = (fields: object, message: string): void => {
    if (!hasWarned) logger.warn(fields, message);
    hasWarned = true;
  };

  const reached = (block: BlockHead | undefined): void => {
    final = block;
    notify();
  };

  const forget = (): void => {
    found.rest?.cancel();
    found = { compared: new Set() };
    reason = NOTHING_YET;
  };

  const look = async (signal: AbortSignal): Promise<void> => {
    const range = dependencies.range();
    if (range === undefined || range.to < range.from) {
      forget();
      return;
    }
    const { anchor, known, proven } = found;
    const isBack = range.to < Math.max(anchor?.height ?? 0, known?.height ?? 0, proven?.height ?? 0);
    // The store was rewound, or another spork began.
    if (range.to < (final?.height ?? 0)) reached(undefined);
    if (isBack || range.from > lookedFrom) forget();
    lookedFrom = range.from;
    if (found.rest !== undefined) return;
    if (reason === NOTHING_YET) reason = ASKING;
    try {
      reason = await prove(range, signal);
    } catch (error) {
      if (signal.aborted) throw abortReason(signal);
      const isKnown = error instanceof NotProvenError;
      if (!isKnown && !PASSING.some((type) => error instanceof type)) throw error;
      reason = messageOf(error);
      const head = dependencies.head() ?? Infinity;
      // An operator who named a checkpoint relies on it, once the index has caught up to it.
      const isMissed = checkpoint !== undefined && (checkpoint <= range.to || checkpoint > head);
      if (!isKnown || isMissed) warn({ reason }, 'finality cannot be proven now');
      const pauseMs = isKnown ? error.pauseMs : AGAIN_MS;
      if (pauseMs === undefined) return;
      found.rest = clock.setTimer(pauseMs, () => {
        found.rest = undefined;
        moved.notify();
      });
    }
  };

  /** Compares every named block that is stored, wherever. Expected errors: OperatorError (`foreign`); `StorageError`. */
  const compare = async (): Promise<void> => {
    for (const { height, id, kind } of named.filter((block) => !found.compared.has(block.height))) {
      const stored = (await blockAt(height))?.id;
      if (stored === id) found.compared.add(height);
      else if (stored !== undefined)
        throw new OperatorError(
          'foreign',
          `Block ${height} has the id ${stored}, but ${NAMED_BY[kind]} names ${id}: the nodes or the store belong to another chain, or what names it is wrong. Correct it, or index from other nodes into another directory.`,
        );
    }
  };

  /** Resolves with the reason why the newest blocks are not proven, if they should be. */
  const prove = async (range: HeightRange, signal: AbortSignal): Promise<string | undefined> => {
    await compare();
    if (!isProving) return undefined;
    // The last block of the spork, if it is stored by now, is a better anchor than the nodes' report.
    if (found.anchor?.kind === 'first_use' && namedIn(range, 'spork_table') !== undefined) forget();
    if (found.anchor === undefined) Object.assign(found, await begin(range, signal));
    const { known } = found;
    if (known === undefined) return undefined;
    const { to } = range;
    const lastView = lastViewOf(known.state);
    const head = dependencies.head();
    const isAtTip = (head ?? to) - to <= TIP_LAG;
    const isWithin = (await headerAt(to)).view <= lastView;
    let top = isAtTip ? to : to - (to % SPARSE_HEIGHTS);
    // Above the last block of the epochs that are known: views ascend.
    if (!isWithin) {
      const isKnown = async (height: number) =>
        ((await blockAt(height))?.header?.view ?? Infinity) <= lastView;
      top =
        ((await highestShared({ firstHeight: known.height, differing: to }, isKnown)) ?? known.height) + 1;
    }
    // Whoever signs next depends on it: no later block will prove these.
    const wrong = await check(known, top, head, isWithin ? MAX_HEADERS : SPARSE_HEIGHTS);
    if (wrong !== undefined && found.proven === undefined) await checkBelow(known, top, head);
    if (isWithin || wrong !== undefined) return wrong ?? (isAtTip ? undefined : CATCHING_UP);
    reason ??= ASKING;
    found.known = await follow(known, found.proven?.height ?? 0, signal);
    moved.notify();
    return undefined;
  };

  /** Proves what a certificate in the block at `top`, or just below, can prove. Resolves with what is wrong with it. */
  const check = async (
    { state, height }: KnownEpochs,
    top: number,
    head: number | undefined,
    mostHeaders = MAX_HEADERS,
  ): Promise<string | undefined> => {
    const committeeAt = committeesIn(state);
    let signers: Committee | undefined;
    const verify = async (certificate: Certificate): Promise<CertificateVerdict> => {
      signers = committeeAt(certificate.view);
      if (signers === undefined) return { valid: false, reason: 'its epoch is not known' };
      return thread.verify(certificate, signers);
    };
    const lowest = Math.max(height, (found.proven?.height ?? -1) + 1, top - mostHeaders + 1);
    let headers: readonly StoredHeader[] = [];
    for (let next = top; next >= lowest; next--) {
      // What is above these three has decided nothing.
      headers = [await headerAt(next), ...headers].slice(0, 3);
      const verdict = await provenFinal(headers, verify);
      if (verdict.kind === 'undecided') continue;
      // The index may still be catching up, where few certificates count: a simulated chain has only those.
      if (verdict.kind === 'refused' && head === undefined) return 'the head is not known yet';
      if (verdict.kind === 'refused' && signers !== undefined) await refuseNewSpork(verdict.height);
      metrics.quorumCertificates.inc({ result: verdict.kind === 'final' ? 'valid' : 'invalid' });
      if (verdict.kind === 'refused') {
        const { height: refused, reason: why } = verdict;
        const rewindTo = found.proven?.height ?? height;
        if (signers !== undefined) found.failed = { height: refused, rewindTo, reason: why };
        warn({ height: refused, reason: why }, 'a certificate of the chain is invalid');
        return `the certificate in block ${refused} is invalid: ${why}`;
      }
      const sealedHeight = await sealedAt(verdict);
      if (found.proven === undefined) logger.info({ height: verdict.height }, 'the chain is proven final');
      // All at once: the status and what readers see must agree.
      found.proven = { ...verdict, signers, sealedHeight };
      found.failed = found.unnamedSinceMs = undefined;
      hasWarned = false;
      reached({ height: verdict.height, id: verdict.id, parentId: verdict.parentId });
      await dependencies.keep?.(verdict.height);
      return undefined;
    }
    return undefined;
  };

  /**
   * From the root of a spork on, the only block without a certificate, another committee signs; a node that moved there
   * names the spork in its next handshake. Expected errors: `NotProvenError` for a root; `StorageError`; `WireError`.
   */
  const refuseNewSpork = async (height: number): Promise<void> => {
    const lowest = Math.max(found.proven?.height ?? lookedFrom, height - SPARSE_HEIGHTS);
    for (let at = height; at > lowest && found.failed === undefined; at--) {
      if ((await headerAt(at)).parentVoterSigData.length > 0) continue;
      const nowMs = clock.monotonic();
      if (nowMs - (found.unnamedSinceMs ??= nowMs) >= SPORK_NAMED_WITHIN_MS) return;
      dependencies.askAgain();
      throw new NotProvenError(`a spork begins at ${at}, which no node has named yet`, AGAIN_MS);
    }
  };

  /**
   * The highest block that a block, or one below it, seals. Seals are in the order of their blocks, so the newest block
   * with any has the highest.
   */
  const sealedAt = async ({ height, id }: Proven): Promise<number | undefined> => {
    const before = found.proven?.sealedHeight;
    let newest: Identifier | undefined = id;
    for (let step = 1; newest !== undefined && step <= MAX_HEADERS; step++) {
      const sealed = await Promise.all(dependencies.sealedBy(newest).map(dependencies.heightOf));
      const known = sealed.filter((each) => each !== undefined);
      if (known.length > 0) return Math.max(before ?? 0, ...known);
      if (sealed.length > 0) break;
      newest = (await blockAt(height - step))?.id;
    }
    return before;
  };

  /** After a start above blocks that too few signed: what was proven before stays readable. */
  const checkBelow = async (known: KnownEpochs, top: number, head: number | undefined): Promise<void> => {
    const { failed } = found;
    // The highest height shared with the chain that was signed.
    await highestShared({ firstHeight: known.height + 1, differing: top }, async (height) => {
      const before = found.proven;
      await check(known, height, head);
      return found.proven !== before;
    });
    found.failed = failed && { ...failed, rewindTo: found.proven?.height ?? failed.rewindTo };
  };

  return {
    /** What finality rests on, and how far it is proven. */
    status: () => {
      const { anchor, failed, known, proven } = found;
      const committee = proven?.signers ?? known?.state.current.committee;
      return {
        anchor,
        /** All blocks below follow by hash. */
        provenHeight: proven?.height ?? (anchor?.kind === 'spork_table' ? anchor.height : undefined),
        /** Who signed the last valid certificate, or signs at the anchor. */
        committee: committee && {
          epoch: committee.epoch,
          members: committee.members.length,
          weight: weightOf(committee),
        },
        /** `height` and `view` are those of the block that it is for: the child of the proven one. */
        latestCertificate: proven?.certificate,
        /** Why nothing more is proven; `undefined` while all is that can be. */
        reason,
        failed,
      };
    },
    /** The block up to which readers that see only proven blocks may read. */
    finalBlock: () => final,
    /**
     * The highest block whose seal is in the payload of a block that is proven final; `undefined`: not known, because no
     * seal was seen since the start, or because the sealed blocks are not stored.
     */
    sealedHeight: () => found.proven?.sealedHeight,
    /** Calls back when `finalBlock` has changed. One listener. */
    onProven: (listener: () => void): void => {
      notify = listener;
    },
    /**
     * Runs until the signal aborts. Expected errors: OperatorError (`foreign`) when a named block is not of our chain; the
     * signal's abort reason.
     */
    run: async (signal: AbortSignal): Promise<void> => {
      const stop = dependencies.onMoved(() => moved.notify());
      moved.notify();
      try {
        for (;;) {
          await moved.wait(signal);
          await look(signal);
          await sleep(clock, PACE_MS, signal);
        }
      } finally {
        stop();
        found.rest?.cancel();
      }
    },
  };
}
