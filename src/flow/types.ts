/** A 32-byte Flow identifier as 64 lower-case hex digits. Make one with `toIdentifier` or `parseIdentifier`. */
export type Identifier = string & { readonly __identifier: true };

/** The state of a block. `unknown` is how a node marks a block off the finalized chain (orphaned). */
export type BlockStatus = 'unknown' | 'finalized' | 'sealed';

/** A protobuf timestamp. Seconds since the Unix epoch; nanos in [0, 1e9). */
export interface Timestamp {
  readonly seconds: bigint;
  readonly nanos: number;
}

/**
 * A block as the indexer needs it: just what linking and verification use, plus the canonical light-form encoding that
 * is stored (wire message `flow.entities.Block` with fields 1, 2, 3, 4, 5 and 7 only). Readers decode the rest from
 * `encoded` with `decodeBlock`.
 */
export interface FinalizedBlock {
  readonly id: Identifier;
  readonly parentId: Identifier;
  /** A safe integer, checked at the wire. */
  readonly height: number;
  /** The collection id of each guarantee, in guarantee order. The same id may occur more than once. */
  readonly collectionIds: readonly Identifier[];
  readonly encoded: Uint8Array;
  /**
   * With `encoded`, all that its id and guarantees can be recomputed from, as `src/proof` encodes it. Absent: they are as the
   * node reported them, unproven.
   */
  readonly proof?: Uint8Array;
}

/** One guarantee of a block, every field as the node gave it. */
export interface CollectionGuarantee {
  readonly collectionId: Identifier;
  readonly referenceBlockId: Uint8Array;
  readonly signature: Uint8Array;
  readonly signatures: readonly Uint8Array[];
  readonly signerIds: readonly Uint8Array[];
  readonly signerIndices: Uint8Array;
  readonly clusterChainId: Uint8Array;
}

/** Everything that a stored block record holds. */
export interface Block {
  readonly id: Identifier;
  readonly parentId: Identifier;
  readonly height: number;
  readonly timestamp: Timestamp | undefined;
  readonly guarantees: readonly CollectionGuarantee[];
  /** The light form carries one entry: the parent voters' aggregated signature. */
  readonly signatures: readonly Uint8Array[];
}

/** One signature of a transaction, as on the wire. */
export interface TransactionSignature {
  readonly address: Uint8Array;
  readonly keyId: number;
  readonly signature: Uint8Array;
  readonly extensionData: Uint8Array;
}

/** A decoded transaction, for readers; the indexer itself works on wire bytes. */
export interface Transaction {
  readonly script: Uint8Array;
  readonly arguments: readonly Uint8Array[];
  readonly referenceBlockId: Uint8Array;
  readonly gasLimit: bigint;
  readonly proposalKey:
    { readonly address: Uint8Array; readonly keyId: number; readonly sequenceNumber: bigint } | undefined;
  readonly payer: Uint8Array;
  readonly authorizers: readonly Uint8Array[];
  readonly payloadSignatures: readonly TransactionSignature[];
  readonly envelopeSignatures: readonly TransactionSignature[];
}

/**
 * A collection whose transactions hash to its id. Only `verifyCollection` creates one, so having one is the proof.
 *
 * `encoded` is the concatenation of `0x0a, length, transaction` for each transaction in order: exactly the wire form of
 * a `GetFullCollectionByID` response, so that a stored collection is served without re-encoding. It pins no received
 * message; the collections of a block that were verified together are views of one buffer.
 */
export interface VerifiedCollection {
  readonly id: Identifier;
  readonly encoded: Uint8Array;
  /** The transaction ids in order, 32 bytes each, concatenated. */
  readonly transactionIds: Uint8Array;
  /** For each transaction two numbers: its offset in `encoded` (after the length prefix) and its length in bytes. */
  readonly ranges: Uint32Array;
}

/** One block of the execution-data stream, or of a peer. The chunks' transactions are located, not decoded. */
export interface BlockExecutionData {
  readonly height: number;
  readonly blockId: Identifier;
  /**
   * Wire bytes of each chunk's transactions, in chunk order, the system chunk last where the network has one. Empty for
   * a spork root block.
   */
  readonly chunks: readonly (readonly Uint8Array[])[];
  /** There is no system chunk among them, on any network. */
  readonly isWithoutSystem?: boolean | undefined;
  /** Size of what was received of this block, for byte budgets. */
  readonly byteLength: number;
}
