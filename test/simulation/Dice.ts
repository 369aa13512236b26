import type { Random } from '../../src/runtime/index.js';
import { seededRandom } from '../support/seededRandom.js';

/** Chance of one purpose: what is drawn for one part of the world does not shift what another part draws. */
export class Dice {
  readonly random: Random;

  constructor(seed: number, purpose: string) {
    let hash = 0x811c_9dc5 ^ seed;
    for (let at = 0; at < purpose.length; at++) hash = Math.imul(hash ^ purpose.charCodeAt(at), 0x0100_0193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b_3c6d);
    this.random = seededRandom((hash ^ (hash >>> 13)) >>> 0);
    this.random.next();
  }

  chance(probability: number): boolean {
    return this.random.next() < probability;
  }

  whole(min: number, max: number): number {
    return min + Math.floor(this.random.next() * (max - min + 1));
  }

  pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.random.next() * values.length)]!;
  }

  /** Mostly near `min`, sometimes near `max`: each order of magnitude is equally likely. */
  magnitude(min: number, max: number): number {
    return min * (max / min) ** this.random.next();
  }
}
