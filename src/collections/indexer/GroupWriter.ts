import type { Identifier, VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, asError, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { BlockHead, CommitBatch, RangeStore, SporkRecord, WriteRoom } from '../../storage/index.js';
import type { Commit, HeightRecord } from '../heights/HeightRecord.js';
import type { Window } from '../heights/Window.js';
import type { DurableHeads } from './DurableHeads.js';
import { ParentLinkError } from './ParentLinkError.js';
import type { SporkRecords } from './SporkRecords.js';

/** How much one durable batch may carry. */
interface GroupBounds {
  /** Heights with collections. */
  readonly maxHeights: number;
  /** Heights, those without collections included. */
  readonly maxEmptyHeights: number;
  /** Collection bytes; a single larger block has a batch of its own. */
  readonly maxBytes: number;
}

export interface GroupWriterDependencies {
  readonly store: RangeStore;
  /** Told when the watermark has moved. */
  readonly window: Window;
  readonly heads: DurableHeads;
  readonly sporks: SporkRecords;
  /** The parent of a spork's root block, if known. */
  readonly rootParentAt: (height: number) => Identifier | undefined;
  /** While there is no room, no batch begins. Default: there is always room. */
  readonly room?: WriteRoom | undefined;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'commitDuration' | 'commitHeights' | 'commitBytes'>;
  readonly logger: Logger;
}

/** Bytes staged before yielding to the event loop. */
const TURN_BYTES = 128 * 1024;

/** The heights of one durable batch while it is assembled. */
interface Group {
  readonly commits: Commit[];
  bytes: number;
  /** Heights with collections. */
  filled: number;
  /** The record of the one spork that may begin in it. */
  spork: SporkRecord | undefined;
}

const newGroup = (): Group => ({ commits: [], bytes: 0, filled: 0, spork: undefined });

export function newCommit(record: HeightRecord, collections: readonly VerifiedCollection[]): Commit {
  let bytes = 0;
  for (const collection of collections) bytes += collection.encoded.byteLength;
  let resolve: (written: boolean) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<boolean>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { record, block: record.block, collections, bytes, promise, resolve, reject };
}

/**
 * The only writer. Group commit: while a durable batch is being written, every block that becomes ready joins the next
 * one, lowest heights first: a slow disk makes larger groups, not longer queues. The next batch's entries are prepared
 * meanwhile (`RangeStore.stage`), so that the disk does not wait for them.
 */
export class GroupWriter {
  readonly #bounds: GroupBounds;
  readonly #deps: GroupWriterDependencies;
  readonly #store: RangeStore;
  readonly #window: Window;
  readonly #heads: DurableHeads;
  readonly #sporks: SporkRecords;
  readonly #clock: Clock;
  /** Aborted when no further batch may be written. */
  readonly #stopped = new AbortController();
  /** Ready, and not in the next batch yet: at most one window of heights. */
  #waiting: Commit[] = [];
  #next = newGroup();
  /** The rest of the next batch is staged in a later turn of the event loop. */
  #staging = false;
  /** The commits in the batch that is being written. */
  #writing: readonly Commit[] = [];
  #commitStartedAtMs: number | undefined;
  #running: Promise<void> | undefined;
  #refusal: Error | undefined;

  constructor(bounds: GroupBounds, dependencies: GroupWriterDependencies) {
    this.#bounds = bounds;
    this.#deps = dependencies;
    this.#store = dependencies.store;
    this.#window = dependencies.window;
    this.#heads = dependencies.heads;
    this.#sporks = dependencies.sporks;
    this.#clock = dependencies.clock;
  }

  /** Why it takes no more commits: it was stopped, or the store failed. */
  get refusal(): Error | undefined {
    return this.#refusal;
  }

  /** Monotonic milliseconds at which the current batch was handed to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined {
    return this.#commitStartedAtMs;
  }

  /** The promise of the commit settles with the batch that carries it, or with `refusal`. */
  add(commit: Commit): void {
    this.#waiting.push(commit);
    if (this.#commitStartedAtMs !== undefined) this.#stage();
    void this.write();
  }

  /** Writes until nothing is ready and the watermark cannot pass any further. */
  write(): Promise<void> {
    this.#running ??= this.#writeGroups();
    return this.#running;
  }

  /** Resolves when no batch is being written and none will be. */
  idle(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  /** Finishes the current batch and writes no other: waiting and later commits are rejected with AbortError. */
  stop(): void {
    this.#refuse(new AbortError('the indexer has stopped'));
  }

  async #writeGroups(): Promise<void> {
    // Blocks that become ready in the same turn of the event loop share the first batch.
    await Promise.resolve();
    try {
      while (this.#waiting.length > 0 || this.#hasNext || this.#mayPass()) {
        const room = this.#deps.room?.whenRoom(this.#stopped.signal);
        if (room !== undefined) await room;
        const group = this.#takeGroup();
        if (group.commits.length > 0 || this.#mayPass()) await this.#write(group);
        // Blocks that arrive at this moment join the batch: half as many batches, and a tenth more heights per second
        // (docs/performance.md). A block that finds the writer idle is written at once.
        if (this.#hasNext) await sleep(this.#clock, 0);
      }
    } catch (error) {
      const failure = await this.#afterRewind(error);
      for (const commit of this.#writing) commit.reject(failure);
      this.#refuse(failure);
    }
    this.#writing = [];
    this.#running = undefined;
  }

  /**
   * While a batch is being written, moves the lowest ready heights into the next one, and lets the store prepare them, a
   * few at a time.
   */
  #stage(): void {
    if (this.#staging) return;
    const { joined, hasMore } = this.#join(TURN_BYTES);
    for (const commit of joined) this.#store.stage(commit);
    if (!hasMore) return;
    this.#staging = true;
    this.#clock.setTimer(0, () => {
      this.#staging = false;
      // If no batch is being written, they are in one already, or rejected.
      if (this.#commitStartedAtMs !== undefined) this.#stage();
    });
  }

  get #hasNext(): boolean {
    return this.#next.commits.length > 0;
  }

  get #isFull(): boolean {
    const { maxBytes, maxEmptyHeights, maxHeights } = this.#bounds;
    const { bytes, commits, filled } = this.#next;
    return filled >= maxHeights || commits.length >= maxEmptyHeights || bytes >= maxBytes;
  }

  /**
   * Moves the lowest ready heights into the next batch while they fit. `hasMore`: more would fit, but these already have
   * `maxBytes`.
   */
  #join(maxBytes: number): { readonly joined: readonly Commit[]; readonly hasMore: boolean } {
    if (this.#waiting.length === 0 || this.#isFull) return { joined: [], hasMore: false };
    this.#waiting = this.#waiting.filter((commit) => !this.#isDurable(commit)).sort(byHeight);
    let bytes = 0;
    let count = 0;
    for (const commit of this.#waiting) {
      if (bytes >= maxBytes || !this.#fits(commit)) break;
      this.#count(commit);
      count += 1;
      bytes += commit.bytes;
    }
    const joined = this.#waiting.splice(0, count);
    return { joined, hasMore: bytes >= maxBytes && this.#waiting.length > 0 && !this.#isFull };
  }

  /** False if it must wait for the next but one: a batch has one spork record. */
  #fits({ block, bytes }: Commit): boolean {
    if (this.#hasNext && (this.#isFull || this.#next.bytes + bytes > this.#bounds.maxBytes)) return false;
    return this.#next.spork === undefined || this.#sporks.newAt(block) === undefined;
  }

  #count(commit: Commit): void {
    this.#next.commits.push(commit);
    this.#next.bytes += commit.bytes;
    if (commit.collections.length > 0) this.#next.filled += 1;
    this.#next.spork ??= this.#sporks.newAt(commit.block);
  }

  /** The next batch, with all that fits. Empty when every height turned out to be durable. */
  #takeGroup(): Group {
    const { commits, spork } = this.#next;
    this.#next = { ...newGroup(), spork };
    for (const commit of commits) if (!this.#isDurable(commit)) this.#count(commit);
    this.#join(Infinity);
    const group = this.#next;
    this.#next = newGroup();
    this.#writing = group.commits.sort(byHeight);
    let below: BlockHead | undefined;
    for (const { block, record } of this.#writing) {
      const { height } = block;
      this.#window.move(record, 'committing');
      this.#assertLinked(block, below?.height === height - 1 ? below : this.#heads.at(height - 1));
      const above = this.#heads.at(height + 1);
      if (above !== undefined) this.#assertLinked(above, block);
      below = block;
    }
    return group;
  }

  /** Checks again, now that it is the height's turn, whether it is durable already. */
  #isDurable(commit: Commit): boolean {
    if (!this.#window.isIndexed(commit.block.height)) return false;
    this.#window.move(commit.record, 'durable');
    commit.resolve(false);
    return true;
  }

  async #write(group: Group): Promise<void> {
    const { bytes, commits: blocks } = group;
    const latestIndexedHeight = this.#newWatermark();
    const spork = group.spork ?? this.#sporks.lateAt(latestIndexedHeight);
    const batch: CommitBatch = { blocks, latestIndexedHeight, ...(spork === undefined ? {} : { spork }) };
    const startedMs = this.#clock.monotonic();
    this.#commitStartedAtMs = startedMs;
    const committed = this.#store.commit(batch);
    this.#stage();
    await committed.finally(() => (this.#commitStartedAtMs = undefined));
    const durationMs = this.#clock.monotonic() - startedMs;
    if (this.#store.latestIndexedHeight() !== latestIndexedHeight) {
      throw new Error(`the store's watermark is not the ${latestIndexedHeight} that was committed`);
    }
    for (const { record } of blocks) this.#window.move(record, 'durable');
    this.#window.moved();
    this.#deps.metrics.commitDuration.observe(durationMs / 1000);
    this.#deps.metrics.commitHeights.observe(blocks.length);
    this.#deps.metrics.commitBytes.observe(bytes);
    this.#deps.logger.debug(
      { heights: blocks.length, bytes, durationMs, latestIndexedHeight },
      'batch is durable',
    );
    this.#writing = [];
    for (const commit of blocks) commit.resolve(true);
  }

  /** The end of the unbroken run, from the watermark, of heights that are in this batch or durable and confirmed. */
  #newWatermark(): number {
    let height = this.#store.latestIndexedHeight();
    while (this.#isCommitting(height + 1) || this.#heads.isConfirmed(height + 1)) height += 1;
    return height;
  }

  #isCommitting(height: number): boolean {
    return this.#window.at(height)?.status === 'committing';
  }

  /** The watermark may move without any block being written. */
  #mayPass(): boolean {
    return this.#refusal === undefined && this.#heads.isConfirmed(this.#store.latestIndexedHeight() + 1);
  }

  #assertLinked(upper: BlockHead, lower: Pick<BlockHead, 'id'> | undefined): void {
    if (lower === undefined || upper.parentId === lower.id) return;
    if (upper.parentId !== this.#deps.rootParentAt(upper.height)) throw new ParentLinkError(upper, lower.id);
  }

  /**
   * The error, after blocks that do not link have been deleted: those above the watermark are not part of the index yet,
   * and can be fetched again.
   */
  async #afterRewind(error: unknown): Promise<Error> {
    try {
      if (error instanceof ParentLinkError && this.#store.blocksAboveWatermark().length > 0) {
        await this.#store.rewind(this.#store.latestIndexedHeight());
      }
    } catch (cause) {
      return asError(cause);
    }
    return asError(error);
  }

  #refuse(refusal: Error): void {
    this.#refusal ??= refusal;
    this.#stopped.abort();
    const dropped = [...this.#next.commits, ...this.#waiting];
    this.#waiting = [];
    this.#next = newGroup();
    for (const commit of dropped) commit.reject(this.#refusal);
  }
}

function byHeight(left: Commit, right: Commit): number {
  return left.block.height - right.block.height;
}
