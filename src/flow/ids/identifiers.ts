import { createHash, hash } from 'node:crypto';
import { asBuffer } from '../wire/bytes.js';
import { WireError } from '../WireError.js';
import type { Identifier } from '../types.js';

export const IDENTIFIER_BYTES = 32;

/** The id of 32 zero bytes: the protocol's "no block" where an id is required. */
export const ZERO_ID = '0'.repeat(2 * IDENTIFIER_BYTES) as Identifier;

const HEX_ID = /^(?:0x)?([0-9a-fA-F]{64})$/;

/** 32 raw bytes as an identifier. Expected errors: `WireError` for any other length. */
export function toIdentifier(bytes: Uint8Array): Identifier {
  if (bytes.length !== IDENTIFIER_BYTES) {
    throw new WireError(`an identifier has ${IDENTIFIER_BYTES} bytes, not ${bytes.length}`);
  }
  return asBuffer(bytes).toString('hex') as Identifier;
}

/** 64 hex digits, upper or lower case, with or without `0x`; `undefined` for any other text. */
export function parseIdentifier(text: string): Identifier | undefined {
  return HEX_ID.exec(text)?.[1]?.toLowerCase() as Identifier | undefined;
}

/** Bytes of any length as an id, as on chain: shorter ones are padded at the end, longer ones truncated. */
export function paddedIdentifier(bytes: Uint8Array): Identifier {
  const id = asBuffer(bytes.subarray(0, IDENTIFIER_BYTES)).toString('hex');
  return id.padEnd(2 * IDENTIFIER_BYTES, '0') as Identifier;
}

/** The 32 raw bytes of an identifier. */
export function identifierBytes(id: Identifier): Buffer {
  return Buffer.from(id, 'hex');
}

/** SHA3-256 (the standard, not Keccak), which all Flow identifiers use. */
export function sha3(bytes: Uint8Array): Buffer {
  return createHash('sha3-256').update(bytes).digest();
}

/** SHA3-256 straight to an identifier. */
export function sha3Identifier(bytes: Uint8Array): Identifier {
  return hash('sha3-256', bytes, 'hex') as Identifier;
}
