import { without, type BackfillPlan, type RangeStore } from '../../src/storage/index.js';
import type { BlockEntry, HeightRange, IndexStore } from '../../src/storage/index.js';

export const range = (from: number, to = from): HeightRange => ({ from, to });
export const plan = (id: number, from: number, to: number): BackfillPlan => ({
  ...{ id, from, to, order: 'newest', isPaused: false },
});

/** Each of these numbers, both ends included. */
export function numbers(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);
}

export function blocksIn(chain: readonly BlockEntry[], { from, to }: HeightRange): BlockEntry[] {
  return chain.filter(({ block }) => block.height >= from && block.height <= to);
}

/** Commits what a run lacks up to a height, all at once. */
export async function commitThrough(
  run: RangeStore,
  chain: readonly BlockEntry[],
  to: number,
): Promise<void> {
  const missing = blocksIn(chain, { from: run.latestIndexedHeight() + 1, to });
  const blocks = missing.filter(({ block }) => !run.hasHeight(block.height));
  await run.commit({ blocks, latestIndexedHeight: to });
}

export async function fill(store: IndexStore, chain: readonly BlockEntry[], its: HeightRange): Promise<void> {
  const run = await store.ranges.run(its);
  await commitThrough(run, chain, its.to);
}

/** Does what a daemon would: follows the chain to its end, finishes open ranges and fills in whatever is planned. */
export async function heal(store: IndexStore, chain: readonly BlockEntry[]): Promise<void> {
  await commitThrough(store, chain, chain.at(-1)?.block.height ?? 0);
  for (const { from, to } of store.ranges.open()) await fill(store, chain, { from, to });
  for (const plan of store.ranges.plans()) {
    for (const hole of without([plan], store.coverage())) await fill(store, chain, hole);
  }
}
