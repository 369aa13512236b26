import type { FaultRule } from '../../../src/devnet/index.js';
import { devnetForTest, lastingPort, scratchDirectory, storeFlags } from '../../support/daemons.js';
import { FaultProxy } from '../../support/faultProxy.js';
import { chain, succeeds, type Scenes } from '../Stage.js';

const LAST_SIGNED = 48;
const soon = ['--no-edi', '--requester-backoff-max-ms', '1000'];
const growing = { blockIntervalMs: 250, paused: false };

/** Every call by which a collection can be had. */
export const bodies = ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction'];

export const nodeScenes: Scenes = {
  unreachable: async (stage) => {
    const devnet = await devnetForTest({ ...chain, blockIntervalMs: 200, paused: false });
    const proxy = await FaultProxy.before(devnet);
    const node = { address: `127.0.0.1:${proxy.port}` };
    const instance = await stage.start(node, scratchDirectory(), ['--start-height', '0']);
    await stage.daemon(instance).ready();
    await stage.provoke({
      alerts: ['FlowIndexerUpstreamUnreachable', 'FlowIndexerNodeDown'],
      fault: 'the only access node refuses connections',
      strike: () => proxy.become({ kind: 'refused' }),
      repaired: 'it takes them again',
      fix: () => proxy.become({ kind: 'fair' }),
    });
  },
  starting: async (stage) => {
    const port = await lastingPort();
    const node = { address: `127.0.0.1:${port}` };
    await stage.provoke({
      alerts: ['FlowIndexerStarting'],
      fault: 'a daemon is started, and nobody listens where its node should be',
      strike: () => stage.start(node, scratchDirectory(), ['--start-height', '0']),
      repaired: 'the node is started',
      fix: () => devnetForTest({ ...chain, port }),
    });
  },
  refusing: async (stage) => {
    const { devnet } = await stage.startUsual(growing, soon);
    const faults = bodies.map((method): FaultRule => ({ method, fault: 'error', code: 'INTERNAL' }));
    await stage.provoke({
      alerts: ['FlowIndexerUpstreamRefusing', 'FlowIndexerStalled', 'FlowIndexerNodeErrors'],
      fault: 'the node answers every call for a collection with INTERNAL, and the chain goes on',
      strike: () => devnet.node.setFaults(faults),
      repaired: 'it answers them',
      fix: () => devnet.node.setFaults([]),
    });
  },
  lying: async (stage) => {
    const { devnet } = await stage.startUsual(growing, soon);
    await stage.provoke({
      alerts: ['FlowIndexerUpstreamInvalid', 'FlowIndexerNodeLies', 'FlowIndexerInvalidData'],
      fault: 'the node answers every call for a collection with bytes that do not hash to its id',
      strike: () =>
        devnet.node.setFaults(bodies.map((method): FaultRule => ({ method, fault: 'wrong_body' }))),
      repaired: 'it answers the truth',
      fix: () => devnet.node.setFaults([]),
    });
  },
  unproven: async (stage) => {
    const port = await lastingPort();
    const madeUp = await devnetForTest({ ...chain, port });
    await stage.provoke({
      alerts: ['FlowIndexerUnproven'],
      fault: 'with `--proof-mode required`, the node sends blocks whose ids are made up',
      strike: () =>
        stage.start(madeUp, scratchDirectory(), ['--start-height', '0', '--proof-mode', 'required']),
      repaired: 'a node with real ones takes its place',
      fix: async () => {
        await madeUp.close();
        await devnetForTest({ ...chain, hashedIds: true, port });
      },
    });
  },
  'proof failed': async (stage) => {
    const certified = { ...chain, hashedIds: true, certificatesEvery: 1 } as const;
    const port = await lastingPort();
    const forged = await devnetForTest({ ...certified, minorityFrom: chain.startHead - 9, port });
    const dataDir = scratchDirectory();
    let instance = '';
    await stage.provoke({
      alerts: ['FlowIndexerProofFailed'],
      fault: 'the certificates of the newest blocks are signed by a minority of the consensus nodes',
      strike: async () => {
        instance = await stage.start(forged, dataDir, ['--start-height', '0']);
      },
      repaired: `\`rewind --to ${LAST_SIGNED} --yes\`, and a node of the right chain`,
      fix: async () => {
        await stage.daemon(instance).program.stop();
        await succeeds('rewind', '--to', String(LAST_SIGNED), '--yes', ...storeFlags(dataDir));
        await forged.close();
        await devnetForTest({ ...certified, port });
        await stage.restart(instance);
      },
    });
  },
  'no execution data': async (stage) => {
    const { devnet } = await stage.startUsual({ blockIntervalMs: 500, paused: false }, ['--edi-only']);
    const fault: FaultRule = { method: 'SubscribeExecutionData*', fault: 'error', code: 'INTERNAL' };
    await stage.provoke({
      alerts: ['FlowIndexerEdiUnavailable'],
      fault: 'with `--edi-only`, the node refuses execution data',
      strike: () => devnet.node.setFaults([fault, { ...fault, on: 'open' }]),
      repaired: 'it gives them',
      fix: () => devnet.node.setFaults([]),
    });
  },
  foreign: async (stage) => {
    const port = await lastingPort();
    await stage.startUsual({}, ['--access-node', `127.0.0.1:${port}`]);
    let stranger = await devnetForTest({ ...chain, port });
    await stage.provoke({
      alerts: ['FlowIndexerNodeForeign'],
      fault: 'at the address of one of two nodes, a node of another network is started',
      strike: async () => {
        await stranger.close();
        stranger = await devnetForTest({ ...chain, port, chainId: 'flow-testnet' });
      },
      repaired: 'the right one is there again',
      fix: async () => {
        await stranger.close();
        await devnetForTest({ ...chain, port });
      },
    });
  },
};
