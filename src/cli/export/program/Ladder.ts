/** A block that the program was given. */
export interface Rung {
  readonly height: number;
  readonly block_id: string;
}

/** So many of the newest are all kept. */
const NEWEST = 16;
/** Further down, the gaps may be as wide as this share of the way to the newest. */
const WIDEST_GAP = 1 / 4;

/**
 * Some of the blocks given, newest first, ever fewer further down: some sixty of a whole chain. The oldest is always among them. They tell
 * how far to go back when the index was rewound.
 */
export class Ladder {
  #rungs: readonly Rung[];

  constructor(rungs: readonly Rung[] = []) {
    this.#rungs = rungs;
  }

  get rungs(): readonly Rung[] {
    return this.#rungs;
  }

  get newest(): Rung | undefined {
    return this.#rungs[0];
  }

  add(rung: Rung): void {
    const all = [rung, ...this.#rungs];
    const kept: Rung[] = [];
    for (const [index, each] of all.entries()) {
      const above = kept.at(-1);
      const below = all[index + 1];
      const isSpare =
        index >= NEWEST &&
        above !== undefined &&
        below !== undefined &&
        above.height - below.height <= WIDEST_GAP * (rung.height - below.height);
      if (!isSpare) kept.push(each);
    }
    this.#rungs = kept;
  }

  /** Forgets what is above a height. */
  cut(height: number): void {
    this.#rungs = this.#rungs.filter((each) => each.height <= height);
  }
}
