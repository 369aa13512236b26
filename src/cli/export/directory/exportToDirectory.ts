import { formatCount } from '../../../observability/index.js';
import { abortReason, isAbort, named, OperatorError } from '../../../runtime/index.js';
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

/** What the files are to be like. */
export interface DirectoryWishes extends Omit<FormOptions, 'program'> {
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
 * Writes partition after partition, from where the directory ends to `to`. Resolves with what to say at the end. Expected
 * errors: those of the source and the directory; OperatorError (`usage`, `not_found`, `foreign`); without `follow`, the
 * signal's abort reason.
 */
export async function exportToDirectory(
  asked: AskedHeights,
  wishes: DirectoryWishes,
  parts: DirectoryParts,
): Promise<string> {
  const { directory, source, progress, signal } = parts;
  const { program } = source;
  const begun = directory.manifest;
  const range = await exportRange(source, { ...asked, from: asked.from ?? begun?.from ?? null });
  const shape = shapeOf(range.from, wishes, source);
  checkCount(range, wishes.partition);
  if (begun !== undefined) await checkBegun(begun, { asked, parts });
  await directory.begin(shape, program);
  const before = directory.manifest;
  if (before !== undefined && before.partitions.length > 0 && before.to === range.to) {
    await directory.check(signal, (share) => progress.scanned(share));
    return `${named(directory.path)} is complete: ${phrase(before)}.`;
  }
  const options = optionsOf(wishes, directory.path);
  const makeForm = await formMaker({ ...wishes, program });
  let transactions = 0;
  try {
    for (let heights = nextOf(directory, range, wishes); heights !== undefined;) {
      const { from } = heights;
      const last = directory.manifest?.partitions.findLast((partition) => partition.to < from);
      const at: ExportProgress['at'] = (height, _, some) =>
        progress.at(height, range.to, transactions + some);
      const partition = await writePartition(heights, {
        ...{ options, parts: { source, makeForm, progress: { at } } },
        before: last && { height: last.to, id: last.last_block_id },
      });
      await directory.add(partition, shape, program);
      transactions += partition.transactions;
      heights = nextOf(directory, range, wishes);
      // Pages in hand know of a signal; between partitions nobody asks.
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
  { format, compression, partition, account, role, scripts, columns }: DirectoryWishes,
  { chainId }: ExportSource,
): ExportShape {
  const chosen = tableNames.filter((table) => (columns?.[table].length ?? 0) > 0);
  return {
    ...{ chain_id: chainId, from, file_format: format, compression, partition, account, role, scripts },
    columns:
      columns === undefined
        ? null
        : Object.fromEntries(chosen.map((table) => [table, columns[table].map(({ name }) => name)])),
  };
}

/** Expected errors: OperatorError (`usage`: it goes further already; `foreign`: it is of another chain). */
async function checkBegun(
  { chain_id, to, partitions }: Manifest,
  { asked, parts }: { asked: AskedHeights; parts: DirectoryParts },
): Promise<void> {
  const name = named(parts.directory.path);
  if (chain_id !== parts.source.chainId) {
    const message = `${name} holds an export of ${chain_id}, and the index is of ${parts.source.chainId}. Choose another directory.`;
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

/** The next partition: anew from its beginning where it is shorter than it can be now. */
function nextOf(
  { manifest }: ExportDirectory,
  range: Heights,
  { partition }: DirectoryWishes,
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

function optionsOf({ format, compression }: DirectoryWishes, directory: string): PartitionOptions {
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
  return `heights ${from} to ${to}: ${counts}, in ${formatCount(files)} ${files === 1 ? 'file' : 'files'}`;
}
