import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Outcome } from '../support/campaign.js';

/** The rooms whose tests are measured themselves, by planted bugs and by coverage. */
export const MEASURED: readonly string[] = ['jobqueue', 'collections', 'storage', 'proof'];

/** Of lines, and of branches, that the unit and integration tests must take in each of them. */
export const LEAST_PERCENT = 95;

export interface RoomCoverage {
  readonly room: string;
  readonly lines: number;
  readonly branches: number;
}

export interface PlantedBug {
  readonly name: string;
  /** The seeds of the simulation that it took to find it; `null`: none did. */
  readonly seeds: number | null;
  /** Below `test/`: the unit test that found it where no seed did; `null`: none did. */
  readonly heldBy: string | null;
}

/** The last run of each proof: what docs/reliability.md is written from. */
export interface Results {
  readonly outcomes: Readonly<Record<string, Outcome & { readonly date: string; readonly seconds: number }>>;
  readonly plantedBugs: readonly PlantedBug[];
  readonly coverage: readonly RoomCoverage[];
}

const docs = join(import.meta.dirname, '../../docs');
const resultsPath = join(docs, 'reliability.results.json');

export const pagePath = join(docs, 'reliability.md');

export function readResults(): Results {
  const known = existsSync(resultsPath)
    ? (JSON.parse(readFileSync(resultsPath, 'utf8')) as Partial<Results>)
    : {};
  return { outcomes: {}, plantedBugs: [], coverage: [], ...known };
}

export function writeResults(results: Results): void {
  writeFileSync(resultsPath, `${JSON.stringify(results, null, 2)}\n`);
}
