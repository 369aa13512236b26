import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Source } from '../../../src/collections/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { block, id, meeting, received, settle } from './meetingHarness.js';

/** What a random run may do next; numbers choose among what is possible at that moment. */
type Step =
  | { readonly do: 'hand out'; readonly lie: boolean }
  | { readonly do: 'answer'; readonly pick: number }
  | { readonly do: 'deliver block'; readonly pick: number }
  | { readonly do: 'deliver again'; readonly pick: number; readonly source: Source }
  | { readonly do: 'deliver unknown'; readonly source: Source }
  | { readonly do: 'replace'; readonly pick: number }
  | { readonly do: 'finish commit' }
  | { readonly do: 'let run' };

const pick = fc.nat(1000);
const source = fc.constantFrom<Source>('requester', 'edi');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('hand out' as const), lie: fc.boolean() }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('answer' as const), pick }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('deliver block' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('deliver again' as const), pick, source }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('deliver unknown' as const), source }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('replace' as const), pick }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('finish commit' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('let run' as const) }) },
);

/** Few names, so that blocks share ids and list one twice. */
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];
const chain = fc.array(fc.array(fc.constantFrom(...NAMES), { maxLength: 4 }), {
  minLength: 1,
  maxLength: 14,
});
const WINDOW = 5;

/** An independent account of what should happen, as naive as can be. */
class Account {
  readonly missing = new Map<number, Set<string>>();
  readonly held = new Map<number, readonly string[]>();
  readonly lastSource = new Map<number, Source | 'none'>();
  readonly counts = new Map<string, number>();
  /** Collection lists of heights that became durable, in the order in which they did. */
  readonly gone: (readonly string[])[] = [];

  add(name: string, by = 1): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + by);
  }

  take(height: number, name: string, from: Source): boolean {
    if (this.missing.get(height)?.delete(name) !== true) return false;
    this.lastSource.set(height, from);
    return true;
  }

  one(name: string, from: Source): void {
    const wanting = [...this.missing.keys()].filter((height) => this.take(height, name, from));
    const recent = this.gone.filter((names) => names.length > 0).slice(-WINDOW);
    const known = [...this.held.values(), ...recent].some((names) => names.includes(name));
    if (wanting.length === 0 && !known) {
      this.add(`unsolicited ${from}`);
      return;
    }
    this.add(`received ${from}`);
    if (wanting.length === 0) this.add(`duplicate ${from}`);
  }

  whole(height: number, names: readonly string[]): void {
    this.add('received edi', names.length);
    const taken = names.filter((name) => this.take(height, name, 'edi'));
    this.add('duplicate edi', names.length - taken.length);
  }

  durable(height: number): void {
    this.add(`completed ${this.lastSource.get(height) ?? 'none'}`);
    this.gone.push(this.held.get(height)!);
    this.held.delete(height);
    this.missing.delete(height);
  }
}

describe('both sources, in any order', () => {
  it('index every height once, in full, and leave nothing behind', async () => {
    await fc.assert(
      fc.asyncProperty(
        chain,
        fc.array(step, { maxLength: 80, size: 'max' }),
        fc.constantFrom(1, 2, 100),
        async (names, steps, groupMaxHeights) => {
          await randomRun(names, steps, groupMaxHeights);
        },
      ),
      { numRuns: 50 },
    );
  });
});

async function randomRun(names: string[][], steps: readonly Step[], groupMaxHeights: number): Promise<void> {
  const m = meeting({ windowHeights: WINDOW, limitBytes: 40, groupMaxHeights });
  const account = new Account();
  const lies = new Set<number>();
  const doneCalls = new Map<number, number>();
  let next = 1;

  const truth = (height: number): FinalizedBlock => block(height, names[height - 1]!);
  const handOut = (lie: boolean): void => {
    if (next > names.length || next > m.store.latestIndexedHeight() + WINDOW) return;
    const height = next;
    next += 1;
    // A lie names a collection that nobody has, so that it never completes, and one that other heights may want.
    const ids = lie ? [...names[height - 1]!.slice(1), `ghost${height}`, 'f'] : names[height - 1]!;
    if (lie) lies.add(height);
    account.held.set(height, ids);
    account.missing.set(height, new Set(ids));
    m.processor.run(
      { id: String(height), height, block: lie ? block(height, ids, `lie${height}`) : truth(height) },
      () => {
        expect(m.store.hasHeight(height)).toBe(true);
        expect(m.mcq.get(height)).toBeUndefined();
        doneCalls.set(height, (doneCalls.get(height) ?? 0) + 1);
        account.durable(height);
      },
    );
  };
  const one = (name: string, from: Source): void => {
    account.one(name, from);
    m.processor.onCollection(received(name, from));
  };
  const outstanding = (): string[] => {
    const ids = new Set([...m.wanted.values()].flat());
    const real = NAMES.filter((name) => ids.has(id(name)));
    // Asked for means missing: nothing that has come is still outstanding at a height that lacks it.
    return real.filter((name) => m.mcq.wanted(id(name))?.isWanted === true);
  };
  const replace = (height: number): void => {
    lies.delete(height);
    const before = new Set(account.missing.get(height));
    const had = new Set(account.held.get(height)!.filter((name) => !before.has(name)));
    const ids = names[height - 1]!;
    account.held.set(height, ids);
    account.missing.set(height, new Set(ids.filter((name) => !had.has(name))));
    if (ids.length === 0) account.lastSource.delete(height);
    expect(m.processor.replace(truth(height))).toBe(true);
  };
  const wholeBlock = (choice: number): void => {
    const candidates = [...account.held.keys()].filter((height) => !lies.has(height));
    const height = candidates[choice % candidates.length];
    if (height === undefined) return;
    account.whole(height, names[height - 1]!);
    m.processor.onReceivedCollectionsForBlock(
      height,
      names[height - 1]!.map((name) => received(name, 'edi')),
    );
  };
  const perform = async (each: Step): Promise<void> => {
    const choose = <T>(from: readonly T[], choice: number): T | undefined => from[choice % from.length];
    if (each.do === 'hand out') handOut(each.lie);
    else if (each.do === 'deliver block') wholeBlock(each.pick);
    else if (each.do === 'deliver again') one(choose(NAMES, each.pick)!, each.source);
    else if (each.do === 'deliver unknown') one('never wanted', each.source);
    else if (each.do === 'answer') {
      const name = choose(outstanding(), each.pick);
      if (name !== undefined) one(name, 'requester');
    } else if (each.do === 'replace') {
      const height = choose([...lies], each.pick);
      if (height !== undefined) replace(height);
    } else {
      if (each.do === 'finish commit' && m.store.underWay !== undefined) m.store.finish();
      await settle();
    }
  };
  const check = (): void => {
    const watermark = m.store.latestIndexedHeight();
    for (const height of [...m.wanted.keys(), ...account.held.keys()]) {
      expect(height).toBeLessThanOrEqual(watermark + WINDOW);
    }
    expect(m.mcq.size).toBe(account.held.size);
    let heldBytes = 0;
    for (const [height, ids] of account.held) {
      heldBytes += 10 * (new Set(ids).size - (account.missing.get(height)?.size ?? 0));
    }
    expect(m.window.bytesInHand).toBe(heldBytes);
    const incomplete = [...account.missing].filter(([, ids]) => ids.size > 0);
    const lowest = Math.min(...incomplete.map(([height]) => height));
    expect(m.mcq.lowest()).toBe(incomplete.length === 0 ? undefined : lowest);
    expect(m.mcq.missingCollections).toBe(new Set(incomplete.flatMap(([, ids]) => [...ids])).size);
    for (const [height, ids] of incomplete) {
      expect(new Set(m.mcq.missingIds(height))).toEqual(new Set([...ids].map((name) => id(name))));
    }
    // Admitted whatever the budget holds: the height that the watermark waits for. Not one above a commit that is slow.
    if (incomplete.length > 0)
      expect(m.window.admits(lowest, 1e9)).toBe(lowest === Math.min(...account.held.keys()));
  };

  for (const each of steps) {
    await perform(each);
    check();
  }
  // Whatever is left: the truth comes out, and the requester gets everything.
  for (let round = 0; doneCalls.size < names.length; round += 1) {
    if (round > 20 * names.length) throw new Error('it does not come to an end');
    for (const height of [...lies]) replace(height);
    handOut(false);
    for (const name of outstanding()) one(name, 'requester');
    await perform({ do: 'finish commit' });
    check();
  }

  expect(m.fatal).toEqual([]);
  expect([...doneCalls.values()]).toEqual(Array(names.length).fill(1));
  expect(m.store.latestIndexedHeight()).toBe(names.length);
  for (const [index, ids] of names.entries()) {
    const entry = m.store.written.get(index + 1);
    expect(entry?.block.id).toBe(id(`b${index + 1}`));
    expect(entry?.collections.map((each) => each.id)).toEqual(ids.map(id));
  }
  expect([m.mcq.size, m.mcq.missingCollections, m.window.bytesInHand]).toEqual([0, 0, 0]);
  expect([...m.wanted.keys()]).toEqual([]);
  await compareCounts(m, account);
}

async function compareCounts(m: ReturnType<typeof meeting>, account: Account): Promise<void> {
  const counted = (name: string): number => account.counts.get(name) ?? 0;
  for (const from of ['requester', 'edi'] as const) {
    expect(await m.count('collections_received_total', { source: from })).toBe(counted(`received ${from}`));
    expect(await m.count('duplicate_collections_total', { source: from })).toBe(counted(`duplicate ${from}`));
    const unsolicited = await m.count('invalid_collections_total', { source: from, reason: 'unsolicited' });
    expect(unsolicited).toBe(counted(`unsolicited ${from}`));
  }
  for (const from of ['requester', 'edi', 'none'] as const) {
    expect(await m.count('heights_completed_total', { source: from })).toBe(counted(`completed ${from}`));
  }
}
