import { OperatorError } from '../../runtime/index.js';
import { MAX_OPEN_RANGES, MAX_PLANS, ParentLinkError, rangesInWords } from '../../storage/index.js';
import { SCHEMA_VERSION, StorageError, upTo, verifiedBlock, within, without } from '../../storage/index.js';
import type { BlockEntry, HeightRange, IndexReader, IndexStore } from '../../storage/index.js';
import type { RangeStore, SporkRecord } from '../../storage/index.js';
import { common, countHeights, cutNext } from '../planner.js';

/** Heights per read and write, at most; twice as many are in memory. */
const HEIGHTS_AT_ONCE = 32;
/** Blocks may be of any size: a read ends once it holds this many bytes of collections. */
const BYTES_AT_ONCE = 16 * 1024 * 1024;
const READS_AT_ONCE = 4;

export interface MigrationProgress {
  /** Heights copied so far, of those that the target lacked. */
  readonly copied: number;
  readonly missing: number;
  /** The last height written. */
  readonly height: number;
}

export type MigrationReport = Awaited<ReturnType<typeof migrateStore>>;

export interface MigrationDependencies {
  readonly source: IndexStore;
  readonly target: IndexStore;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: MigrationProgress) => void;
}

/**
 * Copies the covered heights and the plans of a store to another, with the same writes as a daemon: first the live range
 * upwards, then the other ranges, each published when complete. Heights that the target has are skipped, so another call
 * continues an interrupted one. Nothing else may write to the target.
 *
 * Expected errors: `StorageError`; OperatorError: `not_found` for an empty source, `damage` for a damaged one, `foreign` when
 * the target holds another block, `usage` when the target cannot take the heights; the signal's abort reason.
 */
export async function migrateStore(parts: MigrationDependencies) {
  const { source, target } = parts;
  const meta = source.meta();
  const covered = source.coverage();
  const live = covered.at(-1);
  if (meta === undefined || live === undefined)
    throw new OperatorError('not_found', 'The source holds no heights: there is nothing to migrate.');
  const borders = meta.sporks.map(({ rootHeight }) => rootHeight);
  await checkSame(parts, borders);
  const missing = without(covered, target.coverage());
  const next = target.meta() === undefined ? live.from : target.latestIndexedHeight() + 1;
  const above = within(missing, { from: next, to: Number.MAX_SAFE_INTEGER });
  checkReach(above, next, target);
  if (target.meta() === undefined) {
    // Later sporks are recorded with their root blocks.
    const sporks = meta.sporks.filter(({ rootHeight }) => rootHeight <= live.from);
    await target.initialise({ ...meta, schemaVersion: SCHEMA_VERSION, firstHeight: live.from, sporks });
  }
  const copy = { ...parts, sporks: meta.sporks, missing: countHeights(missing), copied: 0 };
  const [upwards] = above;
  if (upwards !== undefined) {
    // Blocks that a daemon left above its watermark may be false.
    await target.forgetAbove();
    await copyInto(target, upwards, copy);
  }
  // Open ranges of an earlier run or a daemon, where the source covers them, are copied from their first height.
  const dropped = target.ranges.open().filter((range) => without([range], covered).length === 0);
  if (dropped.length > 0) await target.ranges.change({ dropped });
  for (;;) {
    const below = upTo(covered, (target.meta()?.firstHeight ?? 0) - 1);
    const wanted = without(below, [...target.coverage(), ...target.ranges.open()]);
    const range = cutNext(wanted, { order: 'newest', borders });
    if (range === undefined) break;
    if (target.ranges.open().length >= MAX_OPEN_RANGES)
      throw new OperatorError(
        'usage',
        `The target has ${MAX_OPEN_RANGES} open ranges, which is the maximum. Let a daemon fill them first.`,
      );
    const run = await target.ranges.run(range);
    await copyInto(run, range, copy);
    target.ranges.release(run);
  }
  for (const evidence of await source.evidence()) {
    const stored = await target.blockByHeight(evidence.height);
    if (stored?.block.id === evidence.id) await target.keepEvidence(evidence);
  }
  const plans = await copyPlans(parts);
  /** Heights that the target already had. */
  const skipped = countHeights(covered) - copy.copied;
  return { copied: copy.copied, skipped, plans, coverage: target.coverage() };
}

interface Copy extends MigrationDependencies {
  readonly sporks: readonly SporkRecord[];
  readonly missing: number;
  copied: number;
}

/** Copies a range of heights, reading ahead while it writes. */
async function copyInto(run: RangeStore, range: HeightRange, copy: Copy): Promise<void> {
  const { signal, sporks } = copy;
  let reading = readNext(range.from, range, copy);
  while (reading !== undefined) {
    const blocks = await reading;
    const first = blocks[0]?.block;
    const last = blocks.at(-1)?.block;
    if (first === undefined || last === undefined) return;
    reading = readNext(last.height + 1, range, copy);
    // It may fail while the blocks before it are still being written.
    reading?.catch(() => undefined);
    signal.throwIfAborted();
    const spork = sporkFor(first.height, sporks, run);
    try {
      const brought = spork === undefined ? [] : [spork];
      await run.commit({ blocks, latestIndexedHeight: last.height, sporks: brought });
    } catch (error) {
      if (!(error instanceof ParentLinkError)) throw error;
      const { height } = error;
      // Below the first of these blocks, and above the last height of a range, lie blocks of the target.
      if (height <= first.height || height > last.height) throw contradiction(height);
      throw damaged(height, `its parent is not the block of height ${height - 1}`);
    }
    copy.copied += blocks.length;
    copy.onProgress({ copied: copy.copied, missing: copy.missing, height: last.height });
    signal.throwIfAborted();
  }
}

/** Never reads across the root of a spork, so that each commit brings one spork at most. */
function readNext(from: number, { to }: HeightRange, { source, sporks }: Copy) {
  if (from > to) return undefined;
  const root = sporks.find(({ rootHeight }) => rootHeight > from)?.rootHeight ?? to + 1;
  const end = Math.min(to, from + HEIGHTS_AT_ONCE - 1, root - 1);
  return readSome(source, { from, to: end });
}

/** The first blocks of a range, in order. Expected errors: those of `readVerified`. */
async function readSome(source: IndexReader, { from, to }: HeightRange): Promise<readonly BlockEntry[]> {
  const read: BlockEntry[] = [];
  let bytes = 0;
  for (let next = from; next <= to && bytes < BYTES_AT_ONCE; next += READS_AT_ONCE) {
    const length = Math.min(READS_AT_ONCE, to - next + 1);
    const some = Array.from({ length }, (_, index) => readVerified(source, next + index));
    for (const entry of await Promise.all(some)) {
      read.push(entry);
      for (const { encoded } of entry.collections) bytes += encoded.length;
    }
  }
  return read;
}

/** The spork of a height, unless the run has a different one there. A known spork gains what the source adds. */
function sporkFor(height: number, sporks: readonly SporkRecord[], run: RangeStore): SporkRecord | undefined {
  const isBelow = ({ rootHeight }: SporkRecord): boolean => rootHeight <= height;
  const spork = sporks.findLast(isBelow);
  const known = run.meta()?.sporks.findLast(isBelow);
  if (spork === undefined || known === undefined || known.rootHeight < spork.rootHeight) return spork;
  return known.rootHeight === spork.rootHeight && known.sporkId === spork.sporkId ? spork : undefined;
}

/** The live range is the highest one, and has no holes. Expected errors: OperatorError `usage`. */
function checkReach(above: readonly HeightRange[], next: number, target: IndexStore): void {
  const [first] = above;
  const isEmpty = target.meta() !== undefined && target.latestBlock() === undefined;
  if (first === undefined ? !isEmpty : first.from === next && above.length === 1) return;
  const reached = isEmpty ? `begins at height ${next}, and holds nothing yet` : `ends at height ${next - 1}`;
  throw new OperatorError(
    'usage',
    `The live range of the target ${reached}, but the source has ${first === undefined ? 'nothing there' : `heights ${rangesInWords(above)}`}: ` +
      'copying would leave a hole. Let a daemon index the target up to there first, or choose an empty target.',
  );
}

/** Compares the ends and spork roots of common ranges: the blocks between them follow from their parent links. */
async function checkSame(
  { source, target }: MigrationDependencies,
  borders: readonly number[],
): Promise<void> {
  for (const { from, to } of common(source.coverage(), target.coverage())) {
    const heights = new Set([from, to, ...borders.flatMap((root) => [root - 1, root])]);
    for (const height of heights) {
      if (height < from || height > to) continue;
      const [ours, its] = await Promise.all([readVerified(source, height), target.blockByHeight(height)]);
      if (ours.block.id !== its?.block.id) throw contradiction(height);
    }
  }
}

function contradiction(height: number): OperatorError {
  return new OperatorError(
    'foreign',
    `The target and the source differ at height ${height}: one of them is of another chain, or was rewound. ` +
      'That height was not changed. Choose another target, or rewind the one that is wrong.',
  );
}

/** Copies the plans that the target lacks; the next daemon fills them in. Returns how many. */
async function copyPlans({ source, target }: MigrationDependencies): Promise<number> {
  const existing = target.ranges.plans();
  const highest = (target.meta()?.firstHeight ?? 0) - 1;
  const carried = source.ranges
    .plans()
    .filter((plan) => !existing.some(({ from, to }) => from <= plan.from && to >= plan.to))
    .filter(({ from, to }) => without([{ from, to: Math.min(to, highest) }], target.coverage()).length > 0);
  if (carried.length === 0) return 0;
  if (existing.length + carried.length > MAX_PLANS)
    throw new OperatorError(
      'usage',
      `Source and target have more than ${MAX_PLANS} plans together. Cancel some, then run this again.`,
    );
  const last = existing.at(-1)?.id ?? 0;
  const plans = [...existing, ...carried.map((plan, index) => ({ ...plan, id: last + 1 + index }))];
  await target.ranges.change({ plans });
  return carried.length;
}

/**
 * A stored block, with every collection hashed again. Expected errors: `StorageError`; OperatorError `damage`, with
 * the height.
 */
async function readVerified(reader: IndexReader, height: number): Promise<BlockEntry> {
  try {
    const whole = await reader.wholeBlock(height);
    if (whole === undefined) throw damaged(height, 'it is in the coverage, but missing');
    const { block } = whole;
    if (block.height !== height) throw damaged(height, `its block has height ${block.height}`);
    return verifiedBlock(whole);
  } catch (error) {
    if (error instanceof StorageError && error.kind === 'corrupt')
      throw damaged(height, error.damage ?? error.message, error);
    throw error;
  }
}

function damaged(height: number, what: string, cause?: Error): OperatorError {
  return new OperatorError(
    'damage',
    `Height ${height} of the source is damaged: ${what}. Everything before it is copied. Run "verify" to find all damage; ` +
      'once the daemon has fetched those heights again, the same command continues.',
    { cause },
  );
}
