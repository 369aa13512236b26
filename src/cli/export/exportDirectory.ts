import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { named, OperatorError } from '../../runtime/index.js';
import { syncDirectory } from '../../storage/index.js';
import { madeBy } from './exportSource.js';
import { explained, openLocked, replaceFile, unfinishedName } from './partFiles.js';
import { LINES } from './forms.js';
import type { Compression, FileFormat } from '../arguments/flags.js';
import { wrongUse } from '../command.js';

/** Version of the manifest and of what the files hold: raised when an older reader would misread them. */
const FORMAT = 1;

/** What an export was asked for. Only an export that asks for the same can continue it. */
export interface ExportShape extends AskedShape {
  readonly chain_id: string;
  /** The first height. */
  readonly from: number;
}

/** What the flags ask for, whatever is exported. */
export interface AskedShape {
  readonly file_format: FileFormat;
  /** For Parquet's pages, else of the files. */
  readonly compression: Compression;
  /** Heights of a partition; partitions begin at multiples of it. */
  readonly partition: number;
  /** Only transactions of this account; null for all. */
  readonly account: string | null;
  readonly role: string | null;
  readonly scripts: boolean;
  /** The columns of each table; null for lines of JSON as `export` writes them without `--columns`. */
  readonly columns: Readonly<Record<string, readonly string[]>> | null;
}

/** A range of heights whose files are complete. */
export interface Partition {
  readonly from: number;
  readonly to: number;
  readonly last_block_id: string;
  /** Blocks in the range, even if only some of their rows are exported. */
  readonly blocks: number;
  readonly transactions: number;
  readonly files: readonly {
    readonly table: string;
    /** From the directory of the manifest. */
    readonly path: string;
    readonly rows: number;
    readonly bytes: number;
    readonly sha256: string;
  }[];
}

export interface Manifest extends ExportShape {
  readonly format: number;
  readonly program: string;
  /** Below `from` while there is no partition. */
  readonly to: number;
  readonly files: number;
  readonly rows: Readonly<Record<string, number>>;
  readonly bytes: number;
  /** Over a line for each file: its digest, two spaces, its path; as `sha256sum` prints them. */
  readonly sha256: string;
  readonly partitions: readonly Partition[];
}

/** The manifest depends only on the partitions, not on when they were written. */
function manifestOf(shape: ExportShape, partitions: readonly Partition[]): Manifest {
  const files = filesOf({ partitions });
  const rows: Record<string, number> = {};
  for (const file of files) rows[file.table] = (rows[file.table] ?? 0) + file.rows;
  const sums = files.map(({ sha256, path }) => `${sha256}  ${path}\n`).join('');
  return {
    format: FORMAT,
    program: madeBy(),
    ...shape,
    to: partitions.at(-1)?.to ?? shape.from - 1,
    files: files.length,
    rows,
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    sha256: createHash('sha256').update(sums).digest('hex'),
    partitions,
  };
}

/** `undefined` if the text is not a manifest that this version can continue. */
function parseManifest(text: string): Manifest | undefined {
  try {
    const found = JSON.parse(text) as Partial<Manifest> | null;
    return found?.format === FORMAT && Array.isArray(found.partitions) ? (found as Manifest) : undefined;
  } catch {
    return undefined;
  }
}

/** The first flag in which two exports differ; `undefined` when they are the same. */
function differenceOf(begun: ExportShape, asked: ExportShape): string | undefined {
  const flags: Partial<Record<string, string>> = { file_format: 'format', compression: 'compress' };
  for (const key of Object.keys(asked) as (keyof ExportShape)[]) {
    const [was, is] = [begun[key], asked[key]].map((value) => JSON.stringify(value));
    if (was !== is) return `It was begun with --${flags[key] ?? key} ${was}, not ${is}`;
  }
  return undefined;
}

const MANIFEST = 'manifest.json';

/** The manifest names every partition and is rewritten after each. */
export const MAX_PARTITIONS = 10_000;

export type ExportDirectory = Awaited<ReturnType<typeof openExportDirectory>>;

/**
 * Opens and locks a directory of exported files, and creates it if it does not exist. It has a sub-directory for each table and a
 * manifest of the complete partitions; what the manifest does not name is no part of the export. Expected errors: OperatorError
 * (`usage`: it is not empty, or cannot be resumed; `storage`, also of every method).
 */
export async function openExportDirectory(path: string, { resume }: { readonly resume: boolean }) {
  const name = named(path);
  await explained(path, () => mkdir(path).catch(unless('EEXIST')));
  const { close } = await openLocked(path, 'r', 'directory');
  let manifest: Manifest | undefined;
  try {
    const entries = await explained(path, () => readdir(path));
    if (entries.includes(MANIFEST)) manifest = parseManifest(await readFile(join(path, MANIFEST), 'utf8'));
    const isEmpty = entries.every((entry) => entry === unfinishedName(MANIFEST));
    if (!isEmpty && !resume)
      throw wrongUse(
        `The directory ${name} is not empty. Add --resume to continue it, or choose another one.`,
      );
    if (!isEmpty && manifest === undefined)
      throw wrongUse(
        `The directory ${name} cannot be resumed: it has no ${MANIFEST} of an export. Choose another one.`,
      );
  } catch (error) {
    await close();
    throw error;
  }

  const damaged = (file: string): OperatorError =>
    new OperatorError(
      'damage',
      `${named(join(path, file))} does not match ${MANIFEST}: it was changed after it was written. Export it again.`,
    );
  const write = async (next: Manifest): Promise<void> => {
    await replaceFile(join(path, MANIFEST), `${JSON.stringify(next, null, 1)}\n`);
    manifest = next;
  };
  /** Removes files of an export that the manifest does not name. */
  const removeUnnamed = async (table: string): Promise<void> => {
    const kept = new Set(filesOf(manifest).map((file) => file.path));
    for (const entry of await readdir(join(path, table))) {
      const isOurs = entry.replace(/^\./, '').startsWith(`${table}-`);
      if (isOurs && !kept.has(`${table}/${entry}`)) await rm(join(path, table, entry), { force: true });
    }
  };
  return {
    path,
    manifest: (): Manifest | undefined => manifest,
    /**
     * Prepares for writing, and removes what a killed export left behind. Expected errors: also OperatorError `usage` when the
     * directory was begun with other flags, `damage` when a file is missing or has another size.
     */
    begin: (shape: ExportShape): Promise<void> =>
      explained(path, async () => {
        const difference = manifest && differenceOf(manifest, shape);
        if (difference !== undefined)
          throw wrongUse(
            `The directory ${name} cannot be resumed like this. ${difference}. Repeat the flags of the first run, or choose another directory.`,
          );
        for (const file of filesOf(manifest)) {
          const found = await stat(join(path, file.path)).catch(unless('ENOENT'));
          if (found?.size !== file.bytes) throw damaged(file.path);
        }
        if (manifest === undefined) await write(manifestOf(shape, []));
        const tables = shape.file_format === 'ndjson' ? [LINES] : Object.keys(shape.columns ?? {});
        for (const table of tables) {
          await mkdir(join(path, table)).catch(unless('EEXIST'));
          await removeUnnamed(table);
        }
        await syncDirectory(path);
      }),
    /** Adds a partition to the manifest, in place of a shorter one with the same beginning. */
    add: (partition: Partition, shape: ExportShape): Promise<void> =>
      explained(path, async () => {
        const before = manifest?.partitions ?? [];
        const kept = before.filter(({ from }) => from < partition.from);
        const tables = partition.files.map(({ table }) => table);
        for (const table of tables) await syncDirectory(join(path, table));
        await write(manifestOf(shape, [...kept, partition]));
        if (kept.length < before.length) for (const table of tables) await removeUnnamed(table);
      }),
    /** Reads every file. Expected errors: OperatorError `damage` for a file that does not match the manifest. */
    check: async (signal: AbortSignal, onRead: (share: number) => void): Promise<void> => {
      const files = filesOf(manifest);
      for (const [index, file] of files.entries()) {
        const digest = createHash('sha256');
        await explained(file.path, () =>
          pipeline(createReadStream(join(path, file.path)), digest, { signal }),
        );
        if (digest.digest('hex') !== file.sha256) throw damaged(file.path);
        onRead((index + 1) / files.length);
      }
    },
    close,
  };
}

function filesOf(manifest: Pick<Manifest, 'partitions'> | undefined): Partition['files'] {
  return (manifest?.partitions ?? []).flatMap(({ files }) => files);
}

/** For `catch`: ignores an error of this kind. */
function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
  };
}
