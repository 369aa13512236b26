import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

/** The repository's root. */
export const ROOT = resolve(import.meta.dirname, '../../..');

/** A directory of this run's own, gone when the process ends. */
export const scratch = mkdtempSync(join(tmpdir(), 'fci-bench-'));

const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(scratch, { recursive: true, force: true });
});
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));

/** A Node.js process that is killed with this one. Its standard output is a pipe, and it can be sent messages. */
export function startProcess(
  nodeArguments: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  const child = spawn(process.execPath, nodeArguments, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  children.add(child);
  child.once('exit', () => children.delete(child));
  return child;
}

/** A program in TypeScript, likewise. */
export function startScript(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  return startProcess(['--import', 'tsx', resolve(ROOT, path), ...args], env);
}

/** Calls back with each line of the child's output; resolves when the output ends. */
export async function eachLine(child: ChildProcess, onLine: (line: string) => void): Promise<void> {
  if (child.stdout === null) throw new Error('the child has no output');
  for await (const line of createInterface({ input: child.stdout })) onLine(line);
}
