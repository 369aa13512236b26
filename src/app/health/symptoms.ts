import type { NodeTrouble } from '../../access/index.js';
import type { ChainTrouble } from '../../finality/index.js';
import { formatDuration } from '../../observability/index.js';
import { finalBlock } from '../threads/readableIndex.js';
import type { DaemonState } from './DaemonState.js';
import { describeTroubles, lineHeldUp } from './heldUp.js';
import type { HeldUp } from './heldUp.js';

/** Ids named at most in one message: a block may lack a thousand. */
const UNRESOLVABLE_IDS_NAMED = 3;

/** A message about one height. */
interface AtHeight {
  readonly height: number;
  readonly message: string;
}

/** What the diagnosis asks of the daemon. */
export type Symptoms = ReturnType<typeof symptomsOf>;

/** Reads the symptoms from the parts. Every answer is immediate: no waiting, no store, no network. */
export function symptomsOf(state: DaemonState) {
  const { config, parts } = state;
  const { clock, descriptors, diskWatch, leaderWatch, listener, network, prover, readers, store } = parts;

  /** What does not fit, which nodes sent it, and how to fix it. */
  const chainTrouble = (trouble: ChainTrouble | undefined): AtHeight | undefined => {
    if (trouble === undefined) return undefined;
    const { height, what, fix } = trouble;
    const words = describeTroubles(state.line?.blocks.heldUpBy()?.troubles ?? [], clock);
    return { height, message: words === '' ? `${what}: ${fix}` : `${what}: ${words}; ${fix}` };
  };

  /** What a height that is not durable waits for. */
  const heldUpAt = (height: number): HeldUp | undefined =>
    state.line && lineHeldUp(height, state.line, { ediOnly: config.ediOnly, ...parts });

  return {
    phase: () => state.phase,
    /** The first height of the store; `undefined` until it is decided. */
    firstHeight: () => store.meta()?.firstHeight,
    latestIndexedHeight: () => store.latestIndexedHeight(),
    /** The finalized head as reported last; `undefined` until a node reports it. */
    headHeight: () => listener.finalizedHeight(),
    /** The head, or the stop height where that is lower. */
    target: () => parts.window.target(),
    sealedHeight: () => listener.sealedHeight(),
    /** Since any node reported the finalized head, moved or not; `undefined` before the first report. */
    headAnswerAgeMs: () => listener.lastAnswerAgeMs(),
    /** Since the finalized head moved. */
    headAgeMs: () => listener.lastAdvanceAgeMs(),
    /** Since the sealed head moved. */
    sealedAgeMs: () => listener.sealedAdvanceAgeMs(),
    /** Who gives the chain, in one word or two. */
    source: (): string => network.heights.source,
    /** Why nodes are not identified. */
    identityTroubles: (): readonly NodeTrouble[] => network.identityTroubles(),
    /** Why no finalized head is reported. */
    headTroubles: (): readonly NodeTrouble[] => listener.headTroubles(),
    /** The nodes serve another chain than the stored one. */
    chainReplaced: (): { readonly message: string } | undefined => network.chain.chainReplaced(),
    /** The nodes' head is far below what is indexed. */
    headBehind: () => network.chain.headBelow(),
    parentMismatch: () => chainTrouble(state.line?.blocks.parentMismatch()),
    missingSporkEnd: () => chainTrouble(state.line?.blocks.missingSporkEnd()),

    /** A reported spork that is not confirmed, and that the next block waits for. */
    undecidedSpork: (): AtHeight | undefined => {
      const block = state.line?.blocks.heldUpBy();
      const spork = block?.isUnserved === true ? network.heights.undecidedSporkAt(block.height) : undefined;
      if (block === undefined || spork === undefined) return undefined;
      const { awaited, rootHeight, tellers } = spork;
      const reporters = tellers.join(', ');
      return {
        height: block.height,
        message:
          `a spork at height ${rootHeight} is reported by ${reporters} but is not in config/sporks.json, and it is not known yet whether ` +
          `the chain continues there without one (asked: ${awaited.join(', ')}). If there is such a spork, confirm it with ` +
          `--access-spork-root ${rootHeight}; if not, leave out --access-node ${reporters}`,
      };
    },

    unresolvable: (): AtHeight | undefined => {
      const found = state.line?.explainer.unresolvable(config.requester.unresolvableAfterMs) ?? [];
      const [lowest] = found;
      if (lowest === undefined) return undefined;
      const named = lowest.ids.slice(0, UNRESOLVABLE_IDS_NAMED).join(', ');
      const unnamed = lowest.ids.length - UNRESOLVABLE_IDS_NAMED;
      const ids = unnamed > 0 ? `${named} and ${unnamed} more` : named;
      const others = found.length > 1 ? `; ${found.length - 1} more heights as well` : '';
      const { height, ageMs } = lowest;
      const why = heldUpAt(height)?.message ?? '';
      const message = `height ${height} has lacked collection ${ids} for ${formatDuration(ageMs / 1000)} (${why})${others}`;
      return { height, message };
    },

    /** What the lowest missing height waits for; `undefined` when there is none. */
    heldUp: (): HeldUp | undefined => {
      const height = store.latestIndexedHeight() + 1;
      if (state.line === undefined || height > (parts.window.target() ?? -1)) return undefined;
      const trouble = store.trouble?.();
      // Without the database nothing continues, whatever else is wrong.
      if (trouble !== undefined) return { height, message: trouble, code: 'database_unreachable' };
      return heldUpAt(height);
    },

    /** Monotonic milliseconds at which the batch in hand was given to the store; `undefined` when none is. */
    commitStartedAtMs: () => state.line?.indexer.commitStartedAtMs(),
    /** Why a database does not answer, of those that hold the index and the work; `undefined` if there is none. */
    database: (): { readonly trouble: string | undefined } | undefined =>
      store.trouble && { trouble: store.trouble() ?? parts.queue?.trouble() ?? parts.replica?.trouble?.() },

    /** What readers may read at most, and why not more; `undefined` where they may read what is indexed. */
    provenOnly: (): { readonly to: number; readonly reason: string | undefined } | undefined => {
      if (config.proof.finality === 'reported') return undefined;
      const reason =
        prover === undefined
          ? 'the process that follows the chain proves it, and has proven nothing more'
          : prover.status().reason;
      return { to: finalBlock(parts)?.height ?? -1, reason };
    },

    /** The nodes gave a chain that consensus nodes did not sign. */
    proofFailed: (): AtHeight | undefined => {
      const failed = prover?.status().failed;
      if (failed === undefined) return undefined;
      const { height, reason, rewindTo } = failed;
      const message = `the certificate in block ${height} is invalid: ${reason}; the chain is proven up to ${rewindTo}: rewind to that height, and name nodes that follow the chain`;
      return { height, message };
    },

    /** No process indexes the live range; `undefined` while one does, this one or another. */
    leaderLost: () => leaderWatch.lost(),
    /** Readers are not served, though they should be. */
    readerDown: () => readers?.down(),
    /** `undefined` while not known. */
    disk: () => diskWatch.disk(),
    /** Why writing is paused for lack of space; `undefined` while it is not. */
    paused: (): { readonly message: string } | undefined => diskWatch.pause(),
    /** Why nothing can be opened; `undefined` while it can. */
    outOfDescriptors: () => descriptors.trouble(),
  };
}
