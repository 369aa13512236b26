import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

// Here, because nothing of the program runs before this, and what it is made of does not load in an older Node.js.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  const { node } = process.versions;
  process.stderr.write(`Node.js ${node} is too old: install Node.js 24, or at least 20.19.\n`);
  // `configuration` among the exit codes, which are not loaded yet.
  process.exit(78);
}

/** The root of the installed package: the nearest parent folder with a package.json, of `src/runtime` or the built files. */
export const packageRoot: string = findRoot(import.meta.dirname);

function findRoot(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : findRoot(dirname(folder));
}

/** Read at once: an upgrade may replace it while this version runs. */
const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
export const programVersion: string = manifest.version;
export const userAgent: string = `flow-collection-indexer/${programVersion}`;

/** Who has no file descriptor left, if that is what an error says. */
export function outOfDescriptors(error: unknown): 'process' | 'system' | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const words = `${'code' in cause ? String(cause.code) : ''} ${cause.message}`;
    if (/\bENFILE\b|Too many open files in system/i.test(words)) return 'system';
    if (/\bEMFILE\b|Too many open files/i.test(words)) return 'process';
  }
  return undefined;
}
