import { status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { parseEndpoint, type AccessNode, type OpenChannel } from '../../../src/access/index.js';
import { grpcAccessNode } from '../../../src/access/node/grpcAccessNode.js';
import type { CallStatus } from '../../../src/access/transport/upstreamErrors.js';
import { NodeHealthRecord } from '../../../src/access/selection/NodeHealthRecord.js';
import { createMetrics } from '../../../src/observability/index.js';
import { scriptedWorlds } from './scriptedNetwork.js';
import { VirtualClock } from '../../support/virtualClock.js';

const { world } = scriptedWorlds();
const id = 'ab'.repeat(32) as never;
const { signal } = new AbortController();

/** A node that may be called once a second, whose calls never end and whose streams are refused; and what it was sent. */
function nodeOnChannel(ends: readonly CallStatus[] = []) {
  const clock = new VirtualClock();
  const sent: string[] = [];
  /** The channel of each call, by the order in which they were opened. */
  const channels: number[] = [];
  let opened = 0;
  const openChannel: OpenChannel = (_options, _parts, channel = opened++) => ({
    unary: (path, request) => {
      sent.push(`${path} ${request.toString('hex')}`);
      const end = ends[channels.push(channel) - 1];
      return end === undefined ? new Promise(() => undefined) : Promise.resolve(end);
    },
    stream: (path, _request, sink) => {
      sent.push(path);
      queueMicrotask(() => sink.onEnd({ code: status.RESOURCE_EXHAUSTED, details: 'no more streams' }));
      return { read: () => undefined, cancel: () => undefined };
    },
    close: () => undefined,
  });
  const [endpoint, healthRecord] = [parseEndpoint('a:1'), new NodeHealthRecord({ clock })];
  const metrics = createMetrics({ version: 'test', node: 'test' });
  const node = grpcAccessNode(
    { endpoint, ratePerSecond: 1, maxMessageBytes: 1_000, timeoutMs: 60_000, userAgent: 'test' },
    { clock, openChannel, healthRecord, metrics },
  );
  return { clock, node, sent, channels };
}

const calls: Readonly<Record<string, (node: AccessNode) => Promise<unknown>>> = {
  getNetworkParameters: (node) => node.getNetworkParameters({ signal }),
  getNodeVersionInfo: (node) => node.getNodeVersionInfo(),
  getLatestBlockHeader: (node) => node.getLatestBlockHeader(true, { signal }),
  getBlockByHeight: (node) => node.getBlockByHeight(7, { signal }),
  getCollectionTransactionIds: (node) => node.getCollectionTransactionIds(id, { signal }),
  getFullCollection: (node) => node.getFullCollection(id),
  getTransaction: (node) => node.getTransaction(id, { signal }),
  getProtocolStateSnapshot: (node) => node.getProtocolStateSnapshot(7, { signal }),
  getCommitteeEvidence: (node) => node.getCommitteeEvidence(7, { signal }),
};

const streams: Readonly<Record<string, (node: AccessNode) => AsyncIterable<unknown>>> = {
  subscribeBlocks: (node) => node.subscribeBlocks(7, { signal }),
  subscribeBlockDigests: (node) => node.subscribeBlockDigests({ signal, sealed: false }),
  subscribeExecutionData: (node) => node.subscribeExecutionData(7, { signal }),
  subscribeIndexedBlocks: (node) => node.subscribeIndexedBlocks(7, { signal }),
};

it('of a method whose calls lose their connection each has one of its own, until others were answered or none comes about', async () => {
  const code = status.UNAVAILABLE;
  const lost = { code, details: 'Connection dropped' };
  const refused = { code, details: 'No connection established. Last error: read ECONNRESET' };
  const late = { code: status.DEADLINE_EXCEEDED, details: '' };
  const answered = { code: status.NOT_FOUND, details: '' };
  const eightAnswers = Array.from({ length: 8 }, () => answered);
  const ends = [refused, refused, lost, lost, late, ...eightAnswers, answered, lost, refused, answered];
  const { clock, node, channels } = nodeOnChannel(ends);
  for (const _ of ends) {
    void node.getBlockByHeight(7).catch(() => undefined);
    await clock.advance(1_000);
  }
  expect(channels).toEqual([0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 10, 0]);
});

it('a call that the node has not seen, as its connection ended, is sent again at once, and that twice at most', async () => {
  const unseen = { code: status.UNAVAILABLE, details: 'Stream refused by server' };
  const seen = { ...unseen, details: '' };
  const { clock, node, sent } = nodeOnChannel([unseen, unseen, seen, unseen, unseen, unseen]);
  for (const said of ['UNAVAILABLE: ', 'refused by server']) {
    await expect(node.getBlockByHeight(7)).rejects.toThrow(said);
    await clock.advance(1_000);
  }
  expect(sent.length).toBe(6);
});

it.each(Object.entries(calls))('a node for history %s waits behind later live calls', async (_name, call) => {
  const { clock, node, sent } = nodeOnChannel();
  void call(node);
  await clock.settle();
  void call(node.history);
  void call(node);
  const [method = ''] = sent[0]?.split('/').at(-1)?.split(' ') ?? [];
  expect(node.delayMs(method as never)).toBeLessThan(node.history.delayMs(method as never));
  await clock.advance(1_000);
  expect(sent.length).toBe(2);
  // It is the call for history that is left.
  expect(node.client.limits().map(({ waiting }) => waiting)).toEqual([1]);
  expect(node.delayMs(method as never)).toBe(1_000);
  await clock.advance(1_000);
  expect(sent.length).toBe(3);
});

it.each(Object.entries(streams))('a node for history %s makes way where streams are few', async (_, open) => {
  const { node, sent } = nodeOnChannel();
  const read = (from: AccessNode) => open(from)[Symbol.asyncIterator]().next();
  await expect(read(node.history)).rejects.toThrow('no more streams');
  await expect(read(node.history)).rejects.toThrow('history makes way');
  expect([sent.length, node.supports('SubscribeBlocksFromStartHeight')]).toEqual([1, true]);
  expect(node.history.supports('SubscribeBlocksFromStartHeight')).toBe(false);
  await expect(read(node)).rejects.toThrow('no more streams');
  expect(sent.length).toBe(2);
});

it('a node for history that gets no stream does not count against the streams of others, but a lie does', async () => {
  const { network, stop } = world();
  const { net } = network({ 'a:1': {} });
  await net.whenIdentified(stop.signal);
  const [its] = net.history.forHeight(7);
  const stateOf = () => net.states()[0]?.calls.map(({ method, state }) => `${method} ${state}`);
  for (let time = 0; time < 3; time += 1)
    net.history.report(its!, 'failing', 'no stream to spare', 'SubscribeBlocksFromStartHeight');
  expect(stateOf()).toEqual([]);
  net.history.report(its!, 'failing', 'no answer', 'GetBlockByHeight');
  net.history.report(its!, 'lied', 'another block', 'SubscribeBlocksFromStartHeight');
  expect(stateOf()).toEqual(['GetBlockByHeight failing', 'SubscribeBlocksFromStartHeight set_aside']);
  net.history.succeeded(its!, 'GetBlockByHeight');
  expect(stateOf()).toEqual(['SubscribeBlocksFromStartHeight set_aside']);
});
