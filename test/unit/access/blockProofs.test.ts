import { status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import type { ReceivedBlock, UpstreamError } from '../../../src/access/index.js';
import type { Channel } from '../../../src/access/transport/channel/rpcChannel.js';
import type { ProofMode } from '../../../src/access/node/BlockProofs.js';
import { Chain, consecutiveSporks, DevnetNode, loadProtocol } from '../../../src/devnet/index.js';
import { resolveNodeOptions, StatusError, UnaryCalls } from '../../../src/devnet/index.js';
import type { DevnetMethod, DevnetOptions, FaultEffect } from '../../../src/devnet/index.js';
import { checkStoredProof } from '../../../src/proof/index.js';
import { scriptedWorlds } from './scriptedNetwork.js';

const CHAIN_ID = 'flow-localnet';
const common = { hashedIds: true, certificatesEvery: 0, profile: 'dense' } as const;
const [earlier = {}, live = {}] = consecutiveSporks({ ends: [{ lastHeight: 20 }], common });
const chains = new Map([earlier, live].map((options) => [options, new Chain(options)]));
const protocol = loadProtocol();
const HIDDEN: FaultEffect = { fault: 'hidden_header' };
const WARNING = 'blocks are taken on the word of the nodes';

const { world } = scriptedWorlds();

/** The unary calls of a node, without a network. */
function channelTo(node: DevnetNode): Channel {
  const calls = new UnaryCalls({ node });
  const connection = { reset: () => undefined };
  return {
    async unary(path, bytes, { signal = new AbortController().signal }) {
      const [, service = '', method = ''] = path.split('/');
      const definition = protocol[service];
      const request =
        definition === undefined || 'format' in definition
          ? {}
          : (definition[method]?.requestDeserialize(bytes) ?? {});
      try {
        return await calls.answer(method as DevnetMethod, request, { signal, connection });
      } catch (error) {
        if (!(error instanceof StatusError)) throw error;
        return { code: status[error.status], details: error.details };
      }
    },
    stream: () => {
      throw new Error('no streams here');
    },
    close: () => undefined,
  };
}

/** A network of nodes, all identified; each with what it does to every block, and the spork that it is of. */
async function proving(
  nodes: Readonly<Record<string, { readonly lie?: FaultEffect; readonly of?: DevnetOptions }>>,
  mode: ProofMode = 'auto',
) {
  const { clock, logger, metrics, over } = world();
  const devnets = new Map(
    Object.entries(nodes).map(([name, { of = live }]) => {
      const options = resolveNodeOptions({ startHead: 60, ...of, blockIntervalMs: 3_600_000 });
      return [name, new DevnetNode(options, { chain: chains.get(of)!, clock })] as const;
    }),
  );
  const lies = (name: string, lie: FaultEffect | undefined): void =>
    devnets.get(name)?.setFaults(lie === undefined ? [] : [{ method: 'GetBlockByHeight', ...lie }]);
  const network = over(
    { accessNodes: [...devnets.keys()], proof: { mode, chainId: CHAIN_ID } },
    { openChannel: ({ endpoint }) => channelTo(devnets.get(endpoint.name)!) },
  );
  // Whether a spork of which the others know nothing exists is known within a minute.
  await clock.advance(Object.values(nodes).some(({ of }) => of !== undefined) ? 70_000 : 1_000);
  for (const [name, { lie }] of Object.entries(nodes)) lies(name, lie);
  /** The node's block, or the kind of error. */
  const ask = async (name: string, height = 50): Promise<ReceivedBlock['block'] | string> => {
    const node = network.forHeight(height).find((each) => each.name === name);
    if (node === undefined) throw new Error(`${name} does not serve ${height}`);
    try {
      return (await node.getBlockByHeight(height)).block;
    } catch (error) {
      return (error as UpstreamError).kind;
    }
  };
  const counted = async () =>
    (await metrics.invalidBlocks.get()).values
      .filter(({ value }) => value > 0)
      .map(({ labels, value }) => `${labels.endpoint} ${labels.reason} ${value}`);
  const warnings = () => logger.records.filter(({ message }) => message === WARNING);
  return { ask, clock, counted, lies, network, warnings };
}

it('a block that a node sends comes with its proof', async () => {
  const { ask, counted, network } = await proving({ 'a:1': {} });
  const block = await ask('a:1');
  if (typeof block === 'string') throw new Error(block);
  expect(checkStoredProof(block.encoded, block.proof ?? Buffer.alloc(0), CHAIN_ID)?.id).toBe(block.id);
  expect(network.proofs?.status()).toEqual({ form: 'H8P8', reason: undefined });
  expect(await counted()).toEqual([]);
});

it.each<[FaultEffect, string]>([
  [{ fault: 'wrong_body' }, 'payload'],
  [{ fault: 'wrong_parent' }, 'copy'],
  [{ fault: 'changed_copy' }, 'copy'],
  [{ fault: 'changed_copy', field: 'height' }, 'copy'],
  [{ fault: 'changed_copy', field: 'signature' }, 'copy'],
  [{ fault: 'changed_copy', field: 'guarantee' }, 'copy'],
  [{ fault: 'changed_header', field: 'id' }, 'id'],
])('a block that a node sends is its lie, and counted, where its id refutes it: %s', async (lie, reason) => {
  const { ask, counted } = await proving({ 'a:1': { lie }, 'b:1': {} });
  expect([await ask('a:1'), await counted()]).toEqual(['forged', [`a:1 ${reason} 1`]]);
  expect(await ask('b:1')).toMatchObject({ height: 50, proof: expect.anything() as unknown });
  expect(await counted()).toHaveLength(1);
});

describe('a block that nothing proves', () => {
  it.each<FaultEffect>([
    HIDDEN,
    { fault: 'hidden_header', invents: true },
    { fault: 'changed_header' },
    { fault: 'changed_header', field: 'payload_hash' },
  ])('is refused while a healthy node may give a better one, however often it comes: %s', async (lie) => {
    const { ask, counted, warnings } = await proving({ 'a:1': { lie }, 'b:1': {} });
    for (const height of [50, 50, 50, 51, 52]) expect(await ask('a:1', height)).toBe('unproven');
    expect(await ask('b:1')).toMatchObject({ proof: expect.anything() as unknown });
    expect([await ask('a:1'), await counted()]).toEqual(['unproven', []]);
    expect(warnings()).toEqual([]);
  });

  it('is taken once all nodes gave none better, with one warning for its spork, until one is proven', async () => {
    const hides = { lie: HIDDEN };
    const { ask, lies, network, warnings } = await proving({ 'a:1': hides, 'b:1': hides });
    expect(await ask('a:1')).toBe('unproven');
    expect(await ask('b:1')).toMatchObject({ height: 50 });
    expect(network.proofs?.status().reason).toContain('header');
    // From now on nobody else is asked first.
    for (const height of [51, 52]) expect(await ask('a:1', height)).toMatchObject({ height });
    expect(warnings()).toHaveLength(1);

    lies('b:1', undefined);
    expect(await ask('b:1', 53)).toMatchObject({ proof: expect.anything() as unknown });
    expect(network.proofs?.status()).toEqual({ form: 'H8P8', reason: undefined });
    expect(await ask('a:1', 54)).toBe('unproven');
    expect(warnings()).toHaveLength(1);
  });

  it('says nothing about the blocks of another spork', async () => {
    const old = { lie: HIDDEN, of: earlier };
    const { ask, warnings } = await proving({ 'old:1': old, 'a:1': { lie: HIDDEN }, 'b:1': {} });
    expect(await ask('old:1', 10)).toMatchObject({ height: 10 });
    expect(await ask('a:1')).toBe('unproven');
    // Nor does a proof in that one say anything about this.
    expect(await ask('b:1')).toMatchObject({ proof: expect.anything() as unknown });
    expect(await ask('old:1', 11)).toMatchObject({ height: 11 });
    expect(warnings()).toHaveLength(1);
  });

  it('is refused again once a node is back that may give a better one', async () => {
    const { ask, clock, network, warnings } = await proving({ 'a:1': { lie: HIDDEN }, 'b:1': {} });
    const other = network.forHeight(50).find(({ name }) => name === 'b:1');
    if (other === undefined) throw new Error('b:1 is not there');
    network.report(other, 'lied', 'of a test', 'GetBlockByHeight');
    for (const height of [50, 51]) expect(await ask('a:1', height)).toMatchObject({ height });
    await clock.advance(600_000);
    network.succeeded(other, 'GetBlockByHeight');
    expect(await ask('a:1', 52)).toBe('unproven');
    expect(await ask('b:1', 52)).toMatchObject({ proof: expect.anything() as unknown });
    expect(warnings()).toHaveLength(1);
  });

  it('is never taken where a proof is required, else warned of again where the reason is another', async () => {
    const strict = await proving({ 'a:1': { lie: HIDDEN } }, 'required');
    for (const height of [50, 50, 51]) expect(await strict.ask('a:1', height)).toBe('unproven');
    expect(strict.warnings()).toEqual([]);
    const { ask, lies, warnings } = await proving({ 'a:1': { lie: HIDDEN } });
    await ask('a:1');
    lies('a:1', { fault: 'changed_header' });
    await ask('a:1', 51);
    expect(warnings()).toHaveLength(2);
  });
});

it('with proof.mode off blocks are asked for in light form, and taken as they come', async () => {
  const { ask, network } = await proving({ 'a:1': { lie: { fault: 'wrong_body' } } }, 'off');
  expect(await ask('a:1')).toMatchObject({ height: 50 });
  expect(await ask('a:1')).not.toHaveProperty('proof');
  expect(network.proofs?.status()).toBeUndefined();
});
