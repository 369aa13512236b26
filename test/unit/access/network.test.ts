import { beforeEach, describe, expect, it } from 'vitest';
import type { AccessNetwork } from '../../../src/access/index.js';
import type { AccessNetworkOptions } from '../../../src/access/pool/NodePool.js';
import { refusal } from '../../support/refusal.js';
import { ScriptedWorld, scriptedWorlds, version } from './scriptedNetwork.js';
import { blockAt, idOf, type NodeScript } from './scriptedNode.js';

const MINUTE_MS = 60_000;

const { world } = scriptedWorlds();
let { clock, logger, metrics, stop, network, identified } = new ScriptedWorld();
beforeEach(() => {
  ({ clock, logger, metrics, stop, network, identified } = world());
});

const names = (nodes: readonly { readonly name: string }[]): string[] => nodes.map(({ name }) => name);
const stateOf = (of: AccessNetwork, endpoint: string) => of.states().find(({ name }) => name === endpoint);

it.each<[string[], string]>([
  [['http://x:1'], 'not an access node'],
  [['grpc://x:1', 'grpcs://x:1'], 'both as grpc:// and as grpcs://'],
])('the configuration %j is refused', (accessNodes, message) => {
  const build = () => network({ 'x:1': {} }, { accessNodes });
  expect(build).toThrow(expect.objectContaining(refusal('configuration', message)));
});

it('the configuration takes a node named twice as one, in both of its roles', async () => {
  const same = { version: version(5) };
  const roles = { accessNodes: ['a:1', 'grpc://A:1'], executionDataNodes: ['a:1', 'b:1'] };
  const { net, nodes } = await identified({ 'a:1': same, 'b:1': same }, roles);
  expect(nodes.opened).toHaveLength(2);
  expect([names(net.live()), names(net.forHeight(7))]).toEqual([['a:1'], ['a:1']]);
  expect(names(net.forExecutionData(7))).toEqual(['a:1', 'b:1']);
});

const beside = (peer: NodeScript) =>
  identified({ 'a:1': { version: version(5) }, 'p:1': peer }, { accessNodes: ['a:1'], peers: ['p:1'] });

it('a peer gives blocks with bodies, and its word on the chain counts for nothing', async () => {
  const { net } = await beside({ version: version(900) });
  expect([names(net.peers()), names(net.live())]).toEqual([['p:1'], ['a:1']]);
  expect(names(net.forHeight(1_000))).toEqual(['a:1']);
  expect(names(net.forExecutionData(1_000))).toEqual(['a:1']);
  // It claims that a spork begins at 900: nobody asks whether that is so.
  expect([net.sporkAt(1_000)?.rootHeight, net.sporkRoots()]).toEqual([5, [5]]);
  expect(net.verifier.undecidedAt(1_000)).toBeUndefined();
});

it('a peer of another chain is not asked, and named as one where it stands in for the nodes', async () => {
  const other = { version: version(5), chainId: 'flow-testnet' };
  const { net } = await beside(other);
  expect(net.peers()).toEqual([]);
  expect(stateOf(net, 'p:1')).toMatchObject({ state: 'foreign', reason: 'another chain than ours' });
  const mirror = identified({ 'p:1': other }, { accessNodes: [], peers: ['p:1'] });
  await expect(mirror).rejects.toThrow('Name a --peer of that network');
});

describe('identification', () => {
  it('offers no node before it has said who it is', async () => {
    const { net } = network({ 'a:1': { version: version(5) } });
    expect([net.live(), net.forHeight(7)]).toEqual([[], []]);
    expect(stateOf(net, 'a:1')?.state).toBe('unknown');
    await net.whenIdentified(stop.signal);
    expect(names(net.live())).toEqual(['a:1']);
    expect(stateOf(net, 'a:1')).toMatchObject({ state: 'healthy', version: 'v1', lowestHeight: 5 });
  });

  it('waits for nodes that do not answer, trying again with growing pauses', async () => {
    const script: NodeScript = { version: version(5), down: true };
    const fails = { GetNetworkParameters: 'internal', GetLatestBlockHeader: 'internal' } as const;
    const { net, nodes } = network({ 'a:1': script, 'b:1': { fails } });
    let identified = false;
    const waiting = net.whenIdentified(stop.signal).then(() => (identified = true));
    await clock.advance(10 * MINUTE_MS);
    expect(identified).toBe(false);
    const { asked } = nodes.node('a:1');
    // One tiny call every two seconds: a node that comes back is known at once.
    expect(asked).toBeGreaterThan(290);
    expect(asked).toBeLessThan(320);
    script.down = false;
    await clock.advance(2_500);
    await waiting;
    const told = ['access node does not answer', 'access node answers again'];
    expect(logger.messages().filter((message) => message.includes('answer'))).toEqual(told);
    expect(logger.messages()).toContain('access node does not identify itself');
    expect(stateOf(net, 'a:1')?.state).toBe('healthy');
  });

  it('knows where all nodes begin once all were asked, the mute ones too', async () => {
    let answer = (): void => undefined;
    const until = new Promise<void>((resolve) => (answer = resolve));
    const [live, old] = [{ version: version(900) }, { version: version(5), until }];
    const { net } = network({ 'live:1': live, 'old:1': old, 'mute:1': { down: true } });
    let allAsked = false;
    const waiting = net.whenAllAsked(stop.signal).then(() => (allAsked = true));
    await net.whenIdentified(stop.signal);
    await clock.settle();
    expect([allAsked, net.lowestHeight()]).toEqual([false, 900]);
    answer();
    await clock.advance(MINUTE_MS);
    await waiting;
    expect([net.lowestHeight(), net.liveRoot()]).toEqual([5, 900]);
    await expect(net.whenAllAsked(AbortSignal.abort(new Error('stop')))).rejects.toThrow('stop');
  });

  it('learns of a spork that begins at zero also when block zero was not found at first, and from a node that joined it later', async () => {
    let isThere = false;
    const blockIdAt = () => (isThere ? idOf('1') : undefined);
    const { net } = await identified({ 'genesis:1': { version: version(0), blockIdAt } });
    expect(net.sporkAt(7)).toBeUndefined();
    let told = false;
    const waiting = net.whenSporkKnown(7, stop.signal).then(() => (told = true));
    await clock.advance(20_000);
    expect(told).toBe(false);
    isThere = true;
    await clock.advance(10_000);
    await waiting;
    expect(net.sporkAt(7)).toEqual({ rootHeight: 0, sporkId: 'aa'.repeat(32) });
    const text = 'block height 0 is less than the node root block height 50. Try another';
    const belowRoot = () => ({ text, lowestHeight: 50 });
    const { net: late } = await identified({ 'late:1': { version: version(0, 50), belowRoot } });
    expect(late.sporkAt(60)).toEqual({ rootHeight: 0, sporkId: 'aa'.repeat(32) });
    expect(late.lowestHeight()).toBe(50);
  });

  it('waits a minute at most for nodes that never tell, and soon asks them no more often than others', async () => {
    const mute = { version: version(0), blockIdAt: () => undefined };
    const { net, nodes } = await identified({ 'mute:1': mute });
    const waiting = net.whenSporkKnown(7, stop.signal);
    await clock.advance(MINUTE_MS);
    await waiting;
    await clock.advance(MINUTE_MS);
    const { asked } = nodes.node('mute:1');
    expect(asked).toBeLessThanOrEqual(11);
    await clock.advance(4 * MINUTE_MS);
    expect(nodes.node('mute:1').asked).toBe(asked);
    // Where every node has told where its own spork begins, nothing is waited for.
    const { net: told } = await identified({ 'a:1': { version: version(500) } });
    await told.whenSporkKnown(7, stop.signal);
    expect(told.sporkAt(7)).toBeUndefined();
  });

  it('asks again every five minutes, and as soon as the connection is lost: another node may answer there', async () => {
    const { nodes } = await identified({ 'a:1': { version: version(5) } });
    const node = nodes.node('a:1');
    const askedAfter = async (ms: number): Promise<number> => {
      await clock.advance(ms);
      return node.asked;
    };
    expect([node.asked, await askedAfter(4 * MINUTE_MS), await askedAfter(MINUTE_MS)]).toEqual([1, 1, 2]);
    await clock.advance(100);
    node.events.onOutage?.();
    expect(await askedAfter(0)).toBe(3);
    node.events.onOutage?.();
    expect([await askedAfter(900), await askedAfter(200)]).toEqual([3, 4]);
  });

  it('gives an empty index no first block after an outage: it may be another chain’s than the recorded spork', async () => {
    const script: NodeScript = { version: version(0), blockIdAt: () => idOf('1') };
    const { net: empty, nodes } = await identified({ 'a:1': script });
    const watermark = { height: 5, id: idOf('1') };
    const { net: begun, nodes: same } = await identified({ 'a:1': script }, {}, { watermark });
    script.down = true;
    for (const opened of [nodes, same]) opened.node('a:1').events.onOutage?.();
    await clock.settle();
    // A block that comes next must follow what is stored.
    expect([empty, begun].map((net) => names(net.forHeight(6)))).toEqual([[], ['a:1']]);
    expect([empty, begun].map((net) => net.whyUnserved(6).length)).toEqual([1, 0]);
    script.down = false;
    await clock.advance(2_500);
    expect(names(empty.forHeight(6))).toEqual(['a:1']);
  });

  it('gives an empty index its first block of nodes that told their spork, and asks all again once there is one', async () => {
    const late: NodeScript = { version: version(0), blockIdAt: () => idOf('2') };
    late.fails = { GetNodeVersionInfo: 'deadline' };
    const known: { watermark?: typeof watermark } = {};
    const scripts = { 'late:1': late, 'a:1': { version: version(0), blockIdAt: () => idOf('1') } };
    const { net } = await identified(scripts, {}, known);
    expect(names(net.forHeight(0))).toEqual(['a:1']);
    late.fails = {};
    await clock.advance(20_000);
    expect(names(net.forHeight(0))).toHaveLength(2);
    known.watermark = { height: 3, id: idOf('1') };
    expect(names(net.forHeight(4))).toHaveLength(2);
    await clock.advance(1_000);
    expect(names(net.forHeight(4))).toEqual(['a:1']);
  });

  it('neither floods nor whitewashes a node whose other calls fail', async () => {
    const { net, nodes } = await identified({ 'a:1': { version: version(5) } });
    const node = nodes.node('a:1');
    for (let call = 0; call < 100; call += 1) {
      node.events.onOutage?.();
      net.report(node, 'failing', 'a call could not reach it', 'GetTransaction');
      await clock.advance(100);
    }
    // Ten seconds: asked once at once, then once per second at most, set aside for its failures, and never said to be back.
    expect(node.asked).toBeLessThanOrEqual(12);
    expect(node.healthRecord.health).toBe('healthy');
    expect(node.healthRecord.healthOf('GetTransaction')).toBe('set_aside');
    expect(logger.messages()).not.toContain('access node answers again');
  });

  it('ends with the signal, and a bug ends it with the bug', async () => {
    const bug = new TypeError('a bug');
    const latest = () => {
      throw bug;
    };
    const { net } = network({ 'a:1': { latest } });
    await expect(world().running.pop()).rejects.toBe(bug);
    const [abort, reason] = [new AbortController(), new Error('stop')];
    const waiting = net.whenIdentified(abort.signal);
    abort.abort(reason);
    await expect(waiting).rejects.toBe(reason);
  });
});

describe('a node that fails some of the questions', () => {
  it.each(['internal', 'deadline', 'malformed', 'unavailable'] as const)(
    'is known by its headers where its parameters fail: %s',
    async (kind) => {
      const script: NodeScript = { fails: { GetNetworkParameters: kind }, headerChainId: 'flow-localnet' };
      const { net } = await identified({ 'a:1': { ...script, version: version(5) } });
      expect(net.liveRoot()).toBe(5);
      const other = { ...script, headerChainId: 'flow-testnet' };
      const { net: second } = network({ 'b:1': other });
      await expect(second.whenIdentified(stop.signal)).rejects.toMatchObject({ exit: 'foreign' });
    },
  );

  it.each(['internal', 'deadline', 'malformed'] as const)(
    'is asked while it does not tell where its spork begins, and asked again for that: %s',
    async (kind) => {
      const script: NodeScript = { version: version(5), fails: { GetNodeVersionInfo: kind } };
      const { net } = await identified({ 'a:1': script });
      expect(names(net.live())).toEqual(['a:1']);
      expect(net.identityTroubles()).toMatchObject([{ node: 'a:1', method: 'GetNodeVersionInfo', count: 1 }]);
      await clock.advance(20 * MINUTE_MS);
      expect(net.sporkAt(7)).toBeUndefined();
      delete script.fails;
      await clock.advance(12_500);
      expect(net.sporkAt(7)).toEqual({ rootHeight: 5, sporkId: 'aa'.repeat(32) });
      expect(net.identityTroubles()).toEqual([]);
    },
  );

  it.each(['GetNetworkParameters', 'GetNodeVersionInfo', 'GetLatestBlockHeader'] as const)(
    'is known although %s breaks the connection',
    async (breaks) => {
      const refused = { text: 'height 0 is less than the spork root block height 5', lowestHeight: 5 };
      const belowRoot = (height: number) => (height < 5 ? refused : undefined);
      const script = { version: version(5), headerChainId: 'flow-localnet', belowRoot, breaks };
      const { net } = await identified({ 'a:1': script });
      expect(stateOf(net, 'a:1')).toMatchObject({ state: 'healthy', lowestHeight: 5 });
    },
  );

  it('has its root found by stream where it does not give block zero by call', async () => {
    const fails = { GetBlockByHeight: 'internal' } as const;
    const { net } = network({ 'a:1': { fails, version: version(0), streams: blockAt(0, idOf('1')) } });
    await clock.advance(500);
    expect(stateOf(net, 'a:1')).toMatchObject({ state: 'healthy', lowestHeight: 0 });
    expect(net.liveRoot()).toBe(0);
  });

  it('is named with its refusals while a new store waits for the root that it does not tell', async () => {
    const script: NodeScript = { version: version(0), blockIdAt: () => undefined };
    const { net } = await identified({ 'a:1': script });
    // To nobody who does not wait for it.
    await clock.advance(5_000);
    expect(net.identityTroubles()).toEqual([]);
    let told = false;
    const waiting = net.whenSporkKnown('root', stop.signal).then(() => (told = true));
    await clock.advance(20_000);
    expect(told).toBe(false);
    const [denial] = net.identityTroubles();
    expect(denial).toMatchObject({ node: 'a:1', kind: 'denied', said: 'GetBlockByHeight: not_found' });
    expect(denial?.count).toBeGreaterThan(3);
    // What is worse is named while it lasts.
    for (const [kind, fails] of [['invalid', { GetNodeVersionInfo: 'malformed' }], ['denied']] as const) {
      script.fails = fails ?? {};
      await clock.advance(5_000);
      expect(net.identityTroubles()).toMatchObject([{ kind }]);
    }
    // Its minute is not over while it is away, or slow.
    script.down = true;
    await clock.advance(MINUTE_MS);
    Object.assign(script, { down: false, fails: { GetNodeVersionInfo: 'deadline' } });
    await clock.advance(MINUTE_MS);
    expect(told).toBe(false);
    delete script.fails;
    script.blockIdAt = () => idOf('1');
    await clock.advance(3_000);
    await waiting;
    expect([net.liveRoot(), net.identityTroubles()]).toEqual([0, []]);
  });

  it('is not believed that it begins above its own head, and is asked another way', async () => {
    const lie = { version: version(1_000_000), latest: () => ({ height: 40 }), blockIdAt: () => idOf('1') };
    const { net } = await identified({ 'liar:1': lie });
    await net.whenAllAsked(stop.signal);
    expect([net.liveRoot(), names(net.forHeight(41))]).toEqual([0, ['liar:1']]);
    const said =
      'GetNodeVersionInfo at liar:1: says that its chain begins at 1000000, above its own head, 40';
    expect(net.identityTroubles()).toMatchObject([{ kind: 'invalid', said }]);
  });

  it('is named with where it begins while nobody serves a height, and soon asked again who it is', async () => {
    const script: NodeScript = { version: version(100), blockIdAt: () => idOf('1') };
    const { net } = await identified({ 'a:1': script });
    expect([net.forHeight(41), net.whyUnserved(100)]).toEqual([[], []]);
    const why = { node: 'a:1', kind: 'refused', said: 'says it begins at 100', count: 1 };
    expect(net.whyUnserved(41)).toMatchObject([why]);
    // From the second on, nodes of a spork take turns behind a balancer, and one of them begins later.
    for (const [turn, its] of [version(0), ...[50, 20, 50].map((from) => version(20, from))].entries()) {
      script.version = its;
      await clock.advance(turn === 0 ? 6_000 : 6 * MINUTE_MS);
      net.forHeight(41);
      await clock.advance(1_000);
      expect(names(net.forHeight(41))).toEqual(turn === 1 ? [] : ['a:1']);
    }
  });

  it('is named with its words, how often and since when, while it does not identify itself', async () => {
    const fails = { GetNetworkParameters: 'internal', GetLatestBlockHeader: 'internal' } as const;
    const script: NodeScript = { version: version(5), fails };
    const silence = { GetNetworkParameters: 'deadline', GetLatestBlockHeader: 'deadline' } as const;
    const { net } = network({ 'a:1': script, 'mute:1': { fails: silence } });
    await clock.advance(10_000);
    const [told, mute] = net.identityTroubles();
    expect(told).toMatchObject({ node: 'a:1', kind: 'refused', said: 'GetNetworkParameters: internal' });
    expect(told?.count).toBeGreaterThan(3);
    expect(clock.monotonic() - (told?.sinceMs ?? 0)).toBeGreaterThanOrEqual(9_900);
    expect(mute).toMatchObject({ node: 'mute:1', kind: 'unreachable' });
    let again = 0;
    net.onAnswering(() => (again += 1));
    delete script.fails;
    await clock.advance(2_500);
    expect([names(net.live()), [again, net.identityTroubles().length]]).toEqual([['a:1'], [1, 1]]);
  });
});

const spork = (name: string, rootHeight: number, endHeightExclusive: number | null) => ({
  ...{ name, rootHeight, endHeightExclusive, rootParentId: idOf('0'), accessNodes: [`${name}:1`] },
});

describe('a chain that began anew', () => {
  const watermark = { height: 540, id: idOf('a') };
  const sporks = [{ rootHeight: 0, sporkId: '' }];
  /** The store agrees with the other chain up to here. */
  let sharedTo: number;
  const storedBlock = (height: number) => Promise.resolve({ id: idOf(height <= sharedTo ? 'b' : 'a') });
  const expectation = { sporks, watermark, firstHeight: 100, storedBlock };
  const anew = (head: number) => ({
    ...{ latest: () => ({ height: head }), version: version(0) },
    blockIdAt: (height: number) => (height <= head ? idOf('b') : undefined),
  });

  it.each(['unavailable', 'deadline'] as const)(
    'is noticed soon where the first question for a block had no answer, and where they part is not guessed: %s',
    async (kind) => {
      sharedTo = 150;
      const script: NodeScript = { ...anew(232), fails: { GetBlockByHeight: kind } };
      const { net } = await identified({ 'a:1': script }, {}, expectation);
      expect(net.chainReplaced()).toBeUndefined();
      let looks = 0;
      script.blockIdAt = (height) => {
        // In the middle of the search for the highest block that both have.
        if ((looks += 1) === 4) script.fails = { GetBlockByHeight: kind };
        return height <= 232 ? idOf('b') : undefined;
      };
      for (const said of [undefined, expect.stringContaining('rewind --to 150 --yes')]) {
        script.fails = {};
        await clock.advance(12_000);
        expect(net.chainReplaced()).toEqual(said);
      }
    },
  );

  it.each<[number, string]>([
    [-1, '--to 99 --yes'],
    [150, '--to 150 --yes'],
  ])('ends the start though its head is below what is stored: shared to %i', async (shared, target) => {
    sharedTo = shared;
    const { net } = network({ 'a:1': anew(232) }, {}, expectation);
    const found = `a:1 has block ${idOf('b')} at height 232, where the index has ${idOf('a')}. `;
    const refused = refusal('foreign', new RegExp(`^${found}.* another --data-dir .* rewind ${target}`));
    await expect(net.whenIdentified(stop.signal)).rejects.toMatchObject(refused);
  });

  it('is noticed while the daemon runs, by the head alone, and told', async () => {
    sharedTo = -1;
    const ours: NodeScript = { ...anew(600), blockIdAt: () => idOf('a') };
    const script = { ...ours };
    const { net, nodes } = await identified({ 'a:1': script }, {}, expectation);
    expect(net.chainReplaced()).toBeUndefined();
    await clock.advance(30_000);
    let found = 0;
    net.onForeign(() => (found += 1));
    Object.assign(script, anew(232));
    nodes.node('a:1').events.onHead?.(232);
    await clock.advance(1_000);
    expect(found).toBe(1);
    expect(net.chainReplaced()).toMatch(/^a:1 .* at height 232/);
    expect([net.live(), net.forHeight(200)]).toEqual([[], []]);
    // What it served before it fell silent is no cause any more.
    script.down = true;
    nodes.node('a:1').events.onOutage?.();
    await clock.advance(1_000);
    expect(net.chainReplaced()).toBeUndefined();
    expect(net.identityTroubles()).toMatchObject([{ node: 'a:1', kind: 'unreachable' }]);
    script.down = false;
    await clock.advance(3_000);
    expect(net.chainReplaced()).toBeDefined();
    // It is ours again: a load balancer may have gone astray.
    Object.assign(script, ours);
    await clock.advance(6_000);
    expect(net.chainReplaced()).toBeUndefined();
    expect(names(net.live())).toEqual(['a:1']);
  });

  it('is not what a node is of that has our blocks and is merely behind: that is told apart', async () => {
    sharedTo = 540;
    const { net, nodes } = await identified({ 'a:1': anew(232) }, {}, expectation);
    const told = (head: number) => {
      nodes.node('a:1').events.onHead?.(head);
      return net.headBelow();
    };
    expect([net.chainReplaced(), net.headBelow()]).toEqual([undefined, { head: 232, reached: 540 }]);
    expect(told(541)).toBeUndefined();
    await clock.advance(MINUTE_MS);
    expect(told(233)).toEqual({ head: 233, reached: 540 });
    // One that is a little lower was told a moment before the last block came.
    expect(told(537)).toBeUndefined();
    // And a low one that comes right after it does not take its place.
    expect(told(233)).toBeUndefined();
    await clock.advance(6_000);
    expect(told(233)).toEqual({ head: 233, reached: 540 });
    expect(told(541)).toBeUndefined();
    expect(net.headBelow(90_000)).toEqual({ head: 541, reached: 90_000 });
    // What was told long ago says nothing of now.
    await clock.advance(MINUTE_MS);
    expect(net.headBelow()).toBeUndefined();
  });

  it('is not said of a head that one node alone tells, for as long as others tell theirs', async () => {
    sharedTo = 540;
    const { net, nodes } = await identified({ 'a:1': anew(232), 'b:1': anew(232) }, {}, expectation);
    nodes.node('a:1').events.onHead?.(90_000);
    const soles = [231, 232, 90_000].map((height) => net.soleReporter(height));
    expect(soles).toEqual([undefined, 'a:1', undefined]);
    await clock.advance(MINUTE_MS);
    nodes.node('a:1').events.onHead?.(90_001);
    expect(net.soleReporter(232)).toBeUndefined();
  });

  it('may be a later spork where the network has sporks and the node tells of none', async () => {
    sharedTo = -1;
    const table = [spork('s1', 0, null)];
    const blockIdAt: NodeScript['blockIdAt'] = (height) => (height === 540 ? idOf('b') : undefined);
    const script = { latest: () => ({ height: 600 }), blockIdAt };
    await identified({ 'a:1': script }, { sporks: table }, expectation);
    const { net: without } = network({ 'b:1': script }, {}, expectation);
    await expect(without.whenIdentified(stop.signal)).rejects.toMatchObject({ exit: 'foreign' });
  });
});

it('nodes of another chain alone end the start with a sentence that names both chains', async () => {
  const scripts = { 'a:1': { chainId: 'flow-testnet' }, 'b:1': { down: true } };
  const { net } = network(scripts, {}, { chainId: 'flow-mainnet', network: 'mainnet' });
  const said = 'a:1 serves flow-testnet; --network mainnet expects flow-mainnet';
  await expect(net.whenIdentified(stop.signal)).rejects.toMatchObject(refusal('foreign', said));
});

it('nodes of another spork are left out, and alone end the start with a sentence that names both', async () => {
  const [ours, theirs] = ['aa'.repeat(32), 'bb'.repeat(32)];
  const known = { sporks: [{ rootHeight: 100, sporkId: ours }] };
  const other = { version: version(100, 100, theirs) };
  const { net } = network({ 'a:1': other }, {}, known);
  const said = `gives spork ${theirs} for root height 100, where the index has ${ours}`;
  await expect(net.whenIdentified(stop.signal)).rejects.toMatchObject(refusal('foreign', said));
  const beside = await identified({ 'a:1': other, 'b:1': { version: version(100) } }, {}, known);
  expect(names(beside.net.live())).toEqual(['b:1']);
});

const watermark = { height: 150, id: idOf('a') };
const sporks = [{ rootHeight: 100, sporkId: 'aa'.repeat(32) }];
const ours = () => idOf('a');

it('nodes with another block at the watermark are foreign when another node has our block, unless their spork ended below it', async () => {
  const other: NodeScript['blockIdAt'] = (height) => (height === 150 ? idOf('b') : undefined);
  const vague: NodeScript = { version: 'unimplemented', blockIdAt: other };
  const scripts = { 'a:1': vague, 'b:1': { version: version(100), blockIdAt: ours } };
  const { net } = await identified(scripts, {}, { sporks, watermark });
  expect(names(net.live())).toEqual(['b:1']);
  const counted = await metrics.registry.getSingleMetricAsString(
    'flow_collection_indexer_foreign_nodes_total',
  );
  expect(counted).toContain('reason="block"} 1');
  const ended = {
    'old:1': { version: version(100), blockIdAt: () => idOf('b') },
    'new:1': { version: version(140, 140, 'bb'.repeat(32)), blockIdAt: ours },
  };
  const crossed = [...sporks, { rootHeight: 140, sporkId: 'bb'.repeat(32) }];
  const { net: served } = await identified(ended, {}, { sporks: crossed, watermark });
  expect(served.states().map(({ state }) => state)).toEqual(['healthy', 'healthy']);
});

it('nodes with another block than the checkpoint are foreign at once, also alone, unless their spork ended below it', async () => {
  const other: NodeScript = { version: version(100), blockIdAt: () => idOf('b') };
  const besides = (more: Record<string, NodeScript>) =>
    identified({ 'x:1': other, ...more }, {}, { checkpoint: watermark });
  expect(names((await besides({ 'a:1': { blockIdAt: ours } })).net.live())).toEqual(['a:1']);
  const said = `x:1 has block ${idOf('b')} at height 150, where proof.checkpoint names ${idOf('a')}`;
  await expect(besides({})).rejects.toMatchObject(refusal('foreign', said));
  const { net } = await besides({ 'b:1': { version: version(140, 140, 'bb'.repeat(32)), blockIdAt: ours } });
  expect(net.states().map(({ state }) => state)).toEqual(['healthy', 'healthy']);
});

describe('which node for which height', () => {
  const table = [spork('s1', 0, 100), spork('s2', 100, 200), spork('s4', 300, null)];
  const scripts: Readonly<Record<string, NodeScript>> = {
    'live:1': { version: version(300, 350) },
    's1:1': { blockIdAt: () => idOf('1') },
    's2:1': { version: version(100) },
    's4:1': { version: version(300) },
  };
  const over = (node: string, options: Partial<AccessNetworkOptions> = {}) =>
    identified(scripts, { accessNodes: [node], sporks: table, ...options });

  it('lets a historic node go that nobody wants any more; who tells who serves a height neither dials nor keeps anyone', async () => {
    const { net, nodes } = await over('live:1');
    expect([[...net.namesServing(350)], [...net.namesServing(150)]]).toEqual([['live:1'], []]);
    await clock.settle();
    expect(nodes.opened).toHaveLength(1);
    net.forHeight(150);
    const historic = nodes.node('s2:1');
    await clock.advance(9 * MINUTE_MS);
    expect(historic.closed).toBe(false);
    net.forHeight(150);
    for (let minute = 0; minute < 10; minute += 1) {
      await clock.advance(MINUTE_MS);
      expect([...net.namesServing(150)]).toEqual(['s2:1']);
    }
    expect(historic.closed).toBe(false);
    await clock.advance(2 * MINUTE_MS);
    expect(historic.closed).toBe(true);
    expect(names(net.states())).toEqual(['live:1']);
    net.forHeight(150);
    await clock.settle();
    expect(names(net.forHeight(150))).toEqual(['s2:1']);
    // Nor is it missed where the operator has named it for execution data alone.
    const { net: other } = await over('live:1', { executionDataNodes: ['live:1', 's2:1'] });
    other.forHeight(150);
    expect([names(other.forHeight(150)), names(other.live())]).toEqual([['s2:1'], ['live:1']]);
  });

  it('are named where they do not answer, not the node that begins above', async () => {
    const fails = { GetNetworkParameters: 'unavailable', GetLatestBlockHeader: 'unavailable' } as const;
    const options = { accessNodes: ['live:1'], sporks: table };
    const { net } = await identified({ ...scripts, 's2:1': { fails } }, options);
    expect(net.forHeight(150)).toEqual([]);
    await clock.advance(3_000);
    expect(net.whyUnserved(150)).toMatchObject([{ node: 's2:1', kind: 'unreachable' }]);
    expect(net.whyUnserved(350)).toEqual([]);
  });

  it('knows the gaps between sporks that nobody serves, and follows the head of an ended one that alone is named', async () => {
    const { net } = await over('live:1');
    expect([10, 199, 200, 250, 300, 400].map((height) => net.lowestServedFrom(height))).toEqual([
      10, 199, 300, 300, 300, 400,
    ]);
    const { net: ended } = await identified({ 's1:1': scripts['s1:1'] ?? {} });
    expect(ended.lowestServedFrom(1_000_000)).toBe(1_000_000);
    const { net: alone } = await over('s2:1');
    expect([names(alone.live()), names(alone.forHeight(150))]).toEqual([['s2:1'], ['s2:1']]);
  });

  it('is not asked far above its head while another is there, and asked anew where that stands still', async () => {
    const at = (height: number): NodeScript => ({ version: version(5), latest: () => ({ height }) });
    const { net, nodes } = await identified({ 'a:1': at(1_000), 'b:1': at(900) });
    const offered = [920, 921, 1_021].map((height) => names(net.forHeight(height)));
    expect(offered).toEqual([['a:1', 'b:1'], ['a:1'], ['a:1', 'b:1']]);
    for (let second = 1; second <= 150; second += 1) {
      await clock.advance(1_000);
      nodes.node('a:1').events.onHead?.(1_000 + second);
      nodes.node('b:1').events.onHead?.(900);
    }
    const asked = ['a:1', 'b:1'].map((name) => [nodes.node(name).renewed, nodes.node(name).asked]);
    expect(asked).toEqual([
      [0, 1],
      [2, 3],
    ]);
  });

  it('learns from a refusal that a node begins higher than it said', async () => {
    const begins = { version: version(100) };
    const { net, nodes } = await identified({ 'a:1': begins, 'b:1': begins });
    nodes.node('a:1').events.onLowestHeight?.(180);
    expect(names(net.forHeight(150))).toEqual(['b:1']);
    expect(names(net.forHeight(180))).toEqual(['a:1', 'b:1']);
  });
});
