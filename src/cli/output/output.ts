import { write } from 'node:fs';
import { outputError, sleep, systemClock } from '../../runtime/index.js';

/** Before retrying a write to a full non-blocking descriptor. */
const BLOCKED_RETRY_MS = 10;

/**
 * Writes everything, off the event loop, and waits for a slow reader. Resolves with false when the reader has
 * gone. Expected errors: OperatorError (`storage`).
 */
export async function writeAll(descriptor: number, bytes: Uint8Array, name: string): Promise<boolean> {
  let written = 0;
  while (written < bytes.length) {
    const outcome = await writeSome(descriptor, bytes.subarray(written));
    if (typeof outcome === 'number') {
      written += outcome;
    } else if (outcome.code === 'EPIPE') {
      return false;
    } else if (outcome.code === 'EAGAIN') {
      await sleep(systemClock, BLOCKED_RETRY_MS);
    } else {
      throw outputError(outcome, name);
    }
  }
  return true;
}

function writeSome(descriptor: number, bytes: Uint8Array): Promise<number | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    write(descriptor, bytes, (error, written) => resolve(error ?? written));
  });
}
