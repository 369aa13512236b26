import type { DaemonConfig } from '../../config/index.js';
import type { FinalityProver } from '../../finality/index.js';
import type { HeightRange, IndexStore, ShownIndex } from '../../storage/index.js';
import type { IndexMoment } from './messages.js';

interface ReadableParts {
  readonly store: IndexStore;
  /** What readers use instead of the store. */
  readonly replica: IndexStore | undefined;
  readonly prover: Pick<FinalityProver, 'finalBlock'> | undefined;
}

/** What can be read now: everything indexed, or with `proof.finality: proven` nothing above what is proven final. */
export function readableIndex(
  { proof }: Pick<DaemonConfig, 'proof'>,
  { prover, replica, store }: ReadableParts,
): Pick<IndexMoment, 'proven' | 'shown'> {
  const from = replica ?? store;
  const shown: ShownIndex = {
    meta: from.meta(),
    latestIndexedHeight: from.latestIndexedHeight(),
    coverage: from.coverage(),
    latestBlock: from.latestBlock(),
    rewinds: from.rewinds(),
    accounts: from.accounts.coverage(),
    healing: from.healing(),
  };
  const final = prover?.finalBlock();
  const proven = prover && proof.mode !== 'off' ? provenHeights(store, final?.height) : undefined;
  const { accounts, coverage, latestIndexedHeight, meta } = shown;
  if (proof.finality === 'reported' || meta === undefined) return { shown, proven };
  const to = Math.min(latestIndexedHeight, final?.height ?? -1);
  return {
    proven,
    shown: {
      ...shown,
      latestIndexedHeight: Math.max(to, meta.firstHeight - 1),
      coverage: coverage
        .filter((range) => range.from <= to)
        .map((range) => ({ from: range.from, to: Math.min(range.to, to) })),
      latestBlock: final,
      accounts: accounts && { ...accounts, to: Math.min(accounts.to, to) },
    },
  };
}

/**
 * Where every block follows from the proven one by hashes that were recomputed: down to a hole, an unproven block, or a spork
 * that names another parent than the block below. `undefined`: the store does not know what is unproven.
 */
function provenHeights(store: IndexStore, finalHeight: number | undefined): HeightRange | undefined {
  const unproven = store.unproven?.();
  if (unproven === undefined) return undefined;
  const to = finalHeight ?? -1;
  const covered = store.coverage().find((range) => range.from <= to && to <= range.to);
  if (covered === undefined) return { from: 0, to: -1 };
  const severed = (store.meta()?.sporks ?? []).flatMap(({ rootHeight, rootParentId }) =>
    rootParentId !== undefined && rootHeight <= to ? [rootHeight] : [],
  );
  const above = unproven.filter((range) => range.from <= to).map((range) => range.to + 1);
  return { from: Math.max(covered.from, ...severed, ...above), to };
}
