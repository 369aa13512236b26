import { link, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { storageErrorFrom } from '../StorageError.js';
import { numberOf, TABLE_FILE } from './format/fileNames.js';
import type { Inspection } from './inspection.js';
import { writeSynced } from './syncedFiles.js';
import { blankBlock, emptyTable, hasEntries } from './format/tableFile.js';
import type { TableDamage } from './format/tableFile.js';

/**
 * Fills an empty directory with a copy of a database in which damaged blocks are blank, lost tables are empty, and the
 * write-ahead log ends before its damage, so that LevelDB can read everything else and what is lost shows up as
 * missing. Sound files are hard links, which LevelDB never writes to, so only the damaged files take space. Returns true
 * when LevelDB still has to build a new manifest from the tables. Expected errors: `StorageError`.
 */
export async function copyWithoutDamage(
  path: string,
  copy: string,
  inspection: Inspection,
): Promise<boolean> {
  const { manifest, tables } = inspection;
  try {
    for (const name of await readdir(path)) {
      const number = numberOf(TABLE_FILE, name);
      // A table that the manifest does not name is left over.
      if (number < 0 || manifest?.content.tables.has(number) === false) continue;
      const damage = tables.get(name);
      if (damage?.unreadable === true) continue;
      const blank = damage && (await blanked(join(path, name), damage));
      // A table without entries makes LevelDB abort the process while it builds a manifest.
      if (manifest === undefined && !hasEntries(blank ?? (await readFile(join(path, name))))) continue;
      if (blank === undefined) await link(join(path, name), join(copy, name));
      else await writeSynced(join(copy, name), blank, 'wx');
    }
    for (const [number, size] of manifest?.content.tables ?? []) {
      const name = [...tables.keys()].find((each) => Number.parseInt(each, 10) === number);
      if (name !== undefined && tables.get(name)?.unreadable === true) {
        await writeSynced(join(copy, name), emptyTable(size), 'wx');
      }
    }
    await copyLogs(path, copy, inspection);
    if (manifest === undefined) return true;
    await link(join(path, manifest.file), join(copy, manifest.file));
    await writeSynced(join(copy, 'CURRENT'), Buffer.from(`${manifest.file}\n`), 'wx');
    return false;
  } catch (error) {
    throw storageErrorFrom(error, 'copy the sound files of the store', path);
  }
}

/** All logs up to the damage. */
async function copyLogs(path: string, copy: string, { logs, log }: Inspection): Promise<void> {
  for (const name of logs) {
    if (name === log?.file) {
      const bytes = await readFile(join(path, name));
      await writeSynced(join(copy, name), bytes.subarray(0, log.soundBytes), 'wx');
      return;
    }
    await link(join(path, name), join(copy, name));
  }
}

async function blanked(path: string, { blocks, filter, metaindex }: TableDamage): Promise<Buffer> {
  const file = await readFile(path);
  for (const block of blocks) blankBlock(file, block);
  if (filter && metaindex !== undefined) blankBlock(file, metaindex);
  return file;
}
