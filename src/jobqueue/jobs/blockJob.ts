import type { Job } from '../types.js';

/** A job for one block of any type with a height. */
export interface BlockJob<B extends { readonly height: number }> extends Job {
  /** The height in decimal: one job per height. */
  readonly id: string;
  readonly height: number;
  readonly block: B;
}

/** The job of a block. `jobToBlock` is its inverse. */
export function blockToJob<B extends { readonly height: number }>(block: B): BlockJob<B> {
  return { id: String(block.height), height: block.height, block };
}

/** The block of a job: the same object it was created from. */
export function jobToBlock<B extends { readonly height: number }>(job: BlockJob<B>): B {
  return job.block;
}
