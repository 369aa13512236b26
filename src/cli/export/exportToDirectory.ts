import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { formatCount } from '../../observability/index.js';
import { abortReason, isAbort, named, OperatorError } from '../../runtime/index.js';
import type { BlockEntry } from '../../storage/index.js';
import type { Compression } from '../arguments/flags.js';
import { counted } from '../output/counted.js';
import { tableNames } from './columns.js';
import { compressingStream } from './compression.js';
import { MAX_PARTITIONS } from './ExportDirectory.js';
import type { ExportDirectory, ExportShape, Manifest, ManifestFile, Partition } from './ExportDirectory.js';
import { ENDLESS } from './exportProgress.js';
import type { ExportProgress } from './exportProgress.js';
import { checkSame, exportRange } from './exportSource.js';
import type { AskedHeights, ExportSource } from './exportSource.js';
import { PartFile } from './PartFile.js';
import { formMaker } from './forms.js';
import type { FormOptions, GrowingFile, PartitionForm } from './forms.js';
import type { BlockLine } from './ExportTally.js';
import { BlockRow } from './TransactionRow.js';

/** Digits of a height in a file's name, so that names sort by height. */
const HEIGHT_DIGITS = 12;

export interface PartitionOptions {
  readonly directory: string;
  /** For whole files; none where the format itself compresses. */
  readonly compression: Compression;
  /** File name extension, with the dot. */
  readonly suffix: string;
}

export interface PartitionParts {
  readonly source: ExportSource;
  readonly progress: Pick<ExportProgress, 'at'>;
  readonly makeForm: () => PartitionForm;
}

export interface Heights {
  readonly from: number;
  readonly to: number;
}

/** The last block before the partition, if one is written. */
export type BlockBefore = Pick<BlockLine, 'height' | 'id'> | undefined;

/**
 * Writes the files of one partition, which get their names once all of them are complete. While blocks become rows, the
 * next blocks are fetched. Expected errors: those of the source; OperatorError `storage`, and `foreign` when the index does not
 * continue from the block before.
 */
export async function writePartition(
  heights: Heights,
  { options, parts, before }: { options: PartitionOptions; parts: PartitionParts; before: BlockBefore },
): Promise<Partition> {
  const { source, progress, makeForm } = parts;
  const form = makeForm();
  const counted = { blocks: 0, transactions: 0, last: before };
  const files: Opened[] = [];
  try {
    for (const file of form.files) files.push(await openFile(file, heights, options));
    for (let asked = blocksFrom(source, heights); asked !== undefined;) {
      const entries = await asked;
      const reached = entries.at(-1)?.block.height ?? heights.to;
      asked = blocksFrom(source, { from: reached + 1, to: heights.to });
      // Lets those reads begin.
      await setImmediate();
      for (const entry of entries) {
        const block = new BlockRow(entry);
        await checkLink(block, counted.last, source);
        form.add(block);
        counted.blocks += 1;
        counted.transactions += block.transactions;
        counted.last = block;
        for (const { file, part } of files) {
          const bytes = file.take();
          if (bytes !== undefined) await part.write(bytes);
        }
      }
      progress.at(reached, heights.to, counted.transactions);
    }
    const finished: ManifestFile[] = [];
    for (const { file, part, path } of files) {
      await part.write(file.finish());
      finished.push({ table: file.table, path, rows: file.rows, ...(await part.finish()) });
    }
    for (const { part } of files) await part.publish();
    const { blocks, transactions, last } = counted;
    return { ...heights, last_block_id: last?.id ?? '', blocks, transactions, files: finished };
  } catch (error) {
    for (const { part } of files) await part.discard();
    throw error;
  }
}

interface Opened {
  readonly file: GrowingFile;
  readonly part: PartFile;
  readonly path: string;
}

async function openFile(
  file: GrowingFile,
  { from, to }: Heights,
  options: PartitionOptions,
): Promise<Opened> {
  const [first, last] = [from, to].map((height) => String(height).padStart(HEIGHT_DIGITS, '0'));
  const path = `${file.table}/${file.table}-${first}-${last}${options.suffix}`;
  const stream = compressingStream(options.compression);
  return { file, path, part: await PartFile.create(join(options.directory, path), stream) };
}

/** `undefined` when nothing is left to fetch. */
function blocksFrom(source: ExportSource, { from, to }: Heights): Promise<readonly BlockEntry[]> | undefined {
  if (from > to) return undefined;
  const blocks = source.blocks({ from, to });
  // They may fail while those before them are still being written.
  blocks.catch(() => undefined);
  return blocks;
}

/** Only the root block of a spork may name another parent than the block below it; any other is of another chain. */
async function checkLink({ parentId }: BlockRow, before: BlockBefore, source: ExportSource): Promise<void> {
  if (before !== undefined && parentId !== before.id) await checkSame(before, source);
}

/** How the files are written. */
export interface DirectoryOptions extends FormOptions {
  readonly partition: number;
  readonly account: string | null;
  readonly role: string | null;
}

export interface DirectoryParts {
  readonly directory: ExportDirectory;
  readonly source: ExportSource;
  readonly progress: ExportProgress;
  readonly signal: AbortSignal;
}

/**
 * Writes partition after partition, from where the directory ends to `to`. Resolves with the closing message. Expected
 * errors: those of the source and the directory; OperatorError (`usage`, `not_found`, `foreign`); without `follow`, the
 * signal's abort reason.
 */
export async function exportToDirectory(
  asked: AskedHeights,
  options: DirectoryOptions,
  parts: DirectoryParts,
): Promise<string> {
  const { directory, source, progress, signal } = parts;
  const { program } = source;
  const begun = directory.manifest;
  const range = await exportRange(source, { ...asked, from: asked.from ?? begun?.from ?? null });
  const shape = shapeOf(range.from, options, source);
  checkCount(range, options.partition);
  if (begun !== undefined) await checkBegun(begun, { asked, parts });
  await directory.begin(shape, program);
  const before = directory.manifest;
  if (before !== undefined && before.partitions.length > 0 && before.to === range.to) {
    await directory.check(signal, (share) => progress.scanned(share));
    return `${named(directory.path)} is complete: ${phrase(before)}.`;
  }
  const partitionOptions = partitionOptionsOf(options, directory.path);
  const makeForm = await formMaker({ ...options, program });
  let transactions = 0;
  try {
    for (let heights = nextOf(directory, range, options); heights !== undefined;) {
      const { from } = heights;
      const last = directory.manifest?.partitions.findLast((partition) => partition.to < from);
      const at: ExportProgress['at'] = (height, _, some) =>
        progress.at(height, range.to, transactions + some);
      const partition = await writePartition(heights, {
        options: partitionOptions,
        parts: { source, makeForm, progress: { at } },
        before: last && { height: last.to, id: last.last_block_id },
      });
      await directory.add(partition, shape, program);
      transactions += partition.transactions;
      heights = nextOf(directory, range, options);
      // A page that is being read notices the signal; between partitions this does.
      if (signal.aborted) throw abortReason(signal);
    }
  } catch (error) {
    if (!asked.follow || !signal.aborted || !isAbort(error)) throw error;
  }
  const { manifest } = directory;
  const what = manifest === undefined ? 'nothing' : phrase(manifest);
  return `exported ${what} to ${named(directory.path)} from ${source.name}`;
}

function shapeOf(
  from: number,
  { format, compression, partition, account, role, scripts, columns }: DirectoryOptions,
  { chainId }: ExportSource,
): ExportShape {
  const chosen = tableNames.filter((table) => (columns?.[table].length ?? 0) > 0);
  return {
    chain_id: chainId,
    from,
    file_format: format,
    compression,
    partition,
    account,
    role,
    scripts,
    columns:
      columns === undefined
        ? null
        : Object.fromEntries(chosen.map((table) => [table, columns[table].map(({ name }) => name)])),
  };
}

/** Expected errors: OperatorError (`usage`: it goes beyond --to already; `foreign`: it is of another chain). */
async function checkBegun(
  { chain_id, to, partitions }: Manifest,
  { asked, parts }: { asked: AskedHeights; parts: DirectoryParts },
): Promise<void> {
  const name = named(parts.directory.path);
  if (chain_id !== parts.source.chainId) {
    const message = `${name} holds an export of ${chain_id}, but the index is of ${parts.source.chainId}. Choose another directory.`;
    throw new OperatorError('foreign', message);
  }
  if (asked.to !== null && to > asked.to) {
    throw new OperatorError(
      'usage',
      `${name} goes to height ${to} already, which is above --to ${asked.to}. Raise --to, or leave it out.`,
    );
  }
  const last = partitions.at(-1);
  if (last !== undefined) await checkSame({ height: last.to, id: last.last_block_id }, parts.source);
}

/** The next partition; a last one that can now be longer is written again from its beginning. */
function nextOf(
  { manifest }: ExportDirectory,
  range: Heights,
  { partition }: DirectoryOptions,
): Heights | undefined {
  const last = manifest?.partitions.at(-1);
  const from = last === undefined ? range.from : isWhole(last, partition) ? last.to + 1 : last.from;
  if ((last?.to ?? -1) >= range.to) return undefined;
  if ((manifest?.partitions.length ?? 0) >= MAX_PARTITIONS) throw tooMany();
  return { from, to: Math.min(range.to, endOf(from, partition)) };
}

function isWhole({ to }: Partition, size: number): boolean {
  return to === endOf(to, size);
}

/** The last height of the partition that a height is in. */
function endOf(height: number, size: number): number {
  return (Math.floor(height / size) + 1) * size - 1;
}

function checkCount({ from, to }: Heights, size: number): void {
  if (to < ENDLESS && Math.floor(to / size) - Math.floor(from / size) >= MAX_PARTITIONS) throw tooMany();
}

function tooMany(): OperatorError {
  const message = `A directory holds at most ${formatCount(MAX_PARTITIONS)} partitions. Raise --partition, or lower --to and begin another directory.`;
  return new OperatorError('usage', message);
}

function partitionOptionsOf({ format, compression }: DirectoryOptions, directory: string): PartitionOptions {
  // Parquet compresses its pages, and its files are called the same.
  if (format === 'parquet') return { directory, compression: 'none', suffix: '.parquet' };
  const suffixes = { none: '', gzip: '.gz', zstd: '.zst' };
  return { directory, compression, suffix: `.${format}${suffixes[compression]}` };
}

function phrase({ from, to, partitions, files }: Manifest): string {
  if (partitions.length === 0) return 'no block';
  const sum = (of: (partition: Partition) => number): string =>
    formatCount(partitions.reduce((total, each) => total + of(each), 0));
  const counts = `${sum(({ blocks }) => blocks)} blocks, ${sum(({ transactions }) => transactions)} transactions`;
  return `heights ${from} to ${to}: ${counts}, in ${counted(files, 'file')}`;
}
