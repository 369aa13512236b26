import { TaggedBlake2b, TAGS, type Tag } from './TaggedBlake2b.js';

const ID_BYTES = 32;
const ID_BITS = 8 * ID_BYTES;
/** A leaf holds the index of its id in eight bytes, big-endian, of which only the last four are ever used. */
const VALUE_BYTES = 8;
/** How many leaf hashes are kept: they depend on nothing but the index. */
const KEPT_LEAVES = 512;

/** Places in the memory of the hash function. */
const MESSAGE = TaggedBlake2b.FREE_START;
/** Per bit at which ids differ, the message of the node: the hashes of both sides, and zeros. Bits only grow on the way down. */
const SIDES = MESSAGE + TaggedBlake2b.MESSAGE_BYTES;
const ROOT = SIDES + ID_BITS * TaggedBlake2b.MESSAGE_BYTES;
const OTHER_LEAF = ROOT + ID_BYTES;
const LEAVES = OTHER_LEAF + ID_BYTES;

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
  readonly #memory = this.#blake.memory;
  /** How far the message may hold anything but zeros. */
  #usedBytes = 0;
  #keptLeaves = 0;
  #ids: Buffer = EMPTY_ROOT;
  #words: DataView = new DataView(EMPTY_ROOT.buffer);
  /** Indexes of the ids; each part of the trie is a stretch of it. */
  #order = new Uint32Array(KEPT_LEAVES);

  /**
   * Writes the root of the first `count` ids of `ids`, 32 bytes each, to `target`. False if an id is there twice: a root could
   * not distinguish that list from the one without the duplicate.
   */
  root(ids: Buffer, count: number, target: Uint8Array, offset: number): boolean {
    if (count === 0) {
      target.set(EMPTY_ROOT, offset);
      return true;
    }
    if (ids !== this.#ids) {
      this.#ids = ids;
      this.#words = new DataView(ids.buffer, ids.byteOffset, ids.byteLength);
    }
    if (count > this.#order.length) this.#order = new Uint32Array(2 * count);
    for (let index = 0; index < count; index++) this.#order[index] = index;
    if (!this.#node(0, count, 0, ROOT)) return false;
    for (let index = 0; index < ID_BYTES; index++)
      target[offset + index] = this.#memory[ROOT + index] as number;
    return true;
  }

  /** Hashes the part of the trie with the ids at `from … to` of the order, which have their first `depth` bits in common. */
  #node(from: number, to: number, depth: number, target: number): boolean {
    const first = this.#order[from] as number;
    if (to - from === 1) {
      this.#short(first, depth, ID_BITS, this.#leaf(first), target);
      return true;
    }
    const bit = this.#firstDifference(from, to, depth);
    if (bit === ID_BITS) return false;
    const middle = this.#split(from, to, bit);
    const sides = SIDES + bit * TaggedBlake2b.MESSAGE_BYTES;
    if (!this.#node(from, middle, bit + 1, sides)) return false;
    if (!this.#node(middle, to, bit + 1, sides + ID_BYTES)) return false;
    this.#blake.hash(TAGS.full, sides, 2 * ID_BYTES, bit === depth ? target : sides);
    if (bit > depth) this.#short(first, depth, bit, sides, target);
    return true;
  }

  /** Where the hash of a leaf is. */
  #leaf(index: number): number {
    if (index < this.#keptLeaves) return LEAVES + index * ID_BYTES;
    const isNext = index === this.#keptLeaves && index < KEPT_LEAVES;
    if (isNext) this.#keptLeaves++;
    const target = isNext ? LEAVES + index * ID_BYTES : OTHER_LEAF;
    const memory = this.#memory;
    for (let at = 0; at < VALUE_BYTES; at++) {
      memory[MESSAGE + at] = at < VALUE_BYTES - 4 ? 0 : index >>> (8 * (VALUE_BYTES - 1 - at));
    }
    this.#hashMessage(TAGS.leaf, VALUE_BYTES, target);
    return target;
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
  #short(id: number, depth: number, end: number, child: number, target: number): void {
    const memory = this.#memory;
    const bits = end - depth;
    if (bits === 0) {
      memory.copyWithin(target, child, child + ID_BYTES);
      return;
    }
    const ids = this.#ids;
    const shift = depth & 7;
    const last = id * ID_BYTES + ((end - 1) >> 3);
    const pathEnd = MESSAGE + 2 + ((bits + 7) >> 3);
    memory[MESSAGE] = bits >> 8;
    memory[MESSAGE + 1] = bits;
    for (let at = id * ID_BYTES + (depth >> 3), to = MESSAGE + 2; to < pathEnd; at++, to++) {
      const next = at < last ? (ids[at + 1] as number) : 0;
      memory[to] = ((ids[at] as number) << shift) | (next >> (8 - shift));
    }
    // The bits of the id after the path do not belong to it.
    memory[pathEnd - 1] = (memory[pathEnd - 1] as number) & (0xff00 >> (((bits - 1) & 7) + 1));
    for (let index = 0; index < ID_BYTES; index++) memory[pathEnd + index] = memory[child + index] as number;
    this.#hashMessage(TAGS.short, pathEnd + ID_BYTES - MESSAGE, target);
  }

  #hashMessage(tag: Tag, length: number, target: number): void {
    if (this.#usedBytes > length) this.#memory.fill(0, MESSAGE + length, MESSAGE + this.#usedBytes);
    this.#usedBytes = length;
    this.#blake.hash(tag, MESSAGE, length, target);
  }
}
