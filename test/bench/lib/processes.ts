import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

export const ROOT = resolve(import.meta.dirname, '../../..');

/** A directory of this run's own, gone when the process ends. */
export const scratch = mkdtempSync(join(tmpdir(), 'fci-bench-'));

export const freshDirectory = (): string => mkdtempSync(join(scratch, 'data-'));

const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(scratch, { recursive: true, force: true });
});
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));

export function owned(child: ChildProcess): ChildProcess {
  children.add(child);
  return child.once('exit', () => children.delete(child));
}

/** A program in TypeScript that is killed with this one. Its standard output is a pipe, and it can be sent messages. */
export function startScript(path: string, args: readonly string[]): ChildProcess {
  const stdio = ['ignore', 'pipe', 'inherit', 'ipc'] as const;
  const script = ['--import', 'tsx', resolve(ROOT, path), ...args];
  return owned(spawn(process.execPath, script, { cwd: ROOT, stdio: [...stdio] }));
}

export function startTask(path: string, task: unknown): ChildProcess {
  return startScript(`test/bench/${path}`, [JSON.stringify(task)]);
}

export const ownTask = (): unknown => JSON.parse(process.argv[2] ?? '{}');

export async function eachLine(child: ChildProcess, onLine: (line: string) => void): Promise<void> {
  if (child.stdout === null) throw new Error('the child has no output');
  for await (const line of createInterface({ input: child.stdout })) onLine(line);
}

/** The first line that it prints: where it can be reached. */
export function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((onFirst, onFailure) => {
    child.once('exit', (code) =>
      onFailure(new Error(`${child.spawnargs.slice(1).join(' ')} ended with ${code}`)),
    );
    void eachLine(child, onFirst);
  });
}
