import type { StatusDocument } from '../../../api/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { OperatorError } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { loadPostgres, lockHolder, surveyStore } from '../../../storage/index.js';
import type { BackfillPlan, DatabaseSurvey, HeightRange, SporkRecord } from '../../../storage/index.js';
import { daemonRequest } from '../../guard/daemonRequest.js';
import { hostAndPort, isAlive, readDaemonRecord, storePathOf } from '../../lifecycle/daemonRecord.js';
import type { DaemonRecord } from '../../lifecycle/daemonRecord.js';

/** How long a running daemon may take to answer. */
const ASK_MS = 3_000;

/** What is known about the store before anything is opened. */
export type StoreFacts =
  /** What stops the daemon there, it says itself at its start. */
  | { readonly kind: 'directory'; readonly heights: StoredHeights }
  | {
      readonly kind: 'database';
      readonly survey: DatabaseSurvey;
      readonly replica: DatabaseSurvey | undefined;
    }
  /** A database that does not answer. */
  | { readonly kind: 'unreachable'; readonly error: OperatorError };

/** What other checks need to know about the store. */
export interface StoredHeights {
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  readonly plans: readonly Pick<BackfillPlan, 'from' | 'to'>[];
  /** Size of the store; `undefined` if a running daemon does not report it. */
  readonly bytes: number | undefined;
}

export const nothingStored: StoredHeights = { coverage: [], sporks: [], plans: [], bytes: undefined };

/** Looks at the store of a configuration without opening it for writing. No expected errors: a failure is a fact. */
export async function factsOfStore(
  config: Pick<DaemonConfig, 'api' | 'dataDir' | 'store'>,
  clock: Clock,
): Promise<StoreFacts> {
  const { api, dataDir, store } = config;
  if (store === undefined)
    return {
      kind: 'directory',
      heights: (await unlessRefused(heightsInDirectory(dataDir))) ?? nothingStored,
    };
  try {
    const { surveyDatabase } = await loadPostgres();
    const survey = await surveyDatabase({ url: store, key: 'store' }, { clock });
    const replica = api.store && (await surveyDatabase({ url: api.store, key: 'api.store' }, { clock }));
    return { kind: 'database', survey, replica: replica || undefined };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { kind: 'unreachable', error };
  }
}

export function heightsIn(facts: StoreFacts): StoredHeights {
  if (facts.kind === 'directory') return facts.heights;
  return (facts.kind === 'database' ? facts.survey.store : undefined) ?? nothingStored;
}

/** As the running daemon tells them, else the files; `undefined`: neither does. Expected errors: `StorageError`. */
async function heightsInDirectory(dataDir: string): Promise<StoredHeights | undefined> {
  const record = readDaemonRecord(dataDir);
  // The recorded process may have ended and its number gone to another one.
  const status = record !== undefined && isAlive(record.pid) ? await statusOf(record) : undefined;
  if (status !== undefined)
    return { ...nothingStored, coverage: status.coverage, plans: status.backfill.plans };
  const path = storePathOf(dataDir);
  const survey = lockHolder(path) === undefined ? await surveyStore(path) : undefined;
  if (survey === undefined) return undefined;
  const { bytes, coverage, meta, plans } = survey;
  return { bytes, coverage, plans, sporks: meta?.sporks ?? [] };
}

async function unlessRefused<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return undefined;
  }
}

/** `undefined` if it does not answer, or another daemon does. */
async function statusOf({ api, instance }: DaemonRecord): Promise<StatusDocument | undefined> {
  if (api === undefined) return undefined;
  try {
    const protocol = api.certificate === undefined ? 'http' : 'https';
    const url = new URL(`${protocol}://${hostAndPort(api)}/status`);
    const { bytes } = await daemonRequest(url, api, AbortSignal.timeout(ASK_MS));
    const status = JSON.parse(bytes.toString()) as StatusDocument;
    return status.instance === instance ? status : undefined;
  } catch {
    return undefined;
  }
}
