const SLOTS_PER_ENTRY = 2;

interface Generation {
  readonly keys: Float64Array;
  readonly values: Float64Array;
  count: number;
}

/**
 * Maps hash → height for at least the last `entries` hashes, in constant memory: two open-addressed tables of
 * numbers. When the newer one is full it becomes the older one, and the older one's content is dropped. Keys are
 * the first 52 bits of a hash, so callers must check what they find.
 */
export class ReverseIndex {
  readonly #entries: number;
  #newer: Generation;
  #older: Generation;

  constructor(options: { readonly entries: number }) {
    this.#entries = options.entries;
    this.#newer = this.#emptyGeneration();
    this.#older = this.#emptyGeneration();
  }

  /** The hash is the 32 bytes at `offset`. */
  add(hash: Buffer, offset: number, height: number): void {
    this.addNumber(keyOf(hash, offset), height);
  }

  find(hash: Buffer, offset = 0): number | undefined {
    return this.findNumber(keyOf(hash, offset));
  }

  /** Like `add`, for whole numbers below 2^52. */
  addNumber(key: number, height: number): void {
    const slot = findSlot(this.#newer, key + 1);
    if (this.#newer.keys[slot] === 0) {
      this.#newer.count++;
      this.#newer.keys[slot] = key + 1;
    }
    this.#newer.values[slot] = height;
    if (this.#newer.count < this.#entries) return;
    const dropped = this.#older;
    this.#older = this.#newer;
    dropped.keys.fill(0);
    dropped.count = 0;
    this.#newer = dropped;
  }

  findNumber(key: number): number | undefined {
    for (const generation of [this.#newer, this.#older]) {
      const slot = findSlot(generation, key + 1);
      if (generation.keys[slot] !== 0) return generation.values[slot];
    }
    return undefined;
  }

  #emptyGeneration(): Generation {
    const slots = this.#entries * SLOTS_PER_ENTRY;
    return { keys: new Float64Array(slots), values: new Float64Array(slots), count: 0 };
  }
}

/** The slot of a key, or the free slot for it; half of the slots are always free. */
function findSlot({ keys }: Generation, key: number): number {
  let slot = key % keys.length;
  while (keys[slot] !== 0 && keys[slot] !== key) slot = slot + 1 === keys.length ? 0 : slot + 1;
  return slot;
}

function keyOf(hash: Buffer, offset: number): number {
  return hash.readUIntBE(offset, 6) * 16 + ((hash[offset + 6] ?? 0) >> 4);
}
