import { afterEach, describe, expect, it } from 'vitest';
import {
  type DevnetHandle,
  type FaultCondition,
  type FaultEffect,
  type DevnetMethod,
  type FaultRule,
  startDevnet,
  UnaryCalls,
} from '../../../src/devnet/index.js';
import {
  decodeBlockResponse,
  decodeFullCollectionResponse,
  identifierBytes,
  WireError,
} from '../../../src/flow/index.js';
import { GrpcProbe } from '../../support/grpcProbe.js';

const HEAD = 300;
const profile = { base: 'dense', odd: {} } as const;
const closers: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(faults: readonly FaultRule[]): Promise<{ devnet: DevnetHandle; client: GrpcProbe }> {
  const devnet = await startDevnet({ startHead: HEAD, paused: true, profile, faults });
  const client = new GrpcProbe(devnet.address, { 'grpc.max_receive_message_length': 4 * 1024 * 1024 });
  closers.push(
    () => devnet.close(),
    () => client.close(),
  );
  return { devnet, client };
}

/** The bytes of an answer, without a client's decoder in between. */
function answerOf(devnet: DevnetHandle, method: DevnetMethod, request: object): Promise<Buffer> {
  return new UnaryCalls({ node: devnet.node }).answer(method, request, {
    signal: new AbortController().signal,
    connection: { reset: () => undefined },
  });
}

const height = { height: '50' };
const streamAt50 = { start_block_height: 50, block_status: 'BLOCK_FINALIZED' };
const blocks = 'SubscribeBlocksFromStartHeight';
const executionData = 'SubscribeExecutionDataFromStartBlockHeight';

describe('calls', () => {
  it('get an answer that breaks off: no method has one that decodes', async () => {
    const { devnet, client } = await start([{ method: '*', fault: 'truncated' }]);
    const block = devnet.chain.block(50);
    devnet.node.chain.block(50);
    const collectionId = identifierBytes(block.collections[0]?.id ?? block.id);
    const calls = [
      ['Ping', {}],
      ['GetNetworkParameters', {}],
      ['GetNodeVersionInfo', {}],
      ['GetLatestBlockHeader', {}],
      ['GetBlockByHeight', height],
      ['GetCollectionByID', { id: collectionId }],
      ['GetFullCollectionByID', { id: collectionId }],
      ['GetTransaction', { id: block.collections[0]?.transactionIds.subarray(0, 32) }],
      ['GetExecutionDataByBlockID', { block_id: identifierBytes(block.id) }],
    ] as const;
    for (const [method, request] of calls) {
      expect([method, (await client.refusal(method, request)).code]).toEqual([method, 'INTERNAL']);
    }
    for (const method of [blocks, executionData]) {
      expect((await client.drain(method, streamAt50)).end.code).toBe('INTERNAL');
    }
    await expect(answerOf(devnet, 'GetBlockByHeight', height).then(decodeBlockResponse)).rejects.toThrow(
      WireError,
    );
    await expect(
      answerOf(devnet, 'GetFullCollectionByID', { id: collectionId }).then(decodeFullCollectionResponse),
    ).rejects.toThrow(WireError);
  });
});

describe('streams', () => {
  const heightsOf = (messages: readonly object[]): unknown[] =>
    messages.map((message) => (message as { block: { height: string } }).block.height);

  it('end in good order, break, fail, skip and repeat', async () => {
    const { devnet, client } = await start([]);
    const run = async (
      rule: FaultEffect & Partial<FaultCondition>,
    ): Promise<{ heights: unknown[]; code: string }> => {
      devnet.node.setFaults([
        { ...rule, method: blocks, fromHeight: 52 },
        { method: blocks, fault: 'cut', fromHeight: 55 },
      ]);
      const { messages, end } = await client.drain(blocks, streamAt50);
      return { heights: heightsOf(messages), code: end.code };
    };
    expect(await run({ fault: 'cut' })).toEqual({ heights: ['50', '51'], code: 'OK' });
    expect(await run({ fault: 'error', code: 'DEADLINE_EXCEEDED' })).toEqual({
      heights: ['50', '51'],
      code: 'DEADLINE_EXCEEDED',
    });
    expect(await run({ fault: 'gap', times: 1 })).toEqual({
      heights: ['50', '51', '53', '54'],
      code: 'OK',
    });
    expect(await run({ fault: 'repeat', times: 1 })).toEqual({
      heights: ['50', '51', '52', '52', '53', '54'],
      code: 'OK',
    });
    expect((await run({ fault: 'cut', how: 'reset' })).code).not.toBe('OK');
  });
});
