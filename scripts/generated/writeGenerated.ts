import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';

export const root = join(import.meta.dirname, '../..');

/** Nothing is written, and what differs is told. */
export const isCheck = process.argv.includes('--check');

/** Writes a file of the repository; in a check the script fails instead where the file differs. */
export function writeGenerated(path: string, text: string): void {
  const file = join(root, path);
  if (!isCheck) {
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
