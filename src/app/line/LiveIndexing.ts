import type { DaemonConfig } from '../../config/index.js';
import type { Term } from '../../ranges/index.js';
import { childOf, wasAborted, whenAborted } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';
import type { IndexStore } from '../../storage/index.js';
import { buildLine } from './buildLine.js';
import type { IndexingLine } from './buildLine.js';
import type { IndexingParts } from './runIndexing.js';
import { firstHeightOf, initialiseStore } from './startHeight.js';

/** Called with every line of the live range that starts; with `undefined` when none runs here: another process leads, or none does. */
export type OnLine = (line: IndexingLine | undefined) => void;

/**
 * Indexes the live range while this process leads: begins an empty store, and runs the indexing line, which starts over when
 * a false block was found too late to replace it. After another process has taken over, it waits until it leads again.
 */
export class LiveIndexing {
  readonly #config: DaemonConfig;
  readonly #parts: IndexingParts;
  readonly #onLine: OnLine;
  #line: IndexingLine | undefined;
  #term: Term | undefined;

  constructor(config: DaemonConfig, parts: IndexingParts, onLine: OnLine) {
    this.#config = config;
    this.#parts = parts;
    this.#onLine = onLine;
  }

  /** Resolves when the daemon is to stop; then close it. Rejects as the indexing line. */
  async run(): Promise<void> {
    const { leadership, lifecycle, logger } = this.#parts;
    const { signal } = lifecycle;
    for (;;) {
      const term = await leadership.lead(signal);
      if (term === undefined) return;
      this.#term = term;
      const reason = await this.#lead(term);
      if (signal.aborted) return;
      logger.warn({ reason }, 'this process does not lead any more');
      await this.close();
      this.#onLine(undefined);
    }
  }

  /** Ends the line, and lets another process lead. Idempotent. */
  async close(): Promise<void> {
    const { store } = this.#parts;
    const line = this.#line;
    const term = this.#term;
    try {
      await line?.close();
    } catch (error) {
      // Another process writes the rest by now.
      if (!this.#isReplaced(error)) throw error;
    } finally {
      this.#line = undefined;
      await store.shared?.follow();
      this.#term = undefined;
      await term?.release();
    }
  }

  /** Resolves with the reason when this process no longer leads, or is to stop. */
  async #lead(term: Term): Promise<string> {
    const { lifecycle, logger, store } = this.#parts;
    const { signal } = lifecycle;
    try {
      // This waits while the database is away; closing the store ends the wait.
      const replaced =
        store.shared === undefined ? signal : await lifecycle.unlessStopped(store.shared.lead());
      if (replaced === undefined) return 'stopping';
      const lost = childOf(signal, term.lost, replaced);
      if (store.shared !== undefined) {
        logger.info({ latestIndexedHeight: store.latestIndexedHeight() }, 'this process leads');
      }
      try {
        await this.#follow(lost.signal);
      } catch (error) {
        if (!wasAborted(error, lost.signal)) throw error;
      } finally {
        lost.abort();
      }
    } catch (error) {
      if (!this.#isReplaced(error)) throw error;
    }
    return term.lost.aborted ? 'the lead was not kept up' : 'another process has taken over';
  }

  /** Runs lines until `lost` aborts. */
  async #follow(lost: AbortSignal): Promise<void> {
    const { logger, network, store } = this.#parts;
    await this.#begin(lost);
    let reachedHeight = highestDurable(store);
    for (;;) {
      if (lost.aborted) return;
      this.#line = buildLine(
        this.#config,
        { ...this.#parts, nodes: network, fail: (error) => this.#failed(error) },
        { reachedHeight },
      );
      this.#onLine(this.#line);
      const over = childOf(lost);
      const ended = whenAborted(over.signal).then(() => undefined);
      const outdated = await Promise.race([this.#line.outdated, ended]).finally(() => over.abort());
      if (outdated === undefined) return;
      logger.warn({ reason: outdated }, 'indexing restarts from the watermark');
      await this.#line.close();
      // Blocks above the watermark only save work, and one of them is false.
      reachedHeight = Math.max(reachedHeight, highestDurable(store));
      await store.rewind(store.latestIndexedHeight());
    }
  }

  /** Begins the store when it is empty. */
  async #begin(signal: AbortSignal): Promise<void> {
    const { listener, logger, network, store } = this.#parts;
    if (store.meta() !== undefined) return;
    // One node's answer does not say where the others begin.
    await network.waits.whenAllAsked(signal);
    if (this.#config.startHeight === 'root') await network.waits.whenRootTold(signal);
    const first = await firstHeightOf(this.#config, { network, listener }, signal);
    await network.waits.whenSporkTold(first, signal);
    await initialiseStore(store, this.#config, network, first);
    logger.info({ height: first, chainId: this.#config.chainId }, 'new store created');
  }

  /** A line whose writes are refused because another process leads has not failed: it will be closed. */
  #failed(error: unknown): void {
    const { lifecycle } = this.#parts;
    if (!this.#isReplaced(error) && !wasAborted(error, lifecycle.signal)) lifecycle.fail(error);
  }

  #isReplaced(error: unknown): boolean {
    const isShared = this.#parts.store.shared !== undefined;
    return isShared && error instanceof StorageError && error.kind === 'locked';
  }
}

/** The chain has reached this height, whatever head the nodes have reported so far. */
function highestDurable(store: IndexStore): number {
  return Math.max(store.latestIndexedHeight(), ...store.blocksAboveWatermark().map(({ height }) => height));
}
