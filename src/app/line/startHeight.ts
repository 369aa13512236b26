import type { AccessNetwork } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { FinalizationListener } from '../../finality/index.js';
import { maskedEndpoint, OperatorError } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';

/** Where the store is, in words: "in DIRECTORY", "at DATABASE". */
export function placeOfStore({ dataDir, store }: Pick<DaemonConfig, 'dataDir' | 'store'>): string {
  return store === undefined ? `in ${dataDir}` : `at ${maskedEndpoint(store)}`;
}

/** Checks a start height against a store that is not empty. Expected errors: OperatorError `configuration`. */
export function checkStartOfFilledStore(config: DaemonConfig, store: IndexStore): void {
  const meta = store.meta();
  if (meta === undefined || typeof config.startHeight !== 'number') return;
  const next = store.latestIndexedHeight() + 1;
  // After a repair, the heights below a hole still belong to this store, and so does the hole, for which there is a plan.
  const beginnings = [...store.coverage(), ...store.ranges.plans()].map(({ from }) => from);
  if (config.startHeight >= Math.min(meta.firstHeight, ...beginnings) && config.startHeight <= next) return;
  throw new OperatorError(
    'configuration',
    `startHeight ${config.startHeight} does not fit the store ${placeOfStore(config)}, which holds heights ` +
      `${meta.firstHeight} to ${next - 1} and goes on at ${next}. Leave --start-height out to go on, fill in what lies below ` +
      `with --backfill, or name another ${config.store === undefined ? '--data-dir' : '--store'} to start elsewhere.`,
  );
}

/**
 * Decides the first height of an empty store. Waits for the head if it is needed. Expected errors: OperatorError
 * `configuration` when no node has the requested height, `unavailable` while one that may have it does not answer; the signal's
 * abort reason.
 */
export async function firstHeightOf(
  { startHeight, stopHeight }: DaemonConfig,
  { listener, network }: { readonly network: AccessNetwork; readonly listener: FinalizationListener },
  signal: AbortSignal,
): Promise<number> {
  const first =
    startHeight === 'latest' ? await listener.firstHead(signal) : servedHeight(startHeight, network);
  if (stopHeight === undefined || stopHeight >= first) return first;
  throw new OperatorError(
    'configuration',
    `stopHeight ${stopHeight} is below the first height, ${first} (startHeight ${startHeight}). ` +
      'Raise --stop-height, or give a lower --start-height.',
  );
}

function servedHeight(startHeight: number | 'root', network: AccessNetwork): number {
  const { source } = network;
  // Nodes that did not answer may have what the others lack.
  const silent = network.states().flatMap(({ state, name }) => (state === 'unknown' ? name : []));
  const unless = silent.length === 0 ? '' : ` (${silent.join(', ')} did not answer)`;
  const refuse = (message: string): never => {
    throw new OperatorError(silent.length === 0 ? 'configuration' : 'unavailable', message);
  };
  if (startHeight === 'root')
    return (
      network.liveRoot() ??
      refuse(
        `No configured ${source} reports the root height of its spork, so startHeight root cannot be resolved. ` +
          'Give a number with --start-height.',
      )
    );
  const another = source === 'peer' ? 'a --peer' : 'an --access-node';
  const lowest = network.lowestHeight();
  if (lowest !== undefined && startHeight < lowest)
    refuse(
      `startHeight ${startHeight} is below ${lowest}, the lowest height that any configured ${source} has` +
        `${unless}. Use --start-height ${lowest} or higher, or add ${another} that goes further back.`,
    );
  const served = network.lowestServedFrom(startHeight);
  if (served !== undefined && served > startHeight)
    refuse(
      `startHeight ${startHeight} lies between two sporks that are served: no configured ${source} has it, and ` +
        `the spork table names none${unless}. Use --start-height ${served} or higher, or add ${another} that has it.`,
    );
  return startHeight;
}
