/** The data of a `height` event: what became readable. Heights and counts are numbers here. */
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

/** The data of a `rewind` event: everything above `height` is to be forgotten. */
export interface RewindDocument {
  readonly height: number;
  /** What is indexed at `height`; `null` where no block is known. */
  readonly block_id: string | null;
}
