import type { RlpTree } from '../../flow/index.js';

/** JSON of a node has not the shape that it should have. */
export class ShapeError extends Error {
  override readonly name = 'ShapeError';
}

/** Expected errors of every function: `ShapeError`. */
export function record(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ShapeError('an object is missing');
  return value as Record<string, unknown>;
}

/** Go writes an absent list as null. */
export function list(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return [];
  if (!Array.isArray(value)) throw new ShapeError('a list is missing');
  return value;
}

export function text(value: unknown): string {
  if (typeof value !== 'string') throw new ShapeError('a text is missing');
  return value;
}

export function safeInteger(value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new ShapeError('a number is missing, or too large');
  }
  return value;
}

/** The list that an item of RLP is. */
export function items(tree: RlpTree | undefined): readonly RlpTree[] {
  if (tree === undefined || tree instanceof Uint8Array) throw new ShapeError('a list of RLP is missing');
  return tree;
}

export function string(tree: RlpTree | undefined): Buffer {
  if (!(tree instanceof Buffer)) throw new ShapeError('bytes of RLP are missing');
  return tree;
}

export function number(tree: RlpTree | undefined): number {
  return safeInteger(Number(`0x0${string(tree).toString('hex')}`));
}
