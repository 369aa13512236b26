/** Reads a buffer front to back; after an impossible read `failed` is set and everything reads as 0. */
export class Cursor {
  failed = false;
  readonly #bytes: Buffer;
  #position = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.failed || this.#position >= this.#bytes.length;
  }

  get position(): number {
    return this.#position;
  }

  byte(): number {
    const byte = this.#bytes[this.#position];
    if (byte === undefined) this.failed = true;
    this.#position += 1;
    return byte ?? 0;
  }

  /** At most eight bytes; `maxBytes` where LevelDB accepts fewer. */
  varint(maxBytes = 8): number {
    let value = 0;
    for (let scale = 1; scale < 128 ** maxBytes; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    this.failed = true;
    return 0;
  }

  take(length: number): Buffer {
    const start = this.#position;
    this.skip(length);
    return this.#bytes.subarray(start, start + length);
  }

  skip(length: number): void {
    this.#position += length;
    if (this.#position > this.#bytes.length) this.failed = true;
  }

  little(bytes: number): number {
    let value = 0;
    for (let index = 0; index < bytes; index += 1) value += this.byte() * 2 ** (8 * index);
    return value;
  }
}
