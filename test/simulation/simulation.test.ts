import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { knownBadSeeds } from './knownBadSeeds.js';
import { planted, plantedBugs } from './plantedBugs.js';
import { Simulation } from './Simulation.js';

/** A sample; `npm run test:simulation -- --seeds 10000` runs more. */
const SEEDS = 30;

describe('the whole line in a simulated world', () => {
  const simulation = new Simulation();

  it('ends like the fault-free run, whatever goes wrong on the way', async () => {
    const failures: string[] = [];
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      await simulation.run(seed).catch((error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        failures.push(`${message}; replay it with: npm run test:simulation -- --seed ${seed} --verbose`);
      });
    }
    expect(failures).toEqual([]);
  });

  it('takes the same course each time a seed is run', async () => {
    // Others ran before in the first simulation: what they leave behind must not matter.
    const first = simulation;
    const second = new Simulation();
    for (const seed of [1, 42, 1168]) {
      const once = await first.run(seed);
      const again = await second.run(seed);
      expect(again, `seed ${seed}`).toEqual(once);
    }
  });

  it('takes another course for another seed', async () => {
    const hashes = new Set<string>();
    for (let seed = 1; seed <= 4; seed += 1) hashes.add((await simulation.run(seed)).traceHash);
    expect(hashes.size).toBe(4);
  });

  it('has a place in the sources for every bug that the mutation script plants', () => {
    const sources = join(import.meta.dirname, '../../src');
    for (const bug of plantedBugs) {
      const source = readFileSync(join(sources, bug.file), 'utf8');
      expect(planted(source, bug), bug.name).not.toBe(source);
    }
  });

  it('names a unit test for every bug that it does not reach', () => {
    const held = plantedBugs.flatMap(({ heldBy }) => heldBy ?? []);
    expect(held.length).toBeGreaterThan(0);
    for (const { file, test } of held) {
      expect(readFileSync(join(import.meta.dirname, '..', file), 'utf8'), file).toContain(`'${test}'`);
    }
  });

  it('passes every seed that failed once and is repaired', async () => {
    for (const { cause, isFixed, seed } of knownBadSeeds) {
      if (isFixed) await expect(simulation.run(seed), cause).resolves.toBeDefined();
    }
  });
});
