import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The most scripts in memory, and the most bytes of them, in each of two generations. */
const MAX_SCRIPTS = 10_000;
const MAX_BYTES = 8 * 1024 * 1024;

/** One script, however many transactions have it. */
export interface Script {
  readonly hash: Buffer;
  readonly body: Buffer;
}

/**
 * Scripts by their bytes: most transactions have a script that was seen before, which is not hashed again.
 * Scripts that were not seen for a while are forgotten.
 */
export class Scripts {
  /** By checksum; scripts with the same checksum are in one list. */
  #young = new Map<number, Script[]>();
  #old = new Map<number, Script[]>();
  #count = 0;
  #bytes = 0;

  /** The script at `start` of some bytes. */
  at(bytes: Buffer, start: number, length: number): Script {
    const view = bytes.subarray(start, start + length);
    const checksum = crc32(view);
    const known = among(this.#young.get(checksum), view);
    if (known !== undefined) return known;
    const script = among(this.#old.get(checksum), view) ?? {
      hash: createHash('sha256').update(view).digest(),
      body: Buffer.from(view),
    };
    this.#keep(checksum, script);
    return script;
  }

  #keep(checksum: number, script: Script): void {
    if (this.#count >= MAX_SCRIPTS || this.#bytes >= MAX_BYTES) {
      [this.#old, this.#young] = [this.#young, new Map<number, Script[]>()];
      this.#count = 0;
      this.#bytes = 0;
    }
    this.#young.set(checksum, [...(this.#young.get(checksum) ?? []), script]);
    this.#count += 1;
    this.#bytes += script.body.length;
  }
}

/** A loop rather than a closure: this runs for every transaction. */
function among(scripts: readonly Script[] | undefined, bytes: Buffer): Script | undefined {
  if (scripts !== undefined) for (const script of scripts) if (script.body.equals(bytes)) return script;
  return undefined;
}
