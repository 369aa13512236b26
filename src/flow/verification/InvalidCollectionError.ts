/** Why a collection, or all collections of a block, were refused; also the label of `invalid_collections_total`. */
export type InvalidCollectionReason =
  /** A transaction is not a protobuf message, or larger than any transaction can be. */
  | 'malformed'
  /** The transactions do not hash to the id that was asked for. */
  | 'id_mismatch'
  /** Execution data: not one chunk per guarantee, with or without the system chunk. */
  | 'wrong_count'
  /** Execution data: a chunk holds a collection of this block, but from another position in it. */
  | 'wrong_order'
  /** Execution data: it belongs to another block (id or height). */
  | 'wrong_block';

/** A source delivered something other than what the block guarantees. Refused, counted, never stored (invariant 12). */
export class InvalidCollectionError extends Error {
  override readonly name = 'InvalidCollectionError';
  readonly reason: InvalidCollectionReason;

  constructor(reason: InvalidCollectionReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
