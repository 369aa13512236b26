import { describe, expect, it } from 'vitest';
import { HistoryNodes } from '../../../src/access/index.js';
import type { AccessMethod, AccessNode, AccessNodes, NodeFault } from '../../../src/access/index.js';

/** A node that notes how each of its members was called. */
function notingNode(name: string): { readonly node: AccessNode; readonly calls: [string, unknown[]][] } {
  const calls: [string, unknown[]][] = [];
  const node = new Proxy(
    { name, health: 'well' },
    {
      get: (known, member) => {
        if (member in known) return known[member as keyof typeof known];
        return (...args: unknown[]) => {
          calls.push([String(member), args]);
          return member === 'supports' ? true : 0;
        };
      },
    },
  );
  return { node: node as unknown as AccessNode, calls };
}

function historyOver(node: AccessNode) {
  const reported: [NodeFault, AccessMethod][] = [];
  const succeeded: AccessNode[] = [];
  const nodes: AccessNodes = {
    live: () => [node],
    forHeight: () => [node],
    forExecutionData: () => [node],
    peers: () => [node],
    whyNoPeer: () => undefined,
    succeeded: (its) => succeeded.push(its),
    report: (_, fault, __, method) => reported.push([fault, method]),
  };
  return { history: new HistoryNodes({ nodes }), reported, succeeded };
}

const signal = new AbortController().signal;

describe('HistoryNodes', () => {
  it('gives the same object for the same node, whichever way it is chosen', () => {
    const { node } = notingNode('one');
    const { history } = historyOver(node);
    const [first] = history.live();
    expect(first).not.toBe(node);
    expect(first?.name).toBe('one');
    expect(first?.health).toBe('well');
    const { peers, ...others } = {
      height: history.forHeight(1)[0],
      data: history.forExecutionData(1)[0],
      peers: history.peers()[0],
      live: history.live()[0],
    };
    expect([peers, ...Object.values(others)]).toEqual([first, first, first, first]);
    expect(history.forHeight(2)[0]).toBe(first);
  });

  it('says of every call that it is for history, and keeps what else is said', async () => {
    const { node, calls } = notingNode('one');
    const its = historyOver(node).history.live()[0]!;
    const id = 'ab'.repeat(32) as never;
    await its.getBlockByHeight(7, { signal });
    await its.getCollectionTransactionIds(id, { signal });
    await its.getFullCollection(id, { signal });
    await its.getTransaction(id, { signal });
    await its.getLatestBlockHeader(true, { signal });
    await its.getNetworkParameters({ signal });
    await its.getNodeVersionInfo({ signal });
    its.subscribeBlocks(7, { signal });
    its.subscribeExecutionData(7, { signal });
    its.subscribeIndexedBlocks(7, { signal });
    expect(calls.length).toBe(10);
    for (const [member, args] of calls) expect(args.at(-1), member).toEqual({ signal, isHistory: true });
    expect(calls[0]).toEqual(['getBlockByHeight', [7, { signal, isHistory: true }]]);
    calls.length = 0;
    its.supports('SubscribeBlocksFromStartHeight');
    its.delayMs('GetBlockByHeight');
    await its.getFullCollection(id);
    expect(calls).toEqual([
      ['supports', ['SubscribeBlocksFromStartHeight', { isHistory: true }]],
      ['delayMs', ['GetBlockByHeight', { isHistory: true }]],
      ['getFullCollection', [id, { isHistory: true }]],
    ]);
  });

  it('passes on who answered, who lied and which calls failed, but not that a stream was refused', () => {
    const { node } = notingNode('one');
    const { history, reported, succeeded } = historyOver(node);
    const its = history.live()[0]!;
    history.succeeded(its, 'GetBlockByHeight');
    expect(succeeded).toEqual([its]);
    history.report(its, 'lied', 'a block of another chain', 'SubscribeBlocksFromStartHeight');
    history.report(its, 'failing', 'no stream to spare', 'SubscribeBlocksFromStartHeight');
    history.report(its, 'failing', 'no answer', 'GetBlockByHeight');
    expect(reported).toEqual([
      ['lied', 'SubscribeBlocksFromStartHeight'],
      ['failing', 'GetBlockByHeight'],
    ]);
  });
});
