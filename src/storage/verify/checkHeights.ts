import type { FinalizedBlock } from '../../flow/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { CheckedHeights } from '../port/IndexStore.js';
import type { BlockEntry } from '../port/RangeStore.js';
import type { BlockHead, HeightRange, SporkRecord } from '../port/stored.js';
import { assembleEntry } from '../records/blocks/assembleBlock.js';
import { links } from '../records/book/applyCommit.js';
import { contains, joined, rangeOf, rangesInWords, within } from '../records/heightRanges.js';
import type { HeightRanges } from '../records/heightRanges.js';
import { coverageOfBook, type StoreBook } from '../records/book/StoreBook.js';
import { bodyChunks, PROOFS_SCHEMA_VERSION, RECORD } from '../records/schema.js';
import { DamageList, type StoredRange, type VerifyReport } from './DamageList.js';

export interface VerifyOptions {
  readonly chainId: string;
  /** First and last height to check. Default: the whole store. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  /** What else is wrong with a block, in words, by what the caller knows of the chain. */
  readonly objectionTo?: ((block: FinalizedBlock) => string | undefined) | undefined;
}

/** Progress of a verification, or of the copy before it, whose `bytes` are those that could not be linked. */
export type VerifyProgress =
  | { readonly phase: 'copy'; readonly bytes: number }
  | { readonly phase: 'blocks'; readonly height: number; readonly from: number; readonly to: number }
  | { readonly phase: 'pointers'; readonly pointers: number };

/** The heights of a store, according to its own records or, if those are damaged, to its block records. */
export interface Extent {
  /** The live range, which may be empty. */
  readonly live: HeightRange;
  /** All ranges, the live one included, ascending. */
  readonly ranges: readonly StoredRange[];
  /** Each of these heights must have a block. */
  readonly required: HeightRanges;
  /** All other heights must be empty. Besides `required`: blocks above a gap, in the live range and in open ones. */
  readonly allowed: HeightRanges;
  /** The sporks that the store has crossed. */
  readonly sporks: readonly SporkRecord[];
  /** Heights whose blocks may be without a proof; `undefined`: any. */
  readonly unproven?: HeightRanges | undefined;
}

/** `highest`: the height of the highest block above the watermark. */
export function extentOf(
  book: Pick<StoreBook, 'latestIndexedHeight' | 'meta' | 'open' | 'published' | 'unproven'>,
  highest = book.latestIndexedHeight,
): Extent {
  const { latestIndexedHeight, meta, open, published, unproven } = book;
  const live = { from: meta.firstHeight, to: latestIndexedHeight };
  const below = open.map(({ from, next }) => ({ from, to: next - 1 }));
  const ranges: StoredRange[] = [
    ...published.map((each) => ({ ...each, kind: 'published' as const })),
    ...open.map(({ from, to }) => ({ from, to, kind: 'open' as const })),
    { ...live, kind: 'live' },
  ];
  return {
    live,
    ranges: ranges.sort((left, right) => left.from - right.from),
    required: joined([...published, ...below, live]),
    allowed: joined([...ranges, { from: live.to + 1, to: highest }]),
    sporks: [...meta.sporks, ...open.flatMap(({ sporks }) => sporks)],
    unproven: meta.schemaVersion < PROOFS_SCHEMA_VERSION ? undefined : unproven,
  };
}

/** What is stored for one height: a record, a body, or both. */
export interface StoredHeight {
  readonly height: number;
  record: Buffer | undefined;
  readonly body: Map<number, Buffer>;
}

/** The record of a height (`RECORD`), or a chunk of its body. */
export interface StoredValue {
  readonly height: number;
  readonly chunk: number;
  readonly value: Buffer;
}

/** What is stored for each height, from values in the order of heights. */
export async function* storedHeights(
  values: AsyncIterable<StoredValue> | Iterable<StoredValue>,
): AsyncGenerator<StoredHeight, void> {
  let stored: StoredHeight | undefined;
  for await (const { height, chunk, value } of values) {
    if (stored?.height !== height) {
      if (stored !== undefined) yield stored;
      stored = { height, record: undefined, body: new Map() };
    }
    if (chunk === RECORD) stored.record = value;
    else stored.body.set(chunk, value);
  }
  if (stored !== undefined) yield stored;
}

/** Which heights to check, whatever the store. */
export interface HeightTask {
  readonly extent: Extent;
  /** Empty when `to` is below `from`. */
  readonly range: HeightRange;
  readonly damages: DamageList;
  /** See `proofChecker`. */
  readonly holds: (block: FinalizedBlock) => boolean;
  readonly objectionTo?: VerifyOptions['objectionTo'];
  /** Called for every height. May throw, to stop. */
  readonly onHeight: (height: number) => void;
}

export interface HeightPass extends HeightTask {
  /** The stored block of a height; `undefined` where it is damaged or missing. Asked for the one below the range. */
  readonly headAt: (height: number) => Promise<BlockHead | undefined>;
  /** Called with what a sound height holds. */
  readonly onSound: (entry: BlockEntry) => Promise<void> | undefined;
}

const NOTHING = { heights: 0, collections: 0, transactions: 0, bytes: 0, proven: 0 };

type Counts = typeof NOTHING & {
  ranges: (StoredRange & { blocks: number })[];
  waiting: VerifyReport['waiting'];
};

/**
 * Checks block records and bodies of any store, which come in height order: no height is missing, every hash is right,
 * each block is the child of the one below.
 */
export async function checkHeights(heights: AsyncIterable<StoredHeight>, pass: HeightPass): Promise<Counts> {
  const { extent, range, damages } = pass;
  const ranges = extent.ranges.flatMap((each) =>
    within([each], range).map((part) => ({ ...part, kind: each.kind, blocks: 0 })),
  );
  const counts: Counts = { ...NOTHING, ranges, waiting: undefined };
  let previous = contains(extent.allowed, range.from - 1) ? await pass.headAt(range.from - 1) : undefined;
  let next = range.from;
  for await (const stored of heights) {
    const { height } = stored;
    const isOutside = height < range.from || height > range.to;
    if (isOutside || !contains(extent.allowed, height)) {
      damages.add('unexpected', height, `entries of height ${height}: ${notHeld(extent)}`);
      if (!isOutside) previous = undefined;
      continue;
    }
    pass.onHeight(height);
    reportMissing({ from: next, to: height - 1 }, extent, damages);
    next = height + 1;
    const entry = checkHeight(stored, pass);
    if (entry !== undefined) {
      checkParent(previous, entry.block, pass);
      count(counts, entry, extent);
      // Most have nothing to wait for.
      const checking = pass.onSound(entry);
      if (checking !== undefined) await checking;
    }
    previous = entry?.block;
  }
  reportMissing({ from: next, to: range.to }, extent, damages);
  return counts;
}

/**
 * Like `IndexStore.check`, by a pass over what is covered. `bookOf`: the current book. `check`: like `checkHeights`.
 * Expected errors: those of `bookOf` and `check`; the signal's abort reason.
 */
export async function checkCovered(
  range: HeightRange,
  bookOf: () => StoreBook | Promise<StoreBook>,
  { holds, signal }: Pick<HeightTask, 'holds'> & { readonly signal: AbortSignal | undefined },
  check: (task: HeightTask) => Promise<Pick<Counts, 'bytes'>>,
): Promise<CheckedHeights> {
  const damages = new DamageList();
  const extent = extentOf({ ...(await bookOf()), open: [] });
  const onHeight = (): void => signal?.throwIfAborted();
  const { bytes } = await check({ extent, range, damages, holds, onHeight });
  // A height may have left the coverage meanwhile.
  return { bytes, damages: damages.at(coverageOfBook(await bookOf())) };
}

/** Why nothing may be at a height, in words. */
export function notHeld({ ranges }: Extent): string {
  return ranges.length === 1 ? 'the store does not reach that far' : 'no range of the store has it';
}

function reportMissing(run: HeightRange, { required }: Extent, damages: DamageList): void {
  if (run.to < run.from) return;
  for (const { from, to } of within(required, run)) {
    const heights = from === to ? `height ${from} has` : `heights ${from} to ${to} have`;
    damages.add('missing_block', from, `${heights} no block record`, { from, to });
  }
}

/** The height's content if all of it is sound. */
function checkHeight(
  { height, record, body }: StoredHeight,
  { damages, extent, holds, objectionTo }: HeightTask,
): BlockEntry | undefined {
  if (record === undefined) {
    reportMissing({ from: height, to: height }, extent, damages);
    damages.add('block', height, `body of height ${height}: it has no block record`);
    return undefined;
  }
  try {
    const entry = assembleEntry(height, record, body, holds);
    const { unproven } = extent;
    if (entry.block.proof === undefined && unproven !== undefined && !contains(unproven, height))
      damages.add('block', height, `block record of height ${height}: its proof is missing`);
    const objection = objectionTo?.(entry.block);
    if (objection !== undefined) damages.add('foreign', height, `block of height ${height}: ${objection}`);
    const bodyLength = entry.collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
    for (const chunk of body.keys()) {
      if (chunk < bodyChunks(bodyLength)) continue;
      damages.add('block', height, `body of height ${height}: chunk ${chunk} should not exist`);
    }
    return entry;
  } catch (error) {
    damages.addError('block', error, height);
    return undefined;
  }
}

function checkParent(lower: BlockHead | undefined, upper: BlockHead, { damages, extent }: HeightTask): void {
  const { height } = upper;
  if (lower?.height !== height - 1 || links(lower, upper, extent)) return;
  const what = `block of height ${height}: its parent is not the block of height ${lower.height}`;
  // Either may be the wrong one.
  damages.add('parent', height, what, { from: lower.height, to: height });
}

function count(
  counts: Counts,
  { block: { height, proof }, collections }: BlockEntry,
  { live }: Extent,
): void {
  counts.heights += 1;
  if (proof !== undefined) counts.proven += 1;
  const range = rangeOf(counts.ranges, height);
  if (range !== undefined) range.blocks += 1;
  if (height > live.to) {
    const { blocks = 0, from = height } = counts.waiting ?? {};
    counts.waiting = { blocks: blocks + 1, from, to: height };
  }
  counts.collections += collections.length;
  for (const { ranges, encoded } of collections) {
    counts.transactions += ranges.length / 2;
    counts.bytes += encoded.length;
  }
}

/** Expected errors: `OperatorError` (`usage`, heights outside the store). */
export function rangeToCheck(
  { from: first, to: last }: Pick<VerifyOptions, 'from' | 'to'>,
  { allowed, live }: Extent,
  damages: DamageList,
): HeightRange {
  const lowest = allowed[0]?.from ?? live.from;
  const highest = allowed.at(-1)?.to ?? live.from - 1;
  const [from, to] = [first ?? lowest, last ?? highest];
  const isAsked = first !== undefined || last !== undefined;
  // If the store's own records are damaged, its extent is a guess, and no reason to refuse heights.
  if (isAsked && damages.count === 0 && (from < lowest || to > highest || from > to)) {
    throw new OperatorError(
      'usage',
      `Cannot verify heights ${from} to ${to}: the store holds heights ${rangesInWords(allowed)}.`,
    );
  }
  return { from: Math.max(from, lowest), to: Math.min(to, highest) };
}

/** The report on what was checked; by default, on an empty store. */
export function reportOf(
  damages: DamageList,
  found: Partial<Counts & Pick<VerifyReport, 'range' | 'latestIndexedHeight' | 'pointers'>> = {},
): VerifyReport {
  const { range, ranges = [] } = found;
  const report = damages.report();
  return {
    ...NOTHING,
    pointers: 0,
    latestIndexedHeight: undefined,
    waiting: undefined,
    ...found,
    ...report,
    ranges: ranges.map((each) => ({ ...each, damaged: within(report.damagedHeights, each) })),
    range: range === undefined || range.to < range.from ? undefined : range,
  };
}
