import { LazyList } from './LazyList.js';

/** What is written before others have their turn. */
const TURN_CHARACTERS = 128 * 1024;

/**
 * The JSON text of a value. Whatever stands in a list at the top, or in a list that is a field at the top, is written item by
 * item, and after every 128 Ki characters `turn` is waited for: a large answer does not hold the event loop.
 */
export async function jsonInTurns(value: unknown, turn: () => Promise<void>): Promise<string> {
  const pieces: string[] = [];
  let sinceTurn = 0;
  const write = async (text: string): Promise<void> => {
    pieces.push(text);
    sinceTurn += text.length;
    if (sinceTurn < TURN_CHARACTERS) return;
    sinceTurn = 0;
    await turn();
  };
  const writeValue = async (item: unknown): Promise<void> => {
    if (!isList(item)) {
      await write(JSON.stringify(item));
      return;
    }
    let before = '[';
    for (const element of item) {
      await write(`${before}${JSON.stringify(element)}`);
      before = ',';
    }
    await write(before === '[' ? '[]' : ']');
  };
  if (typeof value !== 'object' || value === null || isList(value)) {
    await writeValue(value);
  } else {
    let before = '{';
    for (const [key, field] of Object.entries(value)) {
      if (field === undefined) continue;
      await write(`${before}${JSON.stringify(key)}:`);
      await writeValue(field);
      before = ',';
    }
    await write(before === '{' ? '{}' : '}');
  }
  return pieces.join('');
}

function isList(value: unknown): value is Iterable<unknown> {
  return Array.isArray(value) || value instanceof LazyList;
}
