import { Attempts, Failures } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import type { CollectionWay } from '../ports.js';
import type { Fault } from '../faultReporter.js';
import type { HeightRecord } from './HeightRecord.js';

/** After this many denials over this time, a denial no longer means that the node is just late. */
const LASTING = { denials: 3, ms: 2_000 };

/** How often and how one node failed to deliver one collection, and what follows for the next call. */
export interface NodeRecord {
  readonly failed: Failures;
  readonly lastError: string;
  /** Wall-clock milliseconds of the call that failed last. */
  readonly lastAt: number;
  readonly ways: ReadonlySet<CollectionWay>;
  /** The node said that it has no such collection: not a failure of the node. */
  readonly isDenial: boolean;
  /** It also said that it will have it soon. */
  readonly isPromised: boolean;
  /** The way by which it denied the collection last. */
  readonly deniedBy: CollectionWay | undefined;
  /** When it last said so: milliseconds after the block was known. */
  readonly lackedMs: number;
}

export interface Call {
  /** The height for which it was sent, which may no longer want it. */
  readonly sentFor: HeightRecord;
  readonly controller: AbortController;
  readonly release: () => void;
  returned: Promise<void>;
  /** Too late to cancel. */
  isAnswered: boolean;
}

/**
 * One collection id that heights lack, or for which a call is still under way: an entry of the one index by id, with what was
 * tried for it.
 */
export class WantedCollection {
  readonly id: Identifier;
  /** The heights that lack it, ascending; it is requested for the first. */
  readonly heights: HeightRecord[] = [];

  // The fields below belong to the requester.

  /** The requester works on it: it stays in the index until the requester is done. */
  isAskedFor = false;
  call: Call | undefined;
  attempts = 0;
  /** Attempts answered with "no such collection" or "not yet". */
  notFound = 0;
  lastNode: string | undefined;
  lastWay: CollectionWay | undefined;
  lastError: string | undefined;
  firstAskedAtMs: number | undefined;
  /** Wall-clock milliseconds of the last call. */
  lastAskedAt: number | undefined;
  sentAtMs = 0;
  failedAtMs = 0;
  /** Monotonic milliseconds at which its block became known, if it was new then; `undefined` for older blocks. */
  newSinceMs: number | undefined;
  /** Attempts that were too early for a collection of a new block. */
  earlyAttempts = 0;
  silences = 0;
  /** By node; `undefined` before the first failure. Bounded by the number of nodes. */
  failures: Map<string, NodeRecord> | undefined;
  #tries: Attempts | undefined;

  constructor(id: Identifier) {
    this.id = id;
  }

  get tries(): Attempts {
    return (this.#tries ??= new Attempts());
  }

  get isUnderWay(): boolean {
    return this.call !== undefined;
  }

  /** Monotonic milliseconds at which the current call was sent; `undefined` while none is under way. */
  get askedAtMs(): number | undefined {
    return this.isUnderWay ? this.sentAtMs : undefined;
  }

  get isWanted(): boolean {
    return this.heights.length > 0;
  }

  isWantedBy(record: HeightRecord): boolean {
    return this.heights.includes(record);
  }

  add(record: HeightRecord): void {
    const place = this.heights.findIndex(({ height }) => height > record.height);
    this.heights.splice(place === -1 ? this.heights.length : place, 0, record);
  }

  /**
   * No height wants it any longer. If one does before the call returns, it starts over: earlier attempts do not count.
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
    this.#tries = undefined;
  }

  /** An attempt failed: recorded for `explain`, and for choosing what to try next. */
  failed(node: string, way: CollectionWay, { kind, method = way, reason, text }: Fault): void {
    const isDenial = kind === 'denied';
    if (isDenial) this.notFound += 1;
    if (reason === 'deadline') this.silences += 1;
    this.lastError = text;
    const failures = (this.failures ??= new Map<string, NodeRecord>());
    const before = failures.get(node);
    const lackedMs = isDenial ? this.sentAtMs - (this.newSinceMs ?? this.sentAtMs) : 0;
    const failed = before?.failed ?? new Failures();
    failed.note({ kind, method, said: text, atMs: this.sentAtMs });
    failures.set(node, {
      failed,
      isDenial,
      lastError: text,
      isPromised: reason === 'not_yet',
      lastAt: this.lastAskedAt ?? 0,
      ways: new Set(before?.ways).add(way),
      deniedBy: isDenial ? way : before?.deniedBy,
      lackedMs: Math.max(before?.lackedMs ?? 0, lackedMs),
    });
  }

  /** The call by which this node keeps denying it, once that has lasted. */
  lastingDenial(node: string, nowMs: number): CollectionWay | undefined {
    if (this.notFound < LASTING.denials) return undefined;
    if (nowMs - (this.firstAskedAtMs ?? nowMs) < LASTING.ms) return undefined;
    return this.failures?.get(node)?.deniedBy;
  }

  /** False when the height does not lack it (any longer). */
  remove(record: HeightRecord): boolean {
    const at = this.heights.indexOf(record);
    if (at === -1) return false;
    this.heights.splice(at, 1);
    return true;
  }
}
