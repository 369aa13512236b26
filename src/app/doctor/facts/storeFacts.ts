import type { StatusDocument } from '../../../api/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { OperatorError } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { loadPostgres, lockHolder, surveyStore } from '../../../storage/index.js';
import type {
  BackfillPlan,
  DatabaseSurvey,
  HeightRange,
  SporkRecord,
  StoreSurvey,
} from '../../../storage/index.js';
import { daemonRequest } from '../../guard/daemonRequest.js';
import { hostAndPort, isAlive, readDaemonRecord, storePathOf } from '../../lifecycle/daemonRecord.js';
import type { DaemonRecord } from '../../lifecycle/daemonRecord.js';

/** How long a running daemon may take to answer. */
const ASK_MS = 3_000;

/** What is known about the store before anything is opened. */
export type StoreFacts =
  | { readonly kind: 'none' }
  /** Its own daemon runs; `status` if it answers. */
  | { readonly kind: 'running'; readonly record: DaemonRecord; readonly status: StatusDocument | undefined }
  | { readonly kind: 'locked'; readonly holder: string }
  | { readonly kind: 'closed'; readonly survey: StoreSurvey }
  | {
      readonly kind: 'database';
      /** The daemon of the data directory, if one runs. */
      readonly record: DaemonRecord | undefined;
      readonly survey: DatabaseSurvey;
      readonly replica: DatabaseSurvey | undefined;
    }
  | { readonly kind: 'unreadable'; readonly error: OperatorError };

/** Looks at the store of a configuration without opening it for writing. No expected errors: a failure is a fact. */
export async function factsOfStore(
  config: Pick<DaemonConfig, 'api' | 'dataDir' | 'store'>,
  clock: Clock,
): Promise<StoreFacts> {
  try {
    return await look(config, clock);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { kind: 'unreadable', error };
  }
}

async function look(
  { api, dataDir, store }: Pick<DaemonConfig, 'api' | 'dataDir' | 'store'>,
  clock: Clock,
): Promise<StoreFacts> {
  if (store !== undefined) {
    const { surveyDatabase } = await loadPostgres();
    const survey = await surveyDatabase({ url: store, key: 'store' }, { clock });
    const replica =
      api.store === undefined
        ? undefined
        : await surveyDatabase({ url: api.store, key: 'api.store' }, { clock });
    return { kind: 'database', survey, replica, record: await runningRecord(dataDir) };
  }
  const record = readDaemonRecord(dataDir);
  if (record !== undefined && isAlive(record.pid)) {
    const status = await statusOf(record);
    // The recorded process may have ended and its number gone to another one.
    if (status !== undefined) return { kind: 'running', record, status };
  }
  const path = storePathOf(dataDir);
  const holder = lockHolder(path);
  if (holder !== undefined) {
    const isOurs = record !== undefined && holder.startsWith(`process ${record.pid}`);
    return isOurs ? { kind: 'running', record, status: undefined } : { kind: 'locked', holder };
  }
  const survey = await surveyStore(path);
  return survey === undefined ? { kind: 'none' } : { kind: 'closed', survey };
}

/** The record, if its daemon answers, or runs without serving readers. */
async function runningRecord(dataDir: string): Promise<DaemonRecord | undefined> {
  const record = readDaemonRecord(dataDir);
  if (record === undefined || !isAlive(record.pid)) return undefined;
  return record.api === undefined || (await statusOf(record)) !== undefined ? record : undefined;
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

/** What other checks need to know about the store. */
export interface StoredHeights {
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  readonly plans: readonly Pick<BackfillPlan, 'from' | 'to'>[];
  /** Size of the store; `undefined` if a running daemon does not report it. */
  readonly bytes: number | undefined;
}

export function heightsIn(facts: StoreFacts): StoredHeights {
  const nothing = { coverage: [], sporks: [], plans: [], bytes: undefined };
  switch (facts.kind) {
    case 'closed': {
      const { bytes, coverage, meta, plans } = facts.survey;
      return { sporks: meta?.sporks ?? [], coverage, plans, bytes };
    }
    case 'database': {
      const { store } = facts.survey;
      return store === undefined ? nothing : { ...store };
    }
    case 'running': {
      const { status } = facts;
      if (status === undefined) return nothing;
      const { backfill, coverage } = status;
      return { ...nothing, coverage, plans: backfill.plans };
    }
    case 'none':
    case 'locked':
    case 'unreadable':
      return nothing;
  }
}
