import type { Identifier } from '../../flow/index.js';
import type { BlockHead, RangeStore, SporkRecord } from '../../storage/index.js';

export interface SporkRecordsDependencies {
  readonly store: Pick<RangeStore, 'meta'>;
  /** The spork of a height, if known. */
  readonly sporkFor: (height: number) => SporkRecord | undefined;
  /** The parent of a spork's root block, if known. */
  readonly rootParentAt: (height: number) => Identifier | undefined;
}

/** Decides which spork is recorded with which batch: a known spork that the store has not recorded yet. */
export class SporkRecords {
  readonly #deps: SporkRecordsDependencies;

  constructor(dependencies: SporkRecordsDependencies) {
    this.#deps = dependencies;
  }

  /**
   * The record of the spork whose root this block is, unless the store has it with the root's parent. Depends on the
   * chain alone: a store that begins at a root gets the same record as one that reached it from below.
   */
  newAt({ height, parentId }: BlockHead): SporkRecord | undefined {
    const { rootParentAt, sporkFor, store } = this.#deps;
    const known = store.meta()?.sporks.find((record) => record.rootHeight === height);
    const isConfirmed = rootParentAt(height) === parentId;
    if (known !== undefined && (!isConfirmed || known.rootParentId !== undefined)) return undefined;
    const spork = sporkFor(height);
    const root = known ?? (spork?.rootHeight === height ? spork : undefined);
    if (!isConfirmed) return root;
    return { rootHeight: height, sporkId: root?.sporkId ?? '', rootParentId: parentId };
  }

  /**
   * The spork of this height when its root was written before any node named it: a node that moves to the next spork
   * delivers its blocks shortly before its next handshake.
   */
  lateAt(height: number): SporkRecord | undefined {
    const { sporkFor, store } = this.#deps;
    const spork = sporkFor(height);
    const recorded = store.meta()?.sporks.findLast(({ rootHeight }) => rootHeight <= height);
    if (spork === undefined || spork.rootHeight <= (recorded?.rootHeight ?? -1)) return undefined;
    return spork.rootHeight <= height ? spork : undefined;
  }
}
