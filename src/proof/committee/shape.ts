// Checks the shape of JSON from a node. Expected errors of every function: `WireError`.
import { WireError } from '../../flow/index.js';

export function record(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new WireError('an object is missing');
  return value as Record<string, unknown>;
}

/** Go writes an absent list as null. */
export function list(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return [];
  if (!Array.isArray(value)) throw new WireError('a list is missing');
  return value;
}

export function text(value: unknown): string {
  if (typeof value !== 'string') throw new WireError('a text is missing');
  return value;
}

export function safeInteger(value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw new WireError('a number is missing, or too large');
  return value;
}
