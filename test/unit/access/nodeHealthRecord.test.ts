import { beforeEach, describe, expect, it } from 'vitest';
import { Attempts, NodeTroubles, type AccessNode } from '../../../src/access/index.js';
import { inOrderOfAsking, NodeHealthRecord } from '../../../src/access/selection/NodeHealthRecord.js';
import { VirtualClock } from '../../support/virtualClock.js';

let clock: VirtualClock;
/** Of a node that has identified itself. */
let healthRecord: NodeHealthRecord;

beforeEach(() => {
  clock = new VirtualClock();
  healthRecord = usable();
});

const usable = () => Object.assign(new NodeHealthRecord({ clock }), { identity: 'usable' as const });
const candidate = (name: string, inFlight = 0) => {
  return { name, healthRecord: usable(), client: { inFlight, heldBack: false } };
};

const names = (candidates: readonly { readonly name: string }[]): string[] =>
  candidates.map(({ name }) => name);

describe('NodeHealthRecord', () => {
  it('sets a failing node aside the second time in a row', async () => {
    expect(healthRecord.report('failing', 'why')).toBeUndefined();
    // A single one passes after a while.
    await clock.advance(9_999);
    expect(healthRecord.health).toBe('failing');
    await clock.advance(1);
    expect(healthRecord.health).toBe('healthy');
    healthRecord.report('failing', 'why');
    healthRecord.succeeded();
    expect(healthRecord.health).toBe('healthy');
    expect(healthRecord.report('failing', 'why')).toBeUndefined();
    expect(healthRecord.report('failing', 'why')).toBe(10_000);
    await clock.advance(10_000);
    expect(healthRecord.health).toBe('healthy');
    // Still without a success: the next failure is one too many at once.
    expect(healthRecord.report('failing', 'why')).toBe(20_000);
  });

  it('doubles from 10 s to 5 min until a success', async () => {
    const periods: (number | undefined)[] = [];
    for (let round = 0; round < 7; round++) {
      periods.push(healthRecord.report('stale', 'why'));
      await clock.advance(300_000);
    }
    expect(periods).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
    healthRecord.succeeded();
    expect(healthRecord.report('stale', 'why')).toBe(10_000);
  });

  it('clears a failing node at a success, a liar only after its time, which no further report lengthens', async () => {
    healthRecord.report('stale', 'why');
    healthRecord.succeeded();
    expect(healthRecord.health).toBe('healthy');
    healthRecord.report('lied', 'why');
    healthRecord.succeeded();
    expect(healthRecord.health).toBe('set_aside');
    await clock.advance(5_000);
    // It is asked for want of a better one.
    expect(healthRecord.report('lied', 'why')).toBeUndefined();
    await clock.advance(5_000);
    expect(healthRecord.health).toBe('healthy');
    healthRecord.succeeded();
    expect(healthRecord.report('lied', 'why')).toBe(10_000);
  });

  it('averages latencies and lets them fade', async () => {
    expect(healthRecord.expectedLatencyMs).toBe(0);
    healthRecord.answeredIn(100);
    healthRecord.answeredIn(200);
    expect(healthRecord.expectedLatencyMs).toBeCloseTo(110);
    await clock.advance(60_000);
    expect(healthRecord.expectedLatencyMs).toBeCloseTo(55);
  });
});

describe('the order of asking', () => {
  it('gives a lesser node one attempt in three, and not those after it while it only puts us off', () => {
    const [good, lesser] = ['good', 'lesser'].map((name) => ({ name }) as AccessNode);
    const attempts = new Attempts();
    const asked = [0, 1, 2, 3, 4].map((turn) => {
      const { node } = attempts.choose([good!, lesser!], (each) => (each === good ? 'healthy' : 'failing'));
      attempts[turn < 2 ? 'failed' : 'declined'](node!);
      return node?.name;
    });
    expect(asked).toEqual(['good', 'good', 'lesser', 'good', 'lesser']);
  });

  it('puts healthy before failing before set aside, and spreads the load over nodes of which nothing is known', () => {
    const [setAside, failing, healthy] = [candidate('set aside'), candidate('failing'), candidate('healthy')];
    setAside.healthRecord.report('lied', 'why');
    failing.healthRecord.report('failing', 'why');
    healthy.healthRecord.answeredIn(5_000);
    expect(names(inOrderOfAsking([setAside, failing, healthy]))).toEqual(['healthy', 'failing', 'set aside']);
    // In the operator’s order otherwise.
    const [a, b, c] = [candidate('a', 1), candidate('b'), candidate('c')];
    expect(names(inOrderOfAsking([a, b, c]))).toEqual(['b', 'c', 'a']);
  });

  it('prefers the faster node until its load outweighs that, or a rate limit holds it back', () => {
    const [near, far] = [candidate('near'), candidate('far')];
    near.healthRecord.answeredIn(10);
    far.healthRecord.answeredIn(35);
    expect(names(inOrderOfAsking([far, near]))).toEqual(['near', 'far']);
    near.client.inFlight = 3;
    expect(names(inOrderOfAsking([near, far]))).toEqual(['far', 'near']);
    Object.assign(near.client, { inFlight: 0, heldBack: true });
    expect(names(inOrderOfAsking([near, far]))).toEqual(['far', 'near']);
  });
});

it('the record of one call says what it failed of, how often and since when', async () => {
  const stream = 'SubscribeBlocksFromStartHeight';
  healthRecord.report('failing', 'first', stream);
  await clock.advance(1_000);
  healthRecord.report('failing', 'second', stream);
  const fault = { state: 'set_aside', count: 2, reason: 'second', sinceSeconds: 1, endsInSeconds: 10 };
  expect(healthRecord.callRecords()).toEqual([{ method: stream, ...fault }]);
  healthRecord.succeeded(stream);
  expect(healthRecord.callRecords()).toEqual([]);
});

describe('what stands between us and one thing', () => {
  it('is told by the worst of the calls that a node takes turns with, however they alternate', async () => {
    const troubles = new NodeTroubles({ clock });
    for (let round = 0; round < 3; round += 1) {
      troubles.note('a:1', 'SubscribeBlocksFromStartHeight', 'refused', 'ended the stream');
      await clock.advance(1_000);
      troubles.note('a:1', 'GetBlockByHeight', 'unreachable', 'UNAVAILABLE');
      expect(troubles.all()).toEqual([
        {
          ...{ node: 'a:1', method: 'SubscribeBlocksFromStartHeight', kind: 'refused' },
          ...{ said: 'ended the stream', count: 2 * round + 2, sinceMs: 0 },
        },
      ]);
    }
    // It does something else by then.
    troubles.note('a:1', 'SubscribeBlocksFromStartHeight', 'unreachable', 'no answer');
    expect(troubles.all()).toMatchObject([{ kind: 'unreachable', said: 'no answer', count: 7 }]);
    troubles.clear();
    expect(troubles.all()).toEqual([]);
  });

  it('is told by what one call said while another one is silent, until that is long ago', async () => {
    const troubles = new NodeTroubles({ clock });
    troubles.note('a:1', 'SubscribeBlockDigestsFromLatest', 'refused', 'ended the stream');
    for (let seconds = 5; seconds < 15; seconds += 5) {
      await clock.advance(5_000);
      troubles.note('a:1', 'GetLatestBlockHeader', 'unreachable', 'read ECONNRESET');
      expect(troubles.all()).toMatchObject([{ kind: 'refused', said: 'ended the stream' }]);
    }
    await clock.advance(5_000);
    troubles.note('a:1', 'GetLatestBlockHeader', 'unreachable', 'read ECONNRESET');
    expect(troubles.all()).toMatchObject([{ kind: 'unreachable', said: 'read ECONNRESET', count: 4 }]);
  });
});
