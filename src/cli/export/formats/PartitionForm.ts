import type { BlockRow } from '../tables/BlockRow.js';

/** One file of a partition, as it grows. */
export interface GrowingFile {
  readonly table: string;
  /** Rows so far. */
  readonly rows: number;
  /**
   * The bytes that are ready, once there are enough to be written; call it after every block. Nothing changes them
   * afterwards.
   */
  take(): Uint8Array | undefined;
  /** The rest of the file. */
  finish(): Uint8Array;
}

/** Turns the blocks of a partition into files. Their bytes depend only on the blocks. */
export interface PartitionForm {
  readonly files: readonly GrowingFile[];
  add(block: BlockRow): void;
}

/** Text is handed on in pieces of about this length. */
export const PIECE_BYTES = 1024 * 1024;
