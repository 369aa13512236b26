import type { Logger } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';
import { forgetAccounts } from '../../accounts/forgetAccounts.js';
import type { LevelAccountIndex } from '../../accounts/LevelAccountIndex.js';
import { withoutEntries } from '../../records/book/changeBook.js';
import { coverageOf, loadBook } from '../../records/book/bookRecords.js';
import { rewindRefusal, rewoundBook } from '../../records/book/repairedBook.js';
import { coverageOfBook, durableHeights } from '../../records/book/StoreBook.js';
import type { Database } from '../../records/Database.js';
import { without } from '../../records/heightRanges.js';
import { Prefix, prefixRange } from '../../records/schema.js';
import type { BookKeeper } from '../writing/BookKeeper.js';
import type { LevelIndexWriter } from '../writing/LevelIndexWriter.js';
import { beginRewind, finishRewind } from './rewind.js';

export interface RemovalsDependencies {
  readonly database: Database;
  readonly keeper: BookKeeper;
  readonly writer: LevelIndexWriter;
  readonly accounts: LevelAccountIndex;
  /** Ends the runs of all open ranges. */
  readonly endRuns: () => void;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Removes data from an open store: rewinds it, or drops its account index. Nothing else is written meanwhile. */
export class Removals {
  readonly #deps: RemovalsDependencies;
  #rewinds = 0;

  constructor(dependencies: RemovalsDependencies) {
    this.#deps = dependencies;
  }

  /** Like `IndexReader.rewinds`. */
  get rewinds(): number {
    return this.#rewinds;
  }

  /** Like `LevelIndexStore.rewind`. */
  async rewind(height: number): Promise<void> {
    const { accounts, clock, endRuns, keeper, logger, writer } = this.#deps;
    writer.assertIdle();
    const { live } = keeper.initialised();
    const rewound = this.#rewound(height);
    if (Math.max(live.latestIndexedHeight, ...live.above.keys()) <= height && !live.damaged) return;
    if (rewound.after.live.meta.firstHeight !== live.meta.firstHeight) endRuns();
    const startedAtMs = clock.monotonic();
    const lastStep = accounts.hold();
    if (lastStep !== undefined) await lastStep;
    writer.discardStaged();
    await writer.alone(async () => {
      await this.#forgetAbove(height);
    });
    logger.info({ height, durationMs: clock.monotonic() - startedAtMs }, 'rewind done');
  }

  /** Like `LevelIndexStore.forgetAccounts`. */
  async forgetAccounts(): Promise<number | undefined> {
    const { accounts, database, keeper, writer } = this.#deps;
    writer.assertIdle();
    if (!keeper.initialised().hasAccounts) return undefined;
    await accounts.hold();
    writer.discardStaged();
    await keeper.record('live', (book) => ({ after: { ...book, open: book.open.map(withoutEntries) } }));
    let forgotten = 0;
    await writer.alone(async () => {
      const { live, ...book } = keeper.initialised();
      const { entries, meta } = await forgetAccounts(database, live.meta);
      await database.compact(prefixRange(Prefix.account));
      keeper.replace({ ...book, hasAccounts: false, live: { ...live, meta } });
      forgotten = entries;
    });
    accounts.release(undefined);
    return forgotten;
  }

  /** Expected errors: `OperatorError` (`usage`). */
  #rewound(height: number): NonNullable<ReturnType<typeof rewoundBook>> {
    const book = this.#deps.keeper.initialised();
    const rewound = rewoundBook(book, height);
    if (rewound !== undefined) return rewound;
    throw rewindRefusal({ coverage: coverageOfBook(book), firstHeight: book.live.meta.firstHeight }, height);
  }

  async #forgetAbove(height: number): Promise<void> {
    const { accounts, database, keeper, logger } = this.#deps;
    const before = keeper.initialised();
    const { live } = before;
    const { after, target } = this.#rewound(height);
    const { latestIndexedHeight: watermarkBefore, damaged: sweep } = live;
    const remaining = Math.max(watermarkBefore, ...live.above.keys());
    const isWithinLive = after.live.meta.firstHeight === live.meta.firstHeight;
    const covered = isWithinLive ? undefined : without(durableHeights(before), [{ from: 0, to: target }]);
    const intent = { target, remaining, watermarkBefore, sweep, covered };
    await beginRewind(database, { before, after }, intent);
    logger.info({ height, from: remaining }, 'rewind begins');
    const coverage = await coverageOf(database, live.meta);
    await finishRewind(database, intent, { logger, coverage });
    const book = await loadBook(database, after.live.meta, false);
    keeper.replace(book);
    if (watermarkBefore > target) this.#rewinds += 1;
    accounts.release(await coverageOf(database, book.live.meta));
  }
}
