import { execFileSync } from 'node:child_process';
import { statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';
import { scratchDirectory } from './program.js';

/** A small file system in memory; `undefined` where this user may mount none. It is gone at the end of the test. */
export function smallFileSystem(mib: number) {
  const path = scratchDirectory();
  const mount = (...args: string[]): void => void execFileSync('mount', args, { stdio: 'ignore' });
  try {
    mount('-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', path);
  } catch {
    return undefined;
  }
  atEnd(() => void execFileSync('umount', ['-l', path]));
  const ballast = join(path, 'ballast');
  return {
    path,
    ballast,
    /** Leaves no more than this. */
    fill: (leftBytes = 0): void => {
      try {
        writeFileSync(ballast, Buffer.alloc(mib * 1_048_576));
      } catch {
        truncateSync(ballast, statSync(ballast).size - leftBytes);
      }
    },
    remount: (options: string): void => mount('-o', `remount,${options}`, path),
  };
}
