import { expect, it } from 'vitest';
import { batchedReads } from '../../../src/storage/leveldb/directory/batchedReads.js';

const key = (name: string): Buffer => Buffer.from(name);
const keys = (...names: string[]): Buffer[] => names.map(key);

/** A database whose value for a key is the key in capitals; keys that begin with "no" have none, "bad" cannot be read. */
function database() {
  const asked: string[] = [];
  const getMany = batchedReads((wanted) => {
    const names = wanted.map(String);
    asked.push(names.join(' '));
    if (names.includes('bad')) return Promise.reject(new Error('bad cannot be read'));
    return Promise.resolve(
      names.map((name) => (name.startsWith('no') ? undefined : key(name.toUpperCase()))),
    );
  });
  return { getMany, asked };
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `k${index}`);

it.each<[string, string[][], string[]]>([
  ['as one', [['a', 'none'], ['b'], [], ['a']], ['a none b a']],
  [
    'in parts when they are many',
    [...numbered(32), 'x', 'y'].map((name) => [name]),
    [numbered(32).join(' '), 'x y'],
  ],
])('are put to the database %s, and each gets its own values', async (_, questions, expected) => {
  const { getMany, asked } = database();
  const answers = await Promise.all(questions.map((names) => getMany(keys(...names))));
  const valueOf = (name: string) => (name === 'none' ? undefined : key(name.toUpperCase()));
  expect(answers).toEqual(questions.map((names) => names.map(valueOf)));
  expect(asked).toEqual(expected);
});

it('are answered one by one where one of them cannot be', async () => {
  const { getMany } = database();
  const [a, bad, c] = [keys('a'), keys('b', 'bad'), keys('c')].map((each) => getMany(each));
  await expect(bad).rejects.toThrow('bad cannot be read');
  expect(await Promise.all([a, c])).toEqual([[key('A')], [key('C')]]);
});
