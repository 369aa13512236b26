import type { NodeTrouble } from '../../../access/index.js';
import type { HeldUp } from './heldUp.js';

/** What the diagnosis asks of the daemon. Every answer must be immediate: no waiting, no store, no network. */
export interface Symptoms {
  phase(): 'starting' | 'running' | 'stopping';
  /** The first height of the store; `undefined` until it is decided. */
  firstHeight(): number | undefined;
  latestIndexedHeight(): number;
  /** The finalized head as reported last; `undefined` until a node reports it. */
  headHeight(): number | undefined;
  /** The head, or the stop height where that is lower. */
  target(): number | undefined;
  sealedHeight(): number | undefined;
  /** Since any node reported the finalized head, moved or not; `undefined` before the first report. */
  headAnswerAgeMs(): number | undefined;
  /** Since the finalized head moved. */
  headAgeMs(): number | undefined;
  /** Since the sealed head moved. */
  sealedAgeMs(): number | undefined;
  /** Who gives the chain, in one word or two. */
  giver(): string;
  /** Why nodes are not identified. */
  identityTroubles(): readonly NodeTrouble[];
  /** Why no finalized head is reported. */
  headTroubles(): readonly NodeTrouble[];
  /** The nodes serve another chain than the stored one. */
  chainReplaced(): { readonly message: string } | undefined;
  /** The nodes' head is far below what is indexed. */
  headBehind(): { readonly head: number; readonly watermark: number } | undefined;
  parentMismatch(): { readonly height: number; readonly message: string } | undefined;
  missingSporkEnd(): { readonly height: number; readonly message: string } | undefined;
  undecidedSpork(): { readonly height: number; readonly message: string } | undefined;
  unresolvable(): { readonly height: number; readonly message: string } | undefined;
  /** What the lowest missing height waits for; `undefined` when there is none. */
  heldUp(): HeldUp | undefined;
  /** Monotonic milliseconds at which the batch in hand was given to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined;
  /** Why the database that holds the index does not answer; `undefined` if there is no database. */
  database(): { readonly trouble: string | undefined } | undefined;
  /** No process indexes the live range; `undefined` while one does, this one or another. */
  leaderLost(): { readonly message: string } | undefined;
  /** What readers may read at most, and why not more; `undefined` where they may read what is indexed. */
  provenOnly(): { readonly to: number; readonly reason: string | undefined } | undefined;
  /** The nodes gave a chain that consensus nodes did not sign. */
  proofFailed(): { readonly height: number; readonly message: string } | undefined;
  /** Readers are not served, though they should be. */
  readerDown(): { readonly message: string } | undefined;
  /** `undefined` while not known. */
  disk(): { readonly freeBytes: number; readonly sizeBytes: number } | undefined;
  /** Why writing is paused for lack of space; `undefined` while it is not. */
  paused(): { readonly message: string } | undefined;
  /** Why nothing can be opened; `undefined` while it can. */
  outOfDescriptors(): string | undefined;
}
