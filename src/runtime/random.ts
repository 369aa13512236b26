/** Randomness as a dependency: jitter in production, a seeded sequence in simulation. */
export interface Random {
  /** A number in [0, 1). */
  next(): number;
}

/** The machine's own randomness. */
export const systemRandom: Random = { next: () => Math.random() };

/** A deterministic generator (mulberry32): the same seed gives the same sequence on every machine. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return {
    next: () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = state;
      mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
    },
  };
}
