import type { Identifier } from '../../flow/index.js';
import type { IndexReader, ItemKind, StoreMeta, StoredBlock } from '../../storage/index.js';
import type { StoredItem, WholeBlock } from '../../storage/index.js';
import { heightOutside, noSuchHead, nothingIndexed, unknownId } from './ApiError.js';
import { headTerm, parseBlockKey, type HeightTerm } from './queryParameters.js';
import { firstLinked, isProven, rangeWith, type IndexedRange } from './indexedRange.js';

/**
 * The index as it was when a request arrived: responses and refusals cover the heights that were indexed then, whatever is
 * committed in the meantime.
 *
 * It locks and copies nothing: covered heights do not change while a daemon runs, so their coverage is a snapshot. Only damaged
 * heights leave it and return: an id that is not found is refused as `healing` if any height heals by then, else looked up again.
 */
export class IndexView {
  /** The range at the moment of the view. */
  readonly range: IndexedRange;
  readonly #reader: IndexReader;
  readonly #now: () => IndexedRange;

  /** `now` returns the current range. */
  constructor(reader: IndexReader, now: () => IndexedRange) {
    this.#reader = reader;
    this.range = now();
    this.#now = now;
  }

  /**
   * The height of the newest block that can be served, or of the newest of these that is known to be sealed. Expected errors:
   * ApiError (404 while there is none).
   */
  head(which: 'final' | 'sealed'): number {
    const { firstIndexed, latestIndexed, sealed } = this.range;
    if (firstIndexed === null || latestIndexed === null) throw noSuchHead(which, this.range);
    const height = which === 'final' ? latestIndexed : Math.min(latestIndexed, sealed ?? -1);
    if (height < firstIndexed) throw noSuchHead(which, this.range);
    return height;
  }

  /** The height that a request names; errors as for `head`. */
  heightOf(term: HeightTerm): number {
    return typeof term === 'number' ? term : this.head(term);
  }

  /** A sealed block is final in every later spork: neither the response for its height nor its status changes. */
  isSealed(height: number): boolean {
    return height <= (this.range.sealed ?? -1);
  }

  /** Whether a block is proven final. This never changes back. */
  isProven(height: number): boolean {
    return isProven(height, this.range);
  }

  /** A block by id or height. Expected errors: ApiError (404 outside the view), StorageError. */
  async block(key: Identifier | number): Promise<StoredBlock> {
    if (typeof key === 'number') {
      const stored = this.covers(key) ? await this.#reader.blockByHeight(key) : undefined;
      if (stored === undefined) throw heightOutside(key, this.range);
      return stored;
    }
    return this.#known('block', () => this.#reader.blockById(key));
  }

  /** A block by its id, height, or the word for a head. Expected errors: ApiError (400 for none of these), and those of `block`. */
  blockNamed(key: string): Promise<StoredBlock> {
    const head = headTerm(key);
    return this.block(head === undefined ? parseBlockKey(key) : this.head(head));
  }

  /** Like `blockNamed`, with its collections. */
  async wholeBlock(key: string): Promise<WholeBlock> {
    const { id, height } = (await this.blockNamed(key)).block;
    const whole = await this.#reader.wholeBlock(height);
    if (whole?.block.id === id) return whole;
    // A daemon never removes an indexed block: the store was rewound by another process.
    throw heightOutside(height, this.range);
  }

  /** At its lowest place. Expected errors: ApiError (404 outside the view), StorageError. */
  item(kind: ItemKind, id: Identifier): Promise<StoredItem> {
    return this.#known(kind, () => this.#reader.item(kind, id));
  }

  async #known<T extends StoredBlock | StoredItem>(
    what: Parameters<typeof unknownId>[0],
    look: () => Promise<T | undefined>,
  ): Promise<T> {
    const isThere = (stored: T | undefined): stored is T =>
      stored !== undefined && this.covers('block' in stored ? stored.block.height : stored.place.height);
    const first = await look();
    if (isThere(first)) return first;
    const { healing = [] } = this.#now();
    if (healing.length > 0) throw unknownId(what, { ...this.range, healing });
    const second = await look();
    if (isThere(second)) return second;
    throw unknownId(what, this.range);
  }

  /** Whether a height can be read. */
  covers(height: number): boolean {
    return rangeWith(height, this.range) !== undefined;
  }
}

/** The index described as a node, for REST and gRPC. Expected errors: ApiError (404) before the first height is known. */
export function nodeVersion(version: string, meta: StoreMeta | undefined, range: IndexedRange) {
  const { firstIndexed, latestIndexed } = range;
  if (firstIndexed === null || latestIndexed === null) throw nothingIndexed(range);
  // A spork is recorded with its first durable block, which may be above a gap.
  const reached = Math.max(firstIndexed, latestIndexed);
  const spork = meta?.sporks.findLast(({ rootHeight }) => rootHeight <= reached);
  return {
    semver: `v${version}`,
    /** Hex; empty when no node reported one. */
    sporkId: spork?.sporkId ?? '',
    sporkRootHeight: spork?.rootHeight ?? 0,
    /** Mirrors go on below a height that heals. */
    firstHeight: firstLinked(firstIndexed, range),
    /** `undefined` while no height can be read. */
    readable: latestIndexed < firstIndexed ? undefined : { start: firstIndexed, end: latestIndexed },
  };
}
