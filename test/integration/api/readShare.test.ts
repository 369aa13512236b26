import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { MAX_WAITING_REQUESTS } from '../../../src/api/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { atEnd } from '../../support/cleanup.js';
import { EventReader } from '../../support/eventReader.js';
import { GrpcProbe, refusalOf } from '../../support/grpcProbe.js';
import { eventually } from '../../support/program.js';
import { governorOver } from '../../support/readGovernor.js';
import { ServedChain } from '../../support/servedChain.js';
import { servedOverGrpc } from '../../support/servedOverGrpc.js';
import { smallChain, transactionWith } from '../../support/smallChain.js';
import { VirtualClock } from '../../support/virtualClock.js';

const SHARE = 0.25;
const chain = smallChain(
  1,
  Array.from({ length: 60 }, () => [[transactionWith()]]),
);
const collectionId = Buffer.from(chain[0]!.collections[0]!.id, 'hex');
/** So the governor sees the index: far behind the head. */
const behind = { range: () => ({ firstIndexed: 1, latestIndexed: 60, head: 10_000, sealed: null }) };

/** What is charged for a list of 20 blocks over HTTP, and for a collection over gRPC, but for the bytes sent. */
const LIST_MS = 0.18 + 20 * 0.12;
const CALL_MS = 0.24 + 0.12;
/** May be spent at once after a quiet time by requests, and by the feed. */
const BURST_MS = 8;
/** Requests that are admitted before it is known what they cost, and are not answered yet. */
const IN_HAND_MS = 16 * LIST_MS;

/** Both servers over one governor, whose time moves as the test wants: what work takes is what is charged for it. */
async function catchingUp() {
  const clock = new VirtualClock();
  const metrics = createMetrics({ version: '', node: '' });
  const governor = governorOver({ status: behind, clock, metrics }, SHARE);
  const rest = await ServedChain.start(chain, { sealed: null }, { governor });
  const { address } = await servedOverGrpc(chain, { governor });
  const probe = (): GrpcProbe => {
    const one = new GrpcProbe(address);
    atEnd(() => one.close());
    return one;
  };
  const waiting = async (): Promise<number> =>
    (await metrics.readRequestsWaiting.get()).values.reduce((sum, { value }) => sum + value, 0);
  const turnedAway = async (reason: string): Promise<number> =>
    (await metrics.readRequestsTurnedAway.get()).values
      .filter(({ labels }) => labels.reason === reason)
      .reduce((sum, { value }) => sum + value, 0);
  // Whatever a test leaves waiting is not to keep its servers from closing.
  atEnd(() => governor.close());
  return { clock, governor, rest, probe, waiting, turnedAway };
}

/** A connection of raw bytes that takes what comes. */
function rawConnection(port: number, bytes: string) {
  const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
  socket.on('error', () => undefined).resume();
  atEnd(() => void socket.destroy());
  return socket;
}

describe('a flood of reads while the daemon catches up', () => {
  it('is held to its share over both interfaces together, and all of it is answered', async () => {
    const { clock, rest, probe, waiting } = await catchingUp();
    const answered = { lists: 0, calls: 0 };
    const flood: Promise<unknown>[] = [];
    for (let count = 0; count < 80; count += 1) {
      const list = rest.get('/v1/blocks?start_height=1&end_height=20').then(({ status }) => {
        expect(status).toBe(200);
        answered.lists += 1;
      });
      flood.push(list);
    }
    const callers = [probe(), probe()];
    for (let count = 0; count < 80; count += 1) {
      const call = callers[count % 2]!.call('GetCollectionByID', { id: collectionId }).then(() => {
        answered.calls += 1;
      });
      flood.push(call);
    }
    const takenMs = () => answered.lists * LIST_MS + answered.calls * CALL_MS;
    const allMs = 80 * (LIST_MS + CALL_MS);
    const stepMs = 50;
    // Nearly all of them have come before time begins to pass.
    await eventually(async () => ((await waiting()) >= 80 ? true : undefined));
    for (let passedMs = 0; takenMs() < allMs; passedMs += stepMs) {
      const sharedMs = SHARE * passedMs;
      // What there is time for is answered, however long that takes here, and no more.
      await eventually(() => (takenMs() >= Math.min(allMs, sharedMs - 2 * IN_HAND_MS) ? true : undefined));
      // Whatever was let through beyond it has time to come.
      for (let round = 0; round < 5; round += 1) await rest.get('/status');
      expect(takenMs()).toBeLessThan(sharedMs + BURST_MS + IN_HAND_MS);
      await clock.advance(stepMs);
    }
    await Promise.all(flood);
    expect(answered).toEqual({ lists: 80, calls: 80 });
    expect(clock.pendingTimers).toBe(0);
  });

  it('leaves probes and /status alone, and the feed its part', async () => {
    const { clock, governor, rest, probe, waiting } = await catchingUp();
    const events = await EventReader.open(`${rest.url}/events?from=1`);
    expect(governor.admit('http')).toBeUndefined();
    governor.reads(100_000);
    const list = rest.get('/v1/blocks?height=1');
    const unknown = rest.get('/v1/nothing');
    const caller = probe();
    const call = caller.call('GetBlockByHeight', { height: 1 });
    await eventually(async () => ((await waiting()) === 3 ? true : undefined));
    expect(await rest.get('/status')).toMatchObject({ status: 200 });
    expect(await caller.health()).toEqual({ status: 'SERVING' });
    // Half of the share is the feed's, whatever requests have overspent.
    while (events.events.length < 60) await clock.advance(1);
    await clock.advance(2_000);
    expect(await list).toMatchObject({ status: 200 });
    expect(await unknown).toMatchObject({ status: 404, body: { reason: 'not_served' } });
    expect(await call).toMatchObject({ block: { height: '1' } });
  });

  it('is refused beyond what may wait, and whoever hangs up makes room', async () => {
    const { governor, rest, probe, waiting, turnedAway } = await catchingUp();
    expect(governor.admit('http')).toBeUndefined();
    governor.reads(100_000);
    const request = `GET /v1/blocks?height=1 HTTP/1.1\r\nHost: index\r\n\r\n`;
    // One that is answered, and 15 behind it.
    const sockets = Array.from({ length: MAX_WAITING_REQUESTS / 16 }, () =>
      rawConnection(rest.port, request.repeat(16)),
    );
    await eventually(async () => ((await waiting()) === MAX_WAITING_REQUESTS ? true : undefined));

    const refused = await rest.get('/v1/blocks?height=1');
    expect(refused).toMatchObject({ status: 503, body: { reason: 'busy' } });
    expect(refused.headers.get('retry-after')).toBe('1');
    const caller = probe();
    const { details, ...told } = await refusalOf(caller.call('GetBlockByHeight', { height: 1 }));
    expect(told).toEqual({ code: 'RESOURCE_EXHAUSTED', metadata: { reason: 'busy' } });
    expect(details).toContain(`at most ${MAX_WAITING_REQUESTS} requests may wait`);
    const stream = caller.follow('SubscribeBlocksFromStartHeight', {
      start_block_height: 1,
      block_status: 'BLOCK_FINALIZED',
    });
    expect(await refusalOf(stream.ended())).toMatchObject({ code: 'RESOURCE_EXHAUSTED' });
    expect(await turnedAway('queue_full')).toBe(3);
    expect(await rest.get('/status')).toMatchObject({ status: 200 });

    sockets[0]!.destroy();
    await eventually(async () => ((await turnedAway('caller_left')) === 16 ? true : undefined));
    const room = caller.stream('SubscribeBlocksFromStartHeight', { start_block_height: 1 });
    room.on('error', () => undefined);
    await eventually(async () => ((await waiting()) === MAX_WAITING_REQUESTS - 15 ? true : undefined));
    room.cancel();
    await eventually(async () => ((await turnedAway('caller_left')) === 17 ? true : undefined));
    for (const socket of sockets) socket.destroy();
    await eventually(async () => ((await waiting()) === 0 ? true : undefined));
    expect(await turnedAway('caller_left')).toBe(MAX_WAITING_REQUESTS + 1);
  });

  it('is told when the daemon stops', async () => {
    const { governor, rest, probe, waiting } = await catchingUp();
    expect(governor.admit('http')).toBeUndefined();
    governor.reads(100_000);
    const list = rest.get('/v1/blocks?height=1');
    const call = refusalOf(probe().call('GetBlockByHeight', { height: 1 }));
    await eventually(async () => ((await waiting()) === 2 ? true : undefined));
    governor.close();
    expect(await list).toMatchObject({ status: 503, body: { reason: 'stopping' } });
    expect(await call).toMatchObject({ code: 'UNAVAILABLE', metadata: { reason: 'stopping' } });
    expect(await rest.get('/v1/blocks?height=1')).toMatchObject({ status: 200 });
  });
});
