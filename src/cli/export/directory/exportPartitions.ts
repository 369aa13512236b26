import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { BlockEntry } from '../../../storage/index.js';
import type { BlockLine } from '../source/blockLine.js';
import type { ExportProgress } from '../source/exportProgress.js';
import type { ExportSource } from '../source/exportSource.js';
import { compressingStream } from '../formats/compression.js';
import type { Compression } from '../../arguments/flags.js';
import type { GrowingFile, PartitionForm } from '../formats/PartitionForm.js';
import { checkSame } from '../source/checkSame.js';
import { BlockRow } from '../tables/BlockRow.js';
import type { ManifestFile, Partition } from './manifest.js';
import { PartFile } from './PartFile.js';

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
