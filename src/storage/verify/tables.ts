import { link, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { storageErrorFrom } from '../StorageError.js';
import { liveTables } from './manifest.js';
import type { DamageList } from './report.js';
import { blankBlock, checkTable } from './tableFile.js';
import type { TableDamage } from './tableFile.js';

const TABLE = /^(\d+)\.(?:ldb|sst)$/;
/** Files that a copy of a database makes for itself. */
const OWN_FILES = new Set(['LOCK', 'LOG', 'LOG.old']);

/**
 * Checks the database's table files against their own checksums, leftovers aside. Returns those that are damaged, by
 * file name.
 * Expected errors: `StorageError`.
 */
export async function damagedTables(
  path: string,
  damages: DamageList,
  onTable: () => void,
): Promise<ReadonlyMap<string, TableDamage>> {
  const damaged = new Map<string, TableDamage>();
  try {
    const live = await liveTables(path);
    for (const name of (await readdir(path)).sort()) {
      const [, number] = TABLE.exec(name) ?? [];
      if (number === undefined || live?.has(Number(number)) === false) continue;
      onTable();
      const damage = checkTable(await readFile(join(path, name)));
      if (damage === undefined) continue;
      damaged.set(name, damage);
      report(name, damage, damages);
    }
  } catch (error) {
    throw storageErrorFrom(error, 'read the files of the store', path);
  }
  return damaged;
}

function report(name: string, { blocks, unreadable, filter }: TableDamage, damages: DamageList): void {
  const add = (what: string): void => damages.add('database', undefined, `file ${name}: ${what}`);
  if (unreadable) add('its footer or index does not match its checksum: none of its entries can be found');
  for (const { offset, size } of blocks) {
    add(`the block at offset ${offset} (${size} bytes) does not match its checksum`);
  }
  if (filter && !unreadable) add('its filter does not match its checksum: lookups may miss entries');
}

/**
 * A copy of the database in which the damaged blocks are blank, so that LevelDB can read all the rest and what is lost
 * turns out as missing, height by height. Sound files are hard links: the copy takes the space of the damaged ones.
 * It stands beside the store, and is to be removed with `removeCopy`. Expected errors: `StorageError`.
 */
export async function copyWithoutDamage(
  path: string,
  damaged: ReadonlyMap<string, TableDamage>,
): Promise<string> {
  try {
    const copy = await mkdtemp(join(dirname(path), 'verify-'));
    for (const name of await readdir(path)) {
      if (OWN_FILES.has(name)) continue;
      const damage = damaged.get(name);
      if (damage === undefined) {
        await link(join(path, name), join(copy, name));
      } else {
        const file = await readFile(join(path, name));
        blank(file, damage);
        await writeFile(join(copy, name), file);
      }
    }
    return copy;
  } catch (error) {
    throw storageErrorFrom(error, 'copy the damaged files of the store', path);
  }
}

export async function removeCopy(copy: string): Promise<void> {
  await rm(copy, { recursive: true, force: true });
}

function blank(file: Buffer, { blocks, unreadable, filter, index, metaindex }: TableDamage): void {
  for (const block of blocks) blankBlock(file, block);
  if (unreadable && index !== undefined) blankBlock(file, index);
  if (filter && metaindex !== undefined) blankBlock(file, metaindex);
}
