import { beforeEach, describe, expect, it } from 'vitest';
import { inOrderOfAsking, NodeHealthRecord } from '../../../src/access/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});

function usable(): NodeHealthRecord {
  const ledger = new NodeHealthRecord({ clock });
  ledger.identity = 'usable';
  return ledger;
}

function candidate(name: string, state: { inFlight?: number; heldBack?: boolean } = {}) {
  return { name, ledger: usable(), inFlight: state.inFlight ?? 0, heldBack: state.heldBack ?? false };
}

const names = (candidates: readonly { readonly name: string }[]): string[] =>
  candidates.map(({ name }) => name);

describe('NodeHealthRecord', () => {
  it('is unknown until identified, and foreign whatever else it is', () => {
    const ledger = new NodeHealthRecord({ clock });
    expect(ledger.health).toBe('unknown');
    ledger.identity = 'usable';
    expect(ledger.health).toBe('healthy');
    ledger.blame('lied', 'why');
    ledger.identity = 'foreign';
    expect(ledger.health).toBe('foreign');
  });

  it.each(['lied', 'stale'] as const)('sets a node aside at once that %s', (fault) => {
    const ledger = usable();
    expect(ledger.blame(fault, 'why')).toBe(10_000);
    expect(ledger.health).toBe('set_aside');
  });

  it('sets a failing node aside the third time in a row', async () => {
    const ledger = usable();
    expect(ledger.blame('failing', 'why')).toBeUndefined();
    expect(ledger.health).toBe('failing');
    ledger.succeeded();
    expect(ledger.health).toBe('healthy');
    expect(ledger.blame('failing', 'why')).toBeUndefined();
    expect(ledger.blame('failing', 'why')).toBeUndefined();
    expect(ledger.blame('failing', 'why')).toBe(10_000);
    await clock.advance(10_000);
    expect(ledger.health).toBe('healthy');
    // Still without a success: the next failure is one too many at once.
    expect(ledger.blame('failing', 'why')).toBe(20_000);
  });

  it('lets a single failure pass after a while', async () => {
    const ledger = usable();
    ledger.blame('failing', 'why');
    await clock.advance(9_999);
    expect(ledger.health).toBe('failing');
    await clock.advance(1);
    expect(ledger.health).toBe('healthy');
  });

  it('doubles from 10 s to 5 min until a success', async () => {
    const ledger = usable();
    const periods: (number | undefined)[] = [];
    for (let round = 0; round < 7; round++) {
      periods.push(ledger.blame('stale', 'why'));
      await clock.advance(300_000);
    }
    expect(periods).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
    ledger.succeeded();
    expect(ledger.blame('stale', 'why')).toBe(10_000);
  });

  it('does not lengthen the time of a node that is asked for want of a better one', async () => {
    const ledger = usable();
    ledger.blame('lied', 'why');
    await clock.advance(5_000);
    expect(ledger.blame('lied', 'why')).toBeUndefined();
    await clock.advance(5_000);
    expect(ledger.health).toBe('healthy');
  });

  it('clears a failing node at a success, a liar only after its time', async () => {
    const failing = usable();
    failing.blame('stale', 'why');
    failing.succeeded();
    expect(failing.health).toBe('healthy');

    const liar = usable();
    liar.blame('lied', 'why');
    liar.succeeded();
    expect(liar.health).toBe('set_aside');
    await clock.advance(10_000);
    liar.succeeded();
    expect(liar.blame('lied', 'why')).toBe(10_000);
  });

  it('averages latencies and lets them fade', async () => {
    const ledger = usable();
    expect(ledger.expectedLatencyMs).toBe(0);
    ledger.answeredIn(100);
    ledger.answeredIn(200);
    expect(ledger.expectedLatencyMs).toBeCloseTo(110);
    await clock.advance(60_000);
    expect(ledger.expectedLatencyMs).toBeCloseTo(55);
  });
});

describe('the order of asking', () => {
  it('puts healthy before failing before set aside, and leaves none out', () => {
    const [setAside, failing, healthy] = [candidate('set aside'), candidate('failing'), candidate('healthy')];
    setAside.ledger.blame('lied', 'why');
    failing.ledger.blame('failing', 'why');
    healthy.ledger.answeredIn(5_000);
    expect(names(inOrderOfAsking([setAside, failing, healthy]))).toEqual(['healthy', 'failing', 'set aside']);
  });

  it('puts nodes behind that a rate limit holds back', () => {
    const [fast, slow] = [candidate('fast', { heldBack: true }), candidate('slow')];
    fast.ledger.answeredIn(1);
    slow.ledger.answeredIn(50);
    expect(names(inOrderOfAsking([fast, slow]))).toEqual(['slow', 'fast']);
  });

  it('prefers the faster node until its load outweighs that', () => {
    const near = candidate('near');
    const far = candidate('far');
    near.ledger.answeredIn(10);
    far.ledger.answeredIn(35);
    expect(names(inOrderOfAsking([far, near]))).toEqual(['near', 'far']);
    near.inFlight = 3;
    expect(names(inOrderOfAsking([near, far]))).toEqual(['far', 'near']);
  });

  it('spreads the load over nodes of which nothing is known, and keeps the operator’s order otherwise', () => {
    const [a, b, c] = [candidate('a', { inFlight: 1 }), candidate('b'), candidate('c')];
    expect(names(inOrderOfAsking([a, b, c]))).toEqual(['b', 'c', 'a']);
  });
});

describe('the record of one call', () => {
  const stream = 'SubscribeBlocksFromStartHeight';
  const call = 'GetBlockByHeight';

  it('is held against that call alone, unless it was a lie', () => {
    const ledger = usable();
    ledger.blame('stale', 'silent', stream);
    expect(ledger.healthOf(stream)).toBe('set_aside');
    expect(ledger.healthOf(call)).toBe('healthy');
    expect(ledger.health).toBe('healthy');
    ledger.blame('lied', 'another block', stream);
    expect(ledger.healthOf(call)).toBe('set_aside');
  });

  it('says what the call failed of, how often and since when', async () => {
    const ledger = usable();
    ledger.blame('failing', 'first', stream);
    await clock.advance(1_000);
    ledger.blame('failing', 'second', stream);
    expect(ledger.callRecords()).toEqual([
      {
        method: stream,
        state: 'failing',
        fault: 'failing',
        count: 2,
        said: 'second',
        sinceMs: 0,
        untilMs: 11_000,
      },
    ]);
    ledger.succeeded(stream);
    expect(ledger.callRecords()).toEqual([]);
  });

  it('sends to the other way after two failures in a row, or one silence, and tries again later', async () => {
    const ledger = usable();
    ledger.blame('failing', 'no', stream);
    expect(ledger.isBetterAskedBy(call, stream)).toBe(false);
    ledger.blame('failing', 'no', stream);
    expect(ledger.isBetterAskedBy(call, stream)).toBe(true);
    await clock.advance(10_000);
    expect(ledger.isBetterAskedBy(call, stream)).toBe(false);
    ledger.blame('stale', 'silent', stream);
    expect(ledger.isBetterAskedBy(call, stream)).toBe(true);
  });

  it('gives each way its turn while both fail', async () => {
    const ledger = usable();
    ledger.blame('stale', 'silent', stream);
    await clock.advance(100);
    ledger.blame('failing', 'no', call);
    expect(ledger.isBetterAskedBy(call, stream)).toBe(false);
    await clock.advance(100);
    ledger.blame('failing', 'no', stream);
    expect(ledger.isBetterAskedBy(call, stream)).toBe(true);
  });
});
