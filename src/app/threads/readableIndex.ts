import type { IndexedRange } from '../../api/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { FinalityProver, FinalizationListener } from '../../finality/index.js';
import { joined, upTo } from '../../storage/index.js';
import type { BlockHead, HeightRange, IndexStore, ShownIndex } from '../../storage/index.js';
import type { IndexMoment } from './messages.js';

interface ReadableParts {
  readonly store: IndexStore;
  /** What readers use instead of the store. */
  readonly replica: IndexStore | undefined;
  readonly listener: Readonly<
    Record<'finalized' | 'sealed', Pick<FinalizationListener['finalized'], 'height'>>
  >;
  readonly prover:
    | (Pick<FinalityProver, 'finalBlock' | 'sealedHeight'> & {
        status(): { readonly reason: string | undefined };
      })
    | undefined;
  /** Damaged heights that are about to leave the index. */
  readonly healing?: { leaving(): readonly HeightRange[] };
}

/** The block up to which the chain is proven final, by this process or by the one that leads. */
export function finalBlock({
  prover,
  store,
}: Pick<ReadableParts, 'prover' | 'store'>): BlockHead | undefined {
  const kept = store.provenBlock?.();
  const own = store.shared?.isLeading() === false ? undefined : prover?.finalBlock();
  return own !== undefined && own.height >= (kept?.height ?? 0) ? own : kept;
}

/** What can be read now: everything indexed, or with `proof.finality: proven` nothing above what is proven final. */
export function readableIndex(
  { proof }: Pick<DaemonConfig, 'proof'>,
  { healing, listener, prover, replica, store }: ReadableParts,
): IndexMoment {
  const isLimited = proof.finality === 'proven';
  // By the seals of blocks that are proven final. If no more can be proven now, or the seals are unknown (a mirror, a process that
  // follows another one), as the nodes report it.
  const seals = isLimited || prover?.status().reason === undefined ? prover?.sealedHeight() : undefined;
  const heads = { head: listener.finalized.height ?? null, sealed: seals ?? listener.sealed.height ?? null };
  const from = replica ?? store;
  const shown: ShownIndex = {
    meta: from.meta(),
    latestIndexedHeight: from.latestIndexedHeight(),
    coverage: from.coverage(),
    latestBlock: from.latestBlock(),
    rewinds: from.rewinds(),
    accounts: from.accounts.coverage(),
    healing: joined([...from.healing(), ...(healing?.leaving() ?? [])]),
  };
  const final = finalBlock({ prover, store });
  const isProving = (prover ?? store.provenBlock) !== undefined && proof.mode !== 'off';
  const proven = isProving ? provenHeights(store, final?.height ?? -1) : undefined;
  const { accounts, coverage, latestIndexedHeight, meta } = shown;
  if (!isLimited || meta === undefined) return { ...heads, shown, proven };
  const to = Math.min(latestIndexedHeight, final?.height ?? -1);
  return {
    ...heads,
    proven,
    awaitsProof: coverage.filter((range) => range.to > to),
    shown: {
      ...shown,
      latestIndexedHeight: Math.max(to, meta.firstHeight - 1),
      coverage: upTo(coverage, to),
      // The replica may not have it yet.
      latestBlock: final && final.height > latestIndexedHeight ? shown.latestBlock : final,
      accounts: accounts && { ...accounts, to: Math.min(accounts.to, to) },
    },
  };
}

/** The range as lookups and `/status` show it. */
export function rangeOf({ shown, ...moment }: IndexMoment): IndexedRange {
  const { coverage, healing, latestIndexedHeight, meta } = shown;
  return {
    firstIndexed: meta?.firstHeight ?? null,
    latestIndexed: meta === undefined ? null : latestIndexedHeight,
    head: moment.head,
    sealed: moment.sealed,
    coverage,
    healing,
    proven: moment.proven,
    awaitsProof: moment.awaitsProof,
  };
}

/**
 * The heights whose blocks all follow from the proven one by recomputed hashes: down to a hole, an unproven block, or a spork
 * root whose parent is not the block below.
 */
function provenHeights(store: IndexStore, to: number): HeightRange {
  const covered = store.coverage().find((range) => range.from <= to && to <= range.to);
  if (covered === undefined) return { from: 0, to: -1 };
  const severed = (store.meta()?.sporks ?? []).flatMap(({ rootHeight, rootParentId }) =>
    rootParentId !== undefined && rootHeight <= to ? [rootHeight] : [],
  );
  const unproven = store.unproven().filter((range) => range.from <= to);
  return { from: Math.max(covered.from, ...severed, ...unproven.map((range) => range.to + 1)), to };
}
