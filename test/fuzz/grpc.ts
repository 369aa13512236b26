import { connect as connectHttp2, constants } from 'node:http2';
import type { ClientHttp2Session, IncomingHttpHeaders } from 'node:http2';
import { connect } from 'node:net';
import { GrpcApiServer } from '../../src/api/index.js';
import { WireWriter } from '../../src/flow/index.js';
import { createReaderMetrics } from '../../src/observability/index.js';
import { hasSoundHttp2, systemClock } from '../../src/runtime/index.js';
import { feedOver } from '../support/feed.js';
import { RecordingLogger } from '../support/recordingLogger.js';
import { connectionBytes, framedMessage, LAST_PING, LAST_WORD, oddHeader } from './http2.js';
import { list, misspelt, mutated, noise } from './mutation.js';
import { FIRST, ids, range, servedStore } from './servedBlocks.js';
import { insist, insistReadable } from './target.js';
import type { Choices, FuzzSession, FuzzTarget, Outcome } from './target.js';

const ACCESS = '/flow.access.AccessAPI';
const methods = [
  ...list('Ping GetLatestBlock GetBlockByID GetBlockByHeight GetCollectionByID GetFullCollectionByID'),
  ...list('GetTransaction GetTransactionsByBlockID GetNetworkParameters GetNodeVersionInfo'),
  // Not answered.
  ...list('ExecuteScriptAtLatestBlock SendTransaction GetAccount GetLatestBlockHeader'),
  ...list('SubscribeBlocksFromLatest SubscribeBlocksFromStartHeight SubscribeBlockDigestsFromStartBlockID'),
];
const paths = [
  ...methods.map((method) => `${ACCESS}/${method}`),
  '/flow_collection_indexer.v1.IndexAPI/SubscribeIndexedHeights',
  '/flow_collection_indexer.v1.IndexAPI/SubscribeIndexedBlocks',
  '/flow.executiondata.ExecutionDataAPI/SubscribeExecutionData',
  '/grpc.health.v1.Health/Check',
  '/grpc.health.v1.Health/Watch',
  '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  ...['/', '', '/a/b', '/__proto__/constructor', 'toString', `/${'x'.repeat(100)}`],
];
/** Calls that may have no end of their own. */
const ENDLESS = /Watch|Subscribe|Reflection|SendAndSubscribe/;

/** Requests that mean something, to begin with. */
const messages: readonly Uint8Array[] = [
  new Uint8Array(0),
  ...ids.map((id) => new WireWriter().bytes(1, Buffer.from(id, 'hex')).finish()),
  ...[0, FIRST, FIRST + 1, range.latestIndexed + 1, 2 ** 53].map((height) =>
    new WireWriter().number(1, height).finish(),
  ),
  new WireWriter().number(1, 1).number(2, 1).finish(),
  new WireWriter().bytes(1, Buffer.from('flow.access.AccessAPI')).finish(),
];

/** Every status that a call can deserve: UNKNOWN, ABORTED, DATA_LOSS and the like are none of them. */
const allowed = new Set([0, 1, 3, 4, 5, 8, 12, 13]);
const INTERNAL = 13;

/**
 * The gRPC port: calls in good HTTP/2 with whatever in them, and whatever bytes, where those do not abort any HTTP/2 server of this
 * Node.js.
 */
export const grpcTarget: FuzzTarget = {
  name: 'grpc',
  share: 12,
  concurrency: 16,
  open: openServer,
};

async function openServer(): Promise<FuzzSession> {
  const store = await servedStore();
  const failures: unknown[] = [];
  const status = { range: () => range };
  const feed = feedOver({ reader: store, status, clock: systemClock });
  const server = new GrpcApiServer(
    { host: '127.0.0.1', port: 0, chainId: 'flow-localnet', version: '1.2.3', accessNodes: [] },
    {
      ...{ store, clock: systemClock, logger: new RecordingLogger() },
      ...{ status, feed, metrics: createReaderMetrics() },
      health: { readiness: () => ({ ready: true }) },
      fail: (error) => failures.push(error),
    },
  );
  await server.start();
  const { port } = server.address();
  let client: ClientHttp2Session | undefined;
  const insistNoFailure = (input: () => unknown): void =>
    insist(failures.length === 0, `a bug: ${String(failures[0])}`, input);

  const rawBytes = async (choices: Choices): Promise<Outcome> => {
    const bytes = connectionBytes(choices, { messages, paths });
    const answer = await talk(port, bytes);
    insistNoFailure(() => bytes);
    return answer.length === 0 ? 'bytes: hung up on' : 'bytes: answered';
  };

  const oddCall = async (choices: Choices): Promise<Outcome> => {
    const path = choices.once(6)
      ? `/${misspelt(choices, choices.of(paths)).replace(/[^\x21-\x7e]/g, '.')}`
      : choices.of(paths);
    const extra = choices.once(2)
      ? {}
      : Object.fromEntries([oddHeader(choices)].filter(([name]) => mayBeSent(name)));
    const body = bodyOf(choices);
    const input = () => ({ path, extra, body: body.toString('hex') });
    if (client === undefined || client.closed || client.destroyed) client = connected(port);
    const call = { extra, body, givesUp: choices.once(30) };
    const { headers, trailers } = await callOn(client, path, call);
    insistNoFailure(input);
    const text = fieldOf('grpc-status', trailers, headers);
    if (text === undefined) return `call: no status, HTTP ${String(headers[':status'] ?? 'none')}`;
    const code = Number(text);
    insist(allowed.has(code), `status ${code}`, input);
    const message = fieldOf('grpc-message', trailers, headers) ?? '';
    insist(!(code === INTERNAL && message.includes('internal server error')), 'an internal error', input);
    if (code !== 0 && code !== 1) insistReadable(decodeURIComponent(message), input);
    return `call: ${code}`;
  };

  /** After whatever came, a call in good order is answered: on a connection that no odd call beside it can bring down. */
  const insistServing = async (): Promise<void> => {
    const session = connected(port);
    const { headers, trailers } = await callOn(session, `${ACCESS}/Ping`, {
      body: framedMessage(new Uint8Array(0)),
    });
    session.destroy();
    const code = fieldOf('grpc-status', trailers, headers);
    insist(Number(code) === 0, `Ping is answered with ${code ?? 'no status'}`, () => '');
  };

  return {
    run: async (choices) => {
      const isRaw = choices.once(3) && hasSoundHttp2(process.version);
      const outcome = await (isRaw ? rawBytes(choices) : oddCall(choices));
      if (choices.once(40)) await insistServing();
      return outcome;
    },
    close: async () => {
      client?.destroy();
      await feed.close();
      await server.close();
    },
  };
}

function connected(port: number): ClientHttp2Session {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on('error', () => undefined);
  return session;
}

interface Answer {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
}

/** `givesUp`: the call is cancelled as soon as it is sent. */
function callOn(
  session: ClientHttp2Session,
  path: string,
  call: {
    readonly body: Buffer;
    readonly extra?: Readonly<Record<string, string>>;
    readonly givesUp?: boolean;
  },
): Promise<Answer> {
  return new Promise((resolve) => {
    let headers: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    const stream = session.request({
      ...{ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' },
      ...call.extra,
    });
    stream.on('response', (received) => (headers = received));
    stream.on('trailers', (received: IncomingHttpHeaders) => (trailers = received));
    stream.on('error', () => undefined);
    stream.on('close', () => resolve({ headers, trailers }));
    stream.resume();
    stream.end(call.body);
    if (call.givesUp === true) stream.close(constants.NGHTTP2_CANCEL);
    // What has no end is left once the server has had it before it.
    else if (ENDLESS.test(path)) session.ping(() => stream.close(constants.NGHTTP2_CANCEL));
  });
}

function fieldOf(name: string, ...places: readonly IncomingHttpHeaders[]): string | undefined {
  for (const place of places) if (place[name] !== undefined) return String(place[name]);
  return undefined;
}

/** Node's client keeps to the rules of HTTP/2 in what it sends; `bytes` break them. */
function mayBeSent(name: string): boolean {
  return name !== 'connection' && name !== 'transfer-encoding' && name !== 'content-length';
}

function bodyOf(choices: Choices): Buffer {
  const message = choices.of(messages);
  switch (choices.below(10)) {
    case 0:
      return noise(choices, choices.below(200));
    case 1:
      return framedMessage(message, { length: choices.of([0, message.length + 1, 2 ** 31, 2 ** 32 - 1]) });
    case 2:
      return framedMessage(message, { compressed: choices.of([1, 2, 255]) });
    case 3:
      return Buffer.concat([framedMessage(message), framedMessage(choices.of(messages))]);
    case 4:
      return framedMessage(noise(choices, choices.of([10, 1_000, 20_000])));
    case 5:
      return Buffer.alloc(0);
    case 6:
      return framedMessage(message);
    default:
      return framedMessage(mutated(choices, message, choices.of(messages)));
  }
}

/** A connection that says nothing for so long is left: what it sent may be the beginning of something. */
const LEFT_AFTER_MS = 100;

/** Sends everything, and gives back all that comes until the server has read it to its end, or hangs up. */
function talk(port: number, bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect({ port, host: '127.0.0.1' }, () =>
      socket.write(Buffer.concat([bytes, LAST_PING])),
    );
    socket.setTimeout(LEFT_AFTER_MS, () => socket.destroy());
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      if (chunk.includes(LAST_WORD)) socket.destroy();
    });
    // A server that hangs up on what it does not want may do so before everything is sent.
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(Buffer.concat(chunks)));
  });
}
