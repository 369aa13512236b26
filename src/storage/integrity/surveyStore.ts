import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { newestValues } from '../files/format/newestValues.js';
import { inspectFiles } from '../files/inspection.js';
import type { FileDamage } from '../files/inspection.js';
import type { BackfillPlan } from '../port/RangeBook.js';
import type { HeightRange, StoreMeta } from '../port/stored.js';
import { decodeCoverage, decodeProgress } from '../records/coding/heightRecords.js';
import { decodeMeta, decodePlans } from '../records/coding/jsonRecords.js';
import { unseal } from '../records/coding/seal.js';
import {
  META_KEY,
  PLANS_KEY,
  PROGRESS_KEY,
  PUBLISHED_KEY,
  PROOFS_SCHEMA_VERSION,
} from '../records/schema.js';
import { hasCode } from '../StorageError.js';

/** Bytes of tables, newest first, that are compared with their checksums: as at every open. */
const TABLE_BYTES = 64 * 1024 * 1024;

/** What can be learned from the files of a store without opening it. */
export interface StoreSurvey {
  /** `undefined`: nothing was ever stored here, or the record cannot be read (then there is damage). */
  readonly meta: StoreMeta | undefined;
  /** The live range last; empty while nothing is indexed. */
  readonly coverage: readonly HeightRange[];
  readonly plans: readonly BackfillPlan[];
  /** Size of all tables. */
  readonly bytes: number;
  readonly damages: readonly FileDamage[];
}

/**
 * Looks at a store that no process uses, and changes nothing, not even what LevelDB would tidy up at an open.
 * `undefined`: there is no store. Expected errors: `StorageError`.
 */
export async function surveyStore(path: string): Promise<StoreSurvey | undefined> {
  try {
    await stat(join(path, 'CURRENT'));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
  }
  const { damages, logs, manifest } = await inspectFiles(path, { tableBytes: TABLE_BYTES });
  const content = manifest?.content;
  const sizes = [...(content?.tables.values() ?? [])];
  const survey = {
    damages,
    bytes: sizes.reduce((sum, size) => sum + size, 0),
  };
  if (content === undefined) return { ...survey, meta: undefined, coverage: [], plans: [] };
  const keys = [META_KEY, PROGRESS_KEY, PUBLISHED_KEY, PLANS_KEY];
  const values = await newestValues(path, keys, { manifest: content, logs });
  const payloadOf = (key: Buffer): Buffer | undefined => {
    const value = values.get(key.toString('hex'));
    return value === undefined ? undefined : unseal(key, value);
  };
  const read = <T>(key: Buffer, decode: (payload: Buffer) => T | undefined): T | undefined => {
    const payload = payloadOf(key);
    return payload === undefined ? undefined : decode(payload);
  };
  const meta = read(META_KEY, (payload) => decodeMeta(payload, PROOFS_SCHEMA_VERSION));
  const latest = read(PROGRESS_KEY, decodeProgress);
  const published = read(PUBLISHED_KEY, decodeCoverage) ?? [];
  const isFilled = meta !== undefined && latest !== undefined && latest >= meta.firstHeight;
  return {
    ...survey,
    meta,
    plans: read(PLANS_KEY, decodePlans) ?? [],
    coverage: isFilled ? [...published, { from: meta.firstHeight, to: latest }] : published,
  };
}
