/** The data of a `height` event: a height became readable. Heights and counts are numbers here. */
export interface HeightDocument {
  readonly height: number;
  readonly block_id: string;
  readonly parent_id: string;
  /** RFC 3339. */
  readonly timestamp: string;
  /** In the order of the block's guarantees. */
  readonly collections: readonly { readonly collection_id: string; readonly transaction_count: number }[];
  /** Known to be sealed when this was sent. */
  readonly sealed: boolean;
}

/** The data of a `rewind` event: discard everything above `height`. */
export interface RewindDocument {
  readonly height: number;
  /** The block indexed at `height`; `null` where none is known. */
  readonly block_id: string | null;
}
