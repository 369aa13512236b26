import { varint } from './levelFiles.js';

/** How a text is to be compressed. */
export interface SnappyMake {
  /** Bytes that each literal's length takes: 0 stands in the tag, and allows for 60 bytes. */
  readonly lengthBytes: 0 | 1 | 2 | 4;
  /** The kind of copy that is used where bytes repeat; none without it. */
  readonly copies?: 1 | 2 | 3;
}

/** The longest copy that all kinds can tell, and the shortest. */
const COPY = { most: 11, least: 4, furthest: 2047 };

/** Snappy's raw format, made in the ways that the format allows rather than in the shortest. */
export function snappyOf(contents: Buffer, { lengthBytes, copies }: SnappyMake): Buffer {
  const parts: Buffer[] = [varint(contents.length)];
  let pending = 0;
  const literal = (end: number): void => {
    const most = lengthBytes === 0 ? 60 : 256;
    for (let at = end - pending; at < end; at += most) {
      const bytes = contents.subarray(at, Math.min(at + most, end));
      parts.push(literalTag(bytes.length - 1, lengthBytes), bytes);
    }
    pending = 0;
  };
  for (let at = 0; at < contents.length;) {
    const found = copies === undefined ? undefined : repeatAt(contents, at);
    if (found === undefined || copies === undefined) {
      pending += 1;
      at += 1;
      continue;
    }
    literal(at);
    parts.push(copyTag(found.length, found.back, copies));
    at += found.length;
  }
  literal(contents.length);
  return Buffer.concat(parts);
}

function literalTag(length: number, lengthBytes: SnappyMake['lengthBytes']): Buffer {
  if (lengthBytes === 0) return Buffer.of(length << 2);
  const tag = Buffer.alloc(1 + lengthBytes);
  tag[0] = (59 + lengthBytes) << 2;
  tag.writeUIntLE(length, 1, lengthBytes);
  return tag;
}

function copyTag(length: number, back: number, kind: 1 | 2 | 3): Buffer {
  if (kind === 1) return Buffer.of(1 | ((length - 4) << 2) | ((back >> 8) << 5), back & 0xff);
  const bytes = kind === 2 ? 2 : 4;
  const tag = Buffer.alloc(1 + bytes);
  tag[0] = kind | ((length - 1) << 2);
  tag.writeUIntLE(back, 1, bytes);
  return tag;
}

function repeatAt(
  contents: Buffer,
  at: number,
): { readonly length: number; readonly back: number } | undefined {
  for (let length = Math.min(COPY.most, contents.length - at); length >= COPY.least; length -= 1) {
    const from = contents.subarray(0, at).lastIndexOf(contents.subarray(at, at + length));
    if (from >= 0 && at - from <= COPY.furthest) return { length, back: at - from };
  }
  return undefined;
}

/** The way back. */
export function unsnappyOf(compressed: Buffer): Buffer {
  let at = 0;
  const output: number[] = [];
  while ((compressed[at++] ?? 0) >= 128);
  while (at < compressed.length) {
    const tag = compressed.readUInt8(at++);
    const kind = tag & 3;
    if (kind === 0) {
      const lengthBytes = Math.max(0, (tag >> 2) - 59);
      const length = (lengthBytes === 0 ? tag >> 2 : compressed.readUIntLE(at, lengthBytes)) + 1;
      at += lengthBytes;
      output.push(...compressed.subarray(at, at + length));
      at += length;
      continue;
    }
    const bytes = kind === 3 ? 4 : kind;
    const low = compressed.readUIntLE(at, bytes);
    const back = kind === 1 ? low + ((tag >> 5) << 8) : low;
    const length = kind === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    at += bytes;
    for (let index = 0; index < length; index += 1) output.push(output.at(-back) ?? 0);
  }
  return Buffer.from(output);
}
