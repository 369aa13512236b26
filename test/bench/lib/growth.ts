import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { LevelTuning } from '../../../src/storage/index.js';
import { startScript } from './processes.js';

export interface GrowthOptions {
  readonly writer: 'product' | 'store only';
  /** Made by BlockFileWriter. */
  readonly file: string;
  readonly heights: number;
  /** The directory of the store; left behind. */
  readonly path: string;
  readonly tuning?: Partial<LevelTuning>;
  readonly group?: { readonly maxHeights: number; readonly maxBytes: number };
  /** Of the store-only writer. Default true. */
  readonly sync?: boolean;
}

export interface Tenth {
  readonly heights: number;
  readonly heightsPerSecond: number;
  /** The most memory in this tenth that no file backs. */
  readonly peakAnonymousMiB: number;
}

export interface GrowthReport {
  readonly heightsPerSecond: number;
  readonly tenths: readonly Tenth[];
  /** Handed to write calls by the whole process, up to the last durable height. */
  readonly writtenBytes: number;
  /** Keys and values; the store-only writer counts them, for both write the same. */
  readonly putBytes: number;
  /** What closing took, from the last durable height on. */
  readonly closeMs: number;
  /** The store's directory after closing. */
  readonly storedBytes: number;
}

/** Fills a store in a process of its own. */
export async function grow(options: GrowthOptions): Promise<GrowthReport> {
  const child = startScript('test/bench/lib/growthProcess.ts', [JSON.stringify(options)]);
  let report: Partial<GrowthReport> = {};
  child.on('message', (message) => (report = { ...report, ...(message as Partial<GrowthReport>) }));
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`the writer "${options.writer}" ended with ${String(code)}`);
  return { ...(report as GrowthReport), storedBytes: directoryBytes(options.path) };
}

function directoryBytes(path: string): number {
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(join(path, name)))
    .reduce((sum, { size }) => sum + size, 0);
}
