import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The root of the installed package: two folders up, from `src/runtime` as from `dist/runtime`. */
export const packageRoot = join(import.meta.dirname, '..', '..');

/** The program's version, from its package.json. */
export function programVersion(): string {
  const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  return manifest.version;
}
