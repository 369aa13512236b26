import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The root of the installed package: the nearest parent folder with a package.json, of `src/runtime` or the built files. */
export const packageRoot = findRoot(import.meta.dirname);

function findRoot(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : findRoot(dirname(folder));
}

/** The program's version, from its package.json. */
export function programVersion(): string {
  const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  return manifest.version;
}
