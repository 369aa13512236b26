import { beforeEach, describe, expect, it } from 'vitest';
import type { AccessNetworkOptions } from '../../../src/access/pool/NodePool.js';
import type { Expectation } from '../../../src/access/pool/identity/nodeIdentity.js';
import { ScriptedWorld, scriptedWorlds, version } from './scriptedNetwork.js';
import { idOf, type NodeScript } from './scriptedNode.js';

type Name = 'a:1' | 'b:1' | 'c:1';

const MINUTE_MS = 60_000;
const [TRUE_ID, FALSE_ID] = ['bb'.repeat(32), 'dd'.repeat(32)];
/** The store stands within the spork that began at 100; one that begins at 200 is told of. */
const WATERMARK = { height: 149, id: idOf('9') };
const STORED = { sporks: [{ rootHeight: 100, sporkId: 'aa'.repeat(32) }], watermark: WATERMARK };

const { world } = scriptedWorlds();
let { clock, stop } = new ScriptedWorld();
beforeEach(() => {
  ({ clock, stop } = world());
});

const names = (nodes: readonly { readonly name: string }[]): string[] => nodes.map(({ name }) => name).sort();

/** A chain that has this height now and grows by one block a second from then on. */
function growing(height: number): NonNullable<NodeScript['latest']> {
  const sinceMs = clock.monotonic();
  return () => ({ height: height + Math.floor((clock.monotonic() - sinceMs) / 1_000) });
}

/** Three nodes of the spork that began at 100, all of them identified. */
async function three(
  latest: { readonly [Each in Name]?: NonNullable<NodeScript['latest']> } = {},
  options: Partial<AccessNetworkOptions> = {},
  expectation: Partial<Expectation> = STORED,
) {
  const script = (name: Name): NodeScript => {
    return { version: version(100), ...(latest[name] && { latest: latest[name] }) };
  };
  const scripts = { 'a:1': script('a:1'), 'b:1': script('b:1'), 'c:1': script('c:1') };
  const { net, nodes } = world().network(scripts, options, expectation);
  await net.whenAllAsked(stop.signal);
  await clock.advance(10_000);
  /** One of them, or several, turn out to be of another spork, as happens after an outage. */
  const tells = async (who: readonly Name[], root = 200, id = FALSE_ID): Promise<void> => {
    for (const name of who) {
      scripts[name].version = version(root, root, id);
      nodes.node(name).events.onOutage?.();
    }
    await clock.advance(2_000);
  };
  return { net, nodes, scripts, tells };
}

/** A node of a spork that begins at 200, beside one that does not answer. */
function newBesideMute(expectation: Partial<Expectation>) {
  const old: NodeScript = { version: version(100), down: true };
  const scripts = { 'new:1': { version: version(200, 200, TRUE_ID) }, 'old:1': old };
  return { old, ...world().network(scripts, {}, expectation) };
}

it('the id of a new spork is the one that more than half of the nodes tell, and none where no id has so many', async () => {
  const told = async (...ids: readonly string[]): Promise<string | undefined> => {
    const scripts = Object.fromEntries(
      ids.map((id, nth) => [`n${nth}:1`, { version: version(200, 200, id) }] as const),
    );
    const { net } = world().network(scripts, {}, STORED);
    await net.whenAllAsked(stop.signal);
    return net.sporkAt(200)?.sporkId;
  };
  expect(await told(FALSE_ID)).toBe(FALSE_ID);
  expect(await told(FALSE_ID, TRUE_ID, TRUE_ID)).toBe(TRUE_ID);
  expect(await told(FALSE_ID, '', '')).toBe(FALSE_ID);
  expect(await told(FALSE_ID, TRUE_ID)).toBe('');
  expect(await told(FALSE_ID, TRUE_ID, 'ee'.repeat(32))).toBe('');
});

describe('a spork that the table does not have', () => {
  it('is believed from one node where the chains of the others have stood still for half a minute', async () => {
    const { net, tells } = await three({ 'b:1': () => ({ height: 199 }), 'c:1': () => ({ height: 204 }) });
    await tells(['a:1']);
    await clock.advance(20_000);
    expect([net.forHeight(200), net.sporkAt(200)?.rootHeight]).toEqual([[], 100]);
    expect(names(net.forHeight(199))).toEqual(['b:1', 'c:1']);
    expect(names(net.live())).toEqual(['a:1', 'b:1', 'c:1']);
    await clock.advance(20_000);
    expect(names(net.forHeight(200))).toEqual(['a:1']);
    expect(net.sporkAt(200)).toEqual({ rootHeight: 200, sporkId: FALSE_ID });
    expect(names(net.live())).toEqual(['a:1']);
  });

  it('is believed where the others cannot tell their latest block, or do not answer for a minute', async () => {
    const { net, scripts, tells } = await three({ 'c:1': () => 'unimplemented' });
    let answer = (): void => undefined;
    scripts['b:1'].until = new Promise((resolve) => (answer = resolve));
    await tells(['a:1']);
    expect(net.forHeight(200)).toEqual([]);
    await clock.advance(MINUTE_MS);
    expect(names(net.forHeight(200))).toEqual(['a:1']);
    answer();
    await clock.settle();
  });

  it('is not believed where the chain of another goes on above its root, and that one keeps its heights', async () => {
    const { net, tells } = await three({ 'b:1': growing(195), 'c:1': () => ({ height: 195 }) });
    await tells(['a:1']);
    expect(net.forHeight(200)).toEqual([]);
    const undecided = { rootHeight: 200, reporters: ['a:1'], awaited: ['b:1', 'c:1'] };
    expect(net.verifier.undecidedAt(200)).toEqual(undecided);
    expect(names(net.forHeight(199))).toEqual(['b:1', 'c:1']);
    expect(net.verifier.undecidedAt(199)).toBeUndefined();
    await clock.advance(35_000);
    expect(names(net.forHeight(200))).toEqual(['a:1', 'b:1', 'c:1']);
    expect([net.sporkAt(200)?.rootHeight, names(net.live())]).toEqual([100, ['a:1', 'b:1', 'c:1']]);
    const warned = world().logger.records.filter(({ message }) => message.includes('that does not exist'));
    const fields = { rootHeight: 200, endpoints: ['a:1'], fix: 'if it is one: --access-spork-root 200' };
    expect(warned).toMatchObject([{ fields }]);
  });

  it('is not believed any more once the chain of another goes on after a halt', async () => {
    const { net, scripts, tells } = await three();
    await tells(['a:1']);
    await clock.advance(5 * MINUTE_MS);
    expect(names(net.live())).toEqual(['a:1']);
    scripts['b:1'].latest = growing(190);
    await clock.advance(2 * MINUTE_MS + 10_000);
    expect(names(net.live())).toEqual(['a:1', 'b:1', 'c:1']);
    expect(names(net.forHeight(200))).toEqual(['a:1', 'b:1', 'c:1']);
  });

  it('far above the head ends nobody, has nobody asked more than once in ten seconds, and is found out when the head comes there', async () => {
    const { net, nodes, tells } = await three({ 'b:1': growing(150), 'c:1': growing(150) });
    await tells(['a:1'], 1_000);
    const { asked } = nodes.node('b:1');
    await clock.advance(2 * MINUTE_MS);
    expect(nodes.node('b:1').asked - asked).toBeLessThanOrEqual(12);
    await clock.advance(8 * MINUTE_MS);
    expect(names(net.live())).toEqual(['a:1', 'b:1', 'c:1']);
    expect([names(net.forHeight(740)), net.forHeight(1_000)]).toEqual([['b:1', 'c:1'], []]);
    expect(net.verifier.undecidedAt(1_000)).toMatchObject({ reporters: ['a:1'], awaited: ['b:1', 'c:1'] });
    await clock.advance(5 * MINUTE_MS);
    expect(names(net.forHeight(1_000))).toEqual(['a:1', 'b:1', 'c:1']);
  });

  it('below our last block, which the others have, is believed or not for the same reasons', async () => {
    const blockIdAt = (height: number) => (height === WATERMARK.height ? WATERMARK.id : undefined);
    const after = async (latest: NonNullable<NodeScript['latest']>) => {
      const { net, scripts, tells } = await three({ 'b:1': latest, 'c:1': latest });
      for (const name of ['b:1', 'c:1'] as const) scripts[name].blockIdAt = blockIdAt;
      await tells(['a:1'], 140);
      await clock.advance(MINUTE_MS);
      return net;
    };
    const goesOn = await after(growing(150));
    expect(names(goesOn.forHeight(150))).toEqual(['a:1', 'b:1', 'c:1']);
    expect(goesOn.sporkAt(150)?.rootHeight).toBe(100);
    const discarded = await after(() => ({ height: 149 }));
    expect(names(discarded.forHeight(150))).toEqual(['a:1']);
    expect(names(discarded.forHeight(139))).toEqual(['b:1', 'c:1']);
  });

  it('has its node for foreign, with another block where ours is, only once the claim is found out', async () => {
    const { net, scripts, tells } = await three({ 'b:1': growing(150), 'c:1': growing(150) });
    const blocks = { 'a:1': idOf('8'), 'b:1': WATERMARK.id, 'c:1': WATERMARK.id };
    for (const name of ['a:1', 'b:1', 'c:1'] as const)
      scripts[name].blockIdAt = (height) => (height === WATERMARK.height ? blocks[name] : undefined);
    const stateOf = () => net.states().find(({ name }) => name === 'a:1');
    await tells(['a:1'], 140);
    await clock.advance(8_000);
    expect(stateOf()?.reason).toBeNull();
    await clock.advance(MINUTE_MS);
    expect(stateOf()?.reason).toBe('another block than ours');
    expect(names(net.forHeight(150))).toEqual(['b:1', 'c:1']);
  });

  it('holds up nothing where the last one that its node told of was none', async () => {
    const { net, tells } = await three({ 'b:1': growing(205), 'c:1': growing(205) });
    await tells(['a:1']);
    expect(net.forHeight(200)).toEqual([]);
    await clock.advance(40_000);
    await tells(['a:1'], 201);
    expect(names(net.forHeight(201))).toEqual(['a:1', 'b:1', 'c:1']);
    expect(names(net.live())).toEqual(['a:1', 'b:1', 'c:1']);
    expect(net.verifier.undecidedAt(201)).toBeUndefined();
  });

  it('is believed at any rate once the store has crossed into it', async () => {
    const crossed = { ...STORED, sporks: [...STORED.sporks, { rootHeight: 200, sporkId: FALSE_ID }] };
    const { net, nodes, tells } = await three({}, {}, crossed);
    await tells(['a:1']);
    expect(names(net.forHeight(200))).toEqual(['a:1']);
    const before = nodes.opened.map(({ asked }) => asked);
    await clock.advance(4 * MINUTE_MS);
    expect(nodes.opened.map(({ asked }) => asked)).toEqual(before);
  });

  it('is followed at once where the configuration has it, whatever the others do', async () => {
    const { net, tells } = await three({ 'b:1': growing(205) }, { sporkRoot: 200 });
    await tells(['a:1']);
    expect(names(net.forHeight(200))).toEqual(['a:1']);
    await clock.advance(2 * MINUTE_MS);
    expect(names(net.forHeight(200))).toEqual(['a:1']);
    expect(names(net.forHeight(199))).toEqual(['b:1', 'c:1']);
    expect(net.sporkAt(200)).toEqual({ rootHeight: 200, sporkId: FALSE_ID });
  });

  it('keeps its record when a node comes that has yet to be heard, and is not asked for anew until it was', async () => {
    const { net, old } = newBesideMute(STORED);
    await net.whenAllAsked(stop.signal);
    expect(names(net.forHeight(200))).toEqual(['new:1']);
    old.down = false;
    await clock.advanceUntil(() => net.forHeight(200).length === 0, MINUTE_MS);
    expect(net.sporkAt(200)).toEqual({ rootHeight: 200, sporkId: TRUE_ID });
    await clock.advance(MINUTE_MS);
    expect(names(net.forHeight(200))).toEqual(['new:1']);
    expect(net.sporkAt(200)).toEqual({ rootHeight: 200, sporkId: TRUE_ID });
  });

  it('waits a minute for a node that has yet to say who it is, where the store has blocks below the root', async () => {
    const { net } = newBesideMute({ ...STORED, firstHeight: 100 });
    const asked = net.whenAllAsked(stop.signal);
    await clock.advance(30_000);
    expect(net.forHeight(200)).toEqual([]);
    expect(net.sporkAt(200)).toBeUndefined();
    expect(net.verifier.undecidedAt(200)?.awaited).toEqual(['old:1']);
    await clock.advance(35_000);
    await asked;
    expect([names(net.forHeight(200)), net.sporkAt(200)?.rootHeight]).toEqual([['new:1'], 200]);
  });

  it('is decided on before the start is, or a minute later', async () => {
    const start = async (latest: NodeScript['latest']): Promise<[number, number | undefined]> => {
      const old = { version: version(10), latest: latest! };
      const { net } = world().network({ 'old:1': old, 'new:1': { version: version(500) } });
      let isAsked = false;
      const waiting = net.whenAllAsked(stop.signal).then(() => (isAsked = true));
      const ms = await clock.advanceUntil(() => isAsked, 2 * MINUTE_MS);
      await waiting;
      return [ms, net.liveRoot()];
    };
    const [standsMs, standsRoot] = await start(() => ({ height: 499 }));
    expect(standsMs).toBeLessThanOrEqual(40_000);
    expect(standsRoot).toBe(500);
    const [growsMs, growsRoot] = await start(growing(100));
    expect(growsMs).toBeLessThanOrEqual(MINUTE_MS + 1_000);
    expect(growsRoot).toBe(10);
  });
});
