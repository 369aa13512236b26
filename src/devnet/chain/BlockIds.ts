import { sha3 } from '../../flow/index.js';
import { Prng } from './Prng.js';

const TWO_31 = 2_147_483_648;
/** The upper half of (height, fork) stays below this for every safe height. */
const HIGH_WORD_MAX = 0x3f_ffff;
const MEMO_HEIGHTS = 64;

/** The two blocks of a height: the chain's own, and an orphan. */
export type Fork = 'chain' | 'orphan';

/**
 * Maps (seed, chain, height) to block ids and back: 24 bytes of hash, then the height masked by the first 8 bytes.
 * An id therefore gives its height without an index, however long the chain, and only correct ids are accepted.
 */
export class BlockIds {
  readonly #domain: Buffer;
  readonly #maskHigh: number;
  readonly #maskLow: number;
  readonly #memoHeights: number[] = new Array<number>(MEMO_HEIGHTS).fill(-1);
  readonly #memoDigests: Buffer[] = [];

  constructor(options: { readonly seed: number; readonly chainId: string }) {
    this.#domain = sha3(Buffer.from(`devnet chain\n${options.chainId}\n${options.seed}`, 'utf8'));
    this.#maskHigh = this.#domain.readUInt32BE(0);
    this.#maskLow = this.#domain.readUInt32BE(4);
  }

  /** 32 bytes derived from the chain and a name: spork id, node id, phases. */
  derive(name: string): Buffer {
    return sha3(Buffer.concat([this.#domain, Buffer.from(name, 'utf8')]));
  }

  idAt(height: number, fork: Fork = 'chain'): Buffer {
    const id = Buffer.from(fork === 'chain' ? this.#digest(height) : this.#hash(height, fork));
    const { high, low } = position(height, fork);
    id.writeUInt32BE((high ^ id.readUInt32BE(0) ^ this.#maskHigh) >>> 0, 24);
    id.writeUInt32BE((low ^ id.readUInt32BE(4) ^ this.#maskLow) >>> 0, 28);
    return id;
  }

  /** The height and fork of a block id; `undefined` for ids of other chains. */
  locate(id: Buffer): { readonly height: number; readonly fork: Fork } | undefined {
    if (id.length !== 32) return undefined;
    const high = (id.readUInt32BE(24) ^ id.readUInt32BE(0) ^ this.#maskHigh) >>> 0;
    const low = (id.readUInt32BE(28) ^ id.readUInt32BE(4) ^ this.#maskLow) >>> 0;
    if (high > HIGH_WORD_MAX) return undefined;
    const height = high * TWO_31 + (low >>> 1);
    const fork: Fork = low % 2 === 0 ? 'chain' : 'orphan';
    return this.idAt(height, fork).equals(id) ? { height, fork } : undefined;
  }

  /** The random words that determine a height's content; each use has its own `salt`. */
  words(height: number, salt: number): Prng {
    const digest = this.#digest(height);
    return new Prng(
      digest.readUInt32LE(0) ^ Math.imul(salt + 1, 0x9e37_79b1),
      digest.readUInt32LE(8),
      digest.readUInt32LE(16),
      digest.readUInt32LE(24) + salt,
    );
  }

  /** Memoised, because neighbouring heights are hashed again and again. */
  #digest(height: number): Buffer {
    const slot = height % MEMO_HEIGHTS;
    const known = this.#memoDigests[slot];
    if (known !== undefined && this.#memoHeights[slot] === height) return known;
    const digest = this.#hash(height, 'chain');
    this.#memoHeights[slot] = height;
    this.#memoDigests[slot] = digest;
    return digest;
  }

  #hash(height: number, fork: Fork): Buffer {
    const input = Buffer.allocUnsafe(40);
    this.#domain.copy(input);
    const { high, low } = position(height, fork);
    input.writeUInt32BE(high, 32);
    input.writeUInt32BE(low, 36);
    return sha3(input);
  }
}

function position(height: number, fork: Fork): { readonly high: number; readonly low: number } {
  const high = Math.floor(height / TWO_31);
  return { high, low: (height % TWO_31) * 2 + (fork === 'orphan' ? 1 : 0) };
}
