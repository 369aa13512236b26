import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HeightRange, LevelIndexStore } from '../../../src/storage/index.js';
import { Crash, CrashingDatabase } from '../../support/crashingDatabase.js';
import { MemoryDatabase } from '../../support/memoryDatabase.js';
import { blocksIn, commitThrough, heal, range } from '../../support/ranges.js';
import { chainWith, seededCollection } from '../../support/storeBlocks.js';
import { begin, metaFrom, storeOver } from '../../support/storeDirectory.js';
import { digestOf } from '../../support/storeDigest.js';

const LIVE = 41;
const LAST = 60;
const chain = chainWith(1, LAST, (index) =>
  index % 3 === 0 ? [] : [seededCollection(`c${index % 7}`, 1 + (index % 2))],
);
const sporks = metaFrom(1).sporks;
const ranges: readonly HeightRange[] = [range(1, 10), range(11, 13), range(14, 30), range(31, 40)];

/** What happens at once, and where the process ends, if it does. */
const step = fc.record({
  /** Heights that the live range grows by. */
  live: fc.nat(2),
  /** Heights that each range grows by; a gap is left below the last one. */
  growth: fc.array(fc.record({ range: fc.nat(3), heights: fc.nat(9), hasGap: fc.boolean() }), {
    maxLength: 3,
  }),
  then: fc.constantFrom('nothing', 'drop', 'fail', 'rewind a range', 'rewind', 'plan', 'extend'),
  which: fc.nat(3),
  crash: fc.option(fc.record({ after: fc.nat(6), isWritten: fc.boolean() }), { freq: 2 }),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** A store over a database that outlives it, and what it has told of. */
class Play {
  readonly #disk = new MemoryDatabase();
  readonly #hasAccounts: boolean;
  #store: LevelIndexStore | undefined;
  #database: CrashingDatabase | undefined;
  #watermark = LIVE - 1;
  readonly #published = new Set<HeightRange>();
  readonly #next = new Map<HeightRange, number>();

  constructor(hasAccounts: boolean) {
    this.#hasAccounts = hasAccounts;
  }

  async begin(): Promise<LevelIndexStore> {
    const store = await this.#open();
    await store.initialise(metaFrom(LIVE, { sporks }));
    await commitThrough(store, chain, LIVE);
    this.#watermark = LIVE;
    return store;
  }

  async play({ live, growth, then, which, crash }: Step): Promise<void> {
    const store = this.#store!;
    if (crash !== null) this.#database!.crashAfter(crash.after, crash);
    const lines = new Map(growth.map((each) => [each.range, each]));
    const work = [this.#grow(store, live), ...[...lines.values()].map((each) => this.#fill(store, each))];
    const outcomes = await Promise.allSettled([...work]);
    const last = await this.#then(store, then, ranges[which]!).then(
      () => undefined,
      (error: unknown) => error,
    );
    const errors: unknown[] = outcomes.map((outcome) =>
      outcome.status === 'rejected' ? (outcome.reason as unknown) : undefined,
    );
    errors.push(last);
    for (const error of errors) if (error !== undefined) expect(error).toBeInstanceOf(Crash);
    if (errors.some((error) => error !== undefined)) await this.#open();
    else this.#database!.crashAfter(Infinity, { isWritten: false });
    await this.#check();
  }

  /** Everything that is missing comes in the end. */
  async end(): Promise<string> {
    const store = await this.#open();
    await store.ranges.change({ plans: [{ id: 9, from: 1, to: LAST, order: 'oldest', isPaused: false }] });
    await heal(store, chain);
    while ((store.accounts.coverage()?.missingHeights ?? 0) > 0) await store.accounts.extend();
    return digestOf(store);
  }

  async #open(): Promise<LevelIndexStore> {
    this.#database = new CrashingDatabase(this.#disk);
    this.#store = await storeOver(this.#database.database, this.#hasAccounts);
    return this.#store;
  }

  async #grow(store: LevelIndexStore, heights: number): Promise<void> {
    const to = Math.min(LAST, store.latestIndexedHeight() + heights);
    if (to === store.latestIndexedHeight()) return;
    await commitThrough(store, chain, to);
    this.#watermark = to;
  }

  async #fill(
    store: LevelIndexStore,
    { range: index, heights, hasGap }: Step['growth'][number],
  ): Promise<void> {
    const range = ranges[index]!;
    if (isCovered(store, range)) return;
    const run = await store.ranges.run(range);
    const watermark = run.latestIndexedHeight();
    const to = Math.min(range.to, watermark + heights);
    if (hasGap && to > watermark + 1) {
      const blocks = blocksIn(chain, { from: to, to }).filter(({ block }) => !run.hasHeight(block.height));
      await run.commit({ blocks, latestIndexedHeight: watermark });
      return;
    }
    await commitThrough(run, chain, to);
    this.#next.set(range, to + 1);
    if (to === range.to) this.#published.add(range);
  }

  async #then(store: LevelIndexStore, what: Step['then'], range: HeightRange): Promise<void> {
    switch (what) {
      case 'drop':
      case 'fail': {
        if (isCovered(store, range)) return;
        this.#next.delete(range);
        const failed = what === 'fail' ? [{ ...range, failures: 2, reason: 'because' }] : [];
        await store.ranges.change({ dropped: [range], failed });
        return;
      }
      case 'rewind a range': {
        if (!store.ranges.open().some(({ from }) => from === range.from)) return;
        this.#next.delete(range);
        await (await store.ranges.run(range)).rewind(range.from + 1);
        return;
      }
      case 'rewind':
        this.#watermark = Math.min(this.#watermark, LIVE + 3);
        await store.rewind(LIVE + 3);
        return;
      case 'plan':
        await store.ranges.change({ plans: [{ id: 3, ...range, order: 'newest', isPaused: false }] });
        return;
      case 'extend':
        await store.accounts.extend();
        return;
      case 'nothing':
    }
  }

  /** Nothing that was told is gone, and what is covered is there, whole. */
  async #check(): Promise<void> {
    const store = this.#store!;
    expect(store.latestIndexedHeight()).toBeGreaterThanOrEqual(this.#watermark);
    for (const range of this.#published) expect(isCovered(store, range)).toBe(true);
    for (const { from, next } of store.ranges.open()) {
      const range = ranges.find((each) => each.from === from)!;
      expect(next).toBeGreaterThanOrEqual(this.#next.get(range) ?? from);
    }
    for (const { block, collections } of chain) {
      const { height } = block;
      const covered = store.coverage().some(({ from, to }) => height >= from && height <= to);
      const stored = await store.collectionsByHeight(height);
      expect(stored?.map(({ id }) => id)).toEqual(covered ? block.collectionIds : undefined);
      for (const { id } of collections) {
        const lowest = chain.find(
          ({ block: { height: at, collectionIds } }) =>
            collectionIds.includes(id) && store.coverage().some(({ from, to }) => at >= from && at <= to),
        );
        expect((await store.collection(id))?.place.height).toBe(lowest?.block.height);
      }
    }
  }
}

function isCovered(store: LevelIndexStore, range: HeightRange): boolean {
  return store.coverage().some(({ from, to }) => range.from >= from && range.to <= to);
}

async function straightDigest(hasAccounts: boolean): Promise<string> {
  const store = await begin(storeOver(new MemoryDatabase(), hasAccounts), 1, chain);
  return digestOf(store);
}

describe('ranges that are written at once, by a process that ends anywhere', () => {
  it.each([false, true])(
    'lose nothing, show nothing early, and end as the same store (accounts: %s)',
    async (hasAccounts) => {
      const expected = await straightDigest(hasAccounts);
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
          const play = new Play(hasAccounts);
          await play.begin();
          for (const each of steps) await play.play(each);
          expect(await play.end()).toBe(expected);
        }),
        { numRuns: 15 },
      );
    },
    120_000,
  );
});
