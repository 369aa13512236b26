import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformSync } from 'esbuild';
import { expect, it } from 'vitest';
import { knownBadSeeds } from './knownBadSeeds.js';
import { planted, plantedBugs } from './plantedBugs.js';
import { Simulation } from './Simulation.js';

/** A sample; `npm run test:simulation -- --seeds 10000` runs more. */
const SEEDS = 6;

const simulation = new Simulation();

const hashes = new Map<number, string>();

it('ends like the fault-free run, whatever goes wrong on the way, each seed on a course of its own', async () => {
  const failures: string[] = [];
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    await simulation.run(seed).then(
      ({ traceHash }) => hashes.set(seed, traceHash),
      (error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        failures.push(`${message}; replay it with: npm run test:simulation -- --seed ${seed} --verbose`);
      },
    );
  }
  expect(failures).toEqual([]);
  expect(new Set(hashes.values()).size).toBe(SEEDS);
});

it('takes the same course each time a seed is run', async () => {
  // Others ran before in the first simulation: what they leave behind must not matter.
  expect((await new Simulation().run(SEEDS)).traceHash).toBe(hashes.get(SEEDS));
});

it('has a place in the sources for every bug that the mutation script plants, and what is planted can be run', () => {
  const sources = join(import.meta.dirname, '../../src');
  for (const bug of plantedBugs) {
    const source = readFileSync(join(sources, bug.file), 'utf8');
    const changed = planted(source, bug);
    expect(changed, bug.name).not.toBe(source);
    expect(() => transformSync(changed, { loader: 'ts' }), bug.name).not.toThrow();
  }
});

it('names a unit test for every bug that it does not reach', () => {
  const held = plantedBugs.flatMap(({ heldBy }) => heldBy ?? []);
  expect(held.length).toBeGreaterThan(0);
  const tests = join(import.meta.dirname, '..');
  for (const { file, test } of held) {
    const own = readFileSync(join(tests, file), 'utf8');
    const suites = [...own.matchAll(/'\.\.\/\.\.\/(support\/storeSuite\/\w+)\.js'/g)].map(([, suite]) =>
      readFileSync(join(tests, `${suite}.ts`), 'utf8'),
    );
    expect([own, ...suites].join(), file).toContain(`'${test}'`);
  }
});

it('passes every seed that failed once and is repaired', async () => {
  for (const { cause, seed } of knownBadSeeds)
    await expect(simulation.run(seed), cause).resolves.toBeDefined();
});
