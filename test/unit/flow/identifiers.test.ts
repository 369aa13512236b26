import { sha3_256 } from '@noble/hashes/sha3.js';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { identifierBytes, parseIdentifier, sha3, toIdentifier, WireError } from '../../../src/flow/index.js';
import { ZERO_ID } from '../../../src/flow/index.js';
import { bytes, identifier } from '../../support/flowWire.js';

it('go from bytes to text and back, also from views that are no Buffers', () => {
  fc.assert(fc.property(identifier, (id) => toIdentifier(identifierBytes(id)) === id));
  expect(toIdentifier(new Uint8Array(40).subarray(8))).toBe(ZERO_ID);
});

it.each([0, 31, 33])('are not made from %d bytes', (length) => {
  expect(() => toIdentifier(Buffer.alloc(length))).toThrow(WireError);
});

it.each(['ab'.repeat(32), 'AB'.repeat(32), '0x' + 'Ab'.repeat(32)])('are read from %s', (text) => {
  expect(parseIdentifier(text)).toBe('ab'.repeat(32));
});

it.each([
  '',
  '0X' + 'ab'.repeat(32),
  '0x0x' + 'ab'.repeat(32),
  '0x' + 'ab'.repeat(31),
  'ab'.repeat(31),
  'ab'.repeat(33),
  'g'.repeat(64),
  `${'ab'.repeat(32)}\n`,
])('are not read from %j', (text) => {
  expect(parseIdentifier(text)).toBeUndefined();
});

it('are hashed with SHA3-256 and not with Keccak', () => {
  fc.assert(
    fc.property(bytes({ maxLength: 300 }), (input) => sha3(input).equals(Buffer.from(sha3_256(input)))),
  );
});
