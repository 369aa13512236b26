import { createRequire } from 'node:module';
import type * as Blake2 from '@noble/hashes/blake2.js';

/** Loads a package that few need, on demand. */
const load = createRequire(import.meta.url);

/** What distinguishes the hashes of a Merkle trie: the one byte of the key. */
export const TAGS = { leaf: 0, full: 1, short: 2 } as const;
export type Tag = (typeof TAGS)[keyof typeof TAGS];

const BLOCK_BYTES = 128;
const STATE_WORDS = 8;
const WORD_BYTES = 8;
const STATE_BYTES = STATE_WORDS * WORD_BYTES;

/** The initial state: the fractions of the square roots of 2, 3, 5, 7, 11, 13, 17 and 19. */
const INITIAL: readonly bigint[] = [
  ...[0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n],
  ...[0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n],
];
/** First word of the parameter block: sequential mode, a key of one byte, a hash of 32. */
const PARAMETERS = 0x01010120n;

/** Which message words each round takes, as hexadecimal digits. The last two rounds take those of the first two. */
const SCHEDULE = [
  ...['0123456789abcdef', 'ea489fd61c02b753', 'b8c052fdae367194', '7931dcbe265a40f8', '905724afe1bc683d'],
  ...['2c6a0b834d75fe19', 'c51fed4a0763928b', 'db7ec13950f4862a', '6fe9b308c2d714a5', 'a2847615fb9e3cd0'],
  ...['0123456789abcdef', 'ea489fd61c02b753'],
];
/** The words that the eight steps of a round mix: the columns of a square, then its diagonals. */
const STEPS = ['048c', '159d', '26ae', '37bf', '05af', '16bc', '278d', '349e'];

const ROUND_WORDS = 16;

/** Places in the memory of the compiled part. There is a keyed state per tag; the schedule takes a byte per word. */
const AT = { initial: 0, keyed: 64, schedule: 256, free: 512 } as const;

/**
 * BLAKE2b-256 of messages of at most one block, keyed with a tag of one byte. A key fills a block of its own; the state
 * after it is computed once per tag, so that a hash takes one compression.
 *
 * Messages and hashes are places in `memory`, from `FREE_START` on; all places are multiples of 8.
 */
export class TaggedBlake2b {
  static readonly MESSAGE_BYTES = BLOCK_BYTES;
  static readonly FREE_START = AT.free;
  readonly memory: Uint8Array;
  readonly #compress: Compression['compress'] | undefined;

  constructor() {
    const compiled = compiledPart();
    const memory = compiled?.memory.buffer ?? new ArrayBuffer(64 * 1024);
    this.memory = new Uint8Array(memory);
    this.#compress = compiled?.compress;
    if (compiled === undefined) return;
    const words = new DataView(memory);
    for (const [word, value] of INITIAL.entries()) {
      words.setBigUint64(AT.initial + WORD_BYTES * word, word === 0 ? value ^ PARAMETERS : value, true);
    }
    const schedule = SCHEDULE.flatMap((round) => digits(round).map((word) => WORD_BYTES * word));
    this.memory.set(schedule, AT.schedule);
    for (const tag of Object.values(TAGS)) {
      this.memory[AT.free] = tag;
      compiled.compress(AT.initial, AT.free, BLOCK_BYTES, 0, AT.keyed + STATE_BYTES * tag);
    }
    this.memory[AT.free] = 0;
  }

  /**
   * Hashes the first `length` bytes, at least one, of the block at `message`, the others of which are zeros. The hash is
   * written to `target`.
   */
  hash(tag: Tag, message: number, length: number, target: number): void {
    if (this.#compress === undefined) {
      const { blake2b } = load('@noble/hashes/blake2.js') as typeof Blake2;
      const bytes = this.memory.subarray(message, message + length);
      this.memory.set(blake2b(bytes, { key: Uint8Array.of(tag), dkLen: 32 }), target);
    } else this.#compress(AT.keyed + STATE_BYTES * tag, message, BLOCK_BYTES + length, -1, target);
  }
}

/** What the compiled part exports. `compress` mixes a message into the state at `from`. */
interface Compression {
  readonly memory: { readonly buffer: ArrayBuffer };
  /**
   * `counted`: the bytes hashed with this block. `last`: -1 in the last block, of which the first half of the state is
   * written, the hash; else 0.
   */
  readonly compress: (from: number, message: number, counted: number, last: number, target: number) => void;
}

/** What is used of WebAssembly, which Node's types do not declare; Node.js has none with `--jitless`. */
declare const WebAssembly:
  | undefined
  | {
      readonly Module: new (code: Uint8Array) => object;
      readonly Instance: new (module: object) => { readonly exports: Compression };
    };

/** `undefined` without WebAssembly, or without room for its memory, around which it reserves some 10 GB of address space. */
function compiledPart(): Compression | undefined {
  if (typeof WebAssembly === 'undefined') return undefined;
  const compression = new WebAssembly.Module(compressionModule());
  try {
    return new WebAssembly.Instance(compression).exports;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Instructions of WebAssembly, and its types of numbers. */
const OP = {
  loop: 0x03,
  if: 0x04,
  end: 0x0b,
  branchIf: 0x0d,
  get: 0x20,
  set: 0x21,
  tee: 0x22,
  load: 0x29,
  loadByte: 0x2d,
  store: 0x37,
  i32: 0x41,
  i64: 0x42,
  i32IsZero: 0x45,
  i32NotEqual: 0x47,
  i32Add: 0x6a,
  add: 0x7c,
  xor: 0x85,
  rotateRight: 0x8a,
  fromSigned: 0xac,
  fromUnsigned: 0xad,
} as const;
const I32 = 0x7f;
const I64 = 0x7e;
const NO_RESULT = 0x40;

/**
 * BLAKE2b's compression as a WebAssembly module, written out here instruction by instruction: JavaScript has no 64-bit
 * integers, and takes some ten times as long. Locals: the five arguments, the sixteen words, and where the schedule of
 * the round stands.
 */
function compressionModule(): Uint8Array {
  const code: number[] = [];
  const [from, message, counted, last, target] = [0, 1, 2, 3, 4] as const;
  const local = (word: number): number => 5 + word;
  const schedule = local(2 * STATE_WORDS);
  /** Sets a word to what the operation makes of it and of the operand. */
  const change = (word: number, op: number, ...operand: readonly number[]): void => {
    code.push(OP.get, local(word), ...operand, op, OP.set, local(word));
  };
  const scheduled = (place: number): number[] => [
    ...[OP.get, schedule, OP.loadByte, 0, place, OP.get, message, OP.i32Add, OP.load, 3, 0],
  ];
  const finish = (word: number): void => {
    code.push(OP.get, target, OP.get, from, OP.load, 3, WORD_BYTES * word, OP.get, local(word), OP.xor);
    code.push(OP.get, local(STATE_WORDS + word), OP.xor, OP.store, 3, WORD_BYTES * word);
  };

  for (let word = 0; word < STATE_WORDS; word++) {
    code.push(OP.get, from, OP.load, 3, WORD_BYTES * word, OP.set, local(word));
    code.push(OP.i64, ...signed(INITIAL[word] ?? 0n), OP.set, local(STATE_WORDS + word));
  }
  change(12, OP.xor, OP.get, counted, OP.fromUnsigned);
  change(14, OP.xor, OP.get, last, OP.fromSigned);
  code.push(OP.i32, ...signed(BigInt(AT.schedule)), OP.set, schedule, OP.loop, NO_RESULT);
  for (const [index, step] of STEPS.entries()) {
    const [a = 0, b = 0, c = 0, d = 0] = digits(step);
    for (const [place, first, second] of [
      [2 * index, 32n, 24n] as const,
      [2 * index + 1, 16n, 63n] as const,
    ]) {
      change(a, OP.add, OP.get, local(b));
      change(a, OP.add, ...scheduled(place));
      change(d, OP.xor, OP.get, local(a));
      change(d, OP.rotateRight, OP.i64, ...signed(first));
      change(c, OP.add, OP.get, local(d));
      change(b, OP.xor, OP.get, local(c));
      change(b, OP.rotateRight, OP.i64, ...signed(second));
    }
  }
  code.push(OP.get, schedule, OP.i32, ROUND_WORDS, OP.i32Add, OP.tee, schedule);
  code.push(OP.i32, ...signed(BigInt(AT.schedule + ROUND_WORDS * SCHEDULE.length)), OP.i32NotEqual);
  code.push(OP.branchIf, 0, OP.end);
  for (let word = 0; word < 4; word++) finish(word);
  code.push(OP.get, last, OP.i32IsZero, OP.if, NO_RESULT);
  for (let word = 4; word < STATE_WORDS; word++) finish(word);
  code.push(OP.end, OP.end);
  const body = [2, 2 * STATE_WORDS, I64, 1, I32, ...code];
  return Uint8Array.from([
    ...[...Buffer.from('\0asm'), 1, 0, 0, 0],
    // One type, of five numbers to nothing; one function of that type; one page of memory; two exports; the code.
    ...section(1, [1, 0x60, 5, I32, I32, I32, I32, I32, 0]),
    ...section(3, [1, 0]),
    ...section(5, [1, 1, 1, 1]),
    ...section(7, [2, ...name('compress'), 0, 0, ...name('memory'), 2, 0]),
    ...section(10, [1, ...unsigned(body.length), ...body]),
  ]);
}

function digits(text: string): number[] {
  return Array.from(text, (digit) => parseInt(digit, 16));
}

function section(id: number, content: readonly number[]): number[] {
  return [id, ...unsigned(content.length), ...content];
}

function name(text: string): number[] {
  return [text.length, ...Buffer.from(text)];
}

/** Numbers as WebAssembly writes them: seven bits a byte, the lowest first. */
function unsigned(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)];
}

/** The same for a 64-bit constant, whose last byte also carries the sign. */
function signed(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = BigInt.asIntN(64, value);
  for (; rest < -0x40n || rest >= 0x40n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return [...bytes, Number(rest & 0x7fn)];
}
