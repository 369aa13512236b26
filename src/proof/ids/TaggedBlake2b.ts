const BLOCK_BYTES = 128;
const HASH_BYTES = 32;
/** What distinguishes the hashes of a Merkle trie: the one byte of the key. */
export const TAGS = { leaf: 0, full: 1, short: 2 } as const;
export type Tag = (typeof TAGS)[keyof typeof TAGS];

const STATE_WORDS = 16;
/** First word of the parameter block: sequential mode, a key of one byte, a hash of 32. */
const PARAMETERS = 0x01010120;

/** The initial state, as pairs of 32 bits, the lower first: the fractions of the square roots of 2, 3, 5, 7, 11, 13, 17, 19. */
const INITIAL: readonly number[] = [
  ...[0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a],
  ...[0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19],
];

/** Which message words each round takes. The last two rounds take those of the first two. */
const SCHEDULE: readonly (readonly number[])[] = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const ROUNDS = Uint8Array.from([...SCHEDULE, ...SCHEDULE.slice(0, 2)].flat(), (word) => 2 * word);

/**
 * BLAKE2b-256 of messages of at most one block, keyed with a tag of one byte. A key fills a block of its own; the state
 * after it is computed once per tag, so that a hash takes one compression.
 *
 * Write the message to the front of `message`, then call `hash`.
 */
export class TaggedBlake2b {
  readonly message = new Uint8Array(BLOCK_BYTES);
  readonly #words = new DataView(this.message.buffer);
  /** How far the message block may hold anything but zeros. */
  #usedBytes = BLOCK_BYTES;
  readonly #keyed: readonly Int32Array[];
  /** Of a compression: the state, the working vector, and the message, as pairs of 32 bits. */
  readonly #state = new Int32Array(STATE_WORDS);
  readonly #v = new Int32Array(2 * STATE_WORDS);
  readonly #m = new Int32Array(2 * STATE_WORDS);

  constructor() {
    this.#keyed = Object.values(TAGS).map((tag) => {
      this.message.fill(0);
      this.message[0] = tag;
      this.#state.set(INITIAL);
      this.#state[0] = (this.#state[0] as number) ^ PARAMETERS;
      this.#compress(BLOCK_BYTES, 0);
      return this.#state.slice();
    });
  }

  /** Writes the hash of the first `length` bytes of `message` to `target`. */
  hash(tag: Tag, length: number, target: Uint8Array, offset: number): void {
    if (this.#usedBytes > length) this.message.fill(0, length, this.#usedBytes);
    this.#usedBytes = length;
    const state = this.#state;
    state.set(this.#keyed[tag] as Int32Array);
    this.#compress(BLOCK_BYTES + length, -1);
    for (let index = 0; index < HASH_BYTES; index++) {
      target[offset + index] = (state[index >> 2] as number) >>> (8 * (index & 3));
    }
  }

  /** `counted` are the bytes so far, this block's included; `last` is -1 in the last block, else 0. */
  #compress(counted: number, last: number): void {
    const state = this.#state;
    const v = this.#v;
    const m = this.#m;
    for (let index = 0; index < 2 * STATE_WORDS; index++) m[index] = this.#words.getInt32(4 * index, true);
    v.set(state);
    v.set(INITIAL, STATE_WORDS);
    v[24] = (v[24] as number) ^ counted;
    v[28] = (v[28] as number) ^ last;
    v[29] = (v[29] as number) ^ last;
    for (let at = 0; at < ROUNDS.length; at += 16) {
      mix(v, m, 0, 8, 16, 24, at);
      mix(v, m, 2, 10, 18, 26, at + 2);
      mix(v, m, 4, 12, 20, 28, at + 4);
      mix(v, m, 6, 14, 22, 30, at + 6);
      mix(v, m, 0, 10, 20, 30, at + 8);
      mix(v, m, 2, 12, 22, 24, at + 10);
      mix(v, m, 4, 14, 16, 26, at + 12);
      mix(v, m, 6, 8, 18, 28, at + 14);
    }
    for (let index = 0; index < STATE_WORDS; index++) {
      state[index] = (state[index] as number) ^ (v[index] as number) ^ (v[index + STATE_WORDS] as number);
    }
  }
}

/** The mixing of four 64-bit words, given by where their pairs stand, with the message words that the round takes at `at`. */
function mix(v: Int32Array, m: Int32Array, a: number, b: number, c: number, d: number, at: number): void {
  const x = ROUNDS[at] as number;
  const y = ROUNDS[at + 1] as number;
  let bLow = v[b] as number;
  let bHigh = v[b + 1] as number;
  let low = ((v[a] as number) >>> 0) + (bLow >>> 0) + ((m[x] as number) >>> 0);
  let aHigh = ((v[a + 1] as number) + bHigh + (m[x + 1] as number) + ((low / 0x1_0000_0000) | 0)) | 0;
  let aLow = low | 0;
  // d = (d ^ a) rotated by 32 bits
  let dHigh = (v[d] as number) ^ aLow;
  let dLow = (v[d + 1] as number) ^ aHigh;
  low = ((v[c] as number) >>> 0) + (dLow >>> 0);
  let cHigh = ((v[c + 1] as number) + dHigh + ((low / 0x1_0000_0000) | 0)) | 0;
  let cLow = low | 0;
  // b = (b ^ c) rotated by 24 bits
  let xorLow = bLow ^ cLow;
  let xorHigh = bHigh ^ cHigh;
  bLow = (xorLow >>> 24) | (xorHigh << 8);
  bHigh = (xorHigh >>> 24) | (xorLow << 8);
  low = (aLow >>> 0) + (bLow >>> 0) + ((m[y] as number) >>> 0);
  aHigh = (aHigh + bHigh + (m[y + 1] as number) + ((low / 0x1_0000_0000) | 0)) | 0;
  aLow = low | 0;
  // d = (d ^ a) rotated by 16 bits
  xorLow = dLow ^ aLow;
  xorHigh = dHigh ^ aHigh;
  dLow = (xorLow >>> 16) | (xorHigh << 16);
  dHigh = (xorHigh >>> 16) | (xorLow << 16);
  low = (cLow >>> 0) + (dLow >>> 0);
  cHigh = (cHigh + dHigh + ((low / 0x1_0000_0000) | 0)) | 0;
  cLow = low | 0;
  // b = (b ^ c) rotated by 63 bits
  xorLow = bLow ^ cLow;
  xorHigh = bHigh ^ cHigh;
  v[b] = (xorLow << 1) | (xorHigh >>> 31);
  v[b + 1] = (xorHigh << 1) | (xorLow >>> 31);
  v[a] = aLow;
  v[a + 1] = aHigh;
  v[c] = cLow;
  v[c + 1] = cHigh;
  v[d] = dLow;
  v[d + 1] = dHigh;
}
