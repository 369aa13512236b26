import { NodeRotation } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import type { CollectionWay, NodeFailures } from '../ports.js';
import type { HeightRecord } from './HeightRecord.js';

/** What came of asking one node for one collection, and what follows from it for the next call. */
export interface NodeRecord extends NodeFailures {
  /** The ways that failed. */
  readonly ways: ReadonlySet<CollectionWay>;
  /** It said that it has no such collection: not a failure of the node. */
  readonly isDenial: boolean;
  /** The way by which it keeps saying so; once that has lasted. */
  readonly deniedBy: CollectionWay | undefined;
  /** When it said so last: milliseconds after the block was known. */
  readonly lackedMs: number;
}

/** One call under way. */
export interface Call {
  /** The height that it was sent for, which may have let go of it. */
  readonly sentFor: HeightRecord;
  readonly controller: AbortController;
  /** Settles with the call. */
  returned: Promise<void>;
  /** Nothing is left to cancel. */
  isAnswered: boolean;
}

/** One collection id that heights lack, or that a call is still under way for: an entry of the one index by id. */
export class WantedCollection {
  readonly id: Identifier;
  /** The heights that lack it, ascending: it is asked for on behalf of the first. */
  readonly heights: HeightRecord[] = [];
  /** The place in each of their blocks. */
  readonly slots: number[] = [];

  // The requester's.

  /** The requester is at it: it stays in the index until the requester lets go. */
  isAskedFor = false;
  call: Call | undefined;
  attempts = 0;
  /** Attempts that were answered with "no such collection", or "not yet". */
  notFound = 0;
  lastNode: string | undefined;
  lastWay: CollectionWay | undefined;
  lastError: string | undefined;
  /** Monotonic milliseconds of the first call. */
  firstAskedAtMs: number | undefined;
  /** Wall-clock milliseconds of the last call. */
  lastAskedAt: number | undefined;
  /** Monotonic milliseconds at which the last call left. */
  sentAtMs = 0;
  /** Monotonic milliseconds at which the last call failed. */
  failedAtMs = 0;
  /** Monotonic milliseconds at which its block, a new one, was known; `undefined` for older blocks. */
  newSinceMs: number | undefined;
  /** Attempts that asked too early for a collection of a new block. */
  earlyAttempts = 0;
  /** Calls that were not answered. */
  silences = 0;
  /** By node; nothing before the first failure. Bounded by the number of nodes. */
  failures: Map<string, NodeRecord> | undefined;
  #rotation: NodeRotation | undefined;

  constructor(id: Identifier) {
    this.id = id;
  }

  get rotation(): NodeRotation {
    return (this.#rotation ??= new NodeRotation());
  }

  get isWanted(): boolean {
    return this.heights.length > 0;
  }

  isWantedBy(record: HeightRecord): boolean {
    return this.heights.includes(record);
  }

  add(record: HeightRecord, slot: number): void {
    const place = this.heights.findIndex(({ height }) => height > record.height);
    const at = place === -1 ? this.heights.length : place;
    this.heights.splice(at, 0, record);
    this.slots.splice(at, 0, slot);
  }

  /**
   * Nobody wants it. Should it be wanted again before the call returns, that is a new wish: what was tried counts no
   * longer.
   */
  forget(): void {
    this.attempts = 0;
    this.notFound = 0;
    this.lastError = undefined;
    this.firstAskedAtMs = undefined;
    this.newSinceMs = undefined;
    this.earlyAttempts = 0;
    this.silences = 0;
    this.failures = undefined;
    this.#rotation = undefined;
  }

  /** False when the height does not lack it (any more). */
  remove(record: HeightRecord): boolean {
    const at = this.heights.indexOf(record);
    if (at === -1) return false;
    this.heights.splice(at, 1);
    this.slots.splice(at, 1);
    return true;
  }
}
