import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const program = fileURLToPath(new URL('../../support/chattyProgram.ts', import.meta.url));

/** Runs a process that logs many lines to a pipe and then exits at once. */
function run(format: 'json' | 'pretty', lines: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', 'tsx', program, format, String(lines)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('error', reject);
    child.on('close', () => resolve(Buffer.concat(chunks).toString('utf8')));
  });
}

describe('the default destination', () => {
  it.each(['json', 'pretty'] as const)('loses no %s line when the process exits at once', async (format) => {
    const output = await run(format, 5000);
    const lines = output.trimEnd().split('\n');
    expect(lines).toHaveLength(5000);
    expect(lines.at(-1)).toContain('4999');
  });
});
