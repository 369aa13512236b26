import { afterEach, describe, expect, it } from 'vitest';
import {
  type DevnetHandle,
  type FaultCondition,
  type FaultEffect,
  type DevnetMethod,
  type FaultRule,
  profiles,
  startDevnet,
  UnaryCalls,
} from '../../../src/devnet/index.js';
import {
  decodeBlockMessage,
  decodeBlockResponse,
  decodeExecutionDataResponse,
  decodeFullCollectionResponse,
  identifierBytes,
  InvalidCollectionError,
  verifyBlockCollections,
  verifyCollection,
  WireError,
} from '../../../src/flow/index.js';
import { PlainClient } from '../../support/plainClient.js';

const HEAD = 300;
const profile = { base: 'dense', odd: {} } as const;
const closers: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(faults: readonly FaultRule[]): Promise<{ devnet: DevnetHandle; client: PlainClient }> {
  const devnet = await startDevnet({ startHead: HEAD, paused: true, profile, faults });
  const client = new PlainClient(devnet.address, { 'grpc.max_receive_message_length': 4 * 1024 * 1024 });
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
  it('fail with any status and text', async () => {
    const { client } = await start([
      {
        method: 'GetBlock*',
        fault: 'error',
        code: 'INTERNAL',
        message: 'failed to find: 100% of it',
        times: 1,
      },
    ]);
    expect(await client.refusal('GetBlockByHeight', height)).toEqual({
      code: 'INTERNAL',
      details: 'failed to find: 100% of it',
    });
    expect(await client.call('GetBlockByHeight', height)).toBeDefined();
  });

  it('never answer: the deadline ends them, and they are gone', async () => {
    const { devnet, client } = await start([{ method: 'Ping', fault: 'stall' }]);
    expect(await client.refusal('Ping', {}, 50)).toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    await expect.poll(() => devnet.node.requests.inFlight('Ping')).toBe(0);
  });

  it('lose their connection', async () => {
    const { client } = await start([{ method: 'GetBlockByHeight', fault: 'cut', times: 1 }]);
    expect(['UNAVAILABLE', 'CANCELLED', 'INTERNAL']).toContain(
      (await client.refusal('GetBlockByHeight', height)).code,
    );
    await expect
      .poll(() =>
        client.call('Ping').then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
  });

  it('get an answer that is too large for them', async () => {
    const { client } = await start([{ method: 'GetBlockByHeight', fault: 'oversized', bytes: 5_000_000 }]);
    expect(await client.refusal('GetBlockByHeight', height)).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
  });

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

  it('fail at the opening', async () => {
    const { client } = await start([
      { method: 'Subscribe*', fault: 'error', code: 'FAILED_PRECONDITION', on: 'open', times: 1 },
    ]);
    expect((await client.drain(executionData, { start_block_height: 5 })).end.code).toBe(
      'FAILED_PRECONDITION',
    );
    expect(await client.take(executionData, { start_block_height: 5 }, 1)).toHaveLength(1);
  });

  it('fall silent and stay open', async () => {
    const { devnet, client } = await start([{ method: blocks, fault: 'stall', fromHeight: 52 }]);
    const call = client.stream(blocks, streamAt50);
    const received: object[] = [];
    call.on('error', () => undefined).on('data', (message: object) => received.push(message));
    await expect.poll(() => devnet.node.faults.fired()).toEqual([1]);
    await client.call('Ping');
    await expect.poll(() => heightsOf(received)).toEqual(['50', '51']);
    expect(devnet.openStreams()).toBe(1);
    call.cancel();
    await expect.poll(() => devnet.openStreams()).toBe(0);
  });
});

describe('lies about blocks', () => {
  it('a parent that is none, an orphan, another block, a guarantee that nobody gave', async () => {
    const { devnet } = await start([]);
    const truth = devnet.chain.block(50);
    const told = async (rule: object): Promise<ReturnType<typeof decodeBlockResponse>> => {
      devnet.node.setFaults([{ method: 'GetBlockByHeight', ...rule } as FaultRule]);
      return decodeBlockResponse(await answerOf(devnet, 'GetBlockByHeight', height));
    };
    const parent = await told({ fault: 'wrong_parent' });
    expect(parent.block).toMatchObject({ id: truth.id, height: 50 });
    expect(parent.block.parentId).not.toBe(truth.parentId);
    const orphan = await told({ fault: 'orphaned' });
    expect(orphan).toMatchObject({ status: 'unknown', block: { height: 50, parentId: truth.parentId } });
    expect(orphan.block.id).not.toBe(truth.id);
    expect((await told({ fault: 'other_body' })).block.height).toBe(49);
    const wrong = await told({ fault: 'wrong_body' });
    expect(wrong.block.id).toBe(truth.id);
    expect(wrong.block.collectionIds).not.toEqual(truth.collections.map(({ id }) => id));
  });

  it('an older head, another chain, another spork', async () => {
    const { devnet, client } = await start([
      { method: 'GetLatest*', fault: 'head_backwards', blocks: 7, times: 1 },
      { method: 'GetNetworkParameters', fault: 'other_chain', chainId: 'flow-mainnet', times: 1 },
      { method: 'GetNodeVersionInfo', fault: 'other_spork', times: 1 },
      { method: 'GetNodeVersionInfo', fault: 'false_spork', rootHeight: 30 },
      { method: 'GetBlockHeaderByHeight', fault: 'other_chain' },
    ]);
    const latest = async (): Promise<unknown> =>
      ((await client.call('GetLatestBlockHeader'))['block'] as { height: string }).height;
    expect([await latest(), await latest()]).toEqual([String(HEAD - 7), String(HEAD)]);
    expect(await client.call('GetNetworkParameters')).toEqual({ chain_id: 'flow-mainnet' });
    expect(await client.call('GetNetworkParameters')).toEqual({ chain_id: 'flow-localnet' });
    const info = (await client.call('GetNodeVersionInfo'))['info'] as { spork_id: Buffer };
    expect(info.spork_id.toString('hex')).not.toBe(devnet.chain.sporkId);
    expect((await client.call('GetNodeVersionInfo'))['info']).toMatchObject({
      ...{ spork_root_block_height: '30', node_root_block_height: '30' },
      spork_id: info.spork_id,
    });
    const header = (await client.call('GetBlockHeaderByHeight', height))['block'] as { chain_id: string };
    expect(header.chain_id).toBe('flow-benchnet');
  });
});

describe('lies about collections', () => {
  it('bytes that do not hash to the id, or to another id', async () => {
    const { devnet, client } = await start([]);
    const truth = devnet.chain.block(50).collections[0];
    if (truth === undefined) throw new Error('a dense block has collections');
    await client.call('GetBlockByHeight', height);
    const id = identifierBytes(truth.id);
    for (const fault of ['wrong_body', 'other_body'] as const) {
      devnet.node.setFaults([{ method: 'Get*', fault }]);
      const body = decodeFullCollectionResponse(await answerOf(devnet, 'GetFullCollectionByID', { id }));
      expect(() => verifyCollection(truth.id, body)).toThrow(InvalidCollectionError);
      const light = (await client.call('GetCollectionByID', { id }))['collection'] as {
        transaction_ids: Buffer[];
      };
      expect(Buffer.concat(light.transaction_ids).equals(truth.transactionIds)).toBe(false);
      const transaction = (await client.call('GetTransaction', { id: truth.transactionIds.subarray(0, 32) }))[
        'transaction'
      ];
      devnet.node.setFaults([]);
      expect(transaction).not.toEqual(
        (await client.call('GetTransaction', { id: truth.transactionIds.subarray(0, 32) }))['transaction'],
      );
    }
  });
});

describe('lies about execution data', () => {
  it.each([
    ['wrong_body', 'id_mismatch'],
    ['other_body', 'wrong_block'],
    ['swapped_chunks', 'wrong_order'],
    ['missing_chunk', 'wrong_count'],
    ['extra_chunk', 'wrong_count'],
  ] as const)('%s is found out as %s', async (fault, reason) => {
    const { devnet } = await start([]);
    const block = decodeBlockMessage(devnet.chain.block(50).encoded);
    const message = devnet.node.answers.executionDataMessage(devnet.chain.block(50), { fault });
    expect(() => verifyBlockCollections(block, decodeExecutionDataResponse(message))).toThrow(
      expect.objectContaining({ name: 'InvalidCollectionError', reason }) as Error,
    );
  });

  it('is found out in blocks without collections, too', async () => {
    const empty = await startDevnet({ startHead: HEAD, paused: true, profile: profiles.empty });
    closers.push(() => empty.close());
    const generated = empty.chain.block(50);
    const block = decodeBlockMessage(generated.encoded);
    for (const fault of ['wrong_body', 'extra_chunk', 'other_body'] as const) {
      const message = empty.node.answers.executionDataMessage(generated, { fault });
      expect(() => verifyBlockCollections(block, decodeExecutionDataResponse(message))).toThrow(
        InvalidCollectionError,
      );
    }
  });
});
