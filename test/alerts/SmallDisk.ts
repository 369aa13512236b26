import { execFileSync } from 'node:child_process';
import { closeSync, ftruncateSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from '../support/cleanup.js';
import { demandRoot } from './Stage.js';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
/** So large that an empty one is far from full; the file behind it takes what is written alone. */
const SIZE_BYTES = 4 * GIB;

/** A disk of its own, for one scene: it can be filled, and made to hang. Takes root. */
export class SmallDisk {
  readonly directory: string;
  readonly #mount: string;
  #ballasts = 0;
  #isFrozen = false;

  constructor() {
    demandRoot();
    const scratch = mkdtempSync(join(tmpdir(), 'fci-disk-'));
    const image = join(scratch, 'image');
    this.#mount = join(scratch, 'mount');
    mkdirSync(this.#mount);
    const file = openSync(image, 'w');
    ftruncateSync(file, SIZE_BYTES);
    closeSync(file);
    // Without blocks kept for root, who runs this: what is free is free for all.
    run('mkfs.ext4', '-q', '-m', '0', image);
    run('mount', '-o', 'loop', image, this.#mount);
    this.directory = join(this.#mount, 'data');
    mkdirSync(this.directory, { mode: 0o700 });
    // The first that is registered is the last that is done: nobody uses it any more.
    atEnd(() => {
      this.thaw();
      run('umount', '-l', this.#mount);
      rmSync(scratch, { recursive: true, force: true });
    });
  }

  freeze(): void {
    run('fsfreeze', '--freeze', this.#mount);
    this.#isFrozen = true;
  }

  thaw(): void {
    if (!this.#isFrozen) return;
    run('fsfreeze', '--unfreeze', this.#mount);
    this.#isFrozen = false;
  }

  fillUpTo(freeBytes: number): void {
    const { bavail, bsize } = statfsSync(this.#mount);
    this.fill(bavail * bsize - freeBytes);
  }

  fill(bytes: number): void {
    const wholeBytes = Math.floor(bytes / MIB) * MIB;
    run('fallocate', '--length', String(wholeBytes), join(this.#mount, `ballast-${this.#ballasts++}`));
  }

  empty(): void {
    while (this.#ballasts > 0) rmSync(join(this.#mount, `ballast-${--this.#ballasts}`));
  }
}

function run(command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}
