import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { formatCount } from '../../observability/index.js';
import { abortReason, isAbort, named, OperatorError } from '../../runtime/index.js';
import type { BlockEntry, HeightRange } from '../../storage/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { wrongUse } from '../command.js';
import { counted } from '../output/words.js';
import { compressingStream } from './compression.js';
import { MAX_PARTITIONS, openExportDirectory } from './exportDirectory.js';
import type { ExportDirectory, ExportShape, Manifest, Partition } from './exportDirectory.js';
import { ENDLESS } from './exportProgress.js';
import type { ExportProgress } from './exportProgress.js';
import { checkNotBeyond, checkSame, exportRange } from './exportSource.js';
import type { ExportParts, ExportSource } from './exportSource.js';
import { beginPart } from './partFiles.js';
import { formMaker } from './forms.js';
import type { FormOptions, GrowingFile, PartitionForm } from './forms.js';
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
  options: FormOptions,
  parts: ExportParts,
): Promise<string> {
  const directory = await openExportDirectory(path, asked);
  try {
    return await writePartitions(directory, asked, options, parts);
  } finally {
    await directory.close();
  }
}

async function writePartitions(
  directory: ExportDirectory,
  asked: ExportFlags,
  options: FormOptions,
  { progress, signal, source }: ExportParts,
): Promise<string> {
  const { program } = source;
  const name = named(directory.path);
  const begun = directory.manifest();
  const range = await exportRange(source, { ...asked, from: asked.from ?? begun?.from ?? null });
  const { partition: size } = options.shape;
  const shape: ExportShape = { chain_id: source.chainId, from: range.from, ...options.shape };
  const span = Math.floor(range.to / size) - Math.floor(range.from / size);
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
  const before = directory.manifest();
  if (before !== undefined && before.partitions.length > 0 && before.to === range.to) {
    await directory.check(signal, (share) => progress.scanned(share));
    return `${name} is complete: ${phrase(before)}.`;
  }
  const makeForm = await formMaker(options, program);
  let transactions = 0;
  const at: ExportProgress['at'] = (height, _, some) => progress.at(height, range.to, transactions + some);
  try {
    for (let heights; (heights = nextOf(directory.manifest(), range, size)) !== undefined;) {
      const parts = { source, at, form: makeForm() };
      const partition = await writePartition(heights, directory, shape, parts);
      await directory.add(partition, shape, program);
      transactions += partition.transactions;
      // A page that is being read notices the signal; between partitions this does.
      if (signal.aborted) throw abortReason(signal);
    }
  } catch (error) {
    if (!asked.follow || !signal.aborted || !isAbort(error)) throw error;
  }
  const manifest = directory.manifest();
  const what = manifest === undefined ? 'nothing' : phrase(manifest);
  return `exported ${what} to ${name} from ${source.name}`;
}

/** The next partition; a last one that can now be longer is written again from its beginning. */
function nextOf(manifest: Manifest | undefined, range: HeightRange, size: number): HeightRange | undefined {
  const last = manifest?.partitions.at(-1);
  const isWhole = last !== undefined && last.to === endOf(last.to, size);
  const from = last === undefined ? range.from : isWhole ? last.to + 1 : last.from;
  if ((last?.to ?? -1) >= range.to) return undefined;
  if ((manifest?.partitions.length ?? 0) >= MAX_PARTITIONS) throw tooMany();
  return { from, to: Math.min(range.to, endOf(from, size)) };
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
  shape: ExportShape,
  parts: {
    readonly source: ExportSource;
    readonly at: ExportProgress['at'];
    readonly form: PartitionForm;
  },
): Promise<Partition> {
  const { at, form, source } = parts;
  const before = directory.manifest()?.partitions.findLast((partition) => partition.to < heights.from);
  let last = before && { height: before.to, id: before.last_block_id };
  let [blocks, transactions] = [0, 0];
  const files: {
    readonly file: GrowingFile;
    readonly path: string;
    readonly part: Awaited<ReturnType<typeof beginPart>>;
  }[] = [];
  try {
    for (const file of form.files) {
      const path = pathOf(file, heights, shape);
      // Parquet compresses its pages.
      const stream = shape.file_format === 'parquet' ? undefined : compressingStream(shape.compression);
      files.push({ file, path, part: await beginPart(join(directory.path, path), stream) });
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
      finished.push({ table: file.table, path, rows: file.rows(), ...(await part.finish()) });
    }
    for (const { part } of files) await part.publish();
    return { ...heights, last_block_id: last?.id ?? '', blocks, transactions, files: finished };
  } catch (error) {
    for (const { part } of files) await part.discard();
    throw error;
  }
}

/** From the directory. A Parquet file is called the same, however its pages are compressed. */
function pathOf({ table }: GrowingFile, { from, to }: HeightRange, shape: ExportShape): string {
  const [first, last] = [from, to].map((height) => String(height).padStart(HEIGHT_DIGITS, '0'));
  const { compression, file_format: format } = shape;
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
