import { formatCount } from '../../../observability/index.js';
import { abortReason, isAbort, named, OperatorError } from '../../../runtime/index.js';
import { counted } from '../../output/counted.js';
import type { ExportProgress } from '../source/exportProgress.js';
import { ENDLESS } from '../source/exportProgress.js';
import { exportRange } from '../source/exportRange.js';
import type { AskedHeights } from '../source/exportRange.js';
import type { ExportSource } from '../source/exportSource.js';
import { formMaker } from '../formats/formMaker.js';
import type { FormOptions } from '../formats/formMaker.js';
import { checkSame } from '../source/checkSame.js';
import { tableNames } from '../tables/tableColumns.js';
import { MAX_PARTITIONS } from './ExportDirectory.js';
import type { ExportDirectory } from './ExportDirectory.js';
import { writePartition } from './exportPartitions.js';
import type { Heights, PartitionOptions } from './exportPartitions.js';
import type { ExportShape, Manifest, Partition } from './manifest.js';

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
