import { join } from 'node:path';
import { formatCount } from '../../observability/index.js';
import { abortReason, isAbort, named, OperatorError } from '../../runtime/index.js';
import type { HeightRange } from '../../storage/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { wrongUse } from '../command.js';
import { counted } from '../output/words.js';
import { compressingStream } from './compression.js';
import { MAX_PARTITIONS, openExportDirectory } from './exportDirectory.js';
import type { ExportDirectory, ExportShape, Manifest, Partition } from './exportDirectory.js';
import { ENDLESS } from './exportProgress.js';
import { checkNotBeyond, checkSame, exportRange, pagesOf } from './exportSource.js';
import type { ExportParts } from './exportSource.js';
import { beginPart } from './partFiles.js';
import { formMaker } from './forms.js';
import type { FormOptions, PartitionForm } from './forms.js';
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
    if (last !== undefined) await checkSame(lastBlockOf(last), source);
  }
  await directory.begin(shape);
  if (begun !== undefined && begun.partitions.length > 0 && begun.to === range.to) {
    await directory.check(signal, (share) => progress.scanned(share));
    return `${name} is complete: ${phrase(begun)}.`;
  }
  const makeForm = await formMaker(options);
  let transactions = 0;
  try {
    for (let heights; (heights = nextOf(directory.manifest(), range, size)) !== undefined;) {
      const onPage = (height: number, some: number) => progress.at(height, range.to, transactions + some);
      const partition = await writePartition(heights, directory, shape, { source, onPage, form: makeForm() });
      await directory.add(partition, shape);
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
  {
    form,
    onPage,
    source,
  }: Pick<ExportParts, 'source'> & {
    readonly form: PartitionForm;
    readonly onPage: (height: number, transactions: number) => void;
  },
): Promise<Partition> {
  const below = directory.manifest()?.partitions.findLast((partition) => partition.to < heights.from);
  let last: BlockRow | undefined;
  let [blocks, transactions] = [0, 0];
  // Parquet compresses its pages.
  const compression = shape.file_format === 'parquet' ? 'none' : shape.compression;
  const files: {
    readonly file: PartitionForm['files'][number];
    readonly path: string;
    readonly part: Awaited<ReturnType<typeof beginPart>>;
  }[] = [];
  try {
    for (const file of form.files) {
      const path = pathOf(file.table, heights, shape);
      files.push({
        file,
        path,
        part: await beginPart(join(directory.path, path), compressingStream(compression)),
      });
    }
    for await (const page of pagesOf(source, heights, below && lastBlockOf(below))) {
      for (const entry of page) {
        last = new BlockRow(entry);
        form.add(last);
        blocks += 1;
        transactions += last.transactions;
        for (const { file, part } of files) {
          const bytes = file.take();
          if (bytes !== undefined) await part.write(bytes);
        }
      }
      onPage(last?.height ?? heights.to, transactions);
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

function lastBlockOf({ to, last_block_id: id }: Partition): { readonly height: number; readonly id: string } {
  return { height: to, id };
}

/** From the directory. A Parquet file is called the same, however its pages are compressed. */
function pathOf(table: string, { from, to }: HeightRange, shape: ExportShape): string {
  const [first, last] = [from, to].map((height) => String(height).padStart(HEIGHT_DIGITS, '0'));
  const { compression, file_format: format } = shape;
  const suffix = format === 'parquet' ? '' : { none: '', gzip: '.gz', zstd: '.zst' }[compression];
  return `${table}/${table}-${first}-${last}.${format}${suffix}`;
}
