import { execFileSync } from 'node:child_process';
import { atEnd } from './cleanup.js';
import { scratchDirectory } from './program.js';

/** A small file system in memory; `undefined` where this user may mount none. It is gone at the end of the test. */
export function smallFileSystem(
  mib: number,
): { readonly path: string; readonly remount: (options: string) => void } | undefined {
  const path = scratchDirectory();
  const mount = (...args: string[]): void => void execFileSync('mount', args, { stdio: 'ignore' });
  try {
    mount('-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', path);
  } catch {
    return undefined;
  }
  atEnd(() => void execFileSync('umount', ['-l', path]));
  return { path, remount: (options) => mount('-o', `remount,${options}`, path) };
}
