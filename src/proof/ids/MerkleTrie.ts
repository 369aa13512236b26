import { TaggedBlake2b, TAGS } from './TaggedBlake2b.js';

const ID_BYTES = 32;
const ID_BITS = 8 * ID_BYTES;
/** A trie's leaf holds the index of its id in eight bytes, of which the last four are ever used. */
const VALUE_BYTES = 8;
const PATH_LENGTH_BYTES = 2;
/** Room for this many ids at first. */
const FIRST_CAPACITY = 64;

/** BLAKE2b-256 of nothing, without a key: the root of a list without ids. */
const EMPTY_ROOT = Buffer.from('0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8', 'hex');

/**
 * Merkle roots of lists of ids, as payload hashes hold them: a binary patricia trie from id to index.
 *
 * A node with one branch is not built: the path to the next branch, or to the leaf, is hashed as one short node. So the
 * trie needs no nodes in memory: the ids are split by the first bit in which they differ, and each part hashes itself.
 */
export class MerkleTrie {
  readonly #blake = new TaggedBlake2b();
  #ids: Buffer = EMPTY_ROOT;
  #words = new DataView(this.#ids.buffer);
  /** Indexes of the ids; each part of the trie is a stretch of it. */
  #order = new Uint32Array(FIRST_CAPACITY);
  /** The hashes of leaves by index, of which `#leafCount` are computed: they depend on nothing else. */
  #leaves = Buffer.alloc(FIRST_CAPACITY * ID_BYTES);
  #leafCount = 0;
  /** For each bit at which ids part, the hashes of both sides: bits only grow on the way down. */
  readonly #sides = Buffer.alloc(ID_BITS * 2 * ID_BYTES);

  /**
   * Writes the root of the first `count` ids of `ids`, 32 bytes each, to `target`. False when an id is there twice: then
   * there is no root, as no list with it is told from the list without.
   */
  root(ids: Buffer, count: number, target: Uint8Array, offset: number): boolean {
    if (count === 0) {
      target.set(EMPTY_ROOT, offset);
      return true;
    }
    this.#ids = ids;
    this.#words = new DataView(ids.buffer, ids.byteOffset, ids.byteLength);
    this.#prepare(count);
    return this.#node(0, count, 0, target, offset);
  }

  #prepare(count: number): void {
    if (count > this.#order.length) {
      this.#order = new Uint32Array(2 * count);
      const leaves = Buffer.alloc(2 * count * ID_BYTES);
      this.#leaves.copy(leaves);
      this.#leaves = leaves;
    }
    for (let index = 0; index < count; index++) this.#order[index] = index;
    const { message } = this.#blake;
    for (; this.#leafCount < count; this.#leafCount++) {
      for (let at = 0; at < VALUE_BYTES; at++) {
        message[at] = at < VALUE_BYTES - 4 ? 0 : this.#leafCount >>> (8 * (VALUE_BYTES - 1 - at));
      }
      this.#blake.hash(TAGS.leaf, VALUE_BYTES, this.#leaves, this.#leafCount * ID_BYTES);
    }
  }

  /** Hashes the part of the trie with the ids at `from … to` of the order, which have their first `depth` bits in common. */
  #node(from: number, to: number, depth: number, target: Uint8Array, offset: number): boolean {
    const first = this.#order[from] as number;
    if (to - from === 1) {
      this.#short(first, depth, ID_BITS, this.#leaves, first * ID_BYTES, target, offset);
      return true;
    }
    const bit = this.#firstDifference(from, to, depth);
    if (bit === ID_BITS) return false;
    const middle = this.#split(from, to, bit);
    const sides = this.#sides;
    const left = bit * 2 * ID_BYTES;
    if (!this.#node(from, middle, bit + 1, sides, left)) return false;
    if (!this.#node(middle, to, bit + 1, sides, left + ID_BYTES)) return false;
    const { message } = this.#blake;
    for (let index = 0; index < 2 * ID_BYTES; index++) message[index] = sides[left + index] as number;
    if (bit === depth) {
      this.#blake.hash(TAGS.full, 2 * ID_BYTES, target, offset);
    } else {
      this.#blake.hash(TAGS.full, 2 * ID_BYTES, sides, left);
      this.#short(first, depth, bit, sides, left, target, offset);
    }
    return true;
  }

  /** The first bit in which the ids are not all the same, or the number of bits. */
  #firstDifference(from: number, to: number, depth: number): number {
    const words = this.#words;
    const first = (this.#order[from] as number) * ID_BYTES;
    for (let at = (depth >> 5) << 2; at < ID_BYTES; at += 4) {
      const word = words.getInt32(first + at);
      let difference = 0;
      for (let index = from + 1; index < to; index++) {
        difference |= word ^ words.getInt32((this.#order[index] as number) * ID_BYTES + at);
      }
      if (difference !== 0) return 8 * at + Math.clz32(difference);
    }
    return ID_BITS;
  }

  /** Sorts the ids by one bit; returns where those begin that have it. */
  #split(from: number, to: number, bit: number): number {
    const order = this.#order;
    const mask = 0x80 >> (bit & 7);
    let middle = from;
    for (let index = from; index < to; index++) {
      const id = order[index] as number;
      if (((this.#ids[id * ID_BYTES + (bit >> 3)] as number) & mask) !== 0) continue;
      order[index] = order[middle] as number;
      order[middle++] = id;
    }
    return middle;
  }

  /** Hashes the bits `depth … end` of an id, and the hash of what is below them. Without such bits it is that hash itself. */
  #short(
    id: number,
    depth: number,
    end: number,
    child: Uint8Array,
    childAt: number,
    target: Uint8Array,
    offset: number,
  ): void {
    const ids = this.#ids;
    const { message } = this.#blake;
    const bits = end - depth;
    let position = 0;
    if (bits > 0) {
      message[position++] = bits >> 8;
      message[position++] = bits;
      const shift = depth & 7;
      const last = id * ID_BYTES + ((end - 1) >> 3);
      const after = PATH_LENGTH_BYTES + ((bits + 7) >> 3);
      for (let at = id * ID_BYTES + (depth >> 3); position < after; at++) {
        const next = at < last ? (ids[at + 1] as number) : 0;
        message[position++] = ((ids[at] as number) << shift) | (next >> (8 - shift));
      }
      // The bits of the id that come after the path are none of its own.
      message[after - 1] = (message[after - 1] as number) & (0xff00 >> (((bits - 1) & 7) + 1));
    }
    for (let index = 0; index < ID_BYTES; index++) {
      const byte = child[childAt + index] as number;
      if (bits > 0) message[position++] = byte;
      else target[offset + index] = byte;
    }
    if (bits > 0) this.#blake.hash(TAGS.short, position, target, offset);
  }
}
