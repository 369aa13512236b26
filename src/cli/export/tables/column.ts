/** What a column holds, in every format; docs/export.md says how each format writes it. */
export type ColumnType =
  | 'text'
  /** A safe integer. */
  | 'integer'
  /** An integer of 32 bits. */
  | 'small'
  /** An integer of 64 bits without a sign. */
  | 'unsigned'
  /** Microseconds since the Unix epoch. */
  | 'time'
  | 'binary'
  | 'texts'
  | 'binaries'
  | 'signatures';

export interface SignatureCell {
  readonly address: string;
  readonly key_index: number;
  readonly signature: Buffer;
  readonly extension_data: Buffer | null;
}

export type Cell =
  string | number | bigint | Buffer | readonly string[] | readonly Buffer[] | readonly SignatureCell[] | null;

/** A column without the rows that it reads. */
export interface ColumnShape {
  readonly name: string;
  readonly type: ColumnType;
  readonly isNullable: boolean;
  /** Hardly any value occurs twice, and nobody queries ranges: a dictionary and statistics are not worth it. */
  readonly isScattered: boolean;
}

export interface Column<Row> extends ColumnShape {
  readonly of: (row: Row) => Cell;
}
