import type { HeightRange, IndexStore, RangeStore, SporkRecord } from '../../storage/index.js';
import type { SporkTable } from '../../access/index.js';
import { rootParentsOf } from './sections/lineOptions.js';

/**
 * Records with a range the parent of the spork root just above it, as the spork table has it, if that root was indexed when the
 * table did not have it yet. Without that, the last block of the range would not link to the root, which may name a discarded
 * parent. Expected errors: `StorageError`.
 */
export async function vouchForRootAbove(
  { to }: HeightRange,
  run: RangeStore,
  { sporks, store }: { readonly sporks: SporkTable; readonly store: Pick<IndexStore, 'blockByHeight'> },
): Promise<void> {
  const rootHeight = to + 1;
  const vouched = rootParentsOf(sporks).find((root) => root.rootHeight === rootHeight)?.rootParentId;
  const known = run.meta()?.sporks.find((record) => record.rootHeight === rootHeight);
  if (vouched === undefined || known?.rootParentId !== undefined) return;
  const above = await store.blockByHeight(rootHeight);
  if (above?.block.parentId !== vouched) return;
  const spork: SporkRecord = { rootHeight, sporkId: known?.sporkId ?? '', rootParentId: vouched };
  await run.commit({ blocks: [], latestIndexedHeight: run.latestIndexedHeight(), spork });
}
