import { expect, it } from 'vitest';
import { RequestFields, WireError, WireWriter } from '../../../src/flow/index.js';

it('merges a message that comes in parts, each of which must be one, and refuses what is none', () => {
  const part = (bytes: Uint8Array) => new WireWriter().element(1, bytes).finish();
  const [whole, cut] = [part(new WireWriter().number(1, 1).finish()), part(Buffer.of(0x11))];
  const ofParts = (...parts: Buffer[]) => new RequestFields(Buffer.concat(parts)).message(1);
  expect(ofParts(whole, part(new WireWriter().number(2, 3).finish()))?.number(2)).toBe(3n);
  expect(ofParts(part(Buffer.of(0x08, 1)), whole, part(Buffer.of(0x08, 2)))?.number(1)).toBe(2n);
  // A number of eight bytes, which begins in one part and would end in the next.
  expect(() => ofParts(cut, part(Buffer.alloc(8)))).toThrow(WireError);
  expect(ofParts()).toBeUndefined();
  const many = Buffer.from('0a00'.repeat(100_001), 'hex');
  for (const bytes of [[0x0a, 32, 1], [0x08], [0x0f], [0x00, 0x01], many])
    expect(() => new RequestFields(Buffer.from(bytes))).toThrow(WireError);
});
