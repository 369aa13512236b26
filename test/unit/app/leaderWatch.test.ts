import { describe, expect, it } from 'vitest';
import { watchLeader } from '../../../src/app/health/watches/watchLeader.js';
import { VirtualClock } from '../../support/virtualClock.js';

function watched({ isShared = true } = {}) {
  const clock = new VirtualClock();
  const state = {
    leads: false,
    trouble: undefined as string | undefined,
    leader: undefined as { id: string; host: string; beatAgeMs: number } | undefined,
  };
  const shared = isShared ? { isLeading: () => state.leads } : undefined;
  const store = { shared, trouble: () => state.trouble };
  const parts = { clock, leadership: { leader: () => state.leader }, store };
  const watch = watchLeader(parts as unknown as Parameters<typeof watchLeader>[0]);
  /** Looks every second, as the health monitor does. */
  const after = async (seconds: number) => {
    for (let passed = 0; passed < seconds; passed += 1) {
      watch.lost();
      await clock.advance(1_000);
    }
    return watch.lost();
  };
  return { watch, state, after };
}

describe('who leads', () => {
  it('is missed where nobody has led for more than 12 s', async () => {
    const { after, state } = watched();
    expect(await after(12)).toBeUndefined();
    expect((await after(1))?.message).toMatch(/^no process has led for 13 s: .* role live$/);
    state.leader = { id: 'w', host: 'h', beatAgeMs: 100 };
    expect(await after(1)).toBeUndefined();
    state.leader = undefined;
    expect(await after(11)).toBeUndefined();
  });

  it('is missed when it has not been heard of for more than 12 s', async () => {
    const { after, state, watch } = watched();
    state.leader = { id: 'w1', host: 'host-a', beatAgeMs: 100 };
    expect(await after(20)).toBeUndefined();
    for (let age = 1; age <= 12; age += 1) {
      state.leader = { ...state.leader, beatAgeMs: age * 1_000 + 100 };
      await after(1);
    }
    state.leader = { ...state.leader, beatAgeMs: 13_000 };
    await after(1);
    expect(watch.lost()?.message).toContain('w1 on host-a, has not been heard of for 13 s');
    expect(watch.leaderAgeSeconds()).toBe(13);
  });

  it('is not asked by the process that leads, by one without a database, or while that is away', async () => {
    const { after, state, watch } = watched();
    state.leads = true;
    expect(await after(30)).toBeUndefined();
    expect(watch.leaderAgeSeconds()).toBe(0);
    state.leads = false;
    state.trouble = 'the database is away';
    expect(await after(30)).toBeUndefined();
    state.trouble = undefined;
    expect(await after(12)).toBeUndefined();
    expect(await after(1)).toBeDefined();
    const alone = watched({ isShared: false });
    expect(await alone.after(30)).toBeUndefined();
    expect(alone.watch.leaderAgeSeconds()).toBeUndefined();
  });
});
