import type { Identifier } from '../../../flow/index.js';
import type { UpstreamError } from '../../UpstreamError.js';

/** A spork, as far as it distinguishes nodes. */
export interface SporkRoot {
  readonly rootHeight: number;
  /** Hex; empty when unknown. */
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

/** What a node says about itself. */
export interface NodeIdentity {
  /** Empty when unknown. */
  readonly chainId: string;
  readonly semver: string;
  /** Hex; empty when unknown. */
  readonly sporkId: string;
  readonly sporkRootHeight: number | undefined;
  /** The lowest height it serves; `undefined` when unknown. */
  readonly lowestHeight: number | undefined;
  /**
   * The node neither names the root of its spork nor has block 0. Nodes that cannot name it answer like this and, for a
   * moment, those whose spork begins at 0: worth asking again.
   */
  readonly isRootOpen: boolean;
  /** Why it did not name the root of its spork; it may still do so. */
  readonly rootTrouble: UpstreamError | undefined;
  /** How it refused block 0, which would reveal its root; `undefined` when block 0 was not requested. */
  readonly rootRefusal: UpstreamError | undefined;
  /** One of our blocks and its block of that height; `undefined` when unknown. */
  readonly comparison: BlockComparison | undefined;
  /** The height of its latest finalized block; `undefined` when unknown. */
  readonly head: number | undefined;
}

export interface BlockComparison {
  /** The height of our last block, or the node's head if lower. */
  readonly height: number;
  readonly isWatermark: boolean;
  readonly ours: Identifier;
  readonly theirs: Identifier;
  /** If they differ: the highest common block, if it was found. */
  readonly sharedHeight?: number | undefined;
}
