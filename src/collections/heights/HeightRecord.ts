import type { BlockSource } from '../../access/index.js';
import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { BlockJob } from '../../jobqueue/index.js';
import type { ReceivedCollection, Source } from '../ports.js';
import type { WantedCollection } from './WantedCollection.js';

/**
 * The states of a height, in their order; it may skip some. `linked`: its block is known, and links. `collecting`: handed
 * out, lacks collections. `complete`: has all of them. `durable`: on disk, perhaps above the watermark.
 */
const STATUSES = ['linked', 'collecting', 'complete', 'durable'] as const;
export type HeightStatus = (typeof STATUSES)[number];

/** Which source gave the last missing collection of a height; `none` for a block without collections. */
type CompletionSource = Source | 'none';

export interface HeightRequests {
  /** Collections that may be requested now, oldest first. */
  readonly askable: Set<WantedCollection>;
  workers: number;
  /** Set by the first hold: no hold of this height lasts longer. */
  holdEndsAtMs: number | undefined;
}

/**
 * Everything known about one block of the window, from the moment it links until the watermark has passed its height, or
 * another block has taken its place. Only `moveTo` changes the status. Each part of the line writes its own fields: the queue
 * what is missing and received, the requester `requests`, the indexer `commit`.
 */
export class HeightRecord implements BlockJob<FinalizedBlock> {
  readonly height: number;
  readonly block: FinalizedBlock;
  #status: HeightStatus = 'linked';
  /** What gave the block; `undefined` if no node is held responsible. */
  blockSource: BlockSource | undefined;
  /** Monotonic milliseconds at which the height was handed out; unchanged when the block is replaced. */
  queuedAtMs = 0;
  /** The job's completion callback, to be called when the height is durable. */
  done = (): void => {
    throw new Error('a height was done that was never handed out');
  };
  /** What has arrived, by id: a block may list an id more than once. */
  received = new Map<Identifier, ReceivedCollection>();
  /** Distinct ids that are still missing. */
  missingCount = 0;
  /** Source of the latest collection; once the height is complete, of the last missing one. */
  source: CompletionSource = 'none';
  /** Bytes received; `Window.count` keeps it. */
  bytes = 0;
  requests: HeightRequests | undefined;
  /** Set when it is handed to the indexer: whether that made it durable. */
  commit: Promise<boolean> | undefined;

  constructor(block: FinalizedBlock, blockSource?: BlockSource) {
    this.blockSource = blockSource;
    this.height = block.height;
    this.block = block;
  }

  get id(): string {
    return String(this.height);
  }

  get status(): HeightStatus {
    return this.#status;
  }

  /** Handed out, and not durable. */
  get isInHand(): boolean {
    return this.#status !== 'linked' && this.#status !== 'durable';
  }

  /** The only place where a status changes; called by `Window.move`, which counts. */
  moveTo(status: HeightStatus): void {
    if (STATUSES.indexOf(status) <= STATUSES.indexOf(this.#status))
      throw new Error(`height ${this.height} went from ${this.#status} to ${status}`);
    if (this.missingCount > 0 !== (status === 'collecting'))
      throw new Error(`height ${this.height} went to ${status}, and lacks ${this.missingCount} collections`);
    this.#status = status;
  }

  /** All collections in guarantee order, repeated ids repeated. Throws while one is missing. */
  collections(): VerifiedCollection[] {
    if (this.missingCount > 0) throw new Error(`height ${this.height} still lacks collections`);
    return this.block.collectionIds.map((id) => {
      const received = this.received.get(id);
      if (received === undefined) throw new Error(`complete height ${this.height} lacks ${id}`);
      return received.collection;
    });
  }
}
