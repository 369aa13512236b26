import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { formatCount } from '../../observability/index.js';
import { abortReason, isAbort, named, OperatorError } from '../../runtime/index.js';
import type { BlockEntry, HeightRange } from '../../storage/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { wrongUse } from '../command.js';
import { counted } from '../output/words.js';
import { tableNames } from './columns.js';
import { compressingStream } from './compression.js';
import type { DirectoryOptions } from './directoryOptions.js';
import { ExportDirectory, MAX_PARTITIONS } from './ExportDirectory.js';
import type { ExportShape, Manifest, Partition } from './ExportDirectory.js';
import { ENDLESS } from './exportProgress.js';
import type { ExportProgress } from './exportProgress.js';
import { checkNotBeyond, checkSame, exportRange } from './exportSource.js';
import type { ExportParts, ExportSource } from './exportSource.js';
import { PartFile } from './PartFile.js';
import { formMaker } from './forms.js';
import type { GrowingFile, PartitionForm } from './forms.js';
import { BlockRow } from './TransactionRow.js';

/** Digits of a height in a file's name, so that names sort by height. */
const HEIGHT_DIGITS = 12;

/**
 * Writes partition after partition, from where the directory ends to `to`. Resolves with the closing message. Expected
 * errors: those of the source and the directory; OperatorError (`usage`, `not_found`, `foreign`); without `follow`, the
 * signal's abort reason.
 */
export async function exportToDirectory(
  path: string,
  asked: ExportFlags,
  options: DirectoryOptions,
  parts: ExportParts,
): Promise<string> {
  const directory = await ExportDirectory.open(path, asked);
  try {
    return await writePartitions(directory, asked, options, parts);
  } finally {
    await directory.close();
  }
}

async function writePartitions(
  directory: ExportDirectory,
  asked: ExportFlags,
  options: DirectoryOptions,
  { progress, signal, source }: ExportParts,
): Promise<string> {
  const { program } = source;
  const name = named(directory.path);
  const begun = directory.manifest;
  const range = await exportRange(source, { ...asked, from: asked.from ?? begun?.from ?? null });
  const shape = shapeOf(range.from, options, source);
  const span = Math.floor(range.to / options.partition) - Math.floor(range.from / options.partition);
  if (range.to < ENDLESS && span >= MAX_PARTITIONS) throw tooMany();
  if (begun !== undefined) {
    if (begun.chain_id !== source.chainId) {
      const message = `${name} holds an export of ${begun.chain_id}, but the index is of ${source.chainId}. Choose another directory.`;
      throw new OperatorError('foreign', message);
    }
    checkNotBeyond(name, begun.to, asked.to);
    const last = begun.partitions.at(-1);
    if (last !== undefined) await checkSame({ height: last.to, id: last.last_block_id }, source);
  }
  await directory.begin(shape, program);
  const before = directory.manifest;
  if (before !== undefined && before.partitions.length > 0 && before.to === range.to) {
    await directory.check(signal, (share) => progress.scanned(share));
    return `${name} is complete: ${phrase(before)}.`;
  }
  const makeForm = await formMaker(options, program);
  let transactions = 0;
  const at: ExportProgress['at'] = (height, _, some) => progress.at(height, range.to, transactions + some);
  try {
    for (let heights; (heights = nextOf(directory, range, options)) !== undefined;) {
      const partition = await writePartition(heights, directory, options, { source, at, form: makeForm() });
      await directory.add(partition, shape, program);
      transactions += partition.transactions;
      // A page that is being read notices the signal; between partitions this does.
      if (signal.aborted) throw abortReason(signal);
    }
  } catch (error) {
    if (!asked.follow || !signal.aborted || !isAbort(error)) throw error;
  }
  const { manifest } = directory;
  const what = manifest === undefined ? 'nothing' : phrase(manifest);
  return `exported ${what} to ${name} from ${source.name}`;
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

/** The next partition; a last one that can now be longer is written again from its beginning. */
function nextOf(
  { manifest }: ExportDirectory,
  range: HeightRange,
  { partition }: DirectoryOptions,
): HeightRange | undefined {
  const last = manifest?.partitions.at(-1);
  const isWhole = last !== undefined && last.to === endOf(last.to, partition);
  const from = last === undefined ? range.from : isWhole ? last.to + 1 : last.from;
  if ((last?.to ?? -1) >= range.to) return undefined;
  if ((manifest?.partitions.length ?? 0) >= MAX_PARTITIONS) throw tooMany();
  return { from, to: Math.min(range.to, endOf(from, partition)) };
}

/** The last height of the partition that a height is in. */
function endOf(height: number, size: number): number {
  return (Math.floor(height / size) + 1) * size - 1;
}

function tooMany(): OperatorError {
  return wrongUse(
    `A directory holds at most ${formatCount(MAX_PARTITIONS)} partitions. Raise --partition, or lower --to and begin another directory.`,
  );
}

function phrase({ from, to, partitions, files }: Manifest): string {
  if (partitions.length === 0) return 'no block';
  const sum = (of: (partition: Partition) => number): string =>
    formatCount(partitions.reduce((total, each) => total + of(each), 0));
  const counts = `${sum(({ blocks }) => blocks)} blocks, ${sum(({ transactions }) => transactions)} transactions`;
  return `heights ${from} to ${to}: ${counts}, in ${counted(files, 'file')}`;
}

/**
 * Writes the files of one partition, which get their names once all of them are complete. While blocks become rows, the
 * next blocks are fetched. Expected errors: those of the source; OperatorError `storage`, and `foreign` when the index does not
 * continue from the partition before.
 */
async function writePartition(
  heights: HeightRange,
  directory: ExportDirectory,
  options: DirectoryOptions,
  parts: {
    readonly source: ExportSource;
    readonly at: ExportProgress['at'];
    readonly form: PartitionForm;
  },
): Promise<Partition> {
  const { at, form, source } = parts;
  const before = directory.manifest?.partitions.findLast((partition) => partition.to < heights.from);
  let last = before && { height: before.to, id: before.last_block_id };
  let [blocks, transactions] = [0, 0];
  const files: { readonly file: GrowingFile; readonly path: string; readonly part: PartFile }[] = [];
  try {
    for (const file of form.files) {
      const path = pathOf(file, heights, options);
      // Parquet compresses its pages.
      const stream = options.format === 'parquet' ? undefined : compressingStream(options.compression);
      files.push({ file, path, part: await PartFile.create(join(directory.path, path), stream) });
    }
    for (let asked = blocksFrom(source, heights); asked !== undefined;) {
      const entries = await asked;
      const reached = entries.at(-1)?.block.height ?? heights.to;
      asked = blocksFrom(source, { from: reached + 1, to: heights.to });
      // Lets those reads begin.
      await setImmediate();
      for (const entry of entries) {
        const block = new BlockRow(entry);
        // Only the root block of a spork may name another parent than the block below it; any other is of another chain.
        if (last !== undefined && block.parentId !== last.id) await checkSame(last, source);
        form.add(block);
        blocks += 1;
        transactions += block.transactions;
        last = block;
        for (const { file, part } of files) {
          const bytes = file.take();
          if (bytes !== undefined) await part.write(bytes);
        }
      }
      at(reached, heights.to, transactions);
    }
    const finished: Partition['files'][number][] = [];
    for (const { file, part, path } of files) {
      await part.write(file.finish());
      finished.push({ table: file.table, path, rows: file.rows, ...(await part.finish()) });
    }
    for (const { part } of files) await part.publish();
    return { ...heights, last_block_id: last?.id ?? '', blocks, transactions, files: finished };
  } catch (error) {
    for (const { part } of files) await part.discard();
    throw error;
  }
}

/** From the directory. A Parquet file is called the same, however its pages are compressed. */
function pathOf({ table }: GrowingFile, { from, to }: HeightRange, options: DirectoryOptions): string {
  const [first, last] = [from, to].map((height) => String(height).padStart(HEIGHT_DIGITS, '0'));
  const { compression, format } = options;
  const suffix = format === 'parquet' ? '' : { none: '', gzip: '.gz', zstd: '.zst' }[compression];
  return `${table}/${table}-${first}-${last}.${format}${suffix}`;
}

/** `undefined` when nothing is left to fetch. */
function blocksFrom(
  source: ExportSource,
  { from, to }: HeightRange,
): Promise<readonly BlockEntry[]> | undefined {
  if (from > to) return undefined;
  const blocks = source.blocks({ from, to });
  // They may fail while those before them are still being written.
  blocks.catch(() => undefined);
  return blocks;
}
