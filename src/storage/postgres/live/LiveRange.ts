import { ok as assert } from 'node:assert/strict';
import { AbortError } from '../../../runtime/index.js';
import type { CommitBatch } from '../../port/RangeStore.js';
import type { StoreMeta } from '../../port/stored.js';
import { StorageError } from '../../StorageError.js';
import type { PostgresDatabase, PostgresDatabaseDependencies } from '../connection/PostgresDatabase.js';
import type { WriteSession } from '../connection/Session.js';
import { readStore } from '../reading/loadStore.js';
import { writeSporks } from '../tables/readState.js';
import type { BlockLine } from '../writing/BlockLine.js';
import { Fence } from '../writing/Fence.js';
import { forgetAbove, rewound } from '../writing/changeRows.js';
import type { KnownStore } from './KnownStore.js';

/** `forRewind` tolerates a damaged block at the watermark, which a rewind is about to remove. */
interface LiveRangeOptions {
  readonly chainId: string;
  readonly isReadOnly?: boolean;
  readonly forRewind?: boolean;
}

interface LiveRangeDependencies extends PostgresDatabaseDependencies {
  readonly database: PostgresDatabase;
  readonly known: KnownStore;
  /** See `PostgresIndexStore`. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
  /** Called after the known state of the store changed. */
  readonly onChanged: () => void;
  /** Ends the runs of all other ranges. */
  readonly endRuns: () => Promise<void>;
}

/** The range that follows the head, rewinds, and who writes them: this process, or another one (`SharedStore`). */
export class LiveRange {
  readonly #options: LiveRangeOptions;
  readonly #deps: LiveRangeDependencies;
  /** Set while this process leads. */
  #leading: { readonly fence: Fence; readonly replaced: AbortController } | undefined;

  constructor(options: LiveRangeOptions, dependencies: LiveRangeDependencies) {
    this.#options = options;
    this.#deps = dependencies;
  }

  get isLeading(): boolean {
    return this.#leading !== undefined;
  }

  /** The fence of this process, which must lead. */
  fence(): Fence {
    return this.#current().fence;
  }

  /** See `SharedStore`. */
  async lead(): Promise<AbortSignal> {
    const { isReadOnly = false, forRewind = false } = this.#options;
    assert(!isReadOnly, 'the store was opened to be read');
    await this.follow();
    const { database, known, inTurn, onChanged } = this.#deps;
    const fence = await database.persist(() =>
      database.transaction((session) => Fence.take(database, session, { table: 'store' })),
    );
    const replaced = new AbortController();
    await inTurn(async () => {
      known.load(await readStore(database, { isTolerant: forRewind, before: known.latestBlock }));
      known.renew();
      this.#leading = { fence, replaced };
    });
    onChanged();
    return replaced.signal;
  }

  /** See `SharedStore`. */
  async follow(): Promise<void> {
    if (this.#leading === undefined) return;
    const { known } = this.#deps;
    await known.line?.end();
    this.#leading = undefined;
    known.renew();
  }

  /** Takes note of the epoch of the leader, as the database has it. */
  noticeEpoch(epoch: number): void {
    if (this.#leading !== undefined && epoch > this.#leading.fence.epoch)
      this.#leading.replaced.abort(replacement());
  }

  /** This and the methods below: see `IndexStore`. */
  async initialise(meta: StoreMeta): Promise<void> {
    const { known } = this.#deps;
    assert(known.meta() === undefined, 'the store is initialised already');
    assert(meta.chainId === this.#options.chainId, 'the meta record is of another chain');
    const { createdBy, firstHeight, sporks } = meta;
    const live = { from: firstHeight, to: firstHeight - 1 };
    await this.#write((fence) =>
      fence.write(async (session) => {
        await session.query({ text: 'UPDATE flow_store.store SET created_by = $1', values: [createdBy] });
        await session.query({
          text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)',
          values: [live.from, live.to],
        });
        await writeSporks(session, sporks);
      }),
    );
    const nothing = { open: [], plans: [], latestBlock: undefined, above: new Map(), isDamaged: false };
    known.load({ ...nothing, isRewound: false, createdBy, coverage: [live], sporks });
  }

  async commit(batch: CommitBatch): Promise<void> {
    const { known } = this.#deps;
    const line = this.#line();
    const before = line.state.latestIndexedHeight;
    const sporks = await this.#write(() =>
      line.commit(batch, {
        write: async (session, { latestIndexedHeight, meta }) => {
          if (batch.spork !== undefined) await writeSporks(session, [batch.spork]);
          if (latestIndexedHeight > before) moveWatermark(session, before, latestIndexedHeight);
          return meta.sporks;
        },
      }),
    );
    if (batch.spork !== undefined) known.addSporks(sporks);
  }

  /** Damaged records above the target are removed as well. */
  async rewind(height: number): Promise<void> {
    const { clock, database, endRuns, inTurn, known, logger } = this.#deps;
    const line = this.#line();
    const { above, latestIndexedHeight } = line.state;
    const { live, published, isDamaged } = known;
    const after = rewound({ published, live }, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && !isDamaged) return;
    if (after.live.from !== live.from) await endRuns();
    const startedAtMs = clock.monotonic();
    line.discardStaged();
    await inTurn(async () => {
      await this.#write((fence) => line.alone(() => fence.write((session) => forgetAbove(session, height))));
      known.load(await readStore(database, { isTolerant: false, before: known.latestBlock }));
    });
    logger.info({ height, durationMs: clock.monotonic() - startedAtMs }, 'rewind done');
  }

  /** Expected errors: those of `write`. */
  async #write<T>(write: (fence: Fence) => Promise<T>): Promise<T> {
    const { fence, replaced } = this.#current();
    try {
      return await write(fence);
    } catch (error) {
      if (error instanceof StorageError && error.kind === 'locked') replaced.abort(replacement());
      throw error;
    }
  }

  #current() {
    assert(this.#leading !== undefined, 'this process does not lead');
    return this.#leading;
  }

  #line(): BlockLine {
    const { line } = this.#deps.known;
    assert(line !== undefined, 'the store is not initialised');
    return line;
  }
}

function replacement(): AbortError {
  return new AbortError('another process leads now');
}

/** The live range is found by its upper end, which only this writer moves; its lower end may have moved since. */
function moveWatermark(session: WriteSession, before: number, after: number): void {
  session.later(
    {
      name: 'watermark',
      text: 'UPDATE flow_store.coverage SET to_height = $2 WHERE to_height = $1',
      values: [before, after],
    },
    (rowCount) => assert(rowCount === 1, `no range ends at height ${before}`),
  );
}
