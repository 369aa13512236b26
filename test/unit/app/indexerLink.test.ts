import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { callsOver } from '../../../src/app/threads/calls.js';
import { linkIndexer, MAX_QUESTIONS, QUESTION_LIMIT_MS } from '../../../src/app/threads/linkIndexer.js';
import type { IndexerCalls, ReaderState } from '../../../src/app/threads/messages.js';
import { AbortError } from '../../../src/runtime/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

function linked() {
  const clock = new VirtualClock();
  const posted: unknown[] = [];
  const theirs = new EventEmitter();
  const postMessage = (message: unknown): void => void posted.push(message);
  const indexer = callsOver<IndexerCalls>({ postMessage, on: theirs.on.bind(theirs) }, {});
  const link = linkIndexer({ clock, indexer: () => indexer });
  const stop = new AbortController();
  const asked = link.admit('node', { method: 'Some', isStream: true }, stop.signal);
  const answer = (id: number, its: unknown) => theirs.emit('message', { id, answer: its });
  return { answer, asked, clock, link, posted, stop };
}

const ended = (how: string) => [{ call: 'over', args: [1, how] }];

describe('a call that is to be forwarded', () => {
  it('waits for its turn while the indexing thread is heard, and no longer', async () => {
    const { asked, clock, link, posted } = linked();
    let outcome: unknown;
    void asked.then((told) => (outcome = told));
    for (let times = 0; times < 20; times += 1) {
      link.show({} as ReaderState);
      await clock.advance(500);
    }
    expect(outcome).toBeUndefined();
    await clock.advance(2 * QUESTION_LIMIT_MS);
    expect([outcome, posted.slice(1)]).toEqual(['silent', ended('other')]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('makes way for the indexer, also where that is told before anybody listens, and says once that it is over', async () => {
    const { answer, asked, clock, link, posted } = linked();
    answer(1, 'admitted');
    link.makeWay(1);
    const admission = await asked;
    if (typeof admission === 'string') throw new Error(admission);
    let ends = 0;
    admission.onMakeWay(() => (ends += 1));
    expect(ends).toBe(1);
    admission.over('answered');
    admission.over('answered');
    expect([posted.slice(1), clock.pendingTimers]).toEqual([ended('answered'), 0]);
  });

  it('is withdrawn with its caller, and told why not where it may not be sent', async () => {
    const { asked, posted, stop } = linked();
    stop.abort(new AbortError('the caller left'));
    await expect(asked).rejects.toThrow('the caller left');
    expect(posted.slice(1)).toEqual(ended('other'));
    const other = linked();
    other.answer(1, 'busy');
    expect(await other.asked).toBe('busy');
    expect(other.posted).toHaveLength(1);
  });
});

it('a question is refused where too many wait, and given up after its time', async () => {
  const { answer, clock, link } = linked();
  const ask = () => link.momentAt(7);
  const waiting = Array.from({ length: MAX_QUESTIONS }, () => ask().catch(String));
  await expect(ask()).rejects.toMatchObject({ reason: 'busy' });
  await clock.advance(QUESTION_LIMIT_MS);
  expect(new Set(await Promise.all(waiting)).size).toBe(1);
  const answered = ask();
  answer(MAX_QUESTIONS + 2, { durableId: 'id' });
  expect(await answered).toEqual({ durableId: 'id' });
});

it('however many ask for the status, it is made for all of them', async () => {
  const { answer, clock, link, posted } = linked();
  const poll = () => Promise.all(Array.from({ length: 2 * MAX_QUESTIONS }, () => link.status()));
  for (const id of [2, 3]) {
    const answers = poll();
    await clock.advance(20);
    expect(posted.slice(id - 1)).toEqual([{ id, call: 'status', args: [] }]);
    answer(id, { id });
    expect(new Set(await answers)).toEqual(new Set([{ id }]));
  }
});
