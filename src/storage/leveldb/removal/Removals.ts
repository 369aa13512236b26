import type { Logger } from '../../../observability/index.js';
import { OperatorError } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { forgetAccounts } from '../../accounts/forgetAccounts.js';
import type { LevelAccountIndex } from '../../accounts/LevelAccountIndex.js';
import { withoutEntries } from '../../records/book/changeBook.js';
import { loadBook } from '../../records/book/loadBook.js';
import { coverageOf } from '../../records/book/readState.js';
import { rewoundBook } from '../../records/book/rewoundBook.js';
import { coverageOfBook, durableHeights } from '../../records/book/StoreBook.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { Database } from '../../records/Database.js';
import { rangesInWords, without } from '../../records/heightRanges.js';
import { Prefix, prefixRange } from '../../records/schema.js';
import type { BookKeeper } from '../writing/BookKeeper.js';
import type { LevelIndexWriter } from '../writing/LevelIndexWriter.js';
import { beginRewind, finishRewind } from './rewind.js';

export interface RemovalsDependencies {
  readonly database: Database;
  readonly keeper: BookKeeper;
  readonly writer: LevelIndexWriter;
  readonly accounts: LevelAccountIndex;
  /** Ends every range that is being filled. */
  readonly endRuns: () => void;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Takes out of an open store what an operator, or the chain, no longer wants there. Nothing is written beside it. */
export class Removals {
  readonly #deps: RemovalsDependencies;

  constructor(dependencies: RemovalsDependencies) {
    this.#deps = dependencies;
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
    const rewound = Number.isSafeInteger(height) ? rewoundBook(book, height) : undefined;
    if (rewound === undefined) throw new OperatorError('usage', refusalOf(book, height));
    return rewound;
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
    accounts.release(await coverageOf(database, book.live.meta));
  }
}

function refusalOf(book: StoreBook, height: number): string {
  const { firstHeight } = book.live.meta;
  const ranges = coverageOfBook(book);
  if (book.published.length > 0) {
    return (
      `Cannot rewind to height ${height}: this store holds heights ${rangesInWords(ranges)}, and nothing at or below ` +
      `${height}. Name a height in one of them.`
    );
  }
  return (
    `Cannot rewind to height ${height}: this store begins at height ${firstHeight}. ` +
    `The lowest height to rewind to is ${firstHeight - 1}, which forgets every block.`
  );
}
