import { ok as assert } from 'node:assert/strict';
import type {
  BlockEntry,
  BlockHead,
  CommitBatch,
  HeightRange,
  RangeStore,
  SporkRecord,
  StoredBlock,
  StoreMeta,
} from '../IndexStore.js';
import { BlockLine, deleteBlocks } from './BlockLine.js';
import type { BlockLineDependencies, LineState } from './BlockLine.js';
import type { Session } from './PostgresDatabase.js';
import type { PostgresIndexReader } from './PostgresIndexReader.js';
import { publish } from './publish.js';
import type { Published } from './publish.js';
import { readCoverage } from './readState.js';

export interface PostgresRangeDependencies extends Omit<BlockLineDependencies, 'meta'> {
  /** Of the covered heights, and of the run's own. */
  readonly reader: PostgresIndexReader;
  /** Of the store. */
  readonly storeMeta: () => StoreMeta;
  readonly onProgress: (next: number) => void;
  readonly onPublished: (published: Published) => void;
  /** One publication at a time. */
  readonly inTurn: <T>(action: () => Promise<T>) => Promise<T>;
}

/** What is stored of an open range. */
export interface RangeState extends LineState {
  readonly sporks: readonly SporkRecord[];
}

/** An open range that is being filled. */
export class PostgresRange implements RangeStore {
  readonly #range: HeightRange;
  readonly #line: BlockLine;
  readonly #deps: PostgresRangeDependencies;
  /** First seen with blocks of this range. */
  #sporks: readonly SporkRecord[];
  #isOver = false;

  constructor(range: HeightRange, { sporks, ...state }: RangeState, dependencies: PostgresRangeDependencies) {
    this.#range = range;
    this.#sporks = sporks;
    this.#line = new BlockLine(state, { ...dependencies, meta: () => this.meta() });
    this.#deps = dependencies;
  }

  meta(): StoreMeta {
    return this.#metaWith(this.#sporks);
  }

  latestIndexedHeight(): number {
    return this.#line.state.latestIndexedHeight;
  }

  latestBlock(): BlockHead | undefined {
    return this.#line.state.latestBlock;
  }

  blocksAboveWatermark(): readonly BlockHead[] {
    return this.#line.blocksAboveWatermark();
  }

  hasHeight(height: number): boolean {
    return this.#line.hasHeight(height);
  }

  blockByHeight(height: number): Promise<StoredBlock | undefined> {
    return this.#deps.reader.blockByHeight(height);
  }

  stage(entry: BlockEntry): void {
    this.#line.stage(entry);
  }

  async commit({ blocks, latestIndexedHeight, spork }: CommitBatch): Promise<void> {
    assert(!this.#isOver, 'the range has been published or dropped');
    const { from, to } = this.#range;
    assert(
      latestIndexedHeight <= to && blocks.every(({ block }) => block.height >= from && block.height <= to),
      `a commit of the range ${from} to ${to} reaches beyond it`,
    );
    const isNew = this.meta().sporks.every(({ rootHeight }) => rootHeight !== spork?.rootHeight);
    const sporks = spork !== undefined && isNew ? [...this.#sporks, spork] : this.#sporks;
    const batch = { blocks, latestIndexedHeight };
    if (latestIndexedHeight === to) await this.#deps.inTurn(() => this.#publish(batch, sporks));
    else await this.#progress(batch, sporks);
    this.#sporks = sporks;
  }

  async rewind(height: number): Promise<void> {
    const { from, to } = this.#range;
    const { state } = this.#line;
    assert(height >= state.latestIndexedHeight, 'what is below the watermark of a range stays');
    if (state.above.size === 0) return;
    this.#line.discardStaged();
    await this.#line.alone(() =>
      this.#deps.fence().write((session) => deleteBlocks(session, Math.max(from, height + 1), to)),
    );
    this.#line.change({ above: new Map([...state.above].filter(([above]) => above <= height)) });
  }

  /** No further writes; waits for the current one. */
  end(): Promise<void> {
    this.#isOver = true;
    return this.#line.end();
  }

  async #progress(batch: CommitBatch, sporks: readonly SporkRecord[]): Promise<void> {
    await this.#line.commit(batch, {
      meta: this.#metaWith(sporks),
      write: (session, next) =>
        session.query({
          name: 'range_progress',
          text: 'UPDATE flow_store.open_range SET next_height = $2, sporks = $3 WHERE from_height = $1',
          values: [this.#range.from, next.latestIndexedHeight + 1, JSON.stringify(sporks)],
        }),
    });
    this.#deps.onProgress(batch.latestIndexedHeight + 1);
  }

  async #publish(batch: CommitBatch, sporks: readonly SporkRecord[]): Promise<void> {
    const published = await this.#line.commit(batch, {
      meta: this.#metaWith(sporks),
      write: (session) => publish(session, this.#range, sporks),
      isGone: (session) => this.#isPublished(session),
    });
    this.#isOver = true;
    this.#deps.onPublished(published);
  }

  #metaWith(sporks: readonly SporkRecord[]): StoreMeta {
    const meta = this.#deps.storeMeta();
    const all = new Map([...meta.sporks, ...sporks].map((spork) => [spork.rootHeight, spork]));
    return {
      ...meta,
      firstHeight: this.#range.from,
      sporks: [...all.values()].sort((left, right) => left.rootHeight - right.rootHeight),
    };
  }

  async #isPublished(session: Session): Promise<boolean> {
    const { from, to } = this.#range;
    return (await readCoverage(session)).some((each) => each.from <= from && each.to >= to);
  }
}
