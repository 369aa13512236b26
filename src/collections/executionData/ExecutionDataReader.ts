import { StreamReader } from '../../access/index.js';
import type { AccessNode } from '../../access/index.js';
import { VerificationMemory, verifyBlockCollections } from '../../flow/index.js';
import type { BlockExecutionData, FinalizedBlock } from '../../flow/index.js';
import type { Metrics } from '../../observability/index.js';
import { RunningAverage, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { BodyStream, StreamSources } from './BodyStream.js';
import type { BlockWindow } from '../heights/Window.js';
import type { CollectionSink } from '../ports.js';
import { judgeStreamEnd, StreamFault } from './StreamFault.js';
import type { StreamEnd } from './StreamFault.js';
import { StreamMonitor } from './StreamMonitor.js';
import type { StreamState } from './StreamState.js';

/** See `ExecutionDataIndexerOptions`. */
interface Limits {
  readonly stream: BodyStream;
  readonly silenceMs: number;
  readonly skipAheadHeights: number;
}

interface Parts {
  readonly nodes: StreamSources;
  readonly window: BlockWindow;
  readonly sink: Pick<CollectionSink, 'onReceivedCollectionsForBlock'>;
  dueHeight(): number | undefined;
  readonly state: StreamState;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'executionDataSkipped'>;
  /** A message of the right height was processed; `isVerified` is false when it was skipped unread. */
  readonly onMessage: (node: AccessNode, isVerified: boolean, receivedAtMs: number) => void;
  /** A bug showed in a stream that was already closed. */
  readonly onLateError: (error: unknown) => void;
}

/** A stream that is further behind at the end of this time than at its start is replaced. */
const PACE_SPAN_MS = 30_000;
/** Size of one message, trie updates included: the bounds of the estimate used for admission. */
const MESSAGE_BYTES = { weight: 1 / 16, initial: 64 * 1024, min: 1024, max: 64 * 1024 * 1024 };

/**
 * The block at height 0 is a root block and has no collections. Older nodes also treat a start height of 0 as "not
 * given", and begin at their sealed head.
 */
const LOWEST_HEIGHT = 1;

/**
 * Bytes verified before yielding to the event loop, so that keepalives and responses wait no longer than that
 * (docs/decisions/0014-messages-per-turn.md). Empty messages count too.
 */
const TURN_BYTES = 256 * 1024;
const MESSAGE_WEIGHT_BYTES = 2 * 1024;

/**
 * Reads streams of blocks' collections one after another, each from where the last one ended. Takes a message only when
 * there is room for it, verifies it against its block, and hands it in. Holds at most one message.
 */
export class ExecutionDataReader {
  readonly #limits: Limits;
  readonly #parts: Parts;
  readonly #messageBytes = new RunningAverage(MESSAGE_BYTES);
  readonly #verificationMemory = new VerificationMemory();
  #next = 0;
  #turnBytes = 0;
  #watching: StreamMonitor | undefined;

  constructor(limits: Limits, parts: Parts) {
    this.#limits = limits;
    this.#parts = parts;
  }

  /** The next height. When a stream is about to be opened, it is above the watermark. */
  get next(): number {
    return this.#next;
  }

  /** Since when the next height's message is due, or since when the next height is awaited before it is due. */
  get waits(): { readonly dueSinceMs: number | undefined; readonly earlySinceMs: number | undefined } {
    return { dueSinceMs: this.#watching?.dueSinceMs, earlySinceMs: this.#watching?.earlySinceMs };
  }

  /** Skips durable heights: a stream that failed at one of them is reopened above it. */
  skipDurable(): void {
    while (this.#parts.window.isIndexed(this.#next)) this.#next += 1;
  }

  /** Waits until there is a height to open a stream at, and moves there. Expected errors: the abort reason. */
  async goToNext(signal: AbortSignal): Promise<void> {
    const { window } = this.#parts;
    for (;;) {
      this.#next = Math.max(this.#next, window.latestIndexedHeight() + 1, LOWEST_HEIGHT);
      if (this.#next <= window.upperBound()) return;
      await window.changed(signal);
    }
  }

  /**
   * Reads one stream until something ends it. The signal must not be aborted yet. Expected errors: its abort reason.
   */
  async follow(
    node: AccessNode,
    { openingSilenceMs }: { readonly openingSilenceMs: number },
    signal: AbortSignal,
  ): Promise<StreamEnd> {
    const { clock, onLateError } = this.#parts;
    const reader = new StreamReader<BlockExecutionData>(
      {},
      {
        open: (ended) => this.#limits.stream.open(node, this.#next, { signal: ended }),
        onLateError,
        clock,
        signal,
      },
    );
    const watch = this.#watch(node, reader, openingSilenceMs);
    this.#watching = watch;
    watch.start();
    let justPaused = false;
    // The first message takes as long as the stream to open, which says nothing of its pace.
    let isOpen = false;
    try {
      for (;;) {
        justPaused = false;
        // Checked without yielding before the read: another stream may just have used up the budget.
        while (!this.#hasRoom()) {
          await this.#waitForRoom(watch, signal);
          justPaused = true;
        }
        const wasDue = watch.pulling();
        const readAtMs = clock.monotonic();
        const read = await reader.read();
        watch.pulled();
        // The monitor reports silence.
        if (read === 'silent' || read.done === true)
          throw new StreamFault('ended', 'the node ended the stream');
        const message = read.value;
        await this.#take(message, node, signal);
        if (wasDue && isOpen) this.#parts.state.took(clock.monotonic() - readAtMs);
        isOpen = true;
        const fault = this.#behind();
        if (fault !== undefined) throw fault;
        this.#turnBytes += message.byteLength + MESSAGE_WEIGHT_BYTES;
        if (this.#turnBytes >= TURN_BYTES) {
          this.#turnBytes = 0;
          await sleep(clock, 0, signal);
        }
      }
    } catch (error) {
      const end = judgeStreamEnd(error);
      if (end === undefined) throw error;
      // A node drops a consumer that does not read for about 30 s: then the fault is ours.
      return justPaused && end.fault !== undefined && end.refused === undefined
        ? { ...end, fault: undefined }
        : end;
    } finally {
      watch.stop();
      this.#watching = undefined;
      reader.cancel(new StreamFault('ended', 'the stream was closed'));
    }
  }

  #watch(
    node: AccessNode,
    reader: StreamReader<BlockExecutionData>,
    openingSilenceMs: number,
  ): StreamMonitor {
    const { clock, state } = this.#parts;
    const { silenceMs, skipAheadHeights: paceSlackHeights, stream } = this.#limits;
    return new StreamMonitor(
      { silenceMs, openingSilenceMs, paceSpanMs: PACE_SPAN_MS, paceSlackHeights, due: stream.words.due },
      {
        clock,
        position: () => ({ next: this.#next, due: this.#parts.dueHeight() }),
        look: () => {
          // The stream has been open for a whole check interval: the node has the feed.
          if (state.now === 'unavailable') state.enter('connecting');
          return this.#behind() ?? this.#moved(node);
        },
        onFault: (fault) => reader.cancel(fault),
      },
    );
  }

  async #waitForRoom(watch: StreamMonitor, signal: AbortSignal): Promise<void> {
    const { state, window } = this.#parts;
    state.waiting(true);
    do await window.changed(signal);
    while (!this.#hasRoom());
    state.waiting(false);
    state.alive();
    watch.paused();
  }

  /** Durable heights are read only to be skipped; others need their block and room for their bytes. */
  #hasRoom(): boolean {
    const { window } = this.#parts;
    const height = this.#next;
    if (window.isIndexed(height)) return true;
    if (height > window.upperBound() || window.blockAt(height) === undefined) return false;
    return window.admits(height, this.#messageBytes.value ?? 0);
  }

  async #take(message: BlockExecutionData, node: AccessNode, signal: AbortSignal): Promise<void> {
    const { clock, metrics, onMessage, state } = this.#parts;
    const { height } = message;
    const receivedAtMs = clock.monotonic();
    if (height !== this.#next) {
      throw new StreamFault('malformed', `expected height ${this.#next}, got ${height}`);
    }
    this.#messageBytes.observe(message.byteLength);
    const block = await this.#blockOf(height, signal);
    if (block === undefined) metrics.executionDataSkipped.inc();
    else {
      try {
        this.#deliver(block, message, receivedAtMs);
      } catch (error) {
        // Above the end of its spork a node may hold blocks that the next spork discarded: that is not a lie.
        throw this.#moved(node) ?? error;
      }
    }
    this.#next += 1;
    state.alive();
    onMessage(node, block !== undefined, receivedAtMs);
  }

  /** The height's block; `undefined` once it is durable. Waits only while the block is being replaced. */
  async #blockOf(height: number, signal: AbortSignal): Promise<FinalizedBlock | undefined> {
    const { window } = this.#parts;
    for (;;) {
      if (window.isIndexed(height)) return undefined;
      const block = window.blockAt(height);
      if (block !== undefined) return block;
      await window.changed(signal);
    }
  }

  /** Also verifies a block without collections, but does not hand it in: it is complete already. */
  #deliver(block: FinalizedBlock, message: BlockExecutionData, receivedAtMs: number): void {
    const collections = verifyBlockCollections(block, message, this.#verificationMemory);
    if (collections.length === 0) return;
    this.#parts.sink.onReceivedCollectionsForBlock(
      block.height,
      collections.map((collection) => ({ collection, source: this.#limits.stream.source, receivedAtMs })),
    );
  }

  #behind(): StreamFault | undefined {
    const behind = this.#parts.window.latestIndexedHeight() + 1 - this.#next;
    if (behind <= this.#limits.skipAheadHeights) return undefined;
    return new StreamFault('skip_ahead', `the stream is ${behind} heights behind the watermark`);
  }

  #moved(node: AccessNode): StreamFault | undefined {
    const serving = this.#limits.stream.sources(this.#parts.nodes, this.#next);
    if (serving.length === 0 || serving.some(({ name }) => name === node.name)) return undefined;
    return new StreamFault('moved', 'other nodes serve the heights that follow');
  }
}
