import type { BackfillPlan } from '../../port/RangeBook.js';
import type { StoreMeta } from '../../port/stored.js';
import { corruptRecord } from '../../StorageError.js';
import type { Coverage } from '../accountCoverage.js';
import { decodeCoverage, decodeProgress, decodeRewind } from '../coding/heightRecords.js';
import type { RewindIntent } from '../coding/heightRecords.js';
import { decodeMeta, decodeOpenRecord, decodePlans } from '../coding/jsonRecords.js';
import type { OpenRecord } from '../coding/jsonRecords.js';
import { unseal } from '../coding/seal.js';
import type { Database, Entry } from '../Database.js';
import type { HeightRanges } from '../heightRanges.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  META_KEY,
  PROOFS_SCHEMA_VERSION,
  parseOpenKey,
  PLANS_KEY,
  Prefix,
  prefixRange,
  PROGRESS_KEY,
  PUBLISHED_KEY,
  REWIND_KEY,
  UNPROVEN_KEY,
} from '../schema.js';

export function readMeta(database: Database): Promise<StoreMeta | undefined> {
  return readRecord(database, META_KEY, 'meta record', (payload) =>
    decodeMeta(payload, PROOFS_SCHEMA_VERSION),
  );
}

export function readProgress(database: Database): Promise<number | undefined> {
  return readRecord(database, PROGRESS_KEY, 'progress record', decodeProgress);
}

export function readRewind(database: Database): Promise<RewindIntent | undefined> {
  return readRecord(database, REWIND_KEY, 'rewind record', decodeRewind);
}

export async function readPublished(database: Database): Promise<HeightRanges> {
  return (await readRecord(database, PUBLISHED_KEY, 'record of the ranges', decodeCoverage)) ?? [];
}

export async function readUnproven(database: Database): Promise<HeightRanges> {
  return (await readRecord(database, UNPROVEN_KEY, 'record of the unproven heights', decodeCoverage)) ?? [];
}

export async function readPlans(database: Database): Promise<readonly BackfillPlan[]> {
  return (await readRecord(database, PLANS_KEY, 'record of the plans', decodePlans)) ?? [];
}

/** The open ranges, ascending. Expected errors: `StorageError` (`corrupt`). */
export async function readOpenRecords(database: Database): Promise<OpenRecord[]> {
  const records: OpenRecord[] = [];
  for await (const page of database.pages(prefixRange(Prefix.open))) {
    for (const entry of page) records.push(openOpenRecord(entry));
  }
  return records;
}

/** Checks and parses the record of an open range. Expected errors: `StorageError` (`corrupt`). */
export function openOpenRecord([key, value]: Entry): OpenRecord {
  const from = parseOpenKey(key);
  if (from === undefined) {
    throw corruptRecord(OPEN_RECORD, undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(OPEN_RECORD, from, 'its checksum does not match');
  const record = decodeOpenRecord(from, payload);
  if (record === undefined) throw corruptRecord(OPEN_RECORD, from, 'it cannot be read');
  return record;
}

const OPEN_RECORD = 'record of an open range';

/** The coverage record, whether or not the meta record claims an account index. */
export function readCoverage(database: Database): Promise<Coverage | undefined> {
  return readRecord(database, COVERAGE_KEY, COVERAGE_RECORD, decodeCoverage);
}

/**
 * What the account index of a store covers; `undefined` for a store that never had one, without a read. Expected
 * errors: `StorageError` (`corrupt`).
 */
export async function coverageOf(database: Database, meta: StoreMeta): Promise<Coverage | undefined> {
  if (meta.schemaVersion < ACCOUNTS_SCHEMA_VERSION) return undefined;
  const coverage = await readCoverage(database);
  if (coverage === undefined && meta.schemaVersion === ACCOUNTS_SCHEMA_VERSION) {
    throw corruptRecord(COVERAGE_RECORD, undefined, 'it is missing');
  }
  return coverage;
}

const COVERAGE_RECORD = 'record of the account index';

async function readRecord<T>(
  database: Database,
  key: Buffer,
  name: string,
  decode: (payload: Buffer) => T | undefined,
): Promise<T | undefined> {
  const value = await database.get(key);
  if (value === undefined) return undefined;
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(name, undefined, 'its checksum does not match');
  const record = decode(payload);
  if (record === undefined) throw corruptRecord(name, undefined, 'it cannot be read');
  return record;
}
