import type { Identifier } from '../../flow/index.js';
import type { UpstreamError } from '../UpstreamError.js';

/** A spork as far as it tells nodes apart. */
export interface SporkRoot {
  readonly rootHeight: number;
  /** Hex; empty when nobody told. */
  readonly sporkId: string;
}

export interface BlockName {
  readonly height: number;
  readonly id: Identifier;
}

/** What a node must agree with. */
export interface Expectation {
  readonly chainId: string;
  /** The name of the network, as the operator gave it. */
  readonly network: string;
  /** The sporks that the store has crossed. */
  readonly sporks: readonly SporkRoot[];
  /** The last block of the store. */
  readonly watermark?: BlockName | undefined;
  /** The first height of the store. */
  readonly firstHeight?: number | undefined;
  /** The block that the store has at a height. */
  readonly storedBlock?: (height: number) => Promise<{ readonly id: Identifier } | undefined>;
}

/** Who a node says it is. */
export interface NodeIdentity {
  /** Empty when it does not tell. */
  readonly chainId: string;
  readonly semver: string;
  /** Hex; empty when it does not tell. */
  readonly sporkId: string;
  readonly sporkRootHeight: number | undefined;
  /** The lowest height it serves; `undefined` when it does not tell. */
  readonly lowestHeight: number | undefined;
  /**
   * It neither tells where its spork begins nor has block 0. So answer nodes that cannot tell, and for a moment those whose
   * spork begins at 0: worth asking again.
   */
  readonly isRootOpen: boolean;
  /** Why it did not tell where its spork begins, where it did not answer: it may yet. */
  readonly rootTrouble: UpstreamError | undefined;
  /** How it refused block 0, by which its root would be known; `undefined` where that was not open. */
  readonly rootRefusal: UpstreamError | undefined;
  /** A block of ours and its block of that height; `undefined` when it cannot be said. */
  readonly comparison: BlockComparison | undefined;
  /** The height of the latest finalized block that it has; `undefined` when it does not tell. */
  readonly head: number | undefined;
}

export interface BlockComparison {
  /** That of our last block; the node's head where that is lower. */
  readonly height: number;
  readonly isWatermark: boolean;
  readonly ours: Identifier;
  readonly theirs: Identifier;
  /** Where they differ: the highest block that both have, if it was found. */
  readonly sharedHeight?: number | undefined;
}
