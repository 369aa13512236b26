import { expect, it } from 'vitest';
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

it('calls are answered with execution data of sealed blocks', async () => {
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

it('a port that is in use, or an address of another machine, is refused with a sentence', async () => {
  const { port } = (await start()).devnet;
  const words = `The devnet cannot listen on 127.0.0.1:${port}: the port is in use. Stop what listens there`;
  await expect(startDevnet({ port })).rejects.toMatchObject(refusal('unavailable', words));
  await expect(startDevnet({ host: '2001:db8::1', port: 1 })).rejects.toThrow('on [2001:db8::1]:1: ');
});

it('streams end in good order, break, fail, skip and repeat', async () => {
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
