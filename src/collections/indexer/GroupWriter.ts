import type { Identifier } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, asError, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { BlockHead, CommitBatch, RangeStore, WriteRoom } from '../../storage/index.js';
import type { Commit } from '../heights/HeightRecord.js';
import type { HeightTable } from '../heights/HeightTable.js';
import type { WindowEnds } from '../heights/WindowEnds.js';
import type { CommitGroup, GroupBounds } from './CommitGroup.js';
import type { DurableHeads } from './DurableHeads.js';
import { ParentLinkError } from './ParentLinkError.js';
import { ReadyCommits } from './ReadyCommits.js';
import type { SporkRecords } from './SporkRecords.js';

export interface GroupWriterDependencies {
  readonly store: RangeStore;
  /** Notified when the watermark has moved. */
  readonly ends: WindowEnds;
  readonly heights: HeightTable;
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

/**
 * The only writer. Group commit: while a durable batch is being written, every block that becomes ready joins the next
 * one, lowest heights first: a slow disk makes larger groups, not longer queues. The next batch's entries are prepared
 * meanwhile (`RangeStore.stage`), so that the disk does not wait for them.
 */
export class GroupWriter {
  readonly #store: RangeStore;
  readonly #ends: WindowEnds;
  readonly #heights: HeightTable;
  readonly #heads: DurableHeads;
  readonly #sporks: SporkRecords;
  readonly #rootParentAt: (height: number) => Identifier | undefined;
  readonly #room: WriteRoom | undefined;
  readonly #clock: Clock;
  readonly #metrics: GroupWriterDependencies['metrics'];
  readonly #logger: Logger;
  /** Aborted when no further batch may be written. */
  readonly #stopped = new AbortController();
  readonly #ready: ReadyCommits;
  /** The rest of the next batch is staged in a later turn of the event loop. */
  #staging = false;
  /** The commits in the batch that is being written. */
  #writing: readonly Commit[] = [];
  #commitStartedAtMs: number | undefined;
  #running: Promise<void> | undefined;
  #refusal: Error | undefined;

  constructor(bounds: GroupBounds, dependencies: GroupWriterDependencies) {
    this.#ready = new ReadyCommits(bounds, {
      isDurable: (commit) => this.#isDurable(commit),
      sporkAt: (block) => this.#sporks.newAt(block),
    });
    this.#store = dependencies.store;
    this.#ends = dependencies.ends;
    this.#heights = dependencies.heights;
    this.#heads = dependencies.heads;
    this.#sporks = dependencies.sporks;
    this.#rootParentAt = dependencies.rootParentAt;
    this.#room = dependencies.room;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#logger = dependencies.logger;
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
    this.#ready.add(commit);
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
      while (!this.#ready.isEmpty || this.#mayPass()) {
        const room = this.#room?.whenRoom(this.#stopped.signal);
        if (room !== undefined) await room;
        const group = this.#takeGroup();
        if (group.size > 0 || this.#mayPass()) await this.#write(group);
        // Blocks that arrive at this moment join the batch: half as many batches, and a tenth more heights per second
        // (docs/performance.md). A block that finds the writer idle is written at once.
        if (this.#ready.hasNext) await sleep(this.#clock, 0);
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
    const { joined, hasMore } = this.#ready.join(TURN_BYTES);
    for (const commit of joined) this.#store.stage(commit);
    if (!hasMore) return;
    this.#staging = true;
    this.#clock.setTimer(0, () => {
      this.#staging = false;
      // If no batch is being written, they are in one already, or rejected.
      if (this.#commitStartedAtMs !== undefined) this.#stage();
    });
  }

  /** The next batch, with all that fits. Empty when every height turned out to be durable. */
  #takeGroup(): CommitGroup {
    const group = this.#ready.take();
    this.#writing = group.ascending();
    let below: BlockHead | undefined;
    for (const { block, record } of this.#writing) {
      const { height } = block;
      this.#heights.move(record, 'committing');
      this.#assertLinked(block, below?.height === height - 1 ? below : this.#heads.at(height - 1));
      const above = this.#heads.at(height + 1);
      if (above !== undefined) this.#assertLinked(above, block);
      below = block;
    }
    return group;
  }

  /** Checks again, now that it is the height's turn, whether it is durable already. */
  #isDurable(commit: Commit): boolean {
    const { height } = commit.block;
    if (height > this.#store.latestIndexedHeight() && !this.#store.hasHeight(height)) return false;
    this.#heights.move(commit.record, 'durable');
    commit.resolve(false);
    return true;
  }

  async #write(group: CommitGroup): Promise<void> {
    const blocks = group.ascending();
    const { bytes } = group;
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
    for (const { record } of blocks) this.#heights.move(record, 'durable');
    this.#ends.moved();
    this.#metrics.commitDuration.observe(durationMs / 1000);
    this.#metrics.commitHeights.observe(blocks.length);
    this.#metrics.commitBytes.observe(bytes);
    this.#logger.debug(
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
    return this.#heights.at(height)?.status === 'committing';
  }

  /** The watermark may move without any block being written. */
  #mayPass(): boolean {
    return this.#refusal === undefined && this.#heads.isConfirmed(this.#store.latestIndexedHeight() + 1);
  }

  #assertLinked(upper: BlockHead, lower: Pick<BlockHead, 'id'> | undefined): void {
    if (lower === undefined || upper.parentId === lower.id) return;
    if (upper.parentId !== this.#rootParentAt(upper.height)) throw new ParentLinkError(upper, lower.id);
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
    for (const commit of this.#ready.drain()) commit.reject(this.#refusal);
  }
}
