import type { FinalizedBlock, Identifier } from '../../flow/index.js';

/** One spork whose heights the store holds, recorded with its root so that nodes of another spork are recognised. */
export interface SporkRecord {
  readonly rootHeight: number;
  /** Spork id as reported by the node, hex; empty when the node reports none (old nodes). */
  readonly sporkId: string;
  /**
   * The parent that the root block names, if the network's spork table confirms it. Only then may the root's parent
   * differ from the block stored below it.
   */
  readonly rootParentId?: Identifier;
}

/** Checked at every open; a store of another chain or a newer schema is refused (docs/architecture.md, "Storage"). */
export interface StoreMeta {
  readonly schemaVersion: number;
  readonly chainId: string;
  /** The first height indexed; its block has no parent to check. */
  readonly firstHeight: number;
  /** Version of the program that created the store. */
  readonly createdBy: string;
  /** In ascending order of root height. */
  readonly sporks: readonly SporkRecord[];
}

/** Consecutive heights, both ends included. */
export interface HeightRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Evidence of who signs from a stored block on: the parts whose hash is its `protocol_state_id`, each as RLP. The reader
 * compares the id with that of the block that is stored now, and hashes the parts.
 */
export interface CommitteeEvidence {
  readonly height: number;
  readonly id: Identifier;
  /** Finality starts here: the block was named, or trusted. False: earlier committees had proven it. */
  readonly isAnchor: boolean;
  readonly protocolState: Uint8Array;
  readonly epochState: Uint8Array;
  readonly events: readonly Uint8Array[];
}

/** A stored block without its bodies. */
export interface BlockHead {
  readonly height: number;
  readonly id: Identifier;
  readonly parentId: Identifier;
}

/** The place of a collection or transaction. */
export interface Place {
  readonly height: number;
  /** Index of the collection within its block. */
  readonly collectionIndex: number;
  /** Index of the transaction within its collection; 0 for a collection. */
  readonly transactionIndex: number;
}

/** A block as it is stored. */
export interface StoredBlock {
  readonly block: FinalizedBlock;
  /** Transactions per collection, in guarantee order. */
  readonly transactionCounts: readonly number[];
}

/** A block with its collections, in guarantee order, each in the wire form: `repeated Transaction transactions = 1`. */
export interface WholeBlock extends StoredBlock {
  readonly bodies: readonly Uint8Array[];
}

/** What is found by its id. */
export type ItemKind = 'collection' | 'transaction';

/** A collection or transaction as it is stored, at its lowest place. */
export interface StoredItem {
  readonly id: Identifier;
  readonly place: Place;
  readonly blockId: Identifier;
  /** For a collection, its own id. */
  readonly collectionId: Identifier;
  /** Wire form: of a collection as in `WholeBlock`, of a transaction `flow.entities.Transaction`. */
  readonly encoded: Uint8Array;
}
