import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import type { Compression } from '../arguments/flags.js';
import { wrongUse } from '../command.js';

/** Measured on lines of JSON: level 6 takes twice as long for a twentieth fewer bytes. */
export const GZIP_LEVEL = 3;

/** A piece is compressed in one go, not in many steps between rows. */
const CHUNK_BYTES = 512 * 1024;

/** Node.js has these since 22.15 and 23.8. */
interface Zstd {
  readonly createZstdCompress?: (options: { readonly chunkSize: number }) => Transform;
  readonly zstdCompressSync?: (bytes: Uint8Array) => Buffer;
}
const { createZstdCompress, zstdCompressSync }: Zstd = zlib as object;

/** Expected errors: OperatorError `usage` where this Node.js cannot do it. */
export function checkCompression(compression: Compression): void {
  if (compression !== 'zstd' || createZstdCompress !== undefined) return;
  throw wrongUse(
    `--compress zstd needs Node.js 22.15 or newer; this is ${process.version}. Use --compress gzip instead.`,
  );
}

/** Compresses a whole page of bytes; `undefined` for none. Check the compression first. */
export function pageCompressor(compression: Compression): ((bytes: Uint8Array) => Uint8Array) | undefined {
  if (compression === 'gzip') return (bytes) => zlib.gzipSync(bytes, { level: GZIP_LEVEL });
  return compression === 'zstd' ? zstdCompressSync : undefined;
}

/** A stream that compresses; `undefined` for none. Check the compression first. */
export function compressingStream(compression: Compression): Transform | undefined {
  if (compression === 'gzip') return zlib.createGzip({ level: GZIP_LEVEL, chunkSize: CHUNK_BYTES });
  return compression === 'zstd' ? createZstdCompress?.({ chunkSize: CHUNK_BYTES }) : undefined;
}
