import { constants, type ServerHttp2Stream } from 'node:http2';
import { expect, it } from 'vitest';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { RequestFields, WireWriter } from '../../src/flow/index.js';
import { FaultProxy } from '../support/faultProxy.js';
import { devnetForTest, scratchDirectory, startArguments } from '../support/daemons.js';
import { startDaemon, stopAndProve } from '../support/daemons.js';

/** One chain for both nodes. Execution data reaches the head. */
const chain = { seed: 41, startHead: 120, paused: true, executionDataLag: -4 } as const;
const EXECUTION_DATA = 'SubscribeExecutionDataFromStartBlockHeight';
/** Collections that nobody asked for, in each message. */
const UNSOLICITED = 50_000;
/** What a flood may cost in memory: a few messages of it and what waits in sockets. */
const FLOOD_BYTES_MAX = 96 * 1024 ** 2;

/** Sends what `message` makes of the height asked for, again and again, as fast as it is taken. */
function flood(stream: ServerHttp2Stream, message: (fromHeight: number) => Buffer): void {
  const asked: Buffer[] = [];
  stream.on('data', (bytes: Buffer) => {
    asked.push(bytes);
    const request = Buffer.concat(asked);
    if (request.length < 5 || request.length < 5 + request.readUInt32BE(1)) return;
    stream.removeAllListeners('data').resume();
    const body = message(Number(new RequestFields(request.subarray(5)).number(1)));
    const frame = Buffer.concat([Buffer.alloc(5), body]);
    frame.writeUInt32BE(body.length, 1);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    const pump = (): void => {
      while (!stream.destroyed) if (!stream.write(frame)) return;
    };
    stream.on('drain', pump);
    pump();
  });
}

/** Collections that nobody asked for, in the message of this height. */
function unsolicited({ node: { chain: blocks } }: DevnetHandle, height: number): Buffer {
  const chunk = new WireWriter().element(1, Buffer.alloc(0)).finish();
  const { blockId, chunks } = blocks.executionDataParts(blocks.block(height));
  const own = new WireWriter().element(1, blockId).elements(2, chunks);
  const data = own.elements(2, Array<Buffer>(UNSOLICITED).fill(chunk)).finish();
  return new WireWriter().number(1, height).element(2, data).finish();
}

it('a feed that turns into a flood of collections which nobody asked for is left at the first message, as one that cannot be read: an honest node makes the progress, and memory stays', async () => {
  const honest = await devnetForTest(chain);
  const proxy = await FaultProxy.before(await devnetForTest(chain));
  const liar = `127.0.0.1:${proxy.port}`;
  const dataDir = scratchDirectory();
  const flags = ['--start-height', '0', '--edi-node', liar, '--requester-backoff-max-ms', '1000'];
  const daemon = await startDaemon(startArguments(honest, dataDir, ...flags));
  await daemon.reaches(chain.startHead);
  const before = await daemon.peakMemoryBytes();
  await proxy.become({
    kind: 'impostor',
    answer: (stream, headers) => {
      if (String(headers[constants.HTTP2_HEADER_PATH]).endsWith(`/${EXECUTION_DATA}`)) {
        flood(stream, (height) => unsolicited(honest, height));
        return;
      }
      const unavailable = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '14' };
      stream.respond(unavailable, { endStream: true });
    },
  });
  await daemon.statusUntil(({ endpoints }) => {
    if (honest.node.head.finalized < chain.startHead + 200) honest.node.head.advance(1);
    const calls = endpoints.find(({ name }) => name === liar)?.calls ?? [];
    return calls.some(({ method, reason }) => method === EXECUTION_DATA && /malformed/.test(reason));
  });
  const refused = { source: 'edi', reason: 'malformed' };
  expect((await daemon.scrape()).sum('invalid_collections_total', refused)).toBeGreaterThan(0);
  honest.node.head.advance(10);
  const latestHeight = honest.node.head.finalized;
  await daemon.reaches(latestHeight);
  expect((await daemon.peakMemoryBytes()) - before).toBeLessThan(FLOOD_BYTES_MAX);
  await stopAndProve(daemon, dataDir, { firstHeight: 0, latestHeight, chainAt: () => honest.chain });
});
