import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

const gzipped = promisify(gzip);

/** Below this, an answer is sent as it is. */
const COMPRESSED_FROM_BYTES = 16 * 1024;
/** At once. Compression runs in the threads that also serve the store, and one of them is all it may have. */
const MAX_COMPRESSING = 1;
/** The cheapest: the processor is wanted elsewhere. */
const LEVEL = 1;
const CHUNK_BYTES = 64 * 1024;

/** Compresses large answers for callers who take gzip, off the event loop. What finds it busy is sent as it is. */
export class Compressor {
  #compressing = 0;

  /** `undefined` when the answer is to be sent as it is. */
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

/** True when the caller names gzip, or everything, with a weight above 0. */
function acceptsGzip(acceptEncoding: string | undefined): boolean {
  const weights = new Map<string, number>();
  for (const item of (acceptEncoding ?? '').split(',')) {
    const [coding = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(coding, weight === undefined ? 1 : Number(weight.slice('q='.length)));
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}
