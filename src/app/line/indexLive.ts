import type { DaemonConfig } from '../../config/index.js';
import type { Term } from '../../ranges/index.js';
import { childOf, orAborted, programVersion, wasAborted } from '../../runtime/index.js';
import { SCHEMA_VERSION, StorageError, type IndexStore } from '../../storage/index.js';
import { buildLine, type IndexingLine } from './buildLine.js';
import type { IndexingParts } from './runIndexing.js';
import { firstHeightOf } from './startHeight.js';

/** Called with every line of the live range that starts; with `undefined` if none runs here: another process leads, or none does. */
export type OnLine = (line: IndexingLine | undefined) => void;

/**
 * Indexes the live range while this process leads: initializes an empty store, and runs the indexing line, which restarts when a
 * false block was found too late to replace it. After another process has taken over, it waits until it leads again.
 */
export function indexLive(config: DaemonConfig, parts: IndexingParts, onLine: OnLine) {
  const { leadership, lifecycle, listener, logger, network, store } = parts;
  const { chainId } = config;
  const { signal } = lifecycle;
  let line: IndexingLine | undefined;
  let term: Term | undefined;

  /** True for writes that are refused because another process leads. */
  const isReplaced = (error: unknown): boolean =>
    store.shared !== undefined && error instanceof StorageError && error.kind === 'locked';

  /** Initializes the store if it is empty. */
  const begin = async (lost: AbortSignal): Promise<void> => {
    if (store.meta() !== undefined) return;
    // One node's answer does not show where the other nodes begin.
    await network.whenAllAsked(lost);
    if (config.startHeight === 'root') await network.whenSporkKnown('root', lost);
    const first = await firstHeightOf(config, { network, listener }, lost);
    await network.whenSporkKnown(first, lost);
    const spork = network.sporkAt(first);
    const createdBy = `flow-collection-indexer ${programVersion}`;
    const meta = { schemaVersion: SCHEMA_VERSION, chainId, firstHeight: first, createdBy };
    await store.initialise({ ...meta, sporks: spork === undefined ? [] : [spork] });
    logger.info({ height: first, chainId }, 'new store created');
  };

  /** Runs lines until `lost` aborts. */
  const follow = async (lost: AbortSignal): Promise<void> => {
    await begin(lost);
    let reachedHeight = highestDurable(store);
    // A line whose writes are refused has not failed: it will be closed.
    const fail = (error: unknown): void => {
      if (!isReplaced(error) && !wasAborted(error, signal)) lifecycle.fail(error);
    };
    while (!lost.aborted) {
      line = buildLine(config, { ...parts, fail }, { reachedHeight });
      onLine(line);
      const outdated = await orAborted(line.outdated, lost);
      logger.warn({ reason: outdated }, 'indexing restarts from the watermark');
      await line.close();
      // Blocks above the watermark only save work, and one of them is false.
      reachedHeight = Math.max(reachedHeight, highestDurable(store));
      await store.forgetAbove();
    }
  };

  /** Resolves with the reason when this process no longer leads. */
  const lead = async (itsTerm: Term): Promise<string> => {
    try {
      // This waits while the database is away; closing the store ends the wait.
      const replaced = store.shared === undefined ? signal : await orAborted(store.shared.lead(), signal);
      const lost = childOf(signal, itsTerm.lost, replaced);
      if (store.shared !== undefined)
        logger.info({ latestIndexedHeight: store.latestIndexedHeight() }, 'this process leads');
      try {
        await follow(lost.signal);
      } catch (error) {
        if (!wasAborted(error, lost.signal)) throw error;
      } finally {
        lost.abort();
      }
    } catch (error) {
      if (!isReplaced(error)) throw error;
    }
    return itsTerm.lost.aborted ? 'the lead was not kept up' : 'another process, or an older copy, took over';
  };

  /** Ends the line, and lets another process lead. Idempotent. */
  const close = async (): Promise<void> => {
    const itsTerm = term;
    try {
      await line?.close();
    } catch (error) {
      // Another process writes the rest.
      if (!isReplaced(error)) throw error;
    } finally {
      line = undefined;
      await store.shared?.follow();
      term = undefined;
      await itsTerm?.release();
    }
  };

  /** Ends when the daemon must stop; then call `close`. Rejects as the indexing line. Expected errors: the life cycle's abort reason. */
  const run = async (): Promise<void> => {
    for (;;) {
      term = await leadership.lead(signal);
      if (term === undefined) return;
      const reason = await lead(term);
      if (signal.aborted) return;
      logger.warn({ reason }, 'this process does not lead any more');
      await close();
      onLine(undefined);
    }
  };
  return { run, close };
}

/** The chain has reached this height, whatever head the nodes have reported so far. */
const highestDurable = (store: IndexStore): number =>
  Math.max(store.latestIndexedHeight(), ...store.blocksAboveWatermark().map(({ height }) => height));
