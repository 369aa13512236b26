import { expect, it } from 'vitest';
import { loadParquet } from '../../../src/cli/export/index.js';

const MIB = 1024 * 1024;
/** More than a row group holds. */
const ROWS = 40;

it('gives its bytes away as row groups end, within a block too', async () => {
  const { growParquet } = await loadParquet();
  const column = { name: 'body', type: 'binary', trait: 'scattered' } as const;
  const file = growParquet('bodies', [column], 'none');
  for (let row = 0; row < ROWS; row += 1) file.add([Buffer.alloc(MIB, row)]);
  const taken = file.take()?.length ?? 0;
  expect(taken).toBeGreaterThan(30 * MIB);
  expect(file.take(), 'nothing is given twice').toBeUndefined();
  const rest = file.finish().length;
  expect(rest).toBeGreaterThan(5 * MIB);
  expect(taken + rest).toBeLessThan((ROWS + 1) * MIB);
});
