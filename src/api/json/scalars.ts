import { asBuffer, NO_TIME } from '../../flow/index.js';
import type { Timestamp } from '../../flow/index.js';

export function hex(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('hex');
}

export function base64(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('base64');
}

export function utf8(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('utf8');
}

/**
 * RFC 3339 in UTC, without trailing zeros of the fraction. The wire codec
 * accepts only the years 1 to 9999, which are those that this form can express.
 */
export function rfc3339(timestamp: Timestamp = NO_TIME): string {
  const { seconds, nanos } = timestamp;
  const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length);
  const fraction = String(nanos).padStart(9, '0').replace(/0+$/, '');
  return fraction === '' ? `${whole}Z` : `${whole}.${fraction}Z`;
}
