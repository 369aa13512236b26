import type { NodeTrouble, ServedHeights } from '../../access/index.js';
import type { HeightExplanation, HeldUpHeight } from '../../collections/index.js';
import type { FinalizationListener, HeldUpBlock } from '../../finality/index.js';
import { formatDuration } from '../../observability/index.js';
import type { ReadinessCode } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import type { IndexingLine } from '../line/buildLine.js';
import { codeOf, describeTroubles, timeOf } from './describeTroubles.js';

/** What the lowest missing height waits for, and what keeps that from coming. */
export interface HeldUp {
  readonly height: number;
  /** What it waits for, and after a colon, if known, why that does not come. */
  readonly message: string;
  /** `undefined` while no fault is known: it may just be early. */
  readonly code: ReadinessCode | undefined;
  /** `complete`: nothing is missing, and only the store is waited for. `unserved`: there is no node to ask. */
  readonly because?: 'complete' | 'unserved';
}

/** What the parts of the indexing line know about the lowest missing height. */
export interface HeldUpFacts {
  /** The lowest height that is at or below the head and not durable. */
  readonly height: number;
  /** Monotonic milliseconds at which the batch in hand was given to the disk; `undefined` when none is. */
  readonly commitStartedAtMs: number | undefined;
  /** `undefined` if the store is on a disk of this machine. */
  readonly database: { readonly trouble: string | undefined } | undefined;
  /** Why nothing is written now; `undefined` while there is room. */
  readonly paused: string | undefined;
  /** Why nothing can be opened; `undefined` while it can. */
  readonly outOfDescriptors: string | undefined;
  /** The stage that the height has reached. */
  readonly stage: HeightExplanation['stage'];
  /** The next missing block and its troubles; if no node serves it, where each node begins. */
  readonly block: HeldUpBlock | undefined;
  /** What the height lacks; `undefined` unless it is collecting. */
  readonly collections: HeldUpHeight | undefined;
  readonly executionData: {
    /** Collections are not requested. */
    readonly isOnlySource: boolean;
    /** Why it does not come, in one sentence; `undefined` while nothing is wrong. */
    readonly trouble: string | undefined;
    readonly troubles: readonly NodeTrouble[];
  };
  /** Who gives the chain. */
  readonly source: string;
  /** Why no peer sends it, in one sentence; `undefined` without peers, and while nothing is wrong. */
  readonly peerTrouble: string | undefined;
  readonly sealedHeight: number | undefined;
  /** Monotonic milliseconds at which the sealed head moved last. */
  readonly sealedAtMs: number | undefined;
  readonly sealedTroubles: readonly NodeTrouble[];
}

/** What the lowest missing height of a line waits for, in the live range or another. */
export function lineHeldUp(
  height: number,
  line: IndexingLine,
  {
    ediOnly,
    network,
    listener,
    store,
    diskWatch,
    descriptors,
    clock,
  }: {
    readonly ediOnly: boolean;
    readonly network: { readonly heights: Pick<ServedHeights, 'source' | 'whyUnserved'> };
    readonly listener: Pick<FinalizationListener, 'sealedHeight' | 'sealedAdvanceAgeMs' | 'sealedTroubles'>;
    readonly store: Pick<IndexStore, 'trouble'>;
    readonly diskWatch: { pause(): { readonly message: string } | undefined };
    readonly descriptors: { trouble(): string | undefined };
    readonly clock: Clock;
  },
): HeldUp {
  const sealedAgeMs = listener.sealedAdvanceAgeMs();
  const block = line.blocks.heldUpBy();
  return heldUpBy(
    {
      height,
      database: store.trouble && { trouble: store.trouble() },
      paused: diskWatch.pause()?.message,
      outOfDescriptors: descriptors.trouble(),
      stage: line.explainer.explain(height).stage,
      commitStartedAtMs: line.indexer.commitStartedAtMs(),
      block:
        block?.isUnserved === true
          ? { ...block, troubles: network.heights.whyUnserved(block.height) }
          : block,
      collections: line.explainer.heldUpBy(height),
      executionData: {
        isOnlySource: ediOnly,
        trouble: line.edi?.trouble(),
        troubles: line.edi?.troubles() ?? [],
      },
      source: network.heights.source,
      peerTrouble: line.peer?.trouble(),
      sealedHeight: listener.sealedHeight(),
      sealedAtMs: sealedAgeMs === undefined ? undefined : clock.monotonic() - sealedAgeMs,
      sealedTroubles: listener.sealedTroubles(),
    },
    clock,
  );
}

/**
 * What holds up the lowest missing height: the store, its block, or its collections. Only this function decides it;
 * `/readyz`, `/status`, `explain` and the log all use it.
 */
export function heldUpBy(facts: HeldUpFacts, clock: Clock): HeldUp {
  const { height, stage } = facts;
  if (stage === 'committing' || stage === 'indexed') return heldUpByStore(facts, clock);
  if (stage === 'collecting') {
    return facts.executionData.isOnlySource ? heldUpByFeed(facts, clock) : heldUpByCollections(facts, clock);
  }
  const { block, source } = facts;
  if (block === undefined) return { height, message: `waiting for block ${height}`, code: undefined };
  const what = `waiting for block ${block.height}`;
  if (block.isUnserved) {
    const none = `${what}: no ${source} serves that height`;
    const { message, code = 'upstream_refusing' } = because(none, block.troubles, clock);
    return { height, message, code, because: 'unserved' };
  }
  return { height, ...because(what, block.troubles, clock) };
}

function heldUpByStore(facts: HeldUpFacts, clock: Clock): HeldUp {
  const { height, commitStartedAtMs, database, outOfDescriptors, paused } = facts;
  if (database?.trouble !== undefined)
    return {
      height,
      message: `height ${height} is complete; ${database.trouble}`,
      code: 'database_unreachable',
    };
  if (outOfDescriptors !== undefined)
    return { height, message: `height ${height} is complete; ${outOfDescriptors}`, code: 'descriptors_low' };
  if (commitStartedAtMs === undefined && paused !== undefined)
    return { height, message: `height ${height} is complete, and ${paused}`, code: 'disk_low' };
  if (commitStartedAtMs === undefined)
    return { height, message: `writing height ${height}`, code: undefined, because: 'complete' };
  const seconds = Math.floor((clock.monotonic() - commitStartedAtMs) / 1000);
  const message = `the ${database === undefined ? 'disk' : 'database'} has been writing one batch for ${seconds} s; height ${height} waits for it`;
  return { height, message, code: 'store_stalled' };
}

function heldUpByCollections(
  { height, collections, executionData, peerTrouble }: HeldUpFacts,
  clock: Clock,
): HeldUp {
  const { missing = 0, of = 0, troubles = [], heldBack = [] } = collections ?? {};
  const what = `waiting for ${missing} of ${of} collections of height ${height}`;
  if (troubles.length === 0 && heldBack.length > 0) {
    const limits = heldBack.map(
      ({ node, untilMs }) => `rate-limited by ${node} until ${timeOf(untilMs, clock)}`,
    );
    return { height, message: `${what}: ${limits.join('; ')}`, code: 'upstream_refusing' };
  }
  const { message, code } = because(what, troubles, clock);
  const besides = [executionData.trouble, peerTrouble].filter((words) => words !== undefined);
  return { height, message: [message, ...besides].join('; '), code };
}

function heldUpByFeed(facts: HeldUpFacts, clock: Clock): HeldUp {
  const { height, executionData, sealedHeight, sealedAtMs, sealedTroubles } = facts;
  if (sealedHeight === undefined || sealedHeight < height) {
    const age =
      sealedAtMs === undefined
        ? ''
        : `, has not moved for ${formatDuration((clock.monotonic() - sealedAtMs) / 1000)}`;
    const sealed =
      sealedHeight === undefined
        ? 'no node has reported its sealed head'
        : `the sealed head, ${sealedHeight}${age}`;
    const words = describeTroubles(sealedTroubles, clock);
    const why = words === '' ? '' : `: ${words}`;
    return {
      height,
      message: `waiting for height ${height} to be sealed; ${sealed}${why}`,
      code: 'edi_unavailable',
    };
  }
  const what = `waiting for the execution data of height ${height}`;
  const { message } = because(what, executionData.troubles, clock);
  const isKnown = executionData.troubles.length > 0 || executionData.trouble !== undefined;
  const reason = executionData.troubles.length > 0 ? undefined : executionData.trouble;
  const words = reason === undefined ? message : `${message}; ${reason}`;
  return { height, message: words, code: isKnown ? 'edi_unavailable' : undefined };
}

function because(
  what: string,
  troubles: readonly NodeTrouble[],
  clock: Clock,
): { readonly message: string; readonly code: ReadinessCode | undefined } {
  if (troubles.length === 0) return { message: what, code: undefined };
  return { message: `${what}: ${describeTroubles(troubles, clock)}`, code: codeOf(troubles) };
}
