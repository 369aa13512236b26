import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

const gzipped = promisify(gzip);

/** Smaller responses are sent uncompressed. */
const COMPRESSED_FROM_BYTES = 16 * 1024;
/** Concurrent compressions. They run in the threads that also read the store. */
const MAX_COMPRESSING = 1;
/** The cheapest. */
const LEVEL = 1;
const CHUNK_BYTES = 64 * 1024;

/** Compresses large responses for callers who accept gzip. While it is busy, others are sent uncompressed. */
export class Compressor {
  #compressing = 0;

  /** `undefined` when the text should be sent uncompressed. */
  async compress(text: string, acceptEncoding: string | undefined): Promise<Buffer | undefined> {
    if (text.length < COMPRESSED_FROM_BYTES || !acceptsGzip(acceptEncoding)) return undefined;
    if (this.#compressing >= MAX_COMPRESSING) return undefined;
    this.#compressing += 1;
    try {
      return await gzipped(text, { level: LEVEL, chunkSize: CHUNK_BYTES });
    } finally {
      this.#compressing -= 1;
    }
  }
}

/** True when the caller names gzip, or `*`, with a weight above 0. */
function acceptsGzip(acceptEncoding = ''): boolean {
  const weights = new Map<string, number>();
  for (const item of acceptEncoding.split(',')) {
    const [coding = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice('q='.length)));
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}
