import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ReadBatcher } from '../../../src/storage/leveldb/directory/ReadBatcher.js';

const key = (name: string): Buffer => Buffer.from(name);
const keys = (...names: string[]): Buffer[] => names.map(key);

/** A database whose value for a key is the key in capitals; keys that begin with "no" have none, "bad" cannot be read. */
function database() {
  const asked: string[] = [];
  const reads = new ReadBatcher({
    read: (wanted) => {
      const names = wanted.map(String);
      asked.push(names.join(' '));
      if (names.includes('bad')) return Promise.reject(new Error('bad cannot be read'));
      return Promise.resolve(
        names.map((name) => (name.startsWith('no') ? undefined : key(name.toUpperCase()))),
      );
    },
  });
  return { reads, asked };
}

describe('the questions of one turn of the event loop', () => {
  it('are put to the database as one, and each gets its own values', async () => {
    const { reads, asked } = database();
    const answers = await Promise.all([
      reads.getMany(keys('a', 'none')),
      reads.getMany(keys('b')),
      reads.getMany([]),
      reads.getMany(keys('a')),
    ]);
    expect(answers).toEqual([[key('A'), undefined], [key('B')], [], [key('A')]]);
    expect(asked).toEqual(['a none b a']);
  });

  it('are not put together with those of the next', async () => {
    const { reads, asked } = database();
    const first = reads.getMany(keys('a'));
    await turn();
    const second = reads.getMany(keys('b'));
    expect(await Promise.all([first, second])).toEqual([[key('A')], [key('B')]]);
    expect(asked).toEqual(['a', 'b']);
  });

  it('are put in several parts when they are many', async () => {
    const { reads, asked } = database();
    const names = Array.from({ length: 70 }, (_, index) => `k${index}`);
    const answers = await Promise.all(names.map((name) => reads.getMany(keys(name))));
    expect(answers).toEqual(names.map((name) => [key(name.toUpperCase())]));
    expect(asked.map((part) => part.split(' ').length)).toEqual([32, 32, 6]);
  });

  it('do not make one that is larger than a part longer still', async () => {
    const { reads, asked } = database();
    const many = Array.from({ length: 40 }, (_, index) => `k${index}`);
    await Promise.all([reads.getMany(keys('a')), reads.getMany(keys(...many)), reads.getMany(keys('b'))]);
    expect(asked).toEqual(['a', many.join(' '), 'b']);
  });

  it('are answered one by one where one of them cannot be', async () => {
    const { reads } = database();
    const answers = await Promise.allSettled([
      reads.getMany(keys('a')),
      reads.getMany(keys('b', 'bad')),
      reads.getMany(keys('c')),
    ]);
    expect(answers).toEqual([
      { status: 'fulfilled', value: [key('A')] },
      { status: 'rejected', reason: new Error('bad cannot be read') },
      { status: 'fulfilled', value: [key('C')] },
    ]);
  });
});
