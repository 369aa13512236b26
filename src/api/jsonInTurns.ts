import { LazyList } from './LazyList.js';

/** What is written before others have their turn. */
const TURN_CHARACTERS = 128 * 1024;

/**
 * The JSON text of a value. Whatever stands in a list at the top, or in a list that is a field at the top, is written item by
 * item, and after every 128 Ki characters `turn` is waited for: a large answer does not hold the event loop.
 */
export async function jsonInTurns(value: unknown, turn: () => Promise<void>): Promise<string> {
  const written: string[] = [];
  let sinceTurn = 0;
  for (const piece of piecesOf(value)) {
    written.push(piece);
    sinceTurn += piece.length;
    if (sinceTurn < TURN_CHARACTERS) continue;
    sinceTurn = 0;
    await turn();
  }
  return written.join('');
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
