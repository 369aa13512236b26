import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { decodeBlockMessage } from '../../../src/flow/index.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import { FIRST_HEIGHT, payloadBytes } from './blockEntries.js';

/**
 * Blocks with their verified collections in one file, one after the other: to be made once, before any clock starts, and
 * read by several writers at the cost of copying from the page cache.
 */
const LENGTHS_BYTES = 16;
const FLUSH_BYTES = 8 * 1024 * 1024;

class BlockFileWriter {
  /** Bytes of the collections as a node sends them. */
  payloadBytes = 0;
  readonly #file: number;
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;

  constructor(path: string) {
    this.#file = openSync(path, 'w');
  }

  append(entry: BlockEntry): void {
    const { block, collections } = entry;
    this.payloadBytes += payloadBytes(entry);
    const parts = [block.encoded];
    for (const { encoded, transactionIds, ranges } of collections) {
      parts.push(lengths(encoded.length, transactionIds.length, ranges.byteLength, 0));
      parts.push(
        new Uint8Array(ranges.buffer, ranges.byteOffset, ranges.byteLength),
        transactionIds,
        encoded,
      );
    }
    const total = parts.reduce((sum, { length }) => sum + length, 0);
    this.#push(lengths(total, block.encoded.length, 0, 0), ...parts);
    if (this.#pendingBytes >= FLUSH_BYTES) this.#flush();
  }

  close(): void {
    this.#flush();
    fsyncSync(this.#file);
    closeSync(this.#file);
  }

  #push(...parts: readonly Uint8Array[]): void {
    for (const part of parts) this.#pendingBytes += part.length;
    this.#pending.push(...parts);
  }

  #flush(): void {
    writeSync(this.#file, Buffer.concat(this.#pending));
    this.#pending = [];
    this.#pendingBytes = 0;
  }
}

/** Writes so many blocks from the first height on; answers the bytes of their collections as a node sends them. */
export function writeBlockFile(path: string, heights: number, at: (height: number) => BlockEntry): number {
  const writer = new BlockFileWriter(path);
  for (let index = 0; index < heights; index += 1) writer.append(at(FIRST_HEIGHT + index));
  writer.close();
  return writer.payloadBytes;
}

/** Reads them in order. Each block has memory of its own. */
export class BlockFileReader {
  readonly #file: number;
  readonly #head = Buffer.alloc(LENGTHS_BYTES);

  constructor(path: string) {
    this.#file = openSync(path, 'r');
  }

  next(): BlockEntry {
    this.#read(this.#head);
    const bytes = Buffer.allocUnsafeSlow(this.#head.readUInt32LE(0));
    let at = this.#head.readUInt32LE(4);
    this.#read(bytes);
    const block = decodeBlockMessage(bytes.subarray(0, at));
    const take = (length: number): Buffer => bytes.subarray(at, (at += length));
    const collections = block.collectionIds.map((id) => {
      const head = take(LENGTHS_BYTES);
      const ranges = new Uint32Array(head.readUInt32LE(8) / 4);
      new Uint8Array(ranges.buffer).set(take(ranges.byteLength));
      const transactionIds = take(head.readUInt32LE(4));
      return { id, ranges, transactionIds, encoded: take(head.readUInt32LE(0)) };
    });
    return { block, collections };
  }

  close(): void {
    closeSync(this.#file);
  }

  #read(target: Buffer): void {
    if (readSync(this.#file, target) !== target.length) throw new Error('the file of blocks ends too early');
  }
}

function lengths(...values: readonly [number, number, number, number]): Buffer {
  const result = Buffer.allocUnsafe(LENGTHS_BYTES);
  for (const [place, value] of values.entries()) result.writeUInt32LE(value, 4 * place);
  return result;
}
