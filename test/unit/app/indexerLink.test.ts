import { describe, expect, it } from 'vitest';
import { linkIndexer, MAX_QUESTIONS, QUESTION_LIMIT_MS } from '../../../src/app/threads/linkIndexer.js';
import type { FromReader } from '../../../src/app/threads/messages.js';
import { AbortError } from '../../../src/runtime/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

function linked() {
  const clock = new VirtualClock();
  const posted: FromReader[] = [];
  const link = linkIndexer({ clock, post: (message) => posted.push(message) });
  const stop = new AbortController();
  const asked = link.admit('node', { method: 'Some', isStream: true }, stop.signal);
  return { asked, clock, link, posted, stop };
}

describe('a call that is to be forwarded', () => {
  it('waits for its turn while the indexing thread is heard, and no longer', async () => {
    const { asked, clock, link, posted } = linked();
    let outcome: unknown;
    void asked.then((told) => (outcome = told));
    for (let times = 0; times < 20; times += 1) {
      link.receive({ kind: 'scrape' });
      await clock.advance(500);
    }
    expect(outcome).toBeUndefined();
    await clock.advance(2 * QUESTION_LIMIT_MS);
    expect(outcome).toBe('silent');
    expect(posted.slice(1)).toEqual([{ kind: 'over', id: 1, end: 'other' }]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('makes way for the indexer, also where that is told before anybody listens, and says once that it is over', async () => {
    const { asked, clock, link, posted } = linked();
    link.receive({ kind: 'admission', id: 1, outcome: 'admitted' });
    link.receive({ kind: 'makeWay', id: 1 });
    const admission = await asked;
    if (typeof admission === 'string') throw new Error(admission);
    let ends = 0;
    admission.onMakeWay(() => (ends += 1));
    expect(ends).toBe(1);
    admission.over('answered');
    admission.over('answered');
    expect(posted.slice(1)).toEqual([{ kind: 'over', id: 1, end: 'answered' }]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is withdrawn with its caller, and told why not where it may not be sent', async () => {
    const { asked, posted, stop } = linked();
    stop.abort(new AbortError('the caller left'));
    await expect(asked).rejects.toThrow('the caller left');
    expect(posted.slice(1)).toEqual([{ kind: 'over', id: 1, end: 'other' }]);
    const other = linked();
    other.link.receive({ kind: 'admission', id: 1, outcome: 'busy' });
    expect(await other.asked).toBe('busy');
    expect(other.posted).toHaveLength(1);
  });
});

describe('a question', () => {
  it('is refused where too many wait, and given up after its time', async () => {
    const { clock, link } = linked();
    const waiting = Array.from({ length: MAX_QUESTIONS }, () => link.status().catch(String));
    await expect(link.status()).rejects.toMatchObject({ reason: 'busy' });
    await clock.advance(QUESTION_LIMIT_MS);
    expect(new Set(await Promise.all(waiting)).size).toBe(1);
    const answered = link.naming('id' as never);
    link.receive({ kind: 'answer', id: MAX_QUESTIONS + 2, answer: { kind: 'block', height: 7 } });
    expect(await answered).toEqual({ kind: 'block', height: 7 });
  });
});
