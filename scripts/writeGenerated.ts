import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';

export const root = join(import.meta.dirname, '..');

/** Writes a file of the repository; with --check, fails instead when the file differs. */
export function writeGenerated(path: string, text: string): void {
  const file = join(root, path);
  if (!process.argv.includes('--check')) {
    writeFileSync(file, text);
  } else if (readFileSync(file, 'utf8') !== text) {
    process.stderr.write(`${path} is stale: run \`npm run docs\`.\n`);
    process.exitCode = 1;
  }
}

export async function writeFormatted(path: string, text: string): Promise<void> {
  const file = join(root, path);
  writeGenerated(path, await format(text, { ...(await resolveConfig(file)), filepath: file }));
}
