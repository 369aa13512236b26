import { createHash } from 'node:crypto';
import { createReadStream, existsSync, statSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { formatCount } from '../../observability/index.js';
import { abortReason, isAbort, jsonIn, named, OperatorError } from '../../runtime/index.js';
import { syncDirectory, type HeightRange } from '../../storage/index.js';
import type { ExportFlags } from '../arguments/flags.js';
import { wrongUse } from '../command.js';
import { replaceFile, unfinishedName } from '../output/wholeFile.js';
import { counted } from '../output/words.js';
import { compressingStream } from './compression.js';
import { ENDLESS } from './exportProgress.js';
import { checkNotBeyond, checkSame, exportRange, inWords, madeBy, pagesOf } from './exportSource.js';
import type { ExportParts } from './exportSource.js';
import { formMaker, LINES, type AskedShape, type FormOptions, type PartitionForm } from './forms.js';
import { beginPart, explained, openLocked, type Part, type PartFile } from './partFiles.js';
import { blockRow, type BlockRow } from './TransactionRow.js';

/** Version of the manifest and of what the files hold: raised when an older reader would misread them. */
const FORMAT = 1;

/** The options that shape an export. Only an export with the same ones can continue it. */
interface ExportShape extends AskedShape {
  readonly chain_id: string;
  readonly from: number;
}

/** A range of heights whose files are complete. */
interface Partition {
  readonly from: number;
  readonly to: number;
  readonly last_block_id: string;
  /** Blocks in the range, even if only some of their rows are exported. */
  readonly blocks: number;
  readonly transactions: number;
  readonly files: readonly PartFile[];
}

type Manifest = Readonly<ReturnType<typeof manifestOf>>;

/** The manifest depends only on the partitions, not on when they were written. */
function manifestOf(shape: ExportShape, partitions: readonly Partition[]) {
  const files = partitions.flatMap((partition) => partition.files);
  const rows: Record<string, number> = {};
  for (const file of files) rows[file.table] = (rows[file.table] ?? 0) + file.rows;
  const sums = files.map(({ sha256, path }) => `${sha256}  ${path}\n`).join('');
  return {
    format: FORMAT,
    program: madeBy,
    ...shape,
    /** Below `from` while there is no partition. */
    to: partitions.at(-1)?.to ?? shape.from - 1,
    files: files.length,
    rows,
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    /** Over a line for each file: its digest, two spaces, its path; as `sha256sum` prints them. */
    sha256: createHash('sha256').update(sums).digest('hex'),
    partitions,
  };
}

/** `undefined` if the text is not a manifest that this version can continue. */
function parseManifest(text: string): Manifest | undefined {
  const found = jsonIn(text) as Partial<Manifest> | null | undefined;
  const isKnown = found?.format === FORMAT && Array.isArray(found.partitions);
  return isKnown && found.partitions.every(isPartition) ? (found as Manifest) : undefined;
}

function isPartition(value: unknown): boolean {
  const { files, to } = Object(value) as Partial<Partition>;
  const isPartFile = (each: unknown) => typeof (Object(each) as Partial<PartFile>).path === 'string';
  return Number.isSafeInteger(to) && Array.isArray(files) && files.every(isPartFile);
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
const MAX_PARTITIONS = 10_000;

/** Digits of a height in a file's name, so that names sort by height. */
const HEIGHT_DIGITS = 12;

/**
 * Writes partition after partition, from where the directory ends to `to`. It has a sub-directory for each table and a manifest of
 * the complete partitions; what the manifest does not name is no part of the export. Resolves with the closing message. Expected
 * errors: those of the source and the system; OperatorError (`usage`: it is not empty, or cannot be resumed; `storage`;
 * `not_found`, `foreign`, `damage`); without `follow`, the signal's abort reason.
 */
export async function exportToDirectory(
  path: string,
  asked: ExportFlags,
  options: FormOptions,
  parts: ExportParts,
): Promise<string> {
  const isNew = !existsSync(path);
  if (isNew) await mkdir(path);
  const { close } = await openLocked(path, 'r');
  try {
    return await writePartitions(path, await manifestIn(path, asked.resume), asked, options, parts);
  } finally {
    // Succeeds only if nothing was written. An existing directory stays: it may be a mount point.
    if (isNew) await rmdir(path).catch(() => undefined);
    await close();
  }
}

/** The manifest of a directory; `undefined` if it is empty. Expected errors: those of the system; OperatorError (`usage`, `storage`). */
async function manifestIn(path: string, resume: boolean): Promise<Manifest | undefined> {
  const name = named(path);
  const entries = await readdir(path);
  if (entries.every((entry) => entry === unfinishedName(MANIFEST))) return undefined;
  if (!resume)
    throw wrongUse(`The directory ${name} is not empty. Add --resume to continue it, or choose another one.`);
  const place = join(path, MANIFEST);
  const text = entries.includes(MANIFEST) ? await explained(place, () => readFile(place, 'utf8')) : '';
  const manifest = parseManifest(text);
  if (manifest !== undefined) return manifest;
  throw wrongUse(
    `The directory ${name} cannot be resumed: it has no ${MANIFEST} of an export. Choose another one.`,
  );
}

async function writePartitions(
  path: string,
  begun: Manifest | undefined,
  asked: ExportFlags,
  options: FormOptions,
  parts: ExportParts,
): Promise<string> {
  const { progress, signal, source } = parts;
  const name = named(path);
  const { partition: size } = options.shape;
  if (begun !== undefined && begun.chain_id !== source.chainId) {
    const message = `${name} holds an export of ${begun.chain_id}, but the index is of ${source.chainId}. Choose another directory.`;
    throw new OperatorError('foreign', message);
  }
  const last = begun?.partitions.at(-1);
  const wanted = asked.from ?? begun?.from;
  // Of the blocks in the directory, the index needs only the last one, or those that are written again.
  const held = last && { from: Math.min(last.to, nextFrom(last, size)), to: last.to };
  const range = await exportRange(source, { ...asked, from: wanted ?? null }, held);
  const shape: ExportShape = { chain_id: source.chainId, from: wanted ?? range.from, ...options.shape };
  const span = Math.floor(range.to / size) - Math.floor(shape.from / size);
  if (range.to < ENDLESS && span >= MAX_PARTITIONS) throw tooMany();
  if (begun !== undefined) {
    checkNotBeyond(name, begun.to, asked.to);
    if (last !== undefined) await checkSame({ height: last.to, id: last.last_block_id }, source);
    const difference = differenceOf(begun, shape);
    if (difference !== undefined)
      throw wrongUse(
        `The directory ${name} cannot be resumed like this. ${difference}. Repeat the flags of the first run, or choose another directory.`,
      );
  }
  let manifest = begun ?? manifestOf(shape, []);
  await prepare(path, manifest);
  if (manifest.partitions.length > 0 && manifest.to === range.to) {
    await checkFiles(path, manifest, parts);
    return `${name} is complete: ${phrase(manifest)}.`;
  }
  const makeForm = await formMaker(options);
  let transactions = 0;
  try {
    for (let heights; (heights = nextOf(manifest, range, size)) !== undefined;) {
      const { from } = heights;
      const below = manifest.partitions.filter(({ to }) => to < from);
      const onPage = (height: number, some: number) => progress.at(height, range.to, transactions + some);
      const work = { source, onPage, form: makeForm(), below: below.at(-1) };
      const partition = await writePartition(path, shape, heights, work);
      const isRewritten = below.length < manifest.partitions.length;
      manifest = manifestOf(shape, [...below, partition]);
      const tables = partition.files.map(({ table }) => table);
      for (const table of tables) await syncDirectory(join(path, table));
      await save(path, manifest);
      if (isRewritten) for (const table of tables) await removeUnnamed(path, table, manifest);
      transactions += partition.transactions;
      // A page that is being read notices the signal; between partitions this does.
      if (signal.aborted) throw abortReason(signal);
    }
  } catch (error) {
    if (!asked.follow || !signal.aborted || !isAbort(error)) throw error;
  }
  return `exported ${phrase(manifest)} to ${name} from ${source.name}`;
}

/**
 * Prepares for writing, and removes what a killed export left behind. Expected errors: also OperatorError `damage` when a file is
 * missing or has another size.
 */
async function prepare(path: string, manifest: Manifest): Promise<void> {
  const files = filesOf(manifest);
  for (const file of files) {
    const found = statSync(join(path, file.path), { throwIfNoEntry: false });
    if (found?.size !== file.bytes) throw damaged(path, file);
  }
  if (manifest.partitions.length === 0) await save(path, manifest);
  const tables = manifest.file_format === 'ndjson' ? [LINES] : Object.keys(manifest.columns ?? {});
  for (const table of tables) {
    await mkdir(join(path, table), { recursive: true });
    await removeUnnamed(path, table, manifest);
  }
  await syncDirectory(path);
}

async function save(path: string, manifest: Manifest): Promise<void> {
  await replaceFile(join(path, MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`);
  await syncDirectory(path);
}

async function removeUnnamed(path: string, table: string, manifest: Manifest): Promise<void> {
  const kept = new Set(filesOf(manifest).map((file) => file.path));
  for (const entry of await readdir(join(path, table))) {
    const isOurs = entry.replace(/^\./, '').startsWith(`${table}-`);
    if (isOurs && !kept.has(`${table}/${entry}`)) await rm(join(path, table, entry), { force: true });
  }
}

/** Reads every file. Expected errors: OperatorError `damage` for a file that does not match the manifest. */
async function checkFiles(
  path: string,
  manifest: Manifest,
  { progress, signal }: ExportParts,
): Promise<void> {
  const files = filesOf(manifest);
  for (const [index, file] of files.entries()) {
    const digest = createHash('sha256');
    await pipeline(createReadStream(join(path, file.path)), digest, { signal });
    if (digest.digest('hex') !== file.sha256) throw damaged(path, file);
    progress.scanned((index + 1) / files.length);
  }
}

function filesOf({ partitions }: Manifest): readonly PartFile[] {
  return partitions.flatMap(({ files }) => files);
}

function damaged(path: string, file: PartFile): OperatorError {
  const message = `${named(join(path, file.path))} does not match ${MANIFEST}: it was changed or removed after it was written. Export it again.`;
  return new OperatorError('damage', message);
}

function nextOf({ partitions }: Manifest, range: HeightRange, size: number): HeightRange | undefined {
  const last = partitions.at(-1);
  const from = last === undefined ? range.from : nextFrom(last, size);
  if ((last?.to ?? -1) >= range.to) return undefined;
  if (partitions.length >= MAX_PARTITIONS) throw tooMany();
  return { from, to: Math.min(range.to, endOf(from, size)) };
}

/** Where the next partition begins; a last one that can now be longer is written again from its beginning. */
function nextFrom({ from, to }: HeightRange, size: number): number {
  return to === endOf(to, size) ? to + 1 : from;
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

function phrase({ partitions, files, ...range }: Manifest): string {
  const sum = (of: 'blocks' | 'transactions') => partitions.reduce((total, each) => total + each[of], 0);
  const all = inWords({ ...range, blocks: sum('blocks'), transactions: sum('transactions') });
  return `${all}, in ${counted(files, 'file')}`;
}

/**
 * Writes the files of one partition, which get their names once all of them are complete. While blocks become rows, the
 * next blocks are fetched. Expected errors: those of the source and the system; OperatorError `foreign` when the index does not
 * continue from the partition before.
 */
async function writePartition(
  directory: string,
  shape: ExportShape,
  heights: HeightRange,
  work: Pick<ExportParts, 'source'> & {
    readonly form: PartitionForm;
    readonly below: Partition | undefined;
    readonly onPage: (height: number, transactions: number) => void;
  },
): Promise<Partition> {
  const { below, form, onPage, source } = work;
  const before = below && { height: below.to, id: below.last_block_id };
  let last: BlockRow | undefined;
  let [blocks, transactions] = [0, 0];
  // Parquet compresses its pages.
  const compression = shape.file_format === 'parquet' ? 'none' : shape.compression;
  const parts: Part[] = [];
  try {
    for (const file of form.files) {
      const place = { directory, path: pathOf(file.table, heights, shape) };
      parts.push(await beginPart(file, place, compressingStream(compression)));
    }
    for await (const page of pagesOf(source, heights, before)) {
      for (const entry of page) {
        last = blockRow(entry);
        form.add(last);
        blocks += 1;
        transactions += last.transactions;
        for (const part of parts) await part.grow();
      }
      onPage(last?.block.height ?? heights.to, transactions);
    }
    const files: PartFile[] = [];
    for (const part of parts) files.push(await part.finish());
    for (const part of parts) await part.publish();
    return { ...heights, last_block_id: last?.block.id ?? '', blocks, transactions, files };
  } catch (error) {
    for (const part of parts) await part.discard();
    throw error;
  }
}

/** From the directory. A Parquet file is called the same, however its pages are compressed. */
function pathOf(table: string, { from, to }: HeightRange, shape: ExportShape): string {
  const [first, last] = [from, to].map((height) => String(height).padStart(HEIGHT_DIGITS, '0'));
  const { compression, file_format: format } = shape;
  const suffix = format === 'parquet' ? '' : { none: '', gzip: '.gz', zstd: '.zst' }[compression];
  return `${table}/${table}-${first}-${last}.${format}${suffix}`;
}
