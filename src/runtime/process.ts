import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

// Checked here because this module runs first, and the rest of the program does not load in an older Node.js.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  const { node } = process.versions;
  process.stderr.write(`Node.js ${node} is too old: install Node.js 24, or at least 20.19.\n`);
  // The exit code `configuration`; the table is not loaded yet.
  process.exit(78);
}

/** The root of the installed package: the nearest folder above `src/runtime`, or the built files, that has a package.json. */
export const packageRoot: string = findRoot(import.meta.dirname);

function findRoot(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : findRoot(dirname(folder));
}

/** Read at once: an upgrade may replace it while this version runs. */
const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
export const programVersion: string = manifest.version;
export const userAgent: string = `flow-collection-indexer/${programVersion}`;

/** Whether the process or the system has run out of file descriptors, if that is what the error reports. */
export function outOfDescriptors(error: unknown): 'process' | 'system' | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const words = `${'code' in cause ? String(cause.code) : ''} ${cause.message}`;
    if (/\bENFILE\b|Too many open files in system/i.test(words)) return 'system';
    if (/\bEMFILE\b|Too many open files/i.test(words)) return 'process';
  }
  return undefined;
}
