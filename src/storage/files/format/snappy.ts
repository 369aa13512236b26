import { Cursor } from './Cursor.js';

/** Snappy's raw format: a length, then literals and back-references. `undefined` for anything else. */
export function unsnappy(compressed: Buffer): Buffer | undefined {
  const cursor = new Cursor(compressed);
  const length = cursor.varint();
  // No Snappy stream expands more than this, so a wrong length cannot allocate absurd amounts.
  if (length > 64 * compressed.length) return undefined;
  const output = Buffer.alloc(length);
  let written = 0;
  while (!cursor.done) {
    const tag = cursor.byte();
    if ((tag & 3) === 0) {
      const short = tag >>> 2;
      const literal = (short < 60 ? short : cursor.little(short - 59)) + 1;
      written += cursor.take(literal).copy(output, written);
      continue;
    }
    const [count, back] = copyOf(tag, cursor);
    if (back === 0 || back > written || written + count > length) return undefined;
    for (let index = 0; index < count; index += 1, written += 1)
      output[written] = output[written - back] as number;
  }
  return cursor.failed || written !== length ? undefined : output;
}

function copyOf(tag: number, cursor: Cursor): [count: number, back: number] {
  switch (tag & 3) {
    case 1:
      return [((tag >>> 2) & 7) + 4, ((tag >>> 5) << 8) + cursor.byte()];
    case 2:
      return [(tag >>> 2) + 1, cursor.little(2)];
    default:
      return [(tag >>> 2) + 1, cursor.little(4)];
  }
}
