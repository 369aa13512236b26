// The process behind `startReadClient`: knows the ids of the chain beforehand and reads by them, over HTTP or gRPC.
import { setTimeout as sleep } from 'node:timers/promises';
import { ChainGenerator } from '../../../src/devnet/index.js';
import { seededRandom } from '../../support/seededRandom.js';
import { bareClient } from './bareClient.js';
import { HttpConnection } from './HttpConnection.js';
import { ownTask } from './processes.js';
import type { ReaderOptions, ReadKind, ReadResult, ReadTask } from './readers.js';

const STATUS_POLL_MS = 100;
/** Reads that are due earlier count apart: hot code is compiled, and what has piled up is answered. */
const SETTLE_MS = 4_000;
/** Reads that are due later are not counted: the daemon has done its work and stops. */
const STOPPING_MS = 1_000;
const BUSY = 503;

const { heights, ...options } = ownTask() as ReaderOptions;
const chain = new ChainGenerator(options);
/** Ids as hex, and how many of them belong to heights up to each height. */
const ids: Record<ReadKind, string[]> = { transaction: [], collection: [] };
const countsUpTo: Record<ReadKind, number[]> = { transaction: [0], collection: [0] };
for (let height = 1; height <= heights; height += 1) {
  for (const { id, transactionIds } of chain.block(height).collections) {
    ids.collection.push(id);
    for (let at = 0; at < transactionIds.length; at += 32)
      ids.transaction.push(transactionIds.toString('hex', at, at + 32));
  }
  countsUpTo.transaction.push(ids.transaction.length);
  countsUpTo.collection.push(ids.collection.length);
}
const random = seededRandom(options.seed);
let stopped = false;

process.on('message', (message: ReadTask | 'stop') => {
  if (message === 'stop') {
    stopped = true;
    return;
  }
  stopped = false;
  const running = message.how === 'offer' ? offer(message) : closedLoop(message);
  running.then(
    (result) => process.send?.(result),
    (error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
      process.exit(1);
    },
  );
});
process.once('disconnect', () => process.exit(0));
process.send?.('ready');

const idAmong = (kind: ReadKind, count: number): string => ids[kind][Math.floor(random.next() * count)] ?? '';

function pathOf(kind: ReadKind, id: string): string {
  return kind === 'transaction' ? `/v1/transactions/${id}` : `/v1/collections/${id}?expand=transactions`;
}

async function closedLoop(task: Exclude<ReadTask, { how: 'offer' }>): Promise<ReadResult> {
  const { how, kind, concurrency, reads, port } = task;
  const client = bareClient(`127.0.0.1:${port}`);
  // As bare as it goes: one channel, answers left as they come off the wire.
  const overGrpc = (id: string): Promise<void> =>
    new Promise((resolve, reject) => {
      client.read(kind, Buffer.from(id, 'hex'), (error) => (error === null ? resolve() : reject(error)));
    });
  const connections = await openConnections(port, how === 'http' ? concurrency : 0);
  const overHttp = async (id: string, connection: HttpConnection): Promise<void> => {
    const status = await connection.get(pathOf(kind, id));
    if (status !== 200) throw new Error(`${kind} ${id} was answered with ${status}`);
  };
  let left = reads;
  const latenciesMs: number[] = [];
  const reader = async (_: unknown, index: number): Promise<void> => {
    const connection = connections[index];
    while (left > 0) {
      left -= 1;
      const sentAtMs = performance.now();
      const id = idAmong(kind, ids[kind].length);
      await (connection === undefined ? overGrpc(id) : overHttp(id, connection));
      latenciesMs.push(performance.now() - sentAtMs);
    }
  };
  const startedAtMs = performance.now();
  await Promise.all(Array.from({ length: concurrency }, reader));
  const readsPerSecond = (latenciesMs.length * 1000) / (performance.now() - startedAtMs);
  for (const connection of connections) connection.close();
  client.close();
  return {
    ...{ reads, readsPerSecond, latenciesMs },
    ...{ firstLatenciesMs: [], turnedAway: 0, unanswered: 0 },
  };
}

function openConnections(port: number, count: number): Promise<HttpConnection[]> {
  return Promise.all(Array.from({ length: count }, () => HttpConnection.open(port)));
}

async function offer(task: Extract<ReadTask, { how: 'offer' }>): Promise<ReadResult> {
  const { port, perSecond, connections } = task;
  const base = `http://127.0.0.1:${port}`;
  let watermark = 0;
  while (watermark < 1 && !stopped) watermark = await latestIndexed(base);
  const watching = setInterval(() => {
    latestIndexed(base).then(
      (height) => (watermark = height),
      () => (stopped = true),
    );
  }, STATUS_POLL_MS);
  const all = await openConnections(port, connections);
  const free = [...all];
  const due: number[] = [];
  /** By when they were due: under way; answered, with how long it took; turned away. */
  const underWay = new Set<number>();
  const answered: { readonly dueAtMs: number; readonly latencyMs: number }[] = [];
  const turnedAway: number[] = [];
  let sent = 0;
  const startedAtMs = performance.now();
  const countedFromMs = startedAtMs + SETTLE_MS;
  const send = (connection: HttpConnection, dueAtMs: number): void => {
    const kind: ReadKind = (sent += 1) % 2 === 0 ? 'transaction' : 'collection';
    const id = idAmong(kind, countsUpTo[kind][Math.min(watermark, heights)] ?? 1);
    underWay.add(dueAtMs);
    connection.get(pathOf(kind, id)).then(
      (status) => {
        underWay.delete(dueAtMs);
        if (status === BUSY) turnedAway.push(dueAtMs);
        else if (status !== 200) throw new Error(`${kind} ${id} was answered with ${status}`);
        else answered.push({ dueAtMs, latencyMs: performance.now() - dueAtMs });
        const next = due.shift();
        if (next === undefined) free.push(connection);
        else send(connection, next);
      },
      // The daemon has ended.
      () => (stopped = true),
    );
  };
  let offered = 0;
  while (!stopped) {
    const nowMs = performance.now();
    for (; startedAtMs + (offered * 1000) / perSecond <= nowMs; offered += 1) {
      const dueAtMs = startedAtMs + (offered * 1000) / perSecond;
      const connection = free.pop();
      if (connection === undefined) due.push(dueAtMs);
      else send(connection, dueAtMs);
    }
    await sleep(1);
  }
  const countedToMs = performance.now() - STOPPING_MS;
  clearInterval(watching);
  for (const connection of all) connection.close();
  const counts = (dueAtMs: number): boolean => dueAtMs >= countedFromMs && dueAtMs < countedToMs;
  const counted = answered.filter(({ dueAtMs }) => counts(dueAtMs));
  const reads = counted.length;
  return {
    reads,
    readsPerSecond: (reads * 1000) / (countedToMs - countedFromMs),
    latenciesMs: counted.map(({ latencyMs }) => latencyMs),
    firstLatenciesMs: answered
      .filter(({ dueAtMs }) => dueAtMs < countedFromMs)
      .map(({ latencyMs }) => latencyMs),
    turnedAway: turnedAway.filter(counts).length,
    unanswered: [...underWay, ...due].filter(counts).length,
  };
}

async function latestIndexed(base: string): Promise<number> {
  const response = await fetch(`${base}/status`);
  return ((await response.json()) as { latestIndexed: number | null }).latestIndexed ?? 0;
}
