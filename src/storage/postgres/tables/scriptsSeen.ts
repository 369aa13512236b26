import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The most scripts in memory, and the most bytes of them. */
const MAX_SCRIPTS = 20_000;
const MAX_BYTES = 16 * 1024 * 1024;

/** One script, however many transactions have it. */
export interface Script {
  readonly hash: Buffer;
  readonly body: Buffer;
}

/** The script at `start` of some bytes. */
export type ScriptAt = (bytes: Buffer, start: number, length: number) => Script;

/**
 * Scripts by their bytes: most transactions have a script that was seen before, which is not hashed again. When there are too
 * many, all are forgotten: scripts that are seen again are hashed and sent again.
 */
export function scriptsSeen(): ScriptAt {
  /** By checksum; of scripts with the same one, the last. */
  const seen = new Map<number, Script>();
  let seenBytes = 0;
  return (bytes, start, length) => {
    const view = bytes.subarray(start, start + length);
    const checksum = crc32(view);
    const known = seen.get(checksum);
    if (known?.body.equals(view) === true) return known;
    if (seen.size >= MAX_SCRIPTS || seenBytes >= MAX_BYTES) {
      seen.clear();
      seenBytes = 0;
    }
    const script = { hash: createHash('sha256').update(view).digest(), body: Buffer.from(view) };
    seen.set(checksum, script);
    seenBytes += length;
    return script;
  };
}
