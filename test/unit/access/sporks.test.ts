import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { readSporkTable, sporkOf } from '../../../src/access/index.js';
import { parseSporkTable } from '../../../src/access/pool/sporks/sporkTable.js';
import { refusal } from '../../support/refusal.js';

const shipped = fileURLToPath(new URL('../../../config/sporks.json', import.meta.url));
const parent = 'ab'.repeat(32);

function spork(rootHeight: number, endHeightExclusive: number | null, changes: object = {}): object {
  return {
    ...{ name: `spork${rootHeight}`, rootHeight, endHeightExclusive, rootParentId: parent },
    ...{ accessNodes: ['node:9000'], ...changes },
  };
}

it('the spork table that ships covers mainnet without a gap from its first spork to the live one', async () => {
  const table = await readSporkTable(shipped, 'mainnet');
  expect(table.length).toBeGreaterThan(30);
  for (const [index, { endHeightExclusive }] of table.entries())
    expect(endHeightExclusive).toBe(table[index + 1]?.rootHeight ?? null);
  expect(sporkOf(table, 65_264_619)?.name).toBe('mainnet24');
  expect(sporkOf(table, 65_264_618)?.name).toBe('mainnet23');
  expect(sporkOf(table, 500_000_000)?.accessNodes).toEqual(['access.mainnet.nodes.onflow.org:9000']);
  expect(sporkOf(table, 1_065_710)).toBeUndefined();
});

it('the spork table that ships has the testnet sporks that somebody still serves, and nothing for other networks', async () => {
  const table = await readSporkTable(shipped, 'testnet');
  expect(sporkOf(table, 211_176_670)?.name).toBe('testnet51');
  expect(sporkOf(table, 290_000_000)).toBeUndefined();
  expect(sporkOf(table, 305_778_201)?.endHeightExclusive).toBeNull();
  for (const network of ['emulator', 'toString']) expect(await readSporkTable(shipped, network)).toEqual([]);
});

it('the spork table that ships gives no two roots the same parent, and two of mainnet none', async () => {
  for (const network of ['mainnet', 'testnet']) {
    const table = await readSporkTable(shipped, network);
    const parents = table.flatMap(({ rootParentId }) => rootParentId ?? []);
    expect(new Set(parents).size).toBe(parents.length);
  }
  const mainnet = await readSporkTable(shipped, 'mainnet');
  const unknown = mainnet.filter(({ rootParentId }) => rootParentId === undefined);
  expect(unknown.map(({ name }) => name)).toEqual(['candidate9', 'mainnet5']);
});

it.each<[string, unknown, string]>([
  ['a list', [], 'not an object'],
  ['a network that is no list', { net: {} }, '"net" is not a list'],
  ['an entry that is no object', { net: [7] }, 'net[0] is not an object'],
  ['a missing name', { net: [spork(1, null, { name: undefined })] }, 'net[0].name'],
  ['a root height as text', { net: [spork(1, null, { rootHeight: '1' })] }, 'net[0].rootHeight'],
  ['an end at its root', { net: [spork(5, 5)] }, 'net[0].endHeightExclusive'],
  ['a missing end', { net: [spork(5, null, { endHeightExclusive: undefined })] }, 'endHeightExclusive'],
  ['a short parent id', { net: [spork(5, null, { rootParentId: 'ab' })] }, 'net[0].rootParentId'],
  ['a short root id', { net: [spork(5, null, { rootId: 'ab' })] }, 'net[0].rootId'],
  ['a parent below or not', { net: [spork(5, 6, { rootParentIsBelow: 'no' })] }, 'rootParentIsBelow'],
  ['no nodes', { net: [spork(5, null, { accessNodes: [] })] }, 'net[0].accessNodes'],
  ['a bad node', { net: [spork(5, null, { accessNodes: ['http://x'] })] }, 'net[0].accessNodes'],
  ['an overlap', { net: [spork(5, 10), spork(9, null)] }, '"spork5" overlaps "spork9"'],
  ['a live spork that is not the last', { net: [spork(5, null), spork(9, null)] }, 'overlaps'],
  ['a wrong order', { net: [spork(9, 12), spork(5, 9)] }, 'ascending'],
])('a spork table with %s is refused', (_what, content, message) => {
  const parse = () => parseSporkTable(content, 'net', 'table.json');
  expect(parse).toThrow(expect.objectContaining(refusal('configuration', 'table.json')));
  expect(parse).toThrow(message);
});

it('a spork table has the parents of its roots below them unless it says otherwise, and has to be there', async () => {
  const entries = [spork(5, 10), spork(10, null, { rootParentIsBelow: false })];
  const table = parseSporkTable({ net: entries }, 'net', 'table.json');
  expect(table.map(({ rootParentIsBelow }) => rootParentIsBelow)).toEqual([true, false]);
  const read = readSporkTable('/no/such/table.json', 'net');
  await expect(read).rejects.toMatchObject({ exit: 'configuration' });
});
