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
  it.each<[string, string[][], string[]]>([
    ['as one', [['a', 'none'], ['b'], [], ['a']], ['a none b a']],
    ['in several parts when they are many', numbered(70).map((name) => [name]), parts(numbered(70), 32)],
    [
      'without making one longer that is larger than a part',
      [['a'], numbered(40), ['b']],
      ['a', numbered(40).join(' '), 'b'],
    ],
  ])('are put to the database %s, and each gets its own values', async (_, questions, expected) => {
    const { reads, asked } = database();
    const answers = await Promise.all(questions.map((names) => reads.getMany(keys(...names))));
    expect(answers).toEqual(
      questions.map((names) => names.map((name) => (name === 'none' ? undefined : key(name.toUpperCase())))),
    );
    expect(asked).toEqual(expected);
  });

  it('are not put together with those of the next', async () => {
    const { reads, asked } = database();
    const first = reads.getMany(keys('a'));
    await turn();
    const second = reads.getMany(keys('b'));
    expect(await Promise.all([first, second])).toEqual([[key('A')], [key('B')]]);
    expect(asked).toEqual(['a', 'b']);
  });

  it('are answered one by one where one of them cannot be', async () => {
    const { reads } = database();
    const questions = [keys('a'), keys('b', 'bad'), keys('c')];
    expect(await Promise.allSettled(questions.map((each) => reads.getMany(each)))).toEqual([
      { status: 'fulfilled', value: [key('A')] },
      { status: 'rejected', reason: new Error('bad cannot be read') },
      { status: 'fulfilled', value: [key('C')] },
    ]);
  });
});

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `k${index}`);
}

function parts(names: string[], size: number): string[] {
  const starts = Array.from({ length: Math.ceil(names.length / size) }, (_, part) => part * size);
  return starts.map((start) => names.slice(start, start + size).join(' '));
}
