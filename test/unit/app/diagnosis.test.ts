import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AccessNetwork, NodeTrouble } from '../../../src/access/index.js';
import { diagnose } from '../../../src/app/health/diagnose.js';
import type { IndexingLine } from '../../../src/app/line/buildLine.js';
import type { Leadership } from '../../../src/ranges/index.js';
import { readinessCodes, type Finding, type ReadinessCode } from '../../../src/observability/index.js';
import { idOf, matching, VirtualClock } from '../../support/index.js';

function trouble(change: Partial<NodeTrouble> = {}): NodeTrouble {
  return {
    ...{ node: 'a:1', method: 'GetFullCollectionByID', kind: 'refused', count: 14, sinceMs: 0 },
    said: 'GetFullCollectionByID at a:1: INTERNAL: no disk',
    ...change,
  };
}

type ChainTrouble = NonNullable<ReturnType<IndexingLine['blocks']['chainTrouble']>>;

const misfit: ChainTrouble = {
  ...{ code: 'parent_mismatch', height: 1001, sinceMs: 0 },
  ...{ what: 'it does not link', fix: 'rewind to 990' },
};
const missingEnd: ChainTrouble = { ...misfit, code: 'not_vouched' };
const undecidedSpork = { awaited: ['b:1'], rootHeight: 1001, reporters: ['a:1'] };
const lacking = { height: 990, ids: ['a', 'b', 'c', 'd'].map(idOf), ageMs: 61_000 };

/** What a test says of the line that works on the lowest missing height. */
interface Facts {
  readonly stage: ReturnType<IndexingLine['explainer']['explain']>['stage'];
  /** Durable, and known to be on the chain. */
  readonly isConfirmed: boolean;
  readonly commitStartedAtMs: number | undefined;
  /** When what it lacked before came: until then it waited for something else. */
  readonly sinceMs: number;
  /** Its troubles; where nobody serves it, why not. */
  readonly block: NonNullable<ReturnType<IndexingLine['blocks']['heldUpBy']>>;
  readonly collections: ReturnType<IndexingLine['explainer']['heldUpBy']>;
  readonly feedTroubles: readonly NodeTrouble[];
  readonly feedLateMs: number;
}

/** What is wrong with the parts of the daemon; nothing, unless a test says so. */
interface Wrong {
  readonly chainReplaced: string;
  /** Of a head that no other node reports. */
  readonly soleReporter: string;
  readonly headBelow: { readonly head: number; readonly reached: number };
  readonly chainTrouble: ChainTrouble;
  readonly undecidedSpork: ReturnType<AccessNetwork['verifier']['undecidedAt']>;
  readonly unresolvable: ReturnType<IndexingLine['explainer']['unresolvable']>;
  /** How far readers see, where they see only what is proven. */
  readonly proven: { readonly to: number; readonly reason: string | undefined };
  readonly leftOut: {
    readonly foreign: { readonly reason: 'block' };
    readonly node: { readonly name: string };
  };
  readonly proofFailed: { readonly height: number; readonly reason: string; readonly rewindTo: number };
  /** Several processes share the store, and this one does not lead, unless it says so. */
  readonly shared: { readonly leads?: boolean; readonly leader?: ReturnType<Leadership['leader']> };
  readonly readerDown: string;
  readonly disk: { readonly freeBytes: number; readonly sizeBytes: number };
  readonly paused: string;
  readonly outOfDescriptors: string;
  /** The index is in one. */
  readonly database: { readonly trouble: string | undefined };
  /** The queue alone, which lies in it as well. */
  readonly queue: string;
  /** Readers use another. */
  readonly replica: string;
}

const inWords = ({ code, message }: Finding): string => `${code}: ${message}`;

/** A daemon that is up and at the head, whose state a test changes at will. */
function healthyDaemon({ ediOnly = false, head = 1000, maxHeadAgeSeconds = 0, phase = 'running' } = {}) {
  const clock = new VirtualClock();
  const state = {
    stopping: new AbortController(),
    first: 1 as number | undefined,
    latest: 1000,
    head: head as number | undefined,
    sealed: 1000,
    /** Monotonic milliseconds of the last answer about the head; true: just now. */
    answered: true as number | boolean,
    headMovedAtMs: 0,
    /** When the nodes were asked last who they are; -Infinity: never. */
    askedAtMs: 0,
    sealedMovedAtMs: 0,
    identity: [] as NodeTrouble[],
    headTroubles: [] as NodeTrouble[],
    lacked: undefined as { readonly height: number; readonly troubles: readonly NodeTrouble[] } | undefined,
    wrong: {} as { readonly [Part in keyof Wrong]?: Wrong[Part] | undefined },
    facts: {} as Partial<Facts>,
  };
  const block = (): Facts['block'] =>
    state.facts.block ?? { height: state.latest + 1, troubles: [], isUnserved: false };
  const line = {
    blocks: { heldUpBy: block, chainTrouble: () => state.wrong.chainTrouble },
    explainer: {
      explain: () => ({
        stage: state.facts.stage ?? 'queued',
        waitedMs: state.facts.sinceMs === undefined ? undefined : clock.monotonic() - state.facts.sinceMs,
      }),
      heldUpBy: () => state.facts.collections,
      unresolvable: () => state.wrong.unresolvable ?? [],
    },
    window: { at: () => (state.facts.isConfirmed === true ? { status: 'durable' } : undefined) },
    indexer: { commitStartedAtMs: () => state.facts.commitStartedAtMs },
    edi: {
      state: {
        trouble: () => undefined,
        troubles: () => state.facts.feedTroubles ?? [],
        lateMs: () => state.facts.feedLateMs,
      },
    },
    peer: undefined,
  };
  const parts = {
    clock,
    store: {
      meta: () => (state.first === undefined ? undefined : { firstHeight: state.first }),
      latestIndexedHeight: () => state.latest,
      get shared() {
        const { shared } = state.wrong;
        return shared && { isLeading: () => shared.leads === true };
      },
      get trouble() {
        const { database } = state.wrong;
        return database && (() => database.trouble);
      },
    },
    window: { target: () => state.head },
    listener: {
      lacked: () => state.lacked,
      get finalized() {
        const { answered, head: height, headMovedAtMs, headTroubles } = state;
        const answeredAtMs = answered === true ? clock.monotonic() : answered;
        return {
          reportedBy: 'a:1',
          ...{ height, troubles: () => headTroubles, advanceAgeMs: () => clock.monotonic() - headMovedAtMs },
          answerAgeMs: () => (answeredAtMs === false ? undefined : clock.monotonic() - answeredAtMs),
        };
      },
      get sealed() {
        const advanceAgeMs = () => clock.monotonic() - state.sealedMovedAtMs;
        return { height: state.sealed, troubles: () => [], advanceAgeMs };
      },
    },
    network: {
      source: 'access node',
      named: () => [{ askedAtMs: state.askedAtMs, ...state.wrong.leftOut }],
      namesServing: () => new Set(block().isUnserved ? [] : ['a:1']),
      whyUnserved: () => block().troubles,
      verifier: {
        undecidedAt: (height: number) =>
          height < (state.wrong.undecidedSpork?.rootHeight ?? 0) ? undefined : state.wrong.undecidedSpork,
      },
      identityTroubles: () => state.identity,
      chainReplaced: () => state.wrong.chainReplaced,
      headBelow: () => state.wrong.headBelow,
      soleReporter: (height: number) => (height < (state.head ?? 0) ? state.wrong.soleReporter : undefined),
    },
    prover: {
      finalBlock: () => (state.wrong.proven === undefined ? undefined : { height: state.wrong.proven.to }),
      status: () => ({ reason: state.wrong.proven?.reason, failed: state.wrong.proofFailed }),
    },
    readers: { down: () => state.wrong.readerDown, trouble: () => undefined },
    queue: { trouble: () => state.wrong.queue },
    replica: { latestIndexedHeight: () => state.latest, trouble: () => state.wrong.replica },
    diskWatch: { disk: () => state.wrong.disk, pause: () => state.wrong.paused },
    descriptors: { trouble: () => state.wrong.outOfDescriptors },
    leadership: { leader: () => state.wrong.shared?.leader },
    lifecycle: { signal: state.stopping.signal },
  };
  const config = {
    ...{ ediOnly, roles: ['live'] },
    proof: {
      get finality() {
        return state.wrong.proven === undefined ? 'reported' : 'proven';
      },
    },
    ...{ ready: { maxLag: 100, maxHeadAgeSeconds }, requester: { unresolvableAfterMs: 60_000 } },
  };
  const diagnosis = diagnose(...([config, parts] as unknown as Parameters<typeof diagnose>));
  if (phase === 'running') diagnosis.runs(line as unknown as IndexingLine);
  /** Looks every second, as the health monitor does. */
  const after = async (milliseconds: number) => {
    for (let passed = 0; passed < milliseconds; passed += 1_000) {
      diagnosis.findings();
      await clock.advance(Math.min(1_000, milliseconds - passed));
    }
    return diagnosis.findings();
  };
  const told = async (milliseconds: number) => (await after(milliseconds)).map(inWords);
  const codes = async (milliseconds = 0) => (await after(milliseconds)).map(({ code }) => code);
  return { clock, diagnosis, state, after, codes, told };
}

it('a daemon that is well is behind by what readers cannot read, where they read only what is proven, and says why', async () => {
  const { after, state } = healthyDaemon();
  state.wrong = { proven: { to: 900, reason: undefined } };
  expect(await after(1_000)).toEqual([]);
  state.wrong = { proven: { to: 890, reason: 'no node names the committee' } };
  const why = 'proof.finality is proven, and finality is proven only up to 890: no node names the committee';
  const behind = `110 heights behind the head 1000; ready at 100 or fewer; ${why}`;
  expect(await after(1_000)).toMatchObject([{ code: 'behind', height: 890, message: behind }]);
  state.wrong = { proven: { to: -1, reason: undefined } };
  const message = matching(/finality is proven of no block yet: the newest blocks/);
  expect(await after(1_000)).toMatchObject([{ code: 'behind', height: 0, message }]);
  state.first = 0;
  expect((await after(1_000))[0]).not.toHaveProperty('height');
});

it('a daemon that is well is behind by more heights than allowed, and no more than that while the watermark moves', async () => {
  const { after, state } = healthyDaemon({ head: 1101 });
  const message = '101 heights behind the head 1101; ready at 100 or fewer';
  expect(await after(1_000)).toMatchObject([{ code: 'behind', message, height: 1000 }]);
  state.wrong = { soleReporter: 'a:1' };
  expect((await after(0))[0]?.message).toContain(' the head 1101, which only a:1 reports; ready at');
  for (let height = 1001; height < 1020; height += 1) {
    state.latest = height;
    expect((await after(3_000)).filter(({ code }) => code !== 'behind')).toEqual([]);
  }
});

describe('the lowest missing height, held up', () => {
  it.each([
    [['unreachable'], 'upstream_unreachable'],
    [['refused'], 'upstream_refusing'],
    [['rate_limited'], 'upstream_refusing'],
    [['denied'], 'upstream_refusing'],
    // One that is early says that it has no such thing.
    [['denied', 'unreachable'], 'upstream_unreachable'],
    [['unproven'], 'unproven'],
    [['invalid'], 'upstream_invalid'],
  ] as const)('by nodes that are %s has the code %s', async (kinds, code) => {
    const { codes, state } = healthyDaemon({ head: 1010 });
    const troubles = kinds.map((kind) => trouble({ node: `${kind}:1`, kind }));
    state.facts = { stage: 'collecting', collections: { missing: 1, of: 2, troubles, heldBack: [] } };
    expect([await codes(4_000), await codes(2_000)]).toEqual([[], [code]]);
  });

  it('by a rate limit says whose, and until when', async () => {
    const { state, told } = healthyDaemon({ head: 1010 });
    const heldBack = [{ node: 'a:1', untilMs: 9_000 }];
    state.facts = { stage: 'collecting', collections: { missing: 457, of: 500, troubles: [], heldBack } };
    expect(await told(6_000)).toEqual([
      'upstream_refusing: waiting for 457 of 500 collections of height 1001: rate-limited by a:1 until 00:00:09 UTC',
    ]);
  });

  it('is not laid on what has only just begun after a long wait for something else', async () => {
    const { clock, codes, state, told } = healthyDaemon({ head: 1010 });
    const silent = trouble({ kind: 'unreachable', said: 'a:1: no answer yet', count: 0 });
    state.facts = { block: { height: 1001, troubles: [silent], isUnserved: false } };
    expect(await codes(20_000)).toEqual(['upstream_unreachable']);
    const collections = { missing: 1, of: 2, troubles: [], heldBack: [] };
    state.facts = { stage: 'collecting', collections, sinceMs: clock.monotonic() };
    expect(await codes(1_000)).toEqual([]);
    expect(await told(8_000)).toEqual([
      'upstream_unreachable: waiting for 1 of 2 collections of height 1001, for 9 s now',
    ]);
    state.facts = { stage: 'committing', sinceMs: clock.monotonic() };
    expect(await codes(1_000)).toEqual([]);
    state.facts = { ...state.facts, commitStartedAtMs: clock.monotonic() };
    expect(await codes(1_000)).toEqual([]);
    expect(await told(8_000)).toEqual(['store_stalled: the disk has been writing one batch for 9 s']);
  });

  it('by its block is told as that though it was stored above a gap before the start', async () => {
    const { clock, state, told } = healthyDaemon({ head: 1010 });
    const silent = trouble({ kind: 'unreachable', said: 'a:1: no answer yet', count: 0 });
    state.facts = { stage: 'indexed', block: { height: 1001, troubles: [silent], isUnserved: false } };
    const words = 'waiting for block 1001: a:1: no answer yet (since 00:00:00 UTC)';
    expect(await told(9_000)).toEqual([`upstream_unreachable: ${words}`]);
    state.facts = { stage: 'indexed', isConfirmed: true, commitStartedAtMs: clock.monotonic() };
    expect(await told(9_000)).toEqual(['store_stalled: the disk has been writing one batch for 9 s']);
  });

  it('by a database is told in its own words, at once, and never as the disk', async () => {
    const { clock, codes, diagnosis, state, told } = healthyDaemon({ head: 1010 });
    state.wrong = { database: { trouble: undefined } };
    expect(await codes(1_000)).toEqual([]);
    state.wrong = { database: { trouble: 'nobody answers there' } };
    expect(await told(1_000)).toEqual(['database_unreachable: nobody answers there']);
    state.facts = { stage: 'committing', commitStartedAtMs: clock.monotonic() };
    expect(await codes(9_000)).toEqual(['database_unreachable']);
    expect(diagnosis.waitingFor()?.message).toBe('nobody answers there');
    state.wrong = { database: { trouble: undefined } };
    // It is back, and has yet to write what it was given before.
    expect(await codes(7_000)).toEqual([]);
    const slow = 'the database has been writing one batch for 16 s; height 1001 waits for it';
    expect(diagnosis.waitingFor()?.message).toBe(slow);
    expect(await told(1_000)).toEqual([
      'store_stalled: the database has been writing one batch for 8 s; its pg_stat_activity shows what it waits for',
    ]);
  });

  it('by a leader that is missing for more than 12 s is told as that, and no node is blamed', async () => {
    const { codes, state, told } = healthyDaemon();
    state.wrong = { shared: {} };
    const lost = matching(/^leader_lost: no process has led for 13 s: .* role live$/);
    expect([await codes(12_000), await told(1_000)]).toEqual([[], [lost]]);
    state.wrong = { shared: { leader: { id: 'w', host: 'h', beatAgeMs: 100 } } };
    expect(await codes(1_000)).toEqual([]);
    state.wrong = { shared: {} };
    expect(await codes(11_000)).toEqual([]);
  });

  it('by a leader that has not been heard of for more than 12 s is told with its name', async () => {
    const { codes, diagnosis, state, told } = healthyDaemon();
    const beat = (beatAgeMs: number) =>
      void (state.wrong = { shared: { leader: { id: 'w1', host: 'host-a', beatAgeMs } } });
    beat(100);
    expect(await codes(20_000)).toEqual([]);
    for (let age = 1; age <= 12; age += 1) {
      beat(age * 1_000 + 100);
      await codes(1_000);
    }
    beat(13_000);
    expect((await told(1_000))[0]).toContain('w1 on host-a, has not been heard of for 13 s');
    expect(diagnosis.leaderAgeSeconds()).toBe(13);
  });

  it('by no leader is told neither where this process leads, or waits for nodes, nor while the database is away', async () => {
    const waiting = healthyDaemon({ phase: 'starting' });
    waiting.state.wrong = { shared: {} };
    expect(await waiting.codes(20_000)).toEqual(['starting']);
    const { codes, diagnosis, state } = healthyDaemon();
    expect(diagnosis.leaderAgeSeconds()).toBeUndefined();
    state.wrong = { shared: { leads: true } };
    expect([await codes(30_000), diagnosis.leaderAgeSeconds()]).toEqual([[], 0]);
    state.wrong = { shared: {}, database: { trouble: 'the database is away' } };
    expect(await codes(30_000)).toEqual(['database_unreachable']);
    state.wrong = { shared: {} };
    expect([await codes(12_000), await codes(1_000)]).toEqual([[], ['leader_lost']]);
    // What readers use is away as well.
    state.wrong = { shared: {}, database: { trouble: undefined }, replica: 'the replica is away' };
    expect(await codes()).toEqual(['database_unreachable', 'leader_lost']);
  });

  it('by a missing node is told as that', async () => {
    const { state, told } = healthyDaemon({ head: 1010 });
    state.facts = { block: { height: 1001, troubles: [], isUnserved: true } };
    const unserved = 'upstream_refusing: waiting for block 1001: no access node serves that height';
    expect(await told(6_000)).toEqual([`${unserved}; add an --access-node that has it`]);
    const troubles = [trouble({ said: 'says it begins at 2000', count: 3 })];
    state.facts = { block: { height: 1001, troubles, isUnserved: true } };
    expect((await told(1_000)).join()).toMatch(
      /^upstream_refusing: .*no access node serves that height: a:1 says it begins at 2000 \(3 times since .*has it$/,
    );
    // It went on before it gave the first block.
    state.first = 1001;
    expect((await told(1_000)).join()).toMatch(/2000 .*has it; nothing is indexed yet: to begin else/);
    // It may come back.
    const gone = trouble({ kind: 'unreachable', said: 'ECONNREFUSED' });
    state.facts = { block: { height: 1001, troubles: [gone], isUnserved: true } };
    expect((await told(1_000)).join()).toMatch(/^upstream_unreachable: .*REFUSED \([^)]*\)$/);
    state.first = 1;
    // It had the block, and went on to the next spork before it gave the collections: what it said then is over.
    state.facts = {
      stage: 'collecting',
      ...{ block: { height: 1001, troubles, isUnserved: true } },
      collections: { missing: 1, of: 2, troubles: [gone], heldBack: [] },
    };
    expect(await told(1_000)).toEqual([
      expect.stringMatching(/^upstream_refusing: waiting for 1 of 2 [^:]*: no access node .* at 2000 \(3/),
    ]);
  });

  it('says what it waits for from the first moment on, and since when', async () => {
    const { after, diagnosis, state } = healthyDaemon();
    expect(diagnosis.waitingFor()).toBeUndefined();
    await after(2_000);
    state.head = 1010;
    const message = 'waiting for block 1001';
    expect(diagnosis.waitingFor()).toEqual({ height: 1001, message, ageSeconds: 0 });
    await after(2_000);
    expect(diagnosis.waitingFor()).toEqual({ height: 1001, message, ageSeconds: 2 });
  });
});

it('execution data as the only source is trouble when the sealed head stands, and none while it moves below the next height', async () => {
  const { clock, codes, state, told } = healthyDaemon({ ediOnly: true });
  state.facts = { stage: 'collecting' };
  for (let second = 0; second < 60; second += 1) {
    state.head = 1010 + second;
    if (second % 8 === 0) state.sealedMovedAtMs = clock.monotonic();
    expect(await codes(1_000)).toEqual([]);
  }
  expect(await codes(9_000)).toEqual([]);
  const words = 'waiting for height 1001 to be sealed; the sealed head, 1000, has not moved';
  expect(await told(3_000)).toEqual([expect.stringContaining(`edi_unavailable: ${words}`)]);
});

it('execution data as the only source says why it does not come', async () => {
  const { state, told } = healthyDaemon({ ediOnly: true });
  state.head = state.sealed = 1010;
  const said = 'has no execution data below 5,000';
  // Over a slow line one message takes long, and those below come first.
  state.facts = { stage: 'collecting', feedLateMs: 0 };
  expect(await told(60_000)).toEqual([]);
  state.facts = { stage: 'collecting', feedTroubles: [trouble({ said })] };
  expect(await told(6_000)).toEqual([
    `edi_unavailable: waiting for the execution data of height 1001: a:1 ${said} (14 times since 00:00:00 UTC)`,
  ]);
});

it('what the process slept through is waited for only since then', async () => {
  const { clock, diagnosis, state } = healthyDaemon({ head: 1110 });
  diagnosis.findings();
  state.answered = 0;
  state.facts = { stage: 'committing', commitStartedAtMs: clock.monotonic() };
  await clock.advance(75_000);
  // It was not ready before, and sleeping has not made it so.
  expect(diagnosis.findings(2_000).map(({ code }) => code)).toEqual(['behind']);
  expect(diagnosis.findings(9_000).map(inWords)).toEqual([
    expect.stringMatching(/^upstream_unreachable: .*for 9 s/),
    'store_stalled: the disk has been writing one batch for 9 s',
  ]);
});

describe('the head', () => {
  it('that no node tells any more is unconfirmed after eight seconds', async () => {
    const { codes, diagnosis, state, told } = healthyDaemon();
    state.answered = 0;
    const said = 'GetLatestBlockHeader at a:1: UNAVAILABLE: refused';
    state.headTroubles = [trouble({ kind: 'unreachable', said })];
    expect([await codes(7_000), diagnosis.isHeadConfirmed()]).toEqual([[], true]);
    const [found] = await told(2_000);
    expect(diagnosis.isHeadConfirmed()).toBe(false);
    expect(found).toContain(`upstream_unreachable: no access node has reported its head for 9 s: ${said}`);
  });

  it('has a node no more that errs, which has yet to tell it: it is not unreachable for that', async () => {
    const { codes, state } = healthyDaemon();
    state.answered = 0;
    state.headTroubles = [trouble({ said: 'GetLatestBlockHeader at a:1: INTERNAL: trouble' })];
    expect(await codes(9_000)).toEqual(['upstream_refusing']);
    state.headTroubles = [];
    // It may be asked a moment later, and its silence counts from then.
    expect(await codes(5_500)).toEqual(['upstream_refusing']);
    expect(await codes(1_000)).toEqual(['upstream_unreachable']);
  });

  it('that was never told has a code of its own once eight seconds have passed, or something is known to keep it', async () => {
    const { codes, state, told } = healthyDaemon({ phase: 'starting' });
    Object.assign(state, { head: undefined, answered: false, askedAtMs: -Infinity });
    // On a slow machine the servers take longer to listen, and nobody is asked before.
    expect(await codes(20_000)).toEqual(['starting']);
    state.askedAtMs = 20_000;
    expect(await codes(7_000)).toEqual(['starting']);
    state.askedAtMs = 27_000;
    expect(await told(1_000)).toEqual([
      expect.stringMatching(/^starting: /),
      expect.stringMatching(/^upstream_unreachable: no access node has reported its head for 8 s;/),
    ]);
    state.identity = [trouble({ said: 'GetNetworkParameters at a:1: INTERNAL: not yet', count: 3 })];
    expect(await told(1_000)).toEqual([
      expect.stringMatching(/^starting: .*INTERNAL: not yet \(3 times/),
      expect.stringMatching(/^upstream_refusing: .*INTERNAL: not yet \(3 times/),
    ]);
  });

  it('is told and the start waits for something else: that has a code of its own', async () => {
    const { codes, state, told } = healthyDaemon({ phase: 'starting' });
    state.identity = [trouble({ said: 'GetBlockByHeight at a:1: ABORTED: no disk', count: 3 })];
    expect(await codes(8_000)).toEqual(['starting']);
    expect(await told(1_000)).toEqual([
      expect.stringMatching(/^starting: /),
      expect.stringMatching(/^upstream_refusing: .*ABORTED: no disk \(3 times/),
    ]);
    for (const [awaited, words] of [
      [['b:1'], /^not_vouched: a spork at height 1001 is reported by a:1 .* \(asked: b:1\)\. If/],
      [[], /^not_vouched: a spork at height 1001 is reported by a:1 .* without one\. If/],
    ] as const) {
      Object.assign(state, { identity: [], wrong: { undecidedSpork: { ...undecidedSpork, awaited } } });
      const message: unknown = expect.stringMatching(words);
      expect(await told(1_000)).toEqual([expect.stringMatching(/^starting: /), message]);
    }
    const troubles = [trouble({ kind: 'denied', said: 'GetBlockByHeight at a:1: NOT_FOUND: none' })];
    Object.assign(state, { wrong: {}, lacked: { height: 9_000, troubles } });
    expect((await told(1_000))[1]).toMatch(
      /^upstream_refusing: .*block 9000, which a:1 reports as the head: .*NOT_FOUND: none \(.*\); where that/,
    );
  });

  it('that stands is a reason only where a limit says so, and is waited for below the first height of an empty store', async () => {
    const standing = healthyDaemon({ maxHeadAgeSeconds: 120 });
    expect(await standing.codes(119_000)).toEqual([]);
    expect(await standing.told(2_000)).toEqual([
      'head_stale: the head has stood at 1000 for 121 s; ready.maxHeadAgeSeconds allows 120',
    ]);
    const { state, told } = healthyDaemon();
    Object.assign(state, { first: 5_000, latest: 4_999 });
    const words = 'waiting for the chain to reach height 5000, the first of this store; its head is 1000';
    expect(await told(0)).toEqual([`start_height_ahead: ${words}`]);
  });
});

const excludedBy = (code: string): readonly string[] => {
  const info = readinessCodes[code as ReadinessCode];
  return 'excludes' in info ? info.excludes : [];
};

it('findings exclude known codes, never themselves, and no two each other', () => {
  for (const code of Object.keys(readinessCodes))
    for (const other of excludedBy(code)) {
      expect(readinessCodes, code).toHaveProperty(other);
      expect(excludedBy(other), `${code} and ${other}`).not.toContain(code);
    }
});

it('findings name the other chain alone where the node that serves it answers, for as long as it does', async () => {
  const { after, state, told } = healthyDaemon({ maxHeadAgeSeconds: 30 });
  state.head = 1_200;
  state.answered = 0;
  state.headTroubles = [trouble({ kind: 'unreachable', said: 'the stream ended' })];
  state.facts = { block: { height: 1_001, troubles: [], isUnserved: true } };
  state.wrong = { chainReplaced: 'another chain', chainTrouble: misfit };
  for (let second = 1; second < 60; second += 1)
    expect(await told(1_000), `after ${second} s`).toEqual(['chain_replaced: another chain']);
  // Another node is silent, and a third refuses us: the one is told beside, the other has its own code.
  state.identity = [trouble({ node: 'b:1', kind: 'unreachable', said: 'GetNetworkParameters at b:1' })];
  const beside = expect.stringMatching(/^chain_replaced: another chain \(no answer: GetNetw/) as string;
  expect(await told(1_000)).toEqual([beside]);
  state.identity = [trouble({ node: 'c:1', said: 'UNAUTHENTICATED' })];
  const both = await after(1_000);
  expect(both.map(({ code }) => code)).toEqual(['upstream_refusing', 'chain_replaced']);
  expect(both[0]?.message).not.toContain('can be reached');
  state.wrong = {};
  state.identity = [];
  expect((await after(1_000)).map(({ code }) => code)).toContain('upstream_unreachable');
});

it('findings blame no node for a height that is complete, nor a new leader for what the one before left undone', async () => {
  const { clock, diagnosis, state, told } = healthyDaemon({ head: 1_010 });
  state.facts = { stage: 'committing' };
  const line = diagnosis.line();
  diagnosis.runs(undefined);
  await clock.advance(12_000);
  diagnosis.runs(line);
  expect(diagnosis.findings()).toEqual([]);
  expect(await told(9_000)).toEqual(['store_stalled: writing height 1001, for 9 s now']);
});

it('findings never contradict each other, whatever is the matter', () => {
  const kinds = ['unreachable', 'denied', 'refused', 'rate_limited', 'invalid'] as const;
  const kind = fc.constantFrom(...kinds);
  const troubles = fc.array(
    kind.map((it) => trouble({ kind: it })),
    { maxLength: 3 },
  );
  const maybe = <T>(value: T): fc.Arbitrary<T | undefined> =>
    fc.option(fc.constant(value), { nil: undefined });
  const situations = fc.record({
    phase: fc.constantFrom('starting', 'running' as const),
    answered: fc.constantFrom<number | boolean>(true, false, 0),
    head: fc.constantFrom(undefined, 900, 1_000, 1_010, 2_000),
    first: fc.constantFrom(1, 5_000),
    ...{ ediOnly: fc.boolean(), isCommitting: fc.boolean(), identity: troubles, headTroubles: troubles },
    ...{ blockTroubles: troubles, collectionTroubles: troubles },
    stage: fc.constantFrom('queued', 'collecting', 'committing', 'indexed' as const),
    wrong: fc.record({
      chainReplaced: maybe('another chain'),
      headBelow: maybe({ head: 232, reached: 540 }),
      chainTrouble: fc.constantFrom(undefined, misfit, missingEnd),
      undecidedSpork: maybe(undecidedSpork),
      unresolvable: maybe([lacking]),
      ...{ shared: maybe({}), readerDown: maybe('so') },
      database: fc.constantFrom(undefined, { trouble: undefined }, { trouble: 'it is gone' }),
      paused: maybe('so'),
      disk: maybe({ freeBytes: 1, sizeBytes: 1_000_000_000 }),
    }),
  });
  type Situation = typeof situations extends fc.Arbitrary<infer T> ? T : never;
  const check = async (given: Situation): Promise<void> => {
    const { answered, wrong, ediOnly, first, head, headTroubles, identity, phase } = given;
    const { clock, codes, state } = healthyDaemon({ ediOnly, maxHeadAgeSeconds: 5, phase });
    Object.assign(state, { answered, first, head, headTroubles, identity });
    const { blockTroubles, collectionTroubles, isCommitting, stage } = given;
    state.facts = {
      stage,
      commitStartedAtMs: isCommitting ? clock.monotonic() : undefined,
      block: { height: 1_001, troubles: blockTroubles, isUnserved: wrong.undecidedSpork !== undefined },
      collections: { missing: 1, of: 2, troubles: collectionTroubles, heldBack: [] },
    };
    state.wrong = wrong;
    for (let second = 0; second < 20; second += 1) {
      const found: readonly ReadinessCode[] = await codes(1_000);
      expect(new Set(found).size).toBe(found.length);
      for (const code of found) for (const other of excludedBy(code)) expect(found).not.toContain(other);
      // A head that stands still was reported; a node that answers is not unreachable.
      if (found.includes('head_stale'))
        expect(answered === true || (answered === 0 && second < 8)).toBe(true);
      if (wrong.chainReplaced !== undefined) expect(found).not.toContain('upstream_unreachable');
    }
  };
  return fc.assert(fc.asyncProperty(situations, check), { numRuns: 60, seed: 8 });
});

describe('what has a code of its own', () => {
  it('is passed on, and not told twice', async () => {
    const { after, codes, state, told } = healthyDaemon({ head: 1010 });
    state.wrong = { chainTrouble: misfit };
    expect(await codes(20_000)).toEqual(['parent_mismatch']);
    state.head = 1000;
    const leftOut = { foreign: { reason: 'block' }, node: { name: 'b:1' } } as const;
    state.wrong = { proofFailed: { height: 1000, reason: 'no quorum', rewindTo: 990 }, leftOut };
    const invalid = matching(
      /^the certificate in block 1000 is .*quorum; .* up to 990: rewind .* b:1, left out/,
    );
    expect(await after(1_000)).toMatchObject([{ code: 'proof_failed', height: 1000, message: invalid }]);
    state.head = 1010;
    state.wrong = { chainTrouble: missingEnd };
    expect(await codes(20_000)).toEqual(['not_vouched']);
    state.wrong = { undecidedSpork };
    expect(await codes(20_000)).toEqual(['upstream_unreachable']);
    state.facts = { block: { height: 1001, troubles: [], isUnserved: true } };
    const unknown = /^not_vouched: a spork at height 1001 is reported by a:1 but is not in .* \(asked: b:1\)/;
    expect(await told(20_000)).toEqual([expect.stringMatching(unknown)]);
    state.facts = {};
    state.head = 1000;
    state.wrong = { chainReplaced: 'another chain', unresolvable: [lacking] };
    const ids = ['a', 'b', 'c'].map(idOf).join(', ');
    const message = `height 990 has lacked collection ${ids} and 1 more for 1m 1s (waiting for block 1001)`;
    const unresolvable = { code: 'unresolvable', height: 990, message };
    expect(await after(0)).toMatchObject([{ code: 'chain_replaced' }, unresolvable]);
    for (const [head, reached, says] of [
      [232, 540, /^head_behind: .*308 heights below what is indexed, 540, since \d\d:/],
      [1_000, 90_000, /^head_behind: .*89000 heights below the one that was reported before/],
    ] as const) {
      state.wrong = { headBelow: { head, reached } };
      expect(await told(5_000)).toEqual([expect.stringMatching(says)]);
    }
  });

  it('is not a head that a node told before it rose past what is indexed', async () => {
    const { clock, codes, state } = healthyDaemon();
    state.wrong = { headBelow: { head: 998, reached: 1_000 } };
    for (let height = 1_000; height < 1_020; height += 1) {
      Object.assign(state, { head: height, latest: height, headMovedAtMs: clock.monotonic() });
      expect(await codes(1_000)).toEqual([]);
    }
    state.answered = clock.monotonic();
    expect(await codes(6_000)).toEqual([]);
    state.answered = true;
    expect(await codes()).toEqual(['head_behind']);
  });

  it('is the disk when it is nearly full, by the measure of its size', async () => {
    const { codes, diagnosis, state, told } = healthyDaemon();
    const [freeBytes, GIB] = [512 * 1024 ** 2, 1024 ** 3];
    state.wrong = { disk: { freeBytes, sizeBytes: 4 * GIB } };
    expect(await codes()).toEqual([]);
    state.wrong = { disk: { freeBytes, sizeBytes: 100 * GIB } };
    expect(await told(0)).toEqual(['disk_low: 512 MiB are left on the disk of the data directory']);
    // That holds nothing up, nor does what lies beside the line.
    const beside = { readerDown: 'so', replica: 'away', database: { trouble: undefined } };
    state.wrong = { ...state.wrong, ...beside, proofFailed: { height: 1, reason: 'so', rewindTo: 0 } };
    expect((await codes()).length).toBe(4);
    expect(diagnosis.findings().filter(diagnosis.holdsUp)).toEqual([]);
    state.wrong = { ...state.wrong, paused: 'no room', database: { trouble: 'away' } };
    const heldUp = diagnosis.findings().filter(diagnosis.holdsUp);
    expect(heldUp.map(({ code }) => code)).toEqual(['disk_low', 'database_unreachable']);
  });

  it('is the disk that has no room, at once and alone: what waits to be written is no stall and no fault of a node', async () => {
    const { after, codes, state } = healthyDaemon();
    const message = 'indexing is paused: 10 MiB are free, and 640 MiB are needed to resume';
    Object.assign(state, { wrong: { paused: message }, head: 1_050, facts: { stage: 'committing' } });
    expect(await after(0)).toMatchObject([{ code: 'disk_low', height: 1_001, message }]);
    expect(await codes(60_000)).toEqual(['disk_low']);
    Object.assign(state, { wrong: {}, facts: {}, latest: 1_050 });
    expect(await codes()).toEqual([]);
  });

  it('is the queue alone, which neither holds up what is indexed nor hides what does', async () => {
    const { diagnosis, state, told } = healthyDaemon({ head: 1_050 });
    state.wrong = { queue: 'No rights.', database: { trouble: undefined } };
    const queue = 'database_unreachable: No rights.';
    expect(await told(0)).toEqual([queue]);
    expect(diagnosis.findings().filter(diagnosis.holdsUp)).toEqual([]);
    state.facts = { block: { height: 1_001, troubles: [trouble()], isUnserved: false } };
    expect(await told(10_000)).toEqual([expect.stringMatching(/^upstream_refusing: /), queue]);
    state.facts = { stage: 'committing', commitStartedAtMs: 0 };
    expect(await told(0)).toEqual([expect.stringMatching(/^store_stalled: /), queue]);
  });

  it.each(['running', 'starting'] as const)('lacks its readers, while it is %s', async (phase) => {
    const { codes, state } = healthyDaemon({ phase });
    state.wrong = { readerDown: 'the thread has ended' };
    expect(await codes()).toEqual([...(phase === 'starting' ? ['starting'] : []), 'reader_down']);
  });

  it('tells that no file can be opened, and nothing that follows from it, and is stopping, whatever else holds', async () => {
    const { codes, state, told } = healthyDaemon();
    state.wrong = { outOfDescriptors: '64 of 64 files are open', database: { trouble: 'connect EMFILE' } };
    expect(await told(0)).toEqual(['descriptors_low: 64 of 64 files are open']);
    state.stopping.abort();
    state.head = 5_000;
    expect(await codes()).toEqual(['stopping']);
  });
});
