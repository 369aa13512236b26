import { ok as assert } from 'node:assert/strict';
import type { Logger } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';
import type { CommitBatch } from '../../port/RangeStore.js';
import type { StoreMeta } from '../../port/stored.js';
import type { WriteSession } from '../connection/Session.js';
import { readStore } from '../reading/loadStore.js';
import { writeSporks } from '../tables/readState.js';
import type { BlockLine } from '../writing/BlockLine.js';
import { forgetAbove, rewound } from '../writing/rewindRows.js';
import type { KnownStore } from './KnownStore.js';
import type { Leadership, LeadershipDependencies } from './Leadership.js';

export interface LiveRangeDependencies extends Omit<LeadershipDependencies, 'onChanged'> {
  readonly leadership: Leadership;
  /** Ends the runs of all other ranges. */
  readonly endRuns: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Writes of the leader: the range that follows the head, and rewinds. */
export class LiveRange {
  readonly #chainId: string;
  readonly #deps: LiveRangeDependencies;

  constructor({ chainId }: { readonly chainId: string }, dependencies: LiveRangeDependencies) {
    this.#chainId = chainId;
    this.#deps = dependencies;
  }

  /** This and the methods below: see `IndexStore`. */
  async initialise(meta: StoreMeta): Promise<void> {
    const { known, leadership } = this.#deps;
    assert(known.meta() === undefined, 'the store is initialised already');
    assert(meta.chainId === this.#chainId, 'the meta record is of another chain');
    const { createdBy, firstHeight, sporks } = meta;
    const latestIndexedHeight = firstHeight - 1;
    await leadership.write((fence) =>
      fence.write(async (session) => {
        await session.query({ text: 'UPDATE flow_store.store SET created_by = $1', values: [createdBy] });
        await session.query({
          text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)',
          values: [firstHeight, latestIndexedHeight],
        });
        await writeSporks(session, sporks);
      }),
    );
    known.load({
      createdBy,
      coverage: [{ from: firstHeight, to: latestIndexedHeight }],
      sporks,
      ...{ open: [], plans: [], latestBlock: undefined, above: new Map(), isDamaged: false, isRewound: false },
    });
  }

  async commit(batch: CommitBatch): Promise<void> {
    const { known, leadership } = this.#deps;
    const line = lineOf(known);
    const before = line.state.latestIndexedHeight;
    const sporks = await leadership.write(() =>
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
    const { clock, database, endRuns, inTurn, known, leadership, logger } = this.#deps;
    const line = lineOf(known);
    const { above, latestIndexedHeight } = line.state;
    const { live, published, isDamaged } = known;
    const after = rewound({ published, live }, height);
    if (Math.max(latestIndexedHeight, ...above.keys()) <= height && !isDamaged) return;
    if (after.live.from !== live.from) await endRuns();
    const startedAtMs = clock.monotonic();
    line.discardStaged();
    await inTurn(async () => {
      await leadership.write((fence) =>
        line.alone(() => fence.write((session) => forgetAbove(session, height))),
      );
      known.load(await readStore(database, { isTolerant: false, before: known.latestBlock }));
    });
    logger.info({ height, durationMs: clock.monotonic() - startedAtMs }, 'rewind done');
  }
}

function lineOf({ line }: KnownStore): BlockLine {
  assert(line !== undefined, 'the store is not initialised');
  return line;
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
