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

/**
 * Scripts by their bytes: most transactions have a script that was seen before, which is not hashed again. When there are too
 * many, all are forgotten: scripts that are seen again are hashed and sent again.
 */
export class Scripts {
  /** By checksum; of scripts with the same one, the last. */
  readonly #known = new Map<number, Script>();
  #bytes = 0;

  /** The script at `start` of some bytes. */
  at(bytes: Buffer, start: number, length: number): Script {
    const view = bytes.subarray(start, start + length);
    const checksum = crc32(view);
    const known = this.#known.get(checksum);
    if (known?.body.equals(view) === true) return known;
    if (this.#known.size >= MAX_SCRIPTS || this.#bytes >= MAX_BYTES) {
      this.#known.clear();
      this.#bytes = 0;
    }
    const script = { hash: createHash('sha256').update(view).digest(), body: Buffer.from(view) };
    this.#known.set(checksum, script);
    this.#bytes += length;
    return script;
  }
}
