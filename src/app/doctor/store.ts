import type { StatusDocument } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { formatSize, silentLogger } from '../../observability/index.js';
import { maskedEndpoint, OperatorError, type Clock } from '../../runtime/index.js';
import { joined, loadPostgres, lockHolder, rangesInWords, StorageError } from '../../storage/index.js';
import { surveyStore, without } from '../../storage/index.js';
import type { BackfillPlan, DatabaseSurvey, HeightRange, SporkRecord } from '../../storage/index.js';
import { runningDaemon, storePathOf } from '../lifecycle/daemonRecord.js';
import { ok, problem, those, warning, type Finding } from './verdicts.js';

/** Above this share of its connections in use, a server may refuse the next one. */
const CONNECTIONS_SHARE = 0.8;
/** Every batch waits for a few round trips. */
const SLOW_ROUND_TRIP_MS = 20;

const HANGS =
  'A daemon hangs or is stopped: if "ps -o stat= -p PID" prints T, use "kill -CONT PID"; if it prints D, its disk hangs.';

/** What other checks need to know about the store. */
export interface StoredHeights {
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  readonly plans: readonly Pick<BackfillPlan, 'from' | 'to'>[];
  /** Size of the store; `undefined` if a running daemon does not report it. */
  readonly bytes: number | undefined;
}

/** `undefined` if none runs on this data directory, or it does not answer. */
export type StatusOfDaemon = () => Promise<StatusDocument | undefined>;

export const nothingStored: StoredHeights = { coverage: [], sporks: [], plans: [], bytes: undefined };

/** Inspects the store without opening it for writing. Expected errors: `OperatorError` of a store that does not answer. */
export async function lookAtStore(
  { chainId, dataDir, store }: Pick<DaemonConfig, 'chainId' | 'dataDir' | 'store'>,
  { clock, status }: { readonly clock: Clock; readonly status: StatusOfDaemon },
): Promise<{ readonly stored: StoredHeights; readonly found: readonly Finding[] }> {
  if (store === undefined) {
    const stored = await heightsInDirectory({ dataDir, chainId }, { clock, status });
    return { stored, found: those(leftOut(stored)) };
  }
  const { surveyDatabase } = await loadPostgres();
  const survey = await surveyDatabase({ url: store, key: 'store' }, { clock });
  const record = await runningDaemon(dataDir);
  const answers = record?.store !== maskedEndpoint(store) || record.api === undefined || (await status());
  const silence = `Process ${record?.pid} is the daemon of ${dataDir}, and does not answer. ${HANGS}`;
  const silent = !answers && problem('no_daemon', silence);
  const stored = survey.store ?? nothingStored;
  return { stored, found: those(silent, ...checkServer(survey), leftOut(stored), ok(describe(survey))) };
}

/** Heights between indexed ones that no plan fetches. */
function leftOut({ coverage, plans }: StoredHeights): Finding | undefined {
  const whole = { from: coverage[0]?.from ?? 0, to: coverage.at(-1)?.to ?? -1 };
  const [first, ...more] = without([whole], joined([...coverage, ...plans]));
  if (first === undefined) return undefined;
  const plan = `backfill plan --from ${first.from} --to ${first.to}`;
  return warning(
    `The index lacks heights ${rangesInWords([first, ...more])}, and no plan fetches them: "${plan}" has them filled in.`,
  );
}

/** Whether the database of readers receives what is written to the store. Expected errors: as `lookAtStore`. */
export async function checkReplica({ api }: Pick<DaemonConfig, 'api'>, clock: Clock): Promise<Finding[]> {
  if (api.store === undefined) return [];
  const { surveyDatabase } = await loadPostgres();
  const { isReplica, place } = await surveyDatabase({ url: api.store, key: 'api.store' }, { clock });
  const trouble =
    `api.store, ${place}, is not a replica and does not receive what the store is given; name a streaming replica of the ` +
    'store, or leave --api-store out.';
  return isReplica ? [] : [warning(trouble)];
}

/** As the running daemon reports them, else from the files; nothing if neither has them. Expected errors: `OperatorError` naming the process that holds them. */
async function heightsInDirectory(
  { dataDir, chainId }: Pick<DaemonConfig, 'dataDir' | 'chainId'>,
  { clock, status }: { readonly clock: Clock; readonly status: StatusOfDaemon },
): Promise<StoredHeights> {
  const live = await status();
  if (live !== undefined) return { ...nothingStored, coverage: live.coverage, plans: live.backfill.plans };
  const path = storePathOf(dataDir);
  const holder = lockHolder(path);
  if (holder !== undefined)
    throw new OperatorError(
      'storage',
      `The store in ${dataDir} is in use by ${holder}, and no daemon answers there. Wait for a command to end. ${HANGS}`,
    );
  try {
    return await surveyStore({ path, chainId }, { clock, logger: silentLogger });
  } catch (error) {
    // Nothing is stored yet, or no copy to open can be made beside it.
    if (error instanceof StorageError && !/^(?:corrupt|locked|not_a_store)$/.test(error.kind))
      return nothingStored;
    if (!(error instanceof OperatorError)) throw error;
    throw new OperatorError(error.exit, error.message.replaceAll(/\.survey-\d+/g, ''));
  }
}

function checkServer({ connections, place, roundTripMs, unsafe }: DatabaseSurvey): Finding[] {
  return those(
    unsafe.length > 0 &&
      warning(
        `${place} runs with ${unsafe.join(' and ')}, so a power failure can damage what was committed; set it to on.`,
      ),
    connections.used > connections.max * CONNECTIONS_SHARE &&
      warning(
        `${place} has ${connections.used} of ${connections.max} connections in use, and each process of the daemon takes about 20; ` +
          'raise max_connections.',
      ),
    roundTripMs > SLOW_ROUND_TRIP_MS &&
      warning(
        `${place} takes ${Math.round(roundTripMs)} ms for the smallest query, and every batch waits for several; run the ` +
          'daemon closer to it.',
      ),
  );
}

function describe({ connections, jobsVersion, place, store, tls, user, version }: DatabaseSurvey): string {
  const heights = store?.coverage.length ? `heights ${rangesInWords(store.coverage)}` : 'no heights yet';
  const has =
    store === undefined
      ? 'no index yet'
      : `${heights}, ${formatSize(store.bytes)}, schema ${store.schemaVersion}`;
  const queue = jobsVersion === undefined ? '' : `, pg-boss schema ${jobsVersion}`;
  return (
    `${place}: PostgreSQL ${version}, ${tls ?? 'in the clear'}, as ${user}, ${connections.used} of ${connections.max} connections ` +
    `in use; ${has}${queue}.`
  );
}
