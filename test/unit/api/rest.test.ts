import { expect, it } from 'vitest';
import { restBlock } from '../../../src/api/json.js';
import { selectFields } from '../../../src/api/rest/flowRoutes.js';
import { encodeBlock } from '../../../src/flow/index.js';
import { idOf } from '../../support/smallChain.js';

it("Flow's form of a block has an empty signature where the block carries none", () => {
  const bare = { id: idOf('a'), parentId: idOf('b'), height: 1, guarantees: [], signatures: [] };
  const encoded = encodeBlock({ ...bare, timestamp: undefined });
  const { header } = restBlock(encoded, { isExpanded: false, isProven: false, isSealed: false });
  expect(header.parent_voter_signature).toBe('');
});

const value = {
  ...{ id: 'a', header: { id: 'b', height: '1' }, list: [{ x: 1, y: 2 }, { x: 3 }], none: null },
  ...{ words: ['a', 'b'], deep: { er: [{ est: 1, other: 2 }] }, empty: [] },
};

it.each([
  [['id'], { id: 'a' }],
  [['header.height'], { header: { height: '1' } }],
  [['header', 'header.id'], { header: { id: 'b', height: '1' } }],
  [['list.x'], { list: [{ x: 1 }, { x: 3 }] }],
  // As on access nodes: an item without any of the fields takes its list with it.
  [['list.y', 'id'], { id: 'a' }],
  [['none'], { none: null }],
  [['deep.er.est'], { deep: { er: [{ est: 1 }] } }],
  [['words'], { words: ['a', 'b'] }],
  [['nothing'], {}],
  [['id.deeper', 'none.deeper', 'words.a'], {}],
  [['deep.er.nothing', 'header.nothing', 'list.z', 'empty.nothing'], {}],
])('selectFields %j keeps %j, and of a list of those nothing an empty one', (paths, kept) => {
  expect(selectFields(value, paths)).toEqual(kept);
  expect(selectFields([value, value], paths)).toEqual(Object.keys(kept).length === 0 ? [] : [kept, kept]);
});
