import type { AccessNode, Giver } from '../../access/index.js';
import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { BlockJob } from '../../jobqueue/index.js';
import type { BlockVerdict, ReceivedCollection, Source } from '../ports.js';
import type { GuaranteeVotes } from './GuaranteeVotes.js';
import type { WantedCollection } from './WantedCollection.js';

/**
 * Where a height stands. `linked`: its block is known, and links. `collecting`: handed out, lacks collections.
 * `complete`: has all of them. `committing`: in the batch that is being written. `durable`: on disk, perhaps above
 * the watermark.
 */
export type HeightStatus = 'linked' | 'collecting' | 'complete' | 'committing' | 'durable';

/** The life of a height. What is not named here does not happen. */
export const NEXT_STATUSES: Readonly<Record<HeightStatus, readonly HeightStatus[]>> = {
  // An earlier process may have made it durable; the collections of a block may come along with it, or be none.
  linked: ['collecting', 'complete', 'durable'],
  collecting: ['complete'],
  // It may turn out to be durable when its turn comes.
  complete: ['committing', 'durable'],
  committing: ['durable'],
  durable: [],
};

/** What must hold of a height that enters a status, in words. */
const PROMISES: Readonly<
  Record<HeightStatus, readonly [what: string, holds: (record: HeightRecord) => boolean]>
> = {
  linked: ['has a block', () => true],
  collecting: ['lacks a collection', ({ missingCount }) => missingCount > 0],
  complete: ['lacks nothing', ({ missingCount }) => missingCount === 0],
  committing: [
    'has as many collections as guarantees',
    ({ block, commit }) => commit?.collections.length === block.collectionIds.length,
  ],
  durable: ['lacks nothing', ({ missingCount }) => missingCount === 0],
};

/** Which source gave the last missing collection of a height; `none` for a block without collections. */
export type CompletionSource = Source | 'none';

/** What the requester keeps of a height. */
export interface HeightRequests {
  /** Ids that may be asked for now, oldest wish first; an id stands at its lowest height only. */
  readonly askable: Set<WantedCollection>;
  /** Calls under way for it. */
  workers: number;
  held: boolean;
  /** Set by the first hold: no hold of this height lasts longer. */
  holdEndsAtMs: number | undefined;
}

/** Why the guarantees of a block are in doubt, and what the nodes say. */
export interface Dispute {
  /** Nodes whose execution data does not match, and how; by name. */
  readonly accused: Map<string, { readonly node: AccessNode; readonly detail: string }>;
  /** What came of asking the nodes again for the block, so many times, and when that is due again. */
  verdict: BlockVerdict | undefined;
  reviews: number;
  nextReviewAtMs: number | undefined;
  votes: GuaranteeVotes | undefined;
}

/** A complete height on its way to the disk. */
export interface Commit {
  readonly record: HeightRecord;
  readonly block: FinalizedBlock;
  readonly collections: readonly VerifiedCollection[];
  readonly bytes: number;
  readonly promise: Promise<boolean>;
  resolve(written: boolean): void;
  reject(error: Error): void;
}

/**
 * All that is known of one height of the window, from the moment its block links until the watermark has passed it.
 * `moveTo` is the only way from one status to the next. Each part of the line writes its own fields: the queue what
 * is missing and received, the requester `requests`, the indexer `commit`.
 */
export class HeightRecord implements BlockJob<FinalizedBlock> {
  readonly height: number;
  #status: HeightStatus = 'linked';
  #block: FinalizedBlock;
  /** Who gave the block; `undefined`: nobody is held responsible for it. */
  giver: Giver | undefined;
  /** Monotonic milliseconds at which the height was handed out; a replaced block keeps it. */
  queuedAtMs = 0;
  /** The job's own completion, kept here for whoever makes the height durable. */
  done: () => void = notHandedOut;
  /**
   * One slot per guarantee, in guarantee order. A slot is empty while its collection is missing, and the second and
   * later slots of an id that the block lists more than once stay empty for good.
   */
  received: (ReceivedCollection | undefined)[] = [];
  /** Distinct ids that are still missing. */
  missingCount = 0;
  /** The block lists an id more than once. */
  repeats = false;
  /** Source of the latest collection taken. Once the height is complete: of the last missing one. */
  source: CompletionSource = 'none';
  /** Bytes of what was received; `HeightTable.count` counts them. */
  bytes = 0;
  /** `undefined` until it is asked for. */
  requests: HeightRequests | undefined;
  /** `undefined` while the block is not in doubt. */
  dispute: Dispute | undefined;
  /** From the moment it is handed to the indexer. */
  commit: Commit | undefined;

  constructor(block: FinalizedBlock, giver?: Giver) {
    this.giver = giver;
    this.height = block.height;
    this.#block = block;
  }

  /** As a job. */
  get id(): string {
    return String(this.height);
  }

  get status(): HeightStatus {
    return this.#status;
  }

  get block(): FinalizedBlock {
    return this.#block;
  }

  /** Handed out, and not durable. */
  get isInHand(): boolean {
    return this.#status !== 'linked' && this.#status !== 'durable';
  }

  /** The one place where a height changes its status; `HeightTable.move` calls it, and counts. */
  moveTo(status: HeightStatus): void {
    const [what, holds] = PROMISES[status];
    if (!NEXT_STATUSES[this.#status].includes(status))
      throw new Error(`height ${this.height} went from ${this.#status} to ${status}`);
    if (!holds(this)) throw new Error(`height ${this.height} went to ${status}: not one that ${what}`);
    this.#status = status;
  }

  /** Another block may take the place of one that is not complete: nothing was made of it that cannot be undone. */
  get mayBeReplaced(): boolean {
    return this.#status === 'linked' || this.#status === 'collecting';
  }

  /** Puts another block in the place of the one held. */
  replaceBlock(block: FinalizedBlock, giver: Giver | undefined): void {
    if (!this.mayBeReplaced || block.height !== this.height)
      throw new Error(`height ${this.height} is ${this.#status}: its block stays`);
    this.#block = block;
    this.giver = giver;
  }

  /** All collections in guarantee order, repeated ids repeated. Only for a height that lacks none. */
  collections(): VerifiedCollection[] {
    if (this.missingCount > 0) throw new Error(`height ${this.height} still lacks collections`);
    const collections: VerifiedCollection[] = [];
    const repeated = this.repeats ? this.receivedById() : undefined;
    for (const [slot, id] of this.#block.collectionIds.entries()) {
      const received = this.received[slot] ?? repeated?.get(id);
      if (received === undefined) throw new Error(`complete height ${this.height} has an empty slot ${slot}`);
      collections.push(received.collection);
    }
    return collections;
  }

  receivedById(): Map<Identifier, ReceivedCollection> {
    const byId = new Map<Identifier, ReceivedCollection>();
    for (const received of this.received) {
      if (received !== undefined) byId.set(received.collection.id, received);
    }
    return byId;
  }
}

function notHandedOut(): never {
  throw new Error('a height was done that was never handed out');
}
