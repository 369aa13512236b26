import type { ClientReadableStream } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { type DevnetHandle, type DevnetOptions, startDevnet } from '../../../src/devnet/index.js';
import { identifierBytes } from '../../../src/flow/index.js';
import { GrpcProbe } from '../../support/grpcProbe.js';
import { VirtualClock } from '../../support/virtualClock.js';

const HEAD = 300;
const closers: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(
  options: DevnetOptions = {},
  dependencies?: Parameters<typeof startDevnet>[1],
): Promise<{ devnet: DevnetHandle; client: GrpcProbe }> {
  const devnet = await startDevnet({ startHead: HEAD, paused: true, sealedLag: 5, ...options }, dependencies);
  const client = new GrpcProbe(devnet.address);
  closers.push(
    () => devnet.close(),
    () => client.close(),
  );
  return { devnet, client };
}

const finalized = { block_status: 'BLOCK_FINALIZED' };
const kinds = ['SubscribeBlocks', 'SubscribeBlockHeaders', 'SubscribeBlockDigests', 'SubscribeExecutionData'];
const heights = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => String(from + index));

describe.each(kinds)('%s', (kind) => {
  it('refuses starts that are not there', async () => {
    const { client } = await start({ rootHeight: 50 });
    const isOfBlocks = kind !== 'SubscribeExecutionData';
    const byHeight = isOfBlocks ? `${kind}FromStartHeight` : `${kind}FromStartBlockHeight`;
    const byId = `${kind}FromStartBlockID`;
    const end = async (method: string, request: object): Promise<unknown> =>
      (await client.drain(method, { ...(isOfBlocks ? finalized : {}), ...request })).end;
    expect(await end(byHeight, { start_block_height: 49 })).toEqual({
      code: 'INVALID_ARGUMENT',
      details: 'could not get start height: start height must be greater than or equal to the root height 50',
    });
    const refused: [string, object, string][] = [
      [byHeight, { start_block_height: HEAD + 1 }, 'NOT_FOUND'],
      [byId, { start_block_id: Buffer.alloc(32, 4) }, 'NOT_FOUND'],
      [byId, { start_block_id: Buffer.alloc(4) }, 'INVALID_ARGUMENT'],
    ];
    const unknown = { start_block_height: 60, block_status: 'BLOCK_UNKNOWN' };
    if (isOfBlocks) refused.push([byHeight, unknown, 'INVALID_ARGUMENT']);
    for (const [method, request, code] of refused) expect(await end(method, request)).toMatchObject({ code });
  });
});

describe('sealed blocks', () => {
  it('execution data is accepted for finalized blocks, waits for the seal, and can lead or lag', async () => {
    const { devnet, client } = await start({ executionDataLag: -2 });
    const method = 'SubscribeExecutionDataFromStartBlockHeight';
    const received: string[] = [];
    const call = client.stream(method, { start_block_height: HEAD - 4 });
    call.on('error', () => undefined);
    call.on('data', (message: { block_height: string }) => received.push(message.block_height));
    await expect.poll(() => received).toEqual(heights(HEAD - 4, 2));
    devnet.node.setFaults([{ method, fault: 'execution_data_lag', blocks: 10 }]);
    devnet.node.head.advance(10);
    expect((await client.call('GetLatestBlockHeader'))['block']).toMatchObject({ height: String(HEAD + 10) });
    expect(received).toEqual(heights(HEAD - 4, 2));
    devnet.node.setFaults([]);
    await expect.poll(() => received).toEqual(heights(HEAD - 4, 12));
    call.cancel();
  });
});

describe('the deprecated subscription to execution data', () => {
  it('takes a height, an id or nothing, but not both', async () => {
    const { devnet, client } = await start();
    const method = 'SubscribeExecutionData';
    const id = identifierBytes(devnet.chain.blockId(20));
    expect(await client.take(method, { start_block_height: 10 }, 1)).toMatchObject([{ block_height: '10' }]);
    expect(await client.take(method, { start_block_id: id }, 1)).toMatchObject([{ block_height: '20' }]);
    expect(await client.take(method, {}, 1)).toMatchObject([{ block_height: String(HEAD - 5) }]);
    expect((await client.drain(method, { start_block_height: 10, start_block_id: id })).end).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});

interface Clogged {
  readonly call: ClientReadableStream<unknown>;
  readonly next: () => Promise<string | undefined>;
}

describe('flow control', () => {
  /**
   * A stream whose reader takes one message and then no more, once the pipes between the two are full and nothing moves.
   * (A grpc-js client honours back-pressure from its first read on, not before.)
   */
  async function clogged(devnet: DevnetHandle, client: GrpcProbe): Promise<Clogged> {
    const call = client.stream('SubscribeExecutionDataFromStartBlockHeight', { start_block_height: 1 });
    call.on('error', () => undefined);
    closers.push(() => call.cancel());
    const iterator = call[Symbol.asyncIterator]() as AsyncIterator<{ block_height: string }, undefined>;
    await iterator.next();
    let sent = -1;
    let unmovedPolls = 0;
    const isStill = (): boolean => {
      unmovedPolls = sent === devnet.node.requests.highestHeightSent ? unmovedPolls + 1 : 0;
      sent = devnet.node.requests.highestHeightSent;
      return unmovedPolls >= 5;
    };
    await expect.poll(isStill, { interval: 100, timeout: 20_000 }).toBe(true);
    return { call, next: async () => (await iterator.next()).value?.block_height };
  }

  it('prepares nothing ahead of a reader that takes nothing', async () => {
    const { devnet, client } = await start({ profile: 'dense', startHead: 100_000 });
    const { next } = await clogged(devnet, client);
    const sent = devnet.node.requests.highestHeightSent;
    expect(sent).toBeLessThan(500);
    for (let height = 2; height < sent + 50; height++) expect(await next()).toBe(String(height));
  });

  it('cuts a reader off that takes nothing for too long', async () => {
    const clock = new VirtualClock();
    const options: DevnetOptions = { profile: 'dense', startHead: 100_000, sendTimeoutMs: 30_000 };
    const { devnet, client } = await start(options, { clock });
    const { call, next } = await clogged(devnet, client);
    const ended = new Promise<number>((resolve) => call.on('status', ({ code }) => resolve(code)));
    await clock.advance(29_999);
    expect(devnet.openStreams()).toBe(1);
    await clock.advance(1);
    expect(devnet.openStreams()).toBe(0);
    // What was under way arrives, and then the verdict.
    const readAll = async (): Promise<void> => {
      while ((await next()) !== undefined);
    };
    await expect(readAll()).rejects.toThrow(/timeout sending response/);
    expect(await ended).toBe(4);
  });
});

describe('the number of streams', () => {
  it('is limited over both services together', async () => {
    const { devnet, client } = await start({ maxStreams: 2 });
    const calls = [
      client.stream('SubscribeBlocksFromLatest', finalized),
      client.stream('SubscribeExecutionDataFromLatest', {}),
    ];
    for (const call of calls) call.on('error', () => undefined).resume();
    await expect.poll(() => devnet.openStreams()).toBe(2);
    expect((await client.drain('SubscribeBlocksFromLatest', finalized)).end).toEqual({
      code: 'RESOURCE_EXHAUSTED',
      details: 'maximum number of streams reached',
    });
    for (const call of calls) call.cancel();
    await expect.poll(() => devnet.openStreams()).toBe(0);
    expect(await client.take('SubscribeBlocksFromLatest', finalized, 1)).toHaveLength(1);
  });
});

describe('shutting down', () => {
  it('ends streams with UNAVAILABLE', async () => {
    const { devnet, client } = await start();
    const drained = client.drain('SubscribeBlocksFromLatest', finalized);
    await expect.poll(() => devnet.node.requests.highestHeightSent).toBe(HEAD);
    await devnet.close();
    expect((await drained).end.code).toBe('UNAVAILABLE');
    await devnet.finished;
  });
});
