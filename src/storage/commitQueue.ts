import { AbortError, abortReason, asError, sleep, type Clock } from '../runtime/index.js';
import type { WriteRoom } from './port/IndexStore.js';
import type { BlockEntry, CommitBatch, RangeStore } from './port/RangeStore.js';
import type { BlockHead, SporkRecord } from './port/stored.js';

export interface CommitQueueOptions {
  /** Most heights with collections in one durable batch. */
  readonly groupMaxHeights: number;
  /** Most heights in one durable batch, those without collections included. Default: `groupMaxHeights`. */
  readonly groupMaxEmptyHeights?: number;
  /** Most collection bytes in one durable batch; a single larger block has a batch of its own. */
  readonly groupMaxBytes: number;
}

/** A block to be written. */
interface Waiting extends BlockEntry {
  /** Of its collections. */
  readonly bytes: number;
  readonly resolve: (written: boolean) => void;
  readonly reject: (error: Error) => void;
}

/** Blocks that become durable, or are durable, together. */
interface Group {
  readonly blocks: Waiting[];
  bytes: number;
  /** Heights with collections. */
  filled: number;
}

/** Bytes staged before yielding to the event loop. */
const TURN_BYTES = 128 * 1024;

export type CommitQueue = ReturnType<typeof commitQueue>;

/**
 * Writes the blocks of one run of heights: the only writer. Blocks above a gap are written at once; the watermark passes
 * over them in the batch that closes the gap. Those of an earlier process count only once they are confirmed.
 *
 * Group commit: while a durable batch is being written, every block that is handed in joins the next one, lowest heights
 * first: a slow disk makes larger groups, not longer queues. The next batch's entries are prepared meanwhile
 * (`RangeStore.stage`), so that the disk does not wait for them.
 */
export function commitQueue(
  store: RangeStore,
  { groupMaxBytes, groupMaxHeights, groupMaxEmptyHeights = groupMaxHeights }: CommitQueueOptions,
  {
    clock,
    newSporks,
    onDurable,
    room,
  }: {
    readonly clock: Clock;
    /** While there is no room, no batch begins. Default: there is always room. */
    readonly room?: WriteRoom | undefined;
    /** The sporks to be recorded with a batch. */
    readonly newSporks: (batch: CommitBatch) => Promise<readonly SporkRecord[]>;
    /** Called before the writes of these blocks resolve; the watermark may have moved. */
    readonly onDurable: (group: Group, durationMs: number) => void;
  },
) {
  /** Durable above the watermark since an earlier process, and not confirmed yet. */
  const doubted = new Map(store.blocksAboveWatermark().map((head) => [head.height, head]));
  /** Aborted when it takes no more blocks, and writes no further batch: it was stopped, or the store failed. */
  const over = new AbortController();
  /** Handed in, and not in the next batch yet: at most one window of heights. */
  let waiting: Waiting[] = [];
  /** The next batch, while it is put together. */
  let next = emptyGroup();
  /** The rest of the next batch is staged in a later turn of the event loop. */
  let isStaging = false;
  let startedAtMs: number | undefined;
  let running: Promise<void> | undefined;

  /** Checks again, now that it is the height's turn, whether it is durable already. */
  const isDurable = ({ block: { height }, resolve }: Waiting): boolean => {
    const isThere = height <= store.latestIndexedHeight() || store.hasHeight(height);
    if (isThere) resolve(false);
    return isThere;
  };
  /** True for a durable height that the watermark may pass. */
  const isConfirmed = (height: number): boolean => store.hasHeight(height) && !doubted.has(height);
  /** The watermark may move without any block being written. */
  const mayPass = (): boolean => !over.signal.aborted && isConfirmed(store.latestIndexedHeight() + 1);

  const isFull = (): boolean =>
    next.filled >= groupMaxHeights ||
    next.bytes >= groupMaxBytes ||
    next.blocks.length >= groupMaxEmptyHeights;
  /** Puts a block into the next batch; false: it does not fit. The first block always fits. */
  const take = (block: Waiting): boolean => {
    if (next.blocks.length > 0 && (isFull() || next.bytes + block.bytes > groupMaxBytes)) return false;
    next.blocks.push(block);
    next.bytes += block.bytes;
    if (block.collections.length > 0) next.filled += 1;
    return true;
  };
  /** Moves the lowest waiting blocks into the next batch, while they fit, until they have `maxBytes`. */
  const join = (maxBytes: number): void => {
    if (waiting.length === 0 || isFull()) return;
    waiting = waiting.filter((each) => !isDurable(each)).sort(byHeight);
    const end = next.bytes + maxBytes;
    const count = waiting.findIndex((block) => next.bytes >= end || !take(block));
    waiting = count === -1 ? [] : waiting.slice(count);
  };
  /** While a batch is being written, moves what fits into the next one, and has the store prepare it, a little at a time. */
  const stage = (): void => {
    if (isStaging) return;
    const { blocks, bytes } = next;
    const staged = blocks.length;
    join(TURN_BYTES);
    for (const block of blocks.slice(staged)) store.stage(block);
    if (next.bytes - bytes < TURN_BYTES) return;
    isStaging = true;
    clock.setTimer(0, () => {
      isStaging = false;
      // If no batch is being written, the blocks are in one already, or rejected.
      if (startedAtMs !== undefined) stage();
    });
  };

  const commit = async (group: Group): Promise<void> => {
    const blocks = group.blocks.sort(byHeight);
    // The end of the unbroken run, from the watermark, of heights that are in this batch or durable and confirmed.
    const writing = new Set(blocks.map(({ block }) => block.height));
    let latestIndexedHeight = store.latestIndexedHeight();
    while (writing.has(latestIndexedHeight + 1) || isConfirmed(latestIndexedHeight + 1))
      latestIndexedHeight += 1;
    const sporks = await newSporks({ blocks, latestIndexedHeight });
    const startedMs = (startedAtMs = clock.monotonic());
    const committed = store.commit({ blocks, latestIndexedHeight, sporks });
    stage();
    await committed.finally(() => (startedAtMs = undefined));
    if (store.latestIndexedHeight() !== latestIndexedHeight) {
      throw new Error(`the store's watermark is not the ${latestIndexedHeight} that was committed`);
    }
    onDurable(group, clock.monotonic() - startedMs);
    for (const { resolve } of blocks) resolve(true);
  };
  /** The first refusal counts. */
  const refuse = (refusal: Error): void => {
    over.abort(refusal);
    const dropped = [...next.blocks, ...waiting];
    waiting = [];
    next = emptyGroup();
    for (const { reject } of dropped) reject(abortReason(over.signal));
  };
  const writeGroups = async (): Promise<void> => {
    // Blocks that are handed in during one turn of the event loop share the first batch.
    await Promise.resolve();
    let group = emptyGroup();
    try {
      while (waiting.length > 0 || next.blocks.length > 0 || mayPass()) {
        const making = room?.whenRoom(over.signal);
        if (making !== undefined) await making;
        const staged = next.blocks.filter((each) => !isDurable(each));
        next = emptyGroup();
        staged.forEach(take);
        join(Infinity);
        [group, next] = [next, emptyGroup()];
        if (group.blocks.length > 0 || mayPass()) await commit(group);
        // Blocks that arrive at this moment join the batch: half as many batches, and a tenth more heights per second
        // (docs/performance.md). A block that finds the writer idle is written at once.
        if (next.blocks.length > 0) await sleep(clock, 0);
      }
    } catch (error) {
      const failure = asError(error);
      for (const { reject } of group.blocks) reject(failure);
      refuse(failure);
    }
    running = undefined;
  };
  /** Writes until nothing waits and the watermark cannot pass any further. */
  const writeAll = (): Promise<void> => (running ??= writeGroups());

  return {
    /** Monotonic milliseconds at which the current batch was handed to the store; `undefined` when none is. */
    startedAtMs: (): number | undefined => startedAtMs,
    /**
     * Resolves when the block is durable: with false if it was already when its turn came. Rejects with AbortError after
     * `stop`, with `StorageError` when the store fails, with `ParentLinkError`: then what is durable above the watermark must be
     * forgotten before a restart. Hand in each height once.
     */
    write: ({ block, collections }: BlockEntry): Promise<boolean> => {
      if (over.signal.aborted) return Promise.reject(abortReason(over.signal));
      return new Promise((resolve, reject) => {
        const bytes = collections.reduce((sum, { encoded }) => sum + encoded.byteLength, 0);
        waiting.push({ block, collections, bytes, resolve, reject });
        if (startedAtMs !== undefined) stage();
        void writeAll();
      });
    },
    /** The block of a height that is durable and waits for `confirm`. */
    doubtedAt: (height: number): BlockHead | undefined => doubted.get(height),
    /**
     * The chain has this block at a durable height. Resolves once the watermark has passed it, if only this confirmation was
     * missing; `undefined` when there is nothing to wait for. Rejects like `write`.
     */
    confirm: (height: number): Promise<void> | undefined => {
      if (!doubted.delete(height) || height !== store.latestIndexedHeight() + 1) return undefined;
      return writeAll().then(() => {
        if (over.signal.aborted && store.latestIndexedHeight() < height) throw abortReason(over.signal);
      });
    },
    /**
     * Finishes the current batch and writes no other: waiting and later callers get an AbortError. Resolves when the batch is
     * over: with false if the store has failed.
     */
    stop: async (): Promise<boolean> => {
      const stopped = new AbortError('the indexer has stopped');
      refuse(stopped);
      await running;
      return over.signal.reason === stopped;
    },
  };
}

function emptyGroup(): Group {
  return { blocks: [], bytes: 0, filled: 0 };
}

function byHeight(left: Waiting, right: Waiting): number {
  return left.block.height - right.block.height;
}
