import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { storageErrorFrom } from '../StorageError.js';
import { readCurrentManifest, readManifest } from './format/currentManifest.js';
import type { FoundManifest } from './format/currentManifest.js';
import { LOG_FILE, MANIFEST_FILE, numberOf, TABLE_FILE, tableName } from './format/fileNames.js';
import { checkLogs } from './format/logs.js';
import type { LogDamage } from './format/logs.js';
import type { KeySpan, Manifest } from './format/manifest.js';
import { checkTable, describeDamage, UNREADABLE_TABLE, wrongSize } from './format/tableFile.js';
import type { DescribedDamage, TableDamage } from './format/tableFile.js';

/** File sizes read at once. */
const STATS_AT_ONCE = 32;

/** A damaged file of the database, in words. */
export interface FileDamage {
  readonly file: string;
  readonly what: string;
  /** The entries of a table that may be lost with it; an open end means the first or last key of the table. */
  readonly keys?: Partial<KeySpan>;
}

/** What the inspection of a database found, before LevelDB opens it. */
export interface Inspection {
  /** Empty: no damage found in what was inspected. */
  readonly damages: readonly FileDamage[];
  /** The manifest to rely on; undefined when none is readable. */
  readonly manifest: { readonly file: string; readonly content: Manifest } | undefined;
  /** Damaged tables, by file name. Missing and truncated ones are `unreadable`. */
  readonly tables: ReadonlyMap<string, TableDamage>;
  /** The write-ahead logs that are not in tables yet, ascending. */
  readonly logs: readonly string[];
  readonly log: LogDamage | undefined;
}

export interface InspectionOptions {
  /** Tables are checked block by block, newest first, up to this many bytes; the others by their size. */
  readonly tableBytes: number;
  /** Whether to parse blocks with correct checksums as well: several times the work. Default false. */
  readonly contents?: boolean;
  /** Called for every table that is read. */
  readonly onTable?: () => void;
}

/**
 * Looks for damage that LevelDB would not notice, or only after it has thrown away what could still be saved: a torn
 * manifest makes it delete tables, a damaged log makes it skip batches, and it checks no table checksums. Changes
 * nothing. The directory must not be in use: an open database looks damaged. Expected errors: `StorageError`.
 */
export async function inspectFiles(path: string, options: InspectionOptions): Promise<Inspection> {
  try {
    return await inspect(path, options);
  } catch (error) {
    throw storageErrorFrom(error, 'read the files of the store', path);
  }
}

async function inspect(path: string, options: InspectionOptions): Promise<Inspection> {
  const names = (await readdir(path)).sort(byNumber);
  const damages: FileDamage[] = [];
  const manifest = await findManifest(path, names, damages);
  const content = manifest?.content;
  const logs = names.filter((name) => numberOf(LOG_FILE, name) >= (content?.logNumber ?? 0));
  const log = await checkLogs(path, logs, content?.lastSequence);
  if (log !== undefined) damages.push(log);
  const tables = await checkTables(path, names, content, damages, options);
  return { damages, manifest, tables, logs, log };
}

function byNumber(left: string, right: string): number {
  return (Number.parseInt(left, 10) || 0) - (Number.parseInt(right, 10) || 0);
}

async function findManifest(path: string, names: readonly string[], damages: FileDamage[]) {
  const current = withoutLosses(await readCurrentManifest(path), names);
  if ('content' in current) return current;
  damages.push(current);
  if (current.file !== 'CURRENT') return undefined;
  const candidates = names.filter((name) => MANIFEST_FILE.test(name));
  candidates.sort((left, right) => numberOf(MANIFEST_FILE, right) - numberOf(MANIFEST_FILE, left));
  for (const candidate of candidates) {
    const found = withoutLosses(await readManifest(path, candidate), names);
    if ('content' in found) return found;
  }
  return undefined;
}

/** Rejects a manifest that has lost its end. Only for a database that is not in use. */
function withoutLosses(found: FoundManifest, names: readonly string[]): FoundManifest {
  if ('what' in found) return found;
  const { file, content } = found;
  // A log is deleted only after the manifest names its successor: without the log, the manifest lost its end.
  const { logNumber, tables } = content;
  if (logNumber > 0 && !names.some((name) => numberOf(LOG_FILE, name) === logNumber)) {
    return { file, what: `it has lost its end, or log ${logNumber} is missing` };
  }
  // A compaction deletes its input tables only after the manifest names the new one.
  const present = new Set(names.map((name) => numberOf(TABLE_FILE, name)));
  const missing = [...tables.keys()].filter((table) => !present.has(table));
  const [lost] = missing;
  const unnamed = [...present].filter((table) => table >= 0 && !tables.has(table));
  if (lost !== undefined && unnamed.length > 0) {
    const tablesMissing = `${missing.length} of its tables are missing, ${tableName(lost)} for one`;
    return { file, what: `it has lost its end, or ${tablesMissing}` };
  }
  return found;
}

/** Without a manifest every table is checked, whatever its size. */
async function checkTables(
  path: string,
  names: readonly string[],
  manifest: Manifest | undefined,
  damages: FileDamage[],
  { contents = false, onTable, tableBytes }: InspectionOptions,
): Promise<ReadonlyMap<string, TableDamage>> {
  const damaged = new Map<string, TableDamage>();
  const note = (file: string, damage: TableDamage, ...described: readonly DescribedDamage[]): void => {
    damaged.set(file, damage);
    const span = manifest?.spans.get(numberOf(TABLE_FILE, file));
    for (const { what, keys } of described) damages.push({ file, what, keys: { ...span, ...keys } });
  };
  const files = new Map<number, string>();
  for (const name of names) if (TABLE_FILE.test(name)) files.set(numberOf(TABLE_FILE, name), name);
  const numbers = [...(manifest?.tables ?? files).keys()].sort((left, right) => right - left);
  const lengths = await sizes(path, numbers, files);
  let left = tableBytes;
  for (const number of numbers) {
    const file = files.get(number);
    const size = lengths.get(number);
    if (file === undefined || size === undefined) {
      note(tableName(number), UNREADABLE_TABLE, { what: 'it is missing' });
      continue;
    }
    const expected = manifest?.tables.get(number) ?? size;
    if (size !== expected) {
      note(file, UNREADABLE_TABLE, { what: wrongSize(size, expected) });
      continue;
    }
    if (size > left) continue;
    left -= size;
    onTable?.();
    const damage = checkTable(await readFile(join(path, file)), { contents });
    if (damage !== undefined) note(file, damage, ...describeDamage(damage));
  }
  return damaged;
}

async function sizes(
  path: string,
  numbers: readonly number[],
  files: ReadonlyMap<number, string>,
): Promise<ReadonlyMap<number, number>> {
  const found = new Map<number, number>();
  for (let at = 0; at < numbers.length; at += STATS_AT_ONCE) {
    await Promise.all(
      numbers.slice(at, at + STATS_AT_ONCE).map(async (number) => {
        const file = files.get(number);
        if (file !== undefined) found.set(number, (await stat(join(path, file))).size);
      }),
    );
  }
  return found;
}
