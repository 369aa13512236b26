import { beforeEach, describe, expect, it } from 'vitest';
import type { AccessNetwork, SporkTable } from '../../../src/access/index.js';
import { OperatorError } from '../../../src/runtime/index.js';
import { scriptedWorlds, version } from '../../support/scriptedNetwork.js';
import type { ScriptedWorld } from '../../support/scriptedNetwork.js';
import { idOf } from '../../support/scriptedNode.js';
import type { NodeScript } from '../../support/scriptedNode.js';

const MINUTE_MS = 60_000;

let clock: ScriptedWorld['clock'];
let logger: ScriptedWorld['logger'];
let metrics: ScriptedWorld['metrics'];
let stop: AbortController;
let network: ScriptedWorld['network'];

const { world } = scriptedWorlds();
beforeEach(() => {
  ({ clock, logger, metrics, stop, network } = world());
});

const names = (nodes: readonly { readonly name: string }[]): string[] => nodes.map(({ name }) => name);
const stateOf = (of: AccessNetwork, endpoint: string) =>
  of.states().find((state) => state.endpoint === endpoint);
const foreignCount = async (): Promise<string> =>
  metrics.registry.getSingleMetricAsString('flow_collection_indexer_foreign_nodes_total');

describe('the configuration', () => {
  it.each<[string[], string]>([
    [[], 'No access node'],
    [['http://x:1'], 'not an access node'],
    [['grpc://x:1', 'grpcs://x:1'], 'both as grpc:// and as grpcs://'],
  ])('%j is refused', (accessNodes, message) => {
    const build = () => network({ 'x:1': {} }, { accessNodes });
    expect(build).toThrow(OperatorError);
    expect(build).toThrow(message);
  });

  it('takes a node named twice as one, in both of its roles', async () => {
    const { network: net, nodes } = network(
      { 'a:1': { version: version(5) }, 'b:1': { version: version(5) } },
      { accessNodes: ['a:1', 'grpc://A:1'], executionDataNodes: ['a:1', 'b:1'] },
    );
    await net.whenIdentified(stop.signal);
    await clock.settle();
    expect(nodes.opened).toHaveLength(2);
    expect(names(net.live())).toEqual(['a:1']);
    expect(names(net.forHeight(7))).toEqual(['a:1']);
    expect(names(net.forExecutionData(7))).toEqual(['a:1', 'b:1']);
  });
});

describe('identification', () => {
  it('offers no node before it has said who it is', async () => {
    const { network: net } = network({ 'a:1': { version: version(5) } }, { accessNodes: ['a:1'] });
    expect(net.live()).toEqual([]);
    expect(net.forHeight(7)).toEqual([]);
    expect(stateOf(net, 'a:1')?.state).toBe('unknown');
    await net.whenIdentified(stop.signal);
    expect(names(net.live())).toEqual(['a:1']);
    expect(stateOf(net, 'a:1')).toMatchObject({ state: 'healthy', semver: 'v1', lowestHeight: 5 });
  });

  it('waits for nodes that do not answer, trying again with growing pauses', async () => {
    const script: NodeScript = { version: version(5), down: true };
    const { network: net, nodes } = network({ 'a:1': script }, { accessNodes: ['a:1'] });
    let identified = false;
    const waiting = net.whenIdentified(stop.signal).then(() => (identified = true));
    await clock.advance(10 * MINUTE_MS);
    expect(identified).toBe(false);
    const { asked } = nodes.node('a:1');
    expect(asked).toBeGreaterThan(50);
    expect(asked).toBeLessThan(80);
    expect(logger.messages().filter((m) => m === 'access node does not answer')).toHaveLength(1);
    script.down = false;
    await clock.advance(12_000);
    await waiting;
    expect(stateOf(net, 'a:1')?.state).toBe('healthy');
  });

  it('knows where all nodes begin once all were asked, the mute ones too', async () => {
    const { network: net, nodes } = network(
      { 'live:1': { version: version(900) }, 'old:1': { version: version(5) }, 'mute:1': { down: true } },
      { accessNodes: ['live:1', 'old:1', 'mute:1'] },
    );
    let answer = (): void => undefined;
    const old = nodes.node('old:1');
    const getNodeVersionInfo = old.getNodeVersionInfo.bind(old);
    const held = new Promise<void>((resolve) => (answer = resolve));
    old.getNodeVersionInfo = () => held.then(getNodeVersionInfo);
    let allAsked = false;
    const waiting = net.whenAllAsked(stop.signal).then(() => (allAsked = true));
    await net.whenIdentified(stop.signal);
    await clock.settle();
    expect([allAsked, net.lowestHeight()]).toEqual([false, 900]);
    answer();
    await clock.advance(MINUTE_MS);
    await waiting;
    expect(net.lowestHeight()).toBe(5);
    expect(net.liveRoot()).toBe(900);
    const abort = new AbortController();
    abort.abort(new Error('stop'));
    await expect(net.whenAllAsked(abort.signal)).rejects.toThrow('stop');
  });

  it('serves nodes that lack the newer calls', async () => {
    const { network: net } = network(
      {
        'old:1': {
          hidesChain: true,
          belowRoot: (height) =>
            height < 900
              ? {
                  text: `block height ${height} is less than the spork root block height 900`,
                  lowestHeight: 900,
                }
              : undefined,
        },
      },
      { accessNodes: ['old:1'] },
    );
    await net.whenIdentified(stop.signal);
    expect(net.liveRoot()).toBe(900);
    expect(net.lowestHeight()).toBe(900);
    expect(net.sporkAt(950)).toEqual({ rootHeight: 900, sporkId: '' });
    expect(net.sporkAt(899)).toBeUndefined();
  });

  it('takes a root of zero for told only when the node has block zero', async () => {
    const { network: net } = network(
      {
        'genesis:1': { version: version(0), blockIdAt: () => idOf('1') },
        'mute:1': { version: version(0), blockIdAt: () => undefined },
      },
      { accessNodes: ['genesis:1', 'mute:1'] },
    );
    await net.whenIdentified(stop.signal);
    await clock.settle();
    expect(stateOf(net, 'genesis:1')?.lowestHeight).toBe(0);
    expect(stateOf(net, 'mute:1')?.lowestHeight).toBeUndefined();
  });

  it('learns of a spork that begins at zero also when block zero was not found at first', async () => {
    let isThere = false;
    const { network: net } = network(
      { 'genesis:1': { version: version(0), blockIdAt: () => (isThere ? idOf('1') : undefined) } },
      { accessNodes: ['genesis:1'] },
    );
    await net.whenIdentified(stop.signal);
    expect(net.sporkAt(7)).toBeUndefined();
    let told = false;
    const waiting = net.whenSporkTold(7, stop.signal).then(() => (told = true));
    await clock.advance(20_000);
    expect(told).toBe(false);
    isThere = true;
    await clock.advance(10_000);
    await waiting;
    expect(net.sporkAt(7)).toEqual({ rootHeight: 0, sporkId: 'aa'.repeat(32) });
  });

  it('knows a spork that begins at zero from a node that joined it later', async () => {
    const text = 'block height 0 is less than the node root block height 50. Try another';
    const { network: net } = network(
      { 'late:1': { version: version(0, 50), belowRoot: () => ({ text, lowestHeight: 50 }) } },
      { accessNodes: ['late:1'] },
    );
    await net.whenIdentified(stop.signal);
    expect(net.sporkAt(60)).toEqual({ rootHeight: 0, sporkId: 'aa'.repeat(32) });
    expect(net.lowestHeight()).toBe(50);
  });

  it('waits a minute at most for nodes that never tell, and soon asks them no more often than others', async () => {
    const { network: net, nodes } = network(
      { 'mute:1': { version: version(0), blockIdAt: () => undefined } },
      { accessNodes: ['mute:1'] },
    );
    await net.whenIdentified(stop.signal);
    const waiting = net.whenSporkTold(7, stop.signal);
    await clock.advance(MINUTE_MS);
    await waiting;
    await clock.advance(MINUTE_MS);
    const { asked } = nodes.node('mute:1');
    expect(asked).toBeLessThanOrEqual(11);
    await clock.advance(4 * MINUTE_MS);
    expect(nodes.node('mute:1').asked).toBe(asked);
  });

  it('waits for no spork where every node has told where its own begins', async () => {
    const { network: net } = network({ 'a:1': { version: version(500) } }, { accessNodes: ['a:1'] });
    await net.whenIdentified(stop.signal);
    await net.whenSporkTold(7, stop.signal);
    expect(net.sporkAt(7)).toBeUndefined();
  });

  it('asks again after an outage and every five minutes, and not in between', async () => {
    const { network: net, nodes } = network({ 'a:1': { version: version(5) } }, { accessNodes: ['a:1'] });
    await net.whenIdentified(stop.signal);
    const node = nodes.node('a:1');
    expect(node.asked).toBe(1);
    await clock.advance(4 * MINUTE_MS);
    expect(node.asked).toBe(1);
    await clock.advance(MINUTE_MS);
    expect(node.asked).toBe(2);
    node.breakConnection();
    await clock.advance(1_000);
    expect(node.asked).toBe(3);
  });

  it('tells of a node that went away and came back, each once', async () => {
    const script: NodeScript = { version: version(5) };
    const { network: net, nodes } = network({ 'a:1': script }, { accessNodes: ['a:1'] });
    await net.whenIdentified(stop.signal);
    logger.records.length = 0;
    await clock.advance(MINUTE_MS);
    script.down = true;
    nodes.node('a:1').breakConnection();
    await clock.advance(MINUTE_MS);
    script.down = false;
    await clock.advance(MINUTE_MS);
    const told = ['access node does not answer', 'access node set aside', 'access node answers again'];
    expect(logger.messages().filter((message) => told.includes(message))).toEqual([
      'access node does not answer',
      'access node answers again',
    ]);
  });

  it('neither floods nor whitewashes a node whose other calls fail', async () => {
    const { network: net, nodes } = network({ 'a:1': { version: version(5) } }, { accessNodes: ['a:1'] });
    await net.whenIdentified(stop.signal);
    const node = nodes.node('a:1');
    for (let call = 0; call < 100; call += 1) {
      node.breakConnection();
      net.blame(node, 'failing', 'a call could not reach it');
      await clock.advance(100);
    }
    // Ten seconds: asked once more per second at most, set aside for its failures, and never said to be back.
    expect(node.asked).toBeLessThanOrEqual(11);
    expect(node.health).toBe('set_aside');
    expect(logger.messages()).not.toContain('access node answers again');
  });

  it('ends with the signal, and a bug ends it with the bug', async () => {
    const bug = new TypeError('a bug');
    const { network: net, nodes } = network({ 'a:1': {} }, { accessNodes: ['a:1'] });
    nodes.node('a:1').getNodeVersionInfo = () => Promise.reject(bug);
    await expect(world().running.pop()).rejects.toBe(bug);
    const reason = new Error('stop');
    const abort = new AbortController();
    const waiting = net.whenIdentified(abort.signal);
    abort.abort(reason);
    await expect(waiting).rejects.toBe(reason);
  });
});

describe('foreign nodes', () => {
  it('of another chain alone end the start with a sentence that names both chains', async () => {
    const { network: net } = network(
      { 'a:1': { chainId: 'flow-testnet' }, 'b:1': { down: true } },
      { accessNodes: ['a:1', 'b:1'] },
      { chainId: 'flow-mainnet' },
    );
    const error: unknown = await net.whenIdentified(stop.signal).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OperatorError);
    expect(error).toMatchObject({ exit: 'foreign' });
    expect((error as Error).message).toContain('flow-mainnet');
    expect((error as Error).message).toContain('a:1 is of chain flow-testnet');
  });

  it('are left out beside others, logged once and counted once', async () => {
    const { network: net } = network(
      { 'a:1': { chainId: 'flow-testnet', version: version(5) }, 'b:1': { version: version(5) } },
      { accessNodes: ['a:1', 'b:1'] },
    );
    await net.whenIdentified(stop.signal);
    await clock.advance(20 * MINUTE_MS);
    expect(names(net.live())).toEqual(['b:1']);
    expect(names(net.forHeight(9))).toEqual(['b:1']);
    expect(stateOf(net, 'a:1')).toMatchObject({ state: 'foreign', foreign: 'chain' });
    expect(logger.messages().filter((m) => m === 'access node is foreign and left out')).toHaveLength(1);
    expect(await foreignCount()).toContain('reason="chain"} 1');
  });

  it('come back when they are of our chain after all', async () => {
    const script: NodeScript = { chainId: 'flow-testnet', version: version(5) };
    const { network: net } = network(
      { 'a:1': script, 'b:1': { version: version(5) } },
      { accessNodes: ['a:1', 'b:1'] },
    );
    await net.whenIdentified(stop.signal);
    await clock.settle();
    expect(names(net.live())).toEqual(['b:1']);
    script.chainId = 'flow-localnet';
    await clock.advance(5 * MINUTE_MS);
    expect(names(net.live())).toEqual(['a:1', 'b:1']);
  });

  it('are those with another spork id for a root height that we know', async () => {
    const { network: net } = network(
      { 'a:1': { version: version(100, 100, 'bb'.repeat(32)) } },
      { accessNodes: ['a:1'] },
      { sporks: [{ rootHeight: 100, sporkId: 'aa'.repeat(32) }] },
    );
    await expect(net.whenIdentified(stop.signal)).rejects.toMatchObject({ exit: 'foreign' });
  });

  it('are not those of the next spork, nor those that do not tell their spork', async () => {
    const sporks = [{ rootHeight: 100, sporkId: 'aa'.repeat(32) }];
    const { network: net } = network(
      {
        'next:1': { version: version(200, 200, 'bb'.repeat(32)) },
        'old:1': { version: version(100, 100, '') },
      },
      { accessNodes: ['next:1', 'old:1'] },
      { sporks },
    );
    await net.whenIdentified(stop.signal);
    await clock.advance(MINUTE_MS);
    expect(net.states().map(({ state }) => state)).toEqual(['healthy', 'healthy']);
    expect(net.sporkAt(250)).toEqual({ rootHeight: 200, sporkId: 'bb'.repeat(32) });
    expect(net.sporkAt(150)).toEqual({ rootHeight: 100, sporkId: '' });
  });

  describe('with another block at the watermark', () => {
    const watermark = { height: 150, id: idOf('a') };
    const sporks = [{ rootHeight: 100, sporkId: 'aa'.repeat(32) }];
    const other = () => idOf('b');
    const ours = () => idOf('a');

    it('are foreign within a spork that we know', async () => {
      const { network: net } = network(
        { 'a:1': { version: version(100), blockIdAt: other } },
        { accessNodes: ['a:1'] },
        { sporks, watermark },
      );
      const error: unknown = await net.whenIdentified(stop.signal).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ exit: 'foreign' });
      expect((error as Error).message).toContain(`has block ${idOf('b')} at height 150`);
      expect((error as Error).message).toContain(idOf('a'));
    });

    it('are served when a new spork may have discarded our block', async () => {
      const { network: net } = network(
        { 'a:1': { version: version(140, 140, 'bb'.repeat(32)), blockIdAt: other } },
        { accessNodes: ['a:1'] },
        { sporks, watermark },
      );
      await net.whenIdentified(stop.signal);
      expect(names(net.live())).toEqual(['a:1']);
    });

    it('are foreign all the same when another node has our block', async () => {
      const { network: net } = network(
        {
          'a:1': {
            version: 'unimplemented',
            blockIdAt: (height) => (height === 150 ? idOf('b') : undefined),
          },
          'b:1': { version: version(100), blockIdAt: ours },
        },
        { accessNodes: ['a:1', 'b:1'] },
        { sporks, watermark },
      );
      await net.whenIdentified(stop.signal);
      await clock.settle();
      expect(names(net.live())).toEqual(['b:1']);
      expect(await foreignCount()).toContain('reason="block"} 1');
    });

    it('are served when their spork ended below it', async () => {
      const { network: net } = network(
        {
          'old:1': { version: version(100), blockIdAt: other },
          'new:1': { version: version(140, 140, 'bb'.repeat(32)), blockIdAt: ours },
        },
        { accessNodes: ['old:1', 'new:1'] },
        { sporks: [...sporks, { rootHeight: 140, sporkId: 'bb'.repeat(32) }], watermark },
      );
      await net.whenIdentified(stop.signal);
      await clock.settle();
      expect(net.states().map(({ state }) => state)).toEqual(['healthy', 'healthy']);
    });
  });
});

describe('which node for which height', () => {
  const table: SporkTable = [
    {
      name: 's1',
      rootHeight: 0,
      endHeightExclusive: 100,
      rootParentId: '0'.repeat(64),
      accessNodes: ['s1:1'],
    },
    {
      name: 's2',
      rootHeight: 100,
      endHeightExclusive: 200,
      rootParentId: '0'.repeat(64),
      accessNodes: ['s2:1'],
    },
    {
      name: 's4',
      rootHeight: 300,
      endHeightExclusive: null,
      rootParentId: '0'.repeat(64),
      accessNodes: ['s4:1'],
    },
  ];
  const scripts: Readonly<Record<string, NodeScript>> = {
    'live:1': { version: version(300, 350) },
    's1:1': { blockIdAt: () => idOf('1') },
    's2:1': { version: version(100) },
    's4:1': { version: version(300) },
  };

  it('goes to the historic node of the spork below the live root', async () => {
    const { network: net, nodes } = network(scripts, { accessNodes: ['live:1'], sporks: table });
    await net.whenIdentified(stop.signal);
    expect(names(net.forHeight(350))).toEqual(['live:1']);
    expect(nodes.opened).toHaveLength(1);

    expect(net.forHeight(150)).toEqual([]);
    await clock.settle();
    expect(names(net.forHeight(150))).toEqual(['s2:1']);
    expect(names(net.forExecutionData(199))).toEqual(['s2:1']);
    expect(nodes.node('s2:1').ratePerSecond).toBe(80);
    expect(names(net.live())).toEqual(['live:1']);

    // The live spork, below the node's own root.
    net.forHeight(320);
    await clock.settle();
    expect(names(net.forHeight(320))).toEqual(['s4:1']);
    expect(net.forHeight(250)).toEqual([]);
    expect(net.lowestHeight()).toBe(0);
    expect(net.liveRoot()).toBe(350);
    expect(net.sporkAt(320)).toEqual({ rootHeight: 300, sporkId: 'aa'.repeat(32) });
    expect(net.sporkAt(50)).toEqual({ rootHeight: 0, sporkId: '' });
  });

  it('lets a historic node go that nobody wants any more', async () => {
    const { network: net, nodes } = network(scripts, { accessNodes: ['live:1'], sporks: table });
    await net.whenIdentified(stop.signal);
    net.forHeight(150);
    const historic = nodes.node('s2:1');
    await clock.advance(9 * MINUTE_MS);
    expect(historic.closed).toBe(false);
    net.forHeight(150);
    await clock.advance(10 * MINUTE_MS);
    expect(historic.closed).toBe(false);
    await clock.advance(2 * MINUTE_MS);
    expect(historic.closed).toBe(true);
    expect(names(net.states().map(({ endpoint }) => ({ name: endpoint })))).toEqual(['live:1']);
    net.forHeight(150);
    await clock.settle();
    expect(names(net.forHeight(150))).toEqual(['s2:1']);
  });

  it('tells who serves a height without dialling or keeping anyone for it', async () => {
    const { network: net, nodes } = network(scripts, { accessNodes: ['live:1'], sporks: table });
    await net.whenIdentified(stop.signal);
    expect([...net.namesServing(350)]).toEqual(['live:1']);
    expect([...net.namesServing(150)]).toEqual([]);
    await clock.settle();
    expect(nodes.opened).toHaveLength(1);

    net.forHeight(150);
    const historic = nodes.node('s2:1');
    await clock.settle();
    for (let minute = 0; minute < 14; minute += 1) {
      expect([...net.namesServing(150)]).toEqual(['s2:1']);
      await clock.advance(MINUTE_MS);
    }
    await clock.advance(2 * MINUTE_MS);
    expect(historic.closed).toBe(true);
  });

  it('knows the gaps between sporks that nobody serves', async () => {
    const { network: net } = network(scripts, { accessNodes: ['live:1'], sporks: table });
    await net.whenIdentified(stop.signal);
    expect([10, 199, 200, 250, 300, 400].map((height) => net.lowestServedFrom(height))).toEqual([
      10, 199, 300, 300, 300, 400,
    ]);
    const { network: ended } = network({ 's1:1': scripts['s1:1'] ?? {} }, { accessNodes: ['s1:1'] });
    await ended.whenIdentified(stop.signal);
    expect(ended.lowestServedFrom(1_000_000)).toBe(1_000_000);
  });

  it('knows two named nodes of consecutive sporks apart without a table', async () => {
    const { network: net } = network(
      {
        'old:1': { version: version(10, 10, 'aa'.repeat(32)) },
        'new:1': { version: version(500, 500, 'bb'.repeat(32)) },
      },
      { accessNodes: ['old:1', 'new:1'] },
    );
    await net.whenIdentified(stop.signal);
    await clock.advance(MINUTE_MS);
    expect(names(net.live())).toEqual(['new:1']);
    expect(names(net.forHeight(499))).toEqual(['old:1']);
    expect(names(net.forHeight(500))).toEqual(['new:1']);
    expect(net.lowestHeight()).toBe(10);
    expect(net.liveRoot()).toBe(500);
  });

  it('follows the head of an ended spork when only that one is named', async () => {
    const { network: net } = network(scripts, { accessNodes: ['s2:1'], sporks: table });
    await net.whenIdentified(stop.signal);
    expect(names(net.live())).toEqual(['s2:1']);
    expect(names(net.forHeight(150))).toEqual(['s2:1']);
  });

  it('learns from a refusal that a node begins higher than it said', async () => {
    const { network: net, nodes } = network(
      { 'a:1': { version: version(100) }, 'b:1': { version: version(100) } },
      { accessNodes: ['a:1', 'b:1'] },
    );
    await net.whenIdentified(stop.signal);
    await clock.settle();
    nodes.node('a:1').refuseBelow(180);
    expect(names(net.forHeight(150))).toEqual(['b:1']);
    expect(names(net.forHeight(180))).toEqual(['a:1', 'b:1']);
  });
});

describe('blame', () => {
  it('puts a node behind the others and never leaves it out', async () => {
    const { network: net } = network(
      { 'a:1': { version: version(5) }, 'b:1': { version: version(5) } },
      { accessNodes: ['a:1', 'b:1'] },
    );
    await net.whenIdentified(stop.signal);
    await clock.settle();
    const [a] = net.live();
    net.blame(a!, 'lied', 'collection does not hash to its id');
    expect(names(net.live())).toEqual(['b:1', 'a:1']);
    net.blame(net.live()[0]!, 'stale', 'silent');
    expect(names(net.live()).sort()).toEqual(['a:1', 'b:1']);
    expect(logger.records.filter(({ level }) => level === 'warn').map(({ fields }) => fields)).toEqual([
      { endpoint: 'a:1', fault: 'lied', seconds: 10 },
      { endpoint: 'b:1', fault: 'stale', seconds: 10 },
    ]);
    net.succeeded(net.live().find(({ name }) => name === 'b:1')!);
    expect(names(net.live())).toEqual(['b:1', 'a:1']);
    expect(net.states().map(({ state }) => state)).toEqual(['set_aside', 'healthy']);
  });
});
