import type { DaemonConfig } from '../../config/index.js';
import { silentLogger } from '../../observability/index.js';
import { systemClock } from '../../runtime/index.js';
import { LevelIndexStore, loadPostgres, repairStore, verifyStore } from '../../storage/index.js';
import type { RepairReport, VerifyDependencies, VerifyOptions, VerifyReport } from '../../storage/index.js';
import { closing, DATABASE_WAIT_MS, whileNobodyLeads } from './databases.js';
import { objectionsOf } from '../lifecycle/knownBlocks.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import { refuseDatabase, toRead, whenFree } from './openStore.js';

/** Like `verifyStore`, for the store of a configuration, with the blocks that it names. Also expected: the errors of `openStoreReadOnly`. */
export async function verifyStoreOf(
  config: DaemonConfig,
  range: Pick<VerifyOptions, 'from' | 'to'>,
  dependencies: Pick<VerifyDependencies, 'onProgress' | 'signal'>,
): Promise<VerifyReport> {
  const { chainId, store: url } = config;
  const objectionTo = await objectionsOf(config);
  if (url !== undefined) {
    const { verifyPostgres } = await loadPostgres();
    return verifyPostgres(
      { url, chainId, ...range, objectionTo },
      { clock: systemClock, logger: silentLogger, ...dependencies },
    );
  }
  const options = { ...placeOf(config), ...range, objectionTo };
  const verify = (): Promise<VerifyReport> => verifyStore(options, { logger: silentLogger, ...dependencies });
  return whenFree(config, () => toRead(config, verify));
}

/**
 * Deletes the account index of a store. Returns how many entries it had; `undefined` when there was none. Expected
 * errors: those of `openStoreReadOnly`.
 */
export async function forgetAccountsOf(config: DaemonConfig): Promise<number | undefined> {
  refuseDatabase(config, 'there, the account index is part of the tables, and written with every block');
  const opening = LevelIndexStore.open(
    { ...placeOf(config), create: false },
    { logger: silentLogger, clock: systemClock },
  );
  return closing(await opening, async (store) =>
    store.meta() === undefined ? undefined : store.forgetAccounts(),
  );
}

/**
 * Finds out what can be kept of a damaged store, and with `apply` keeps that and deletes the rest. Expected errors:
 * OperatorError (no store there, locked by a running or leading daemon, another chain, nothing worth keeping).
 */
export async function repairStoreOf(
  config: DaemonConfig,
  { apply, signal }: { readonly apply: boolean; readonly signal: AbortSignal },
): Promise<RepairReport> {
  const { chainId, store: url } = config;
  if (url !== undefined) {
    const { repairPostgres } = await loadPostgres();
    const dependencies = { clock: systemClock, logger: silentLogger, signal };
    if (!apply) return repairPostgres({ url, chainId, apply }, dependencies);
    return whileNobodyLeads(config, async (queue) =>
      repairPostgres(
        { url, chainId, apply, lastPlan: await queue.lastPlan(), patienceMs: DATABASE_WAIT_MS },
        dependencies,
      ),
    );
  }
  return repairStore({ ...placeOf(config), apply }, { logger: silentLogger, signal });
}

/** The path of a store, and its chain. */
function placeOf({ chainId, dataDir }: DaemonConfig): { readonly path: string; readonly chainId: string } {
  return { path: storePathOf(dataDir), chainId };
}
