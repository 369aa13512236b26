import type { DaemonConfig } from '../../config/index.js';
import { OperatorError } from '../../runtime/index.js';
import { LevelIndexStore, loadPostgres, rangesInWords } from '../../storage/index.js';
import { repairStore, verifyStore } from '../../storage/index.js';
import type { RepairReport, VerifyDependencies, VerifyOptions, VerifyReport } from '../../storage/index.js';
import { closing, DATABASE_WAIT_MS, forCommand, takeLead, whileNobodyLeads } from './databases.js';
import { objectionsOf } from '../lifecycle/knownBlocks.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import { openForCommand, refuseDatabase, whenFree, type OpenStore } from './openStore.js';

/** Like `verifyStore`, for the store of a configuration and the blocks it names. Also expected: the errors of `openStoreReadOnly`. */
export async function verifyStoreOf(
  config: DaemonConfig,
  range: Pick<VerifyOptions, 'from' | 'to'>,
  dependencies: Pick<VerifyDependencies, 'onProgress' | 'signal'>,
): Promise<VerifyReport> {
  const { chainId, store: url } = config;
  const objectionTo = await objectionsOf(config);
  if (url !== undefined) {
    const { verifyPostgres } = await loadPostgres();
    const options = { url, chainId, ...range, objectionTo, patienceMs: DATABASE_WAIT_MS };
    return verifyPostgres(options, { ...forCommand, ...dependencies });
  }
  const options = { ...placeOf(config), ...range, objectionTo };
  const verify = (): Promise<VerifyReport> => verifyStore(options, { ...forCommand, ...dependencies });
  return whenFree(config, { isReadOnly: true }, verify);
}

/**
 * Deletes the account index of a store. Returns how many entries it had; `undefined` when there was none. Expected
 * errors: those of `openStoreReadOnly`.
 */
export async function forgetAccountsOf(config: DaemonConfig): Promise<number | undefined> {
  refuseDatabase(config, 'there, the account index is part of the tables, and written with every block');
  const opening = LevelIndexStore.open({ ...placeOf(config), create: false }, forCommand);
  return closing(await opening, async (store) =>
    store.meta() === undefined ? undefined : store.forgetAccounts(),
  );
}

/**
 * Determines what can be kept of a damaged store, and with `apply` deletes the rest. Expected errors: OperatorError (no store
 * there, locked by a running or leading daemon, another chain, nothing worth keeping).
 */
export async function repairStoreOf(
  config: DaemonConfig,
  { apply, ...reporting }: { readonly apply: boolean } & Pick<VerifyDependencies, 'onProgress' | 'signal'>,
): Promise<RepairReport> {
  const { chainId, store: url } = config;
  const dependencies = { ...forCommand, ...reporting };
  if (url === undefined) return repairStore({ ...placeOf(config), apply }, dependencies);
  const { repairPostgres } = await loadPostgres();
  const options = { url, chainId, apply, patienceMs: DATABASE_WAIT_MS };
  if (!apply) return repairPostgres(options, dependencies);
  return whileNobodyLeads(config, async (queue) => {
    const lastPlan = await queue.lastPlan();
    return repairPostgres({ ...options, lastPlan }, dependencies);
  });
}

/**
 * Determines what is stored above `height`, and with `apply` deletes it. Expected errors: those of `openStoreReadOnly`;
 * OperatorError `usage` when there is nothing to keep at that height. Returns the watermark before and after (below the requested
 * height if no range has that), and what is deleted, blocks above the watermark included; `undefined`: nothing to delete.
 */
export async function rewindStore(
  config: DaemonConfig,
  height: number,
  how: {
    readonly openStore?: OpenStore;
    readonly apply?: boolean;
    /** See `IndexStore.rewind`. */
    readonly onStep?: (highest: number) => void;
  } = {},
) {
  const { apply = true, onStep, openStore } = how;
  const opening = openForCommand(config, openStore && { openStore });
  return closing(await opening, async (store) => {
    const meta = store.meta();
    if (meta === undefined || store.latestIndexedHeight() < 0)
      throw new OperatorError('usage', 'The store is empty: there is nothing to rewind.');
    const from = store.latestIndexedHeight();
    const ranges = store.coverage();
    const lowest = ranges[0]?.from ?? meta.firstHeight;
    const isOnly = ranges.length <= 1;
    if (height < lowest - (isOnly ? 1 : 0) || height > from) {
      throw new OperatorError(
        'usage',
        `--to ${height} is outside what can be kept: the store holds heights ${rangesInWords(ranges)}. ` +
          (lowest === 0 || !isOnly
            ? `Give a height from ${lowest} to ${from}.`
            : `Give a height from ${lowest - 1} (forget everything) to ${from}.`),
      );
    }
    const through = Math.min(height, ranges.findLast((range) => range.from <= height)?.to ?? height);
    const waiting = store.blocksAboveWatermark();
    const open = store.ranges.open().map((range) => ({ from: range.from, to: range.next - 1 }));
    const above = [...ranges, ...open].map(({ from, to }) => Math.max(0, to - Math.max(from - 1, through)));
    const heights = above.reduce((sum, each) => sum + each, waiting.length);
    if (apply) {
      await takeLead(config, store);
      await store.rewind(height, onStep);
    }
    const to = waiting.at(-1)?.height ?? from;
    return { from, through, forgotten: heights === 0 ? undefined : { heights, from: through + 1, to } };
  });
}

function placeOf({ chainId, dataDir }: DaemonConfig): { readonly path: string; readonly chainId: string } {
  return { path: storePathOf(dataDir), chainId };
}
