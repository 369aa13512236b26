import { describe, expect, it } from 'vitest';
import { startDevnet } from '../../../src/devnet/index.js';
import type { DevnetOptions } from '../../../src/devnet/index.js';
import type { FaultCondition, FaultEffect } from '../../../src/devnet/index.js';
import { identifierBytes } from '../../../src/flow/index.js';
import { atEnd, GrpcProbe, refusal } from '../../support/index.js';
import { devnetForTest } from '../../support/runningDaemon.js';

const ROOT = 1_000;
const HEAD = 1_400;

async function start(options: DevnetOptions = {}) {
  const usual = { seed: 3, rootHeight: ROOT, startHead: HEAD, paused: true, sealedLag: 5 };
  const devnet = await devnetForTest({ ...usual, ...options });
  const client = new GrpcProbe(devnet.address, { 'grpc.max_receive_message_length': 4 * 1024 * 1024 });
  atEnd(() => client.close());
  return { devnet, client };
}

const finalized = { block_status: 'BLOCK_FINALIZED' };
const blocks = 'SubscribeBlocksFromStartHeight';
const executionData = 'SubscribeExecutionDataFromStartBlockHeight';
const heights = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => String(from + index));

describe('calls', () => {
  it('are answered with execution data of sealed blocks', async () => {
    const { client, devnet } = await start({ chainId: 'flow-testnet' });
    const height = HEAD - 10;
    const { collections } = devnet.chain.block(height);
    const at = (of: number): object => ({ block_id: identifierBytes(devnet.chain.blockId(of)) });
    expect(await client.call('GetExecutionDataByBlockID', at(height))).toMatchObject({
      block_execution_data: { ...at(height), chunk_execution_data: { length: collections.length + 1 } },
    });
    const codeAt = async (of: number) => (await client.refusal('GetExecutionDataByBlockID', at(of))).code;
    expect([await codeAt(HEAD - 4), await codeAt(HEAD + 1)]).toEqual(['NOT_FOUND', 'INTERNAL']);
  });
});

it('a port that is in use is refused with a sentence', async () => {
  const { port } = (await start()).devnet;
  const words = `The devnet cannot listen on 127.0.0.1:${port}: the port is in use. Stop what listens there`;
  await expect(startDevnet({ port })).rejects.toMatchObject(refusal('configuration', words));
});

describe('streams', () => {
  it('end in good order, break, fail, skip and repeat', async () => {
    const { devnet, client } = await start();
    const run = async (rule: FaultEffect & Partial<FaultCondition>): Promise<string> => {
      devnet.node.setFaults([
        { ...rule, method: blocks, fromHeight: 1_052 },
        { method: blocks, fault: 'cut', fromHeight: 1_055 },
      ]);
      const { messages, end } = await client.drain(blocks, { start_block_height: 1_050, ...finalized });
      const seen = messages.map(({ block }) => Number((block as { height: string }).height) - 1_000);
      return `${seen.join(' ')} ${end.code}`;
    };
    expect(await run({ fault: 'cut' })).toBe('50 51 OK');
    expect(await run({ fault: 'error', code: 'DEADLINE_EXCEEDED' })).toBe('50 51 DEADLINE_EXCEEDED');
    expect(await run({ fault: 'gap', times: 1 })).toBe('50 51 53 54 OK');
    expect(await run({ fault: 'repeat', times: 1 })).toBe('50 51 52 52 53 54 OK');
    expect(await run({ fault: 'cut', how: 'reset' })).not.toContain('OK');
  });

  it('of execution data begin at finalized blocks, wait for the seal, and can lead or lag', async () => {
    const { devnet, client } = await start({ executionDataLag: -2 });
    const received: string[] = [];
    const call = client.stream(executionData, { start_block_height: HEAD - 4 });
    call.on('error', () => undefined);
    call.on('data', (message: { block_height: string }) => received.push(message.block_height));
    await expect.poll(() => received).toEqual(heights(HEAD - 4, 2));
    devnet.node.setFaults([{ method: executionData, fault: 'execution_data_lag', blocks: 10 }]);
    devnet.node.head.advance(10);
    expect((await client.call('GetLatestBlockHeader'))['block']).toMatchObject({ height: String(HEAD + 10) });
    expect(received).toEqual(heights(HEAD - 4, 2));
    devnet.node.setFaults([]);
    await expect.poll(() => received).toEqual(heights(HEAD - 4, 12));
    call.cancel();
  });

  it('of execution data by the deprecated method take a height, an id or nothing, but not both', async () => {
    const { devnet, client } = await start();
    const method = 'SubscribeExecutionData';
    const byHeight = { start_block_height: 1_010 };
    const byId = { start_block_id: identifierBytes(devnet.chain.blockId(1_020)) };
    for (const [from, first] of [
      [byHeight, 1_010],
      [byId, 1_020],
      [{}, HEAD - 5],
    ] as const)
      expect(await client.take(method, from, 1)).toMatchObject([{ block_height: String(first) }]);
    expect((await client.drain(method, { ...byHeight, ...byId })).end.code).toBe('INVALID_ARGUMENT');
  });
});
