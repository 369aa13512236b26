import type { HeightRange, IndexStore } from '../../storage/index.js';
import { countHeights } from '../planner.js';
import { isSameAt } from './migrateStore.js';
import type { MigrationSource } from './MigrationSource.js';

/**
 * The highest height at which both have the same block; `undefined`: none. Blocks name their parents, so two indexes that agree at
 * a height agree below it, and a binary search suffices. `shared`: the heights that both cover. Expected errors: as
 * `MigrationSource.blocks`; `StorageError`.
 */
export async function lastCommon(
  shared: readonly HeightRange[],
  source: MigrationSource,
  target: IndexStore,
): Promise<number | undefined> {
  const heightAt = (index: number): number => {
    let left = index;
    for (const { from, to } of shared) {
      if (left <= to - from) return from + left;
      left -= to - from + 1;
    }
    throw new RangeError(`there is no height ${index}`);
  };
  let low = 0;
  let high = countHeights(shared);
  // The usual case takes one comparison.
  if (high > 0 && (await isSameAt(heightAt(high - 1), source, target))) return heightAt(high - 1);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (await isSameAt(heightAt(middle), source, target)) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? undefined : heightAt(low - 1);
}
