import { ok as assert } from 'node:assert/strict';
import { WireError } from '../../flow/index.js';
import { corruptRecord, unlessDamaged } from '../StorageError.js';
import type { AccountCoverage, AccountIndex, AccountPage, AccountQuery } from '../port/AccountIndex.js';
import type { HeightRange, StoreMeta } from '../port/stored.js';
import type { StoreBook } from '../records/book/StoreBook.js';
import type { RecordReader } from '../records/reading/RecordReader.js';
import type { Database, WriteBatch } from '../records/Database.js';
import { heightsOf, isLive, missingBelow, OPEN_END } from '../records/accountCoverage.js';
import type { Coverage } from '../records/accountCoverage.js';
import { readWhole } from '../records/blocks/readBlocks.js';
import type { ReadBlock } from '../records/blocks/readBlocks.js';
import { readCoverage, sealCoverage } from '../records/book/bookRecords.js';
import { joined, without } from '../records/heightRanges.js';
import type { HeightRanges } from '../records/heightRanges.js';
import {
  agreesOnAccounts,
  COVERAGE_KEY,
  META_KEY,
  Prefix,
  prefixRange,
  RANGES_SCHEMA_VERSION,
  SCHEMA_VERSION,
} from '../records/schema.js';
import { locate, putAccounts } from './accountEntries.js';
import type { LocatedCollection } from './accountEntries.js';
import { readAccountPage } from './accountPages.js';
import { encodeMeta } from '../records/coding/jsonRecords.js';
import { seal } from '../records/coding/seal.js';

/** What the account index uses of its store. */
interface AccountIndexStore {
  readonly database: Database;
  /** `undefined` before the store begins. */
  book(): StoreBook | undefined;
  /** Runs a write that may run beside a commit. */
  beside(action: () => Promise<void>): Promise<void>;
}

/** A range that the next write adds to the index, or takes out of it. */
export interface Entering {
  /** Puts the coverage record, which includes all ranges that the same write has added so far. */
  readonly put: (batch: WriteBatch) => void;
  /** To be called once the write is durable. */
  readonly release: () => void;
}

const NOTHING: AccountCoverage = { from: 0, to: -1, missingHeights: 0 };

/** The account index of an open store (docs/architecture.md, "The account index"). */
export class LevelAccountIndex implements AccountIndex {
  readonly #store: AccountIndexStore;
  readonly #tell: RecordReader['tell'];
  readonly #isWanted: boolean;
  #coverage: Coverage | undefined;
  /** The coverage with the ranges that the next write adds. */
  #entering: Coverage | undefined;
  #step: Promise<void> | undefined;
  /** How many hold it: a rewind and a range that enters may at once. */
  #holds = 0;

  /** `isWanted`: a store without blocks gets the index with its first one. `tell`: see `RecordReader`. */
  constructor(
    coverage: Coverage | undefined,
    isWanted: boolean,
    store: AccountIndexStore,
    tell: RecordReader['tell'],
  ) {
    this.#coverage = coverage;
    this.#isWanted = isWanted;
    this.#store = store;
    this.#tell = tell;
  }

  /** True: every commit also writes the account entries of its blocks. */
  isLive(): boolean {
    return isLive(this.#coverage);
  }

  /** The heights that it covers, wherever they are. */
  stored(): Coverage | undefined {
    return this.#coverage;
  }

  coverage(): AccountCoverage | undefined {
    const book = this.#store.book();
    if (book === undefined) return this.#isWanted ? NOTHING : undefined;
    const live = this.#coverage?.at(-1);
    if (this.#coverage === undefined || live === undefined || !this.isLive()) return undefined;
    const { meta, latestIndexedHeight: to } = book.live;
    const from = Math.min(live.from, to + 1);
    const missing = missingBelow(this.#coverage, meta.firstHeight);
    return { from, to, missingHeights: missing.reduce((sum, range) => sum + heightsOf(range), 0) };
  }

  async page(query: AccountQuery): Promise<AccountPage> {
    const coverage = this.coverage();
    assert(coverage !== undefined, 'the account index is off');
    const firstHeight = this.#store.book()?.live.meta.firstHeight ?? 0;
    return readAccountPage(this.#store.database, query, { coverage, firstHeight });
  }

  async extend(): Promise<void> {
    assert(this.#step === undefined, 'a step of the account index is already under way');
    if (this.#holds > 0 || !this.isLive()) return;
    this.#step = this.#tell(() => this.#extend());
    try {
      await this.#step;
    } finally {
      this.#step = undefined;
    }
  }

  /**
   * Adds a range whose blocks were all committed with their entries. No step runs until it is released. One write may add
   * several ranges. `undefined`: there is no index.
   */
  enter(range: HeightRange): Promise<Entering | undefined> {
    return this.#join((coverage) => joined([...coverage, range]));
  }

  /** Like `enter`, for heights whose entries are not to be relied on any more. */
  leave(heights: HeightRanges): Promise<Entering | undefined> {
    return this.#join((coverage) => without(coverage, heights));
  }

  async #join(change: (coverage: Coverage) => Coverage): Promise<Entering | undefined> {
    if (this.#coverage === undefined) return undefined;
    const lastStep = this.hold();
    if (lastStep !== undefined) await lastStep;
    const next = change(this.#entering ?? this.#coverage);
    this.#entering = next;
    return {
      put: (batch) => batch.put(...sealCoverage(next)),
      release: () => this.release(next),
    };
  }

  /** Starts no further step until it is released; resolves when the current one has ended, `undefined` when there is none. */
  hold(): Promise<void> | undefined {
    this.#holds += 1;
    return this.#step?.catch(() => undefined);
  }

  /** Undoes one `hold`: continues from the given coverage. */
  release(coverage: Coverage | undefined): void {
    this.#holds -= 1;
    this.begin(coverage);
  }

  /** Goes on from the given coverage, of a store that has just begun, too. */
  begin(coverage: Coverage | undefined): void {
    this.#coverage = coverage;
    this.#entering = undefined;
  }

  /** Adds the entries of the highest blocks of the highest hole. Blocks above the watermark may be missing. */
  async #extend(): Promise<void> {
    const store = this.#store;
    const { database } = store;
    const live = store.book()?.live;
    const coverage = this.#coverage ?? [];
    const hole = live && missingBelow(coverage, live.meta.firstHeight).at(-1);
    if (live === undefined || hole === undefined) return;
    const lowest = Math.max(hole.from, hole.to - MAX_STEP_HEIGHTS + 1);
    using batch = database.batch();
    let [from, bytes] = [hole.to + 1, 0];
    for (; from > lowest; from -= 1) {
      const height = from - 1;
      const found = await readWhole(database, height);
      if (found === undefined && height <= live.latestIndexedHeight)
        throw corruptRecord('block record', height, 'it is missing');
      if (found === undefined) continue;
      bytes += found.body.length;
      if (bytes > MAX_STEP_BYTES && bytes > found.body.length) break;
      putAccounts(height, collectionsOf(found.read, found.body), (key, value) => batch.put(key, value));
    }
    const next = joined([...coverage.slice(0, -1), { from, to: OPEN_END }]);
    batch.put(...sealCoverage(next));
    await store.beside(() => batch.write());
    this.#coverage = next;
  }
}

/** Heights per step, and bytes of their collections; only a single larger block exceeds the latter. */
const MAX_STEP_HEIGHTS = 128;
const MAX_STEP_BYTES = 512 * 1024;

function collectionsOf({ block, shapes }: ReadBlock, body: Buffer): LocatedCollection[] {
  let offset = 0;
  return shapes.map(({ length }, index) => {
    const encoded = body.subarray(offset, offset + length);
    offset += length;
    try {
      return locate(encoded);
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      throw corruptRecord(`collection ${index}`, block.height, error.message, { cause: error });
    }
  });
}

/** The result of forgetting the account index. */
export interface ForgottenAccounts {
  readonly meta: StoreMeta;
  /** Number of entries removed. */
  readonly entries: number;
}

/**
 * Removes the account index: first the coverage, durably, then the entries, a page at a time, and last the coverage
 * record. A process that ends in between leaves an index that claims nothing, and the next run continues. Expected
 * errors: `StorageError`.
 */
export async function forgetAccounts(database: Database, meta: StoreMeta): Promise<ForgottenAccounts> {
  using first = database.batch();
  first.put(...sealCoverage([]));
  await first.write();
  let entries = 0;
  for await (const keys of database.keyPages(prefixRange(Prefix.account))) {
    using batch = database.batch();
    for (const key of keys) batch.del(key);
    await batch.write();
    entries += keys.length;
  }
  const isOld = meta.schemaVersion < RANGES_SCHEMA_VERSION;
  const without = { ...meta, schemaVersion: isOld ? SCHEMA_VERSION : meta.schemaVersion };
  using last = database.batch();
  last.del(COVERAGE_KEY);
  last.put(META_KEY, seal(META_KEY, encodeMeta(without)));
  await last.write();
  return { meta: without, entries };
}

/**
 * The meta record of a store whose account index has a readable coverage. Where it has none, the whole index is removed
 * first; the daemon rebuilds it from what is stored. For `repair`. Expected errors: `StorageError`.
 */
export async function withSoundAccounts(database: Database, meta: StoreMeta): Promise<StoreMeta> {
  const coverage = await unlessDamaged(async () => ({ is: await readCoverage(database) }));
  if (coverage !== undefined && agreesOnAccounts(meta, coverage.is !== undefined)) return meta;
  return (await forgetAccounts(database, meta)).meta;
}
