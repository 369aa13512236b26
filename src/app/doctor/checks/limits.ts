import { readFile } from 'node:fs/promises';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

/** Below this, the daemon ends when a few dozen readers connect (docs/operations.md, Files that may be open). */
const FEW_FILES = 256;
const GOOD_FILES = 4096;

const LIMITS_PATH = '/proc/self/limits';
const OPEN_FILES = /^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)/m;

/** How many files this process may have open; `undefined` if the system does not say. */
export async function openFilesLimit(): Promise<number | undefined> {
  try {
    const [, soft] = OPEN_FILES.exec(await readFile(LIMITS_PATH, 'utf8')) ?? [];
    if (soft === undefined) return undefined;
    return soft === 'unlimited' ? Infinity : Number(soft);
  } catch {
    return undefined;
  }
}

/**
 * Limits that the system sets for the process. Node.js has already raised the soft limits to the hard ones.
 * `maxConnections`: for each of the two ports of the read API.
 */
export function checkLimits(files: number | undefined, maxConnections: number): Finding[] {
  const enough = 2 * maxConnections;
  const good = Math.max(GOOD_FILES, 2 * enough);
  if (files === undefined)
    return [ok(`The system does not say how many files may be open; ${good} are plenty.`)];
  const advice = `raise it to ${good} (ulimit -n ${good}, or LimitNOFILE=${good} of the systemd unit).`;
  if (files < FEW_FILES) {
    return [
      problem(
        'storage',
        `Only ${files} files may be open, but the store, nodes and a few readers need more: ${advice}`,
      ),
    ];
  }
  if (files < enough)
    return [warning(`${files} files may be open, which many readers can use up: ${advice}`)];
  return [ok(`${files === Infinity ? 'Any number of' : files} files may be open.`)];
}
