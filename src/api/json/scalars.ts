import { asBuffer } from '../../flow/index.js';
import type { Timestamp } from '../../flow/index.js';

const ADDRESS_BYTES = 8;
const IDENTIFIER_BYTES = 32;
/** What Go prints for an unset time. */
const ZERO_TIME = '0001-01-01T00:00:00Z';

export function hex(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('hex');
}

export function base64(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('base64');
}

export function utf8(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('utf8');
}

/** 16 hex digits: shorter addresses are padded in front; of longer ones the end counts, as on chain. */
export function addressHex(bytes: Uint8Array): string {
  if (bytes.length === ADDRESS_BYTES) return hex(bytes);
  return hex(bytes.subarray(-ADDRESS_BYTES)).padStart(ADDRESS_BYTES * 2, '0');
}

/** 64 hex digits: shorter ids are padded at the end, as on chain. */
export function identifierHex(bytes: Uint8Array): string {
  if (bytes.length === IDENTIFIER_BYTES) return hex(bytes);
  return hex(bytes.subarray(0, IDENTIFIER_BYTES)).padEnd(IDENTIFIER_BYTES * 2, '0');
}

/**
 * RFC 3339 in UTC, without trailing zeros of the fraction; the zero time where a block has no timestamp. The wire codec
 * accepts only the years 1 to 9999, which are those that this form can express.
 */
export function rfc3339(timestamp: Timestamp | undefined): string {
  if (timestamp === undefined) return ZERO_TIME;
  const { seconds, nanos } = timestamp;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length);
  const fraction = String(nanos).padStart(9, '0').replace(/0+$/, '');
  return fraction === '' ? `${whole}Z` : `${whole}.${fraction}Z`;
}
