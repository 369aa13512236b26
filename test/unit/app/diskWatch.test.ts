import { statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DiskWatch } from '../../../src/app/index.js';
import { AbortError, systemClock } from '../../../src/runtime/index.js';
import { atEnd } from '../../support/cleanup.js';
import { eventually, scratchDirectory } from '../../support/program.js';

function watching(path: string): DiskWatch {
  const stop = new AbortController();
  const watch = new DiskWatch({ path }, { clock: systemClock });
  const ended = watch.run(stop.signal);
  atEnd(async () => {
    stop.abort(new AbortError('the test ends'));
    await ended;
  });
  return watch;
}

describe('DiskWatch', () => {
  it('knows nothing before it has looked, then the free space and the weight of the files', async () => {
    const path = scratchDirectory();
    for (let file = 0; file < 100; file += 1) writeFileSync(join(path, `${file}.ldb`), 'x'.repeat(file));
    const watch = watching(path);
    expect([watch.disk(), watch.storeBytes()]).toEqual([undefined, undefined]);
    expect(await eventually(() => watch.storeBytes())).toBe(4_950);
    const { blocks, bsize } = statfsSync(path);
    expect(watch.disk()?.sizeBytes).toBe(blocks * bsize);
    expect(watch.disk()?.freeBytes).toBeGreaterThan(0);
  });

  it('goes on where there is nothing to look at', async () => {
    const path = join(scratchDirectory(), 'none');
    const watch = watching(path);
    await new Promise((resolve) => setImmediate(resolve));
    expect([watch.disk(), watch.storeBytes()]).toEqual([undefined, undefined]);
  });
});
