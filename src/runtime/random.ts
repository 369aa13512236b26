/** Randomness as a dependency: jitter in production, a seeded sequence in simulation. */
export interface Random {
  /** A number in [0, 1). */
  next(): number;
}

export const systemRandom: Random = { next: () => Math.random() };
