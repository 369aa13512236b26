import { describe, expect, it } from 'vitest';
import { RequestFields, WireError, WireWriter } from '../../../src/flow/index.js';

const id = Buffer.alloc(32, 7);

describe('RequestFields', () => {
  it('reads bytes, texts, numbers and flags by their field', () => {
    const message = new WireWriter()
      .bytes(1, id)
      .text(2, 'flow.access.AccessAPI')
      .number(3, 2n ** 64n - 1n)
      .number(4, 1)
      .finish();
    const fields = new RequestFields(message);
    expect(fields.bytes(1)).toEqual(id);
    expect(fields.text(2)).toBe('flow.access.AccessAPI');
    expect(fields.number(3)).toBe(2n ** 64n - 1n);
    expect(fields.flag(4)).toBe(true);
  });

  it('has defaults for what is absent, or of another wire type', () => {
    const fields = new RequestFields(new WireWriter().number(1, 5).bytes(3, id).finish());
    expect(fields.bytes(1)).toHaveLength(0);
    expect(fields.text(2)).toBe('');
    expect(fields.number(3)).toBe(0n);
    expect(fields.flag(4)).toBe(false);
  });

  it('takes the last of a field that occurs twice, and steps over what it does not know', () => {
    const message = Buffer.concat([
      new WireWriter().number(1, 1).finish(),
      // A fixed64 and a group.
      Buffer.from([0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b, 0x08, 0x01, 0x1c]),
      new WireWriter().number(1, 2).finish(),
    ]);
    expect(new RequestFields(message).number(1)).toBe(2n);
  });

  it('merges a message that comes in parts, each of which must be one', () => {
    const part = (bytes: Uint8Array) => new WireWriter().element(1, bytes).finish();
    const [whole, cut] = [part(new WireWriter().number(1, 1).finish()), part(Buffer.of(0x11))];
    const ofParts = (...parts: Buffer[]) => new RequestFields(Buffer.concat(parts)).message(1);
    expect(ofParts(whole, part(new WireWriter().number(2, 3).finish()))?.number(2)).toBe(3n);
    expect(ofParts(part(Buffer.of(0x08, 1)), whole, part(Buffer.of(0x08, 2)))?.number(1)).toBe(2n);
    // A number of eight bytes, which begins in one part and would end in the next.
    expect(() => ofParts(cut, part(Buffer.alloc(8)))).toThrow(WireError);
    expect(ofParts()).toBeUndefined();
  });

  it('refuses what is no message', () => {
    const many = Buffer.from('0a00'.repeat(100_001), 'hex');
    for (const bytes of [[0x0a, 32, 1], [0x08], [0x0f], [0x00, 0x01], many])
      expect(() => new RequestFields(Buffer.from(bytes))).toThrow(WireError);
  });
});
