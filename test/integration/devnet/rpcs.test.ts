import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ChainGenerator,
  type DevnetHandle,
  type GeneratedBlock,
  startDevnet,
} from '../../../src/devnet/index.js';
import { identifierBytes } from '../../../src/flow/index.js';
import { GrpcProbe } from '../../support/grpcProbe.js';

const ROOT = 1000;
const HEAD = 1400;

let devnet: DevnetHandle;
let client: GrpcProbe;
/** A block with several collections, and transactions of every kind among its neighbours. */
let block: GeneratedBlock;

beforeAll(async () => {
  devnet = await startDevnet({
    seed: 3,
    chainId: 'flow-testnet',
    rootHeight: ROOT,
    nodeRootHeight: ROOT + 10,
    startHead: HEAD,
    paused: true,
    sealedLag: 5,
  });
  client = new GrpcProbe(devnet.address);
  const heights = Array.from({ length: 300 }, (_, index) => ROOT + 20 + index);
  const found = heights
    .map((height) => devnet.chain.block(height))
    .find(({ collections }) => collections.length > 2);
  if (found === undefined) throw new Error('no block has three collections');
  block = found;
});

afterAll(async () => {
  client.close();
  await devnet.close();
  await devnet.finished;
});

const idOf = (generated: GeneratedBlock): Buffer => identifierBytes(generated.id);
const bytes = (id: string | undefined): Buffer => Buffer.from(id ?? '', 'hex');

describe('blocks', () => {
  it('come in full when asked for', async () => {
    const full = { height: block.height, full_block_response: true };
    expect(await client.call('GetBlockByHeight', full)).toMatchObject({
      block: {
        id: idOf(block),
        block_seals: [{ block_id: bytes(devnet.chain.blockId(block.height - 4)) }],
        block_header: {
          id: idOf(block),
          parent_id: bytes(block.parentId),
          height: String(block.height),
          chain_id: 'flow-testnet',
        },
      },
    });
  });

  it('that are not there are refused as a node refuses them', async () => {
    const at = (height: number | string): Promise<unknown> => client.refusal('GetBlockByHeight', { height });
    const cause = (height: number): string =>
      `failed to retrieve block ID for height ${height}: could not retrieve resource: key not found`;
    expect(await at(HEAD + 1)).toEqual({ code: 'NOT_FOUND', details: `not found: ${cause(HEAD + 1)}` });
    expect(await at('18446744073709551615')).toMatchObject({ code: 'NOT_FOUND' });
    expect(await at(ROOT - 1)).toEqual({
      code: 'NOT_FOUND',
      details: `not found: block height 999 is less than the spork root block height 1000. Try to use a historic node: ${cause(999)}`,
    });
    expect(await at(ROOT + 9)).toEqual({
      code: 'NOT_FOUND',
      details: `not found: block height 1009 is less than the node's root block height 1010. Try to use a different Access node: ${cause(1009)}`,
    });
    expect(await client.refusal('GetBlockHeaderByHeight', { height: HEAD + 1 })).toMatchObject({
      code: 'NOT_FOUND',
    });
    expect(
      await client.refusal('GetBlockByID', { id: identifierBytes(devnet.chain.blockId(HEAD + 1)) }),
    ).toMatchObject({ code: 'NOT_FOUND' });
    expect(await client.refusal('GetBlockByID', { id: Buffer.alloc(32, 9) })).toMatchObject({
      code: 'NOT_FOUND',
    });
    expect(await client.refusal('GetBlockByID', { id: Buffer.alloc(31) })).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    expect(await client.refusal('GetBlockHeaderByID', {})).toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('collections and transactions', () => {
  it('that are not there are refused as a node refuses them', async () => {
    const retry = {
      code: 'NOT_FOUND',
      details:
        'not found: please retry for collection in finalized block: could not retrieve resource: key not found',
    };
    expect(await client.refusal('GetCollectionByID', { id: Buffer.alloc(32, 5) })).toEqual(retry);
    expect(await client.refusal('GetFullCollectionByID', { id: Buffer.alloc(32, 5) })).toEqual(retry);
    // Short ids are no error of their own.
    expect(await client.refusal('GetFullCollectionByID', { id: Buffer.alloc(3, 5) })).toEqual(retry);
    expect(await client.refusal('GetTransaction', { id: Buffer.alloc(32, 5) })).toMatchObject({
      code: 'NOT_FOUND',
    });
    for (const method of ['GetCollectionByID', 'GetFullCollectionByID', 'GetTransaction']) {
      expect(await client.refusal(method, {})).toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
    expect(await client.refusal('GetTransactionsByBlockID', { block_id: Buffer.alloc(4) })).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});

describe('execution data', () => {
  it('comes by block id, for sealed blocks only', async () => {
    const answer = (await client.call('GetExecutionDataByBlockID', { block_id: idOf(block) })) as {
      block_execution_data: { block_id: Buffer; chunk_execution_data: object[] };
    };
    expect(answer.block_execution_data.block_id).toEqual(idOf(block));
    expect(answer.block_execution_data.chunk_execution_data).toHaveLength(block.collections.length + 1);
    const at = (height: number): object => ({ block_id: identifierBytes(devnet.chain.blockId(height)) });
    expect(await client.call('GetExecutionDataByBlockID', at(HEAD - 5))).toBeDefined();
    expect(await client.refusal('GetExecutionDataByBlockID', at(HEAD - 4))).toEqual({
      code: 'NOT_FOUND',
      details: 'could not find execution data: could not retrieve resource: key not found',
    });
    expect(await client.refusal('GetExecutionDataByBlockID', at(HEAD + 1))).toMatchObject({
      code: 'INTERNAL',
    });
    expect(await client.refusal('GetExecutionDataByBlockID', { block_id: Buffer.alloc(5) })).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});

it('plays an indexer where it is told to, and is none otherwise', async () => {
  const range = { start_height: 1_003, end_height: 1_004 };
  expect((await client.drain('SubscribeIndexedBlocks', range)).end.code).toBe('UNIMPLEMENTED');
  const indexer = await startDevnet({
    rootHeight: 1_000,
    startHead: 1_003,
    paused: true,
    indexedBlocks: true,
  });
  const plain = new GrpcProbe(indexer.address);
  const asked = plain.take('SubscribeIndexedBlocks', range, 2);
  indexer.node.head.advance(1);
  expect(await asked).toMatchObject(
    [1_003, 1_004].map((height) => {
      const { collections, id } = indexer.chain.block(height);
      const sizes = collections.map(({ transactions }) => transactions.length);
      return {
        blocks: [
          { height: String(height), block_id: identifierBytes(id), collections: { length: sizes.length } },
        ],
      };
    }),
  );
  const below = await plain.drain('SubscribeIndexedBlocks', { start_height: 999 });
  expect(below.end).toMatchObject({
    code: 'NOT_FOUND',
    details: 'not found: height 999 is below the first indexed height 1000',
  });
  plain.close();
  await indexer.close();
});

it('what a running node adds is certified, and a spork that has ended is the same for all', async () => {
  const options = { hashedIds: true, rootHeight: 50, paused: true } as const;
  const growing = await startDevnet({ ...options, startHead: 60, endHeight: 70 });
  const ended = await startDevnet({ ...options, startHead: 70, endHeight: 70 });
  const plain = new ChainGenerator({ hashedIds: true, rootHeight: 50 });
  expect(growing.chain.blockId(55)).toBe(plain.blockId(55));
  expect(growing.chain.blockId(56)).not.toBe(plain.blockId(56));
  expect(ended.chain.blockId(70)).toBe(plain.blockId(70));
  await growing.close();
  await ended.close();
});

describe('the port', () => {
  it('that is in use is refused with a sentence', async () => {
    await expect(startDevnet({ port: devnet.port })).rejects.toMatchObject({
      name: 'OperatorError',
      exit: 'configuration',
      message: `The devnet cannot listen on 127.0.0.1:${devnet.port}: the port is in use. Stop what listens there, or choose another port.`,
    });
  });
});
