import type { BackfillPlan, BlockEntry, HeightRange, IndexStore, StoreMeta } from '../../storage/index.js';
import { readVerified } from './readVerified.js';

/** A source to copy from, as it is at one moment. */
export interface MigrationSource {
  meta(): StoreMeta | undefined;
  coverage(): readonly HeightRange[];
  /** Plans to copy. */
  plans(): readonly BackfillPlan[];
  /**
   * All blocks of covered heights, with every collection hashed again. Expected errors: those of the source; OperatorError
   * `damage`, with the height.
   */
  blocks(range: HeightRange): Promise<readonly BlockEntry[]>;
}

/** A store as a source. Expected errors of `blocks`: `StorageError`. */
export function storedSource(store: IndexStore): MigrationSource {
  return {
    meta: () => store.meta(),
    coverage: () => store.coverage(),
    plans: () => store.ranges.plans(),
    blocks: ({ from, to }) => {
      const heights = Array.from({ length: to - from + 1 }, (_, index) => from + index);
      return Promise.all(heights.map((height) => readVerified(store, height)));
    },
  };
}
