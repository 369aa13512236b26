import { LazyList } from './LazyList.js';
import type { Turns } from '../share/turns.js';

/** What is written before others have their turn. */
const TURN_CHARACTERS = 128 * 1024;

/**
 * The JSON text of what `build` makes. Whatever stands in a list at the top, or in a list that is a field at the top, is written
 * item by item, and after every 128 Ki characters others have their turn: a large answer does not hold the event loop.
 */
export async function jsonInTurns(build: () => unknown, turns: Turns): Promise<string> {
  const written: string[] = [];
  let pieces: Iterator<string> | undefined;
  /** True at the end. */
  const writeSome = (): boolean => {
    pieces ??= piecesOf(build());
    for (let characters = 0; characters < TURN_CHARACTERS;) {
      const piece = pieces.next();
      if (piece.done === true) return true;
      written.push(piece.value);
      characters += piece.value.length;
    }
    return false;
  };
  for (;;) {
    const wrote = turns.work(writeSome);
    if (typeof wrote === 'boolean' ? wrote : await wrote) return written.join('');
    await turns.pause();
  }
}

function* piecesOf(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null || isList(value)) {
    yield* fieldPieces(value);
    return;
  }
  let before = '{';
  for (const [key, field] of Object.entries(value)) {
    if (field === undefined) continue;
    yield `${before}${JSON.stringify(key)}:`;
    yield* fieldPieces(field);
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}

function* fieldPieces(value: unknown): Generator<string> {
  if (!isList(value)) {
    yield JSON.stringify(value);
    return;
  }
  let before = '[';
  for (const item of value) {
    yield `${before}${JSON.stringify(item)}`;
    before = ',';
  }
  yield before === '[' ? '[]' : ']';
}

function isList(value: unknown): value is Iterable<unknown> {
  return Array.isArray(value) || value instanceof LazyList;
}
