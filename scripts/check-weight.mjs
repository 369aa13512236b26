// Holds the weight of the house: `npm run lint` fails where a room has more lines than `maxLines` of house.mjs says. The
// numbers only go down, so it fails as well where one is out of date: a room that has lost weight keeps what it lost.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { maxLines } from './house.mjs';

/** Lines that a room may have left before its number has to follow. */
const SLACK = 60;
const root = fileURLToPath(new URL('..', import.meta.url));

function linesOf(path) {
  if (/\.tsx?$/.test(path)) return readFileSync(join(root, path), 'utf8').split('\n').length - 1;
  const entries = readdirSync(join(root, path), { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() || /\.tsx?$/.test(entry.name))
    .reduce((sum, { name }) => sum + linesOf(join(path, name)), 0);
}

const faults = Object.entries(maxLines).flatMap(([path, most]) => {
  const lines = linesOf(path);
  if (lines > most)
    return [`${path} has ${lines} lines, and may have ${most}: what is added has to make room`];
  if (lines < most - SLACK)
    return [`${path} has ${lines} lines: set its number in house.mjs from ${most} to ${lines}`];
  return [];
});
for (const fault of faults) console.error(fault);
process.exitCode = faults.length === 0 ? 0 : 1;
