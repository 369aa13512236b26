import { constants, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { WireWriter } from '../../src/flow/index.js';
import { hasSoundHttp2 } from '../../src/api/index.js';
import { beginCall, sessionOn, tcpServer, grpcOver } from '../support/index.js';
import { list, misspelt, mutated, noise } from './mutation.js';
import { FIRST, ids, range, servedStore } from './servedBlocks.js';
import { converse, insist, insistReadable } from './target.js';
import type { Choices, FuzzTarget, Outcome, Run } from './target.js';

const ACCESS = '/flow.access.AccessAPI';
const methods = [
  ...list('Ping GetLatestBlock GetBlockByID GetBlockByHeight GetCollectionByID GetFullCollectionByID'),
  ...list('GetTransaction GetTransactionsByBlockID GetNetworkParameters GetNodeVersionInfo'),
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

const messages: readonly Uint8Array[] = [
  new Uint8Array(0),
  ...ids.map((id) => new WireWriter().bytes(1, Buffer.from(id, 'hex')).finish()),
  ...[0, FIRST, FIRST + 1, range.latestIndexed + 1, 2 ** 53].map((height) =>
    new WireWriter().number(1, height).finish(),
  ),
  new WireWriter().number(1, 1).number(2, 1).finish(),
  new WireWriter().bytes(1, Buffer.from('flow.access.AccessAPI')).finish(),
];

const oddHeaders: Readonly<Record<string, readonly string[]>> = {
  'grpc-timeout': ['1n', '0S', '99999999H', '-1S', '1', 'S', '1e3m', '999999999999S'],
  'grpc-encoding': ['gzip', 'deflate', 'identity', 'br', '', 'snappy'],
  'grpc-accept-encoding': ['gzip', ',,', 'identity;q=0'],
  'x-any-bin': ['AAAA', '====', '!', 'A'],
  'x-large': ['a'.repeat(10), 'a'.repeat(120)],
  authorization: ['Bearer x'],
};

/** Every status that a call can deserve: UNKNOWN, ABORTED, DATA_LOSS and the like are none of them. */
const allowed = new Set([0, 1, 3, 4, 5, 8, 12, 13]);
const INTERNAL = 13;
const BUSY = 8;
/** How long all calls may be taken by callers who are gone: the five seconds of silence that tell, and some more. */
const FULL_AT_MOST_MS = 8_000;

/** Calls in good HTTP/2 with whatever in them, and conversations spoilt on the way, where those do not abort Node.js itself. */
export const grpcTarget: FuzzTarget = { name: 'grpc', share: 12, concurrency: 16, open: openServer };

async function openServer(): Promise<Run> {
  const { failures, port } = await grpcOver(await servedStore(), () => range);
  const conversations = await Promise.all([recorded(...messages.slice(0, 2)), recorded(...messages)]);
  let client: ClientHttp2Session | undefined;
  /** Since when each Ping was refused because of too many calls. */
  let fullSinceMs: number | undefined;
  const insistNoFailure = (input: () => unknown): void =>
    insist(failures.length === 0, `a bug: ${String(failures[0])}`, input);

  const spoilt = async (choices: Choices): Promise<Outcome> => {
    const bytes = choices.once(20)
      ? noise(choices, choices.below(400))
      : mutated(choices, choices.of(conversations), choices.of(conversations));
    const answer = await converse(port, Buffer.concat([bytes, LAST_PING]), lastWord);
    insistNoFailure(() => bytes);
    return answer.length === 0 ? 'bytes: hung up on' : 'bytes: answered';
  };

  const oddCall = async (choices: Choices): Promise<Outcome> => {
    const path = choices.once(6)
      ? `/${misspelt(choices, choices.of(paths)).replace(/[^\x21-\x7e]/g, '.')}`
      : choices.of(paths);
    const [name, values] = choices.of(Object.entries(oddHeaders));
    const extra = choices.once(2) ? {} : { [name]: choices.of(values) };
    const body = bodyOf(choices);
    const input = () => ({ path, extra, body: body.toString('hex') });
    if (client === undefined || client.closed || client.destroyed) client = connected(port);
    const call = { extra, body, givesUp: choices.once(30) };
    const answer = await callOn(client, path, call);
    insistNoFailure(input);
    const text = fieldOf('grpc-status', answer);
    if (text === undefined) return `call: no status, HTTP ${String(answer.headers[':status'] ?? 'none')}`;
    const code = Number(text);
    insist(allowed.has(code), `status ${code}`, input);
    const message = fieldOf('grpc-message', answer) ?? '';
    insist(!(code === INTERNAL && message.includes('internal server error')), 'an internal error', input);
    if (code !== 0 && code !== 1) insistReadable(decodeURIComponent(message), input);
    return `call: ${code}`;
  };

  /** A call in good order is answered, whatever came; refused only while callers that have left still count. */
  const insistServing = async (): Promise<void> => {
    const session = connected(port);
    const ping = await callOn(session, `${ACCESS}/Ping`, { body: framedMessage(new Uint8Array(0)) });
    session.destroy();
    const code = Number(fieldOf('grpc-status', ping));
    const nowMs = performance.now();
    fullSinceMs = code === BUSY ? (fullSinceMs ?? nowMs) : undefined;
    const mayBeFull = nowMs - (fullSinceMs ?? -Infinity) < FULL_AT_MOST_MS;
    insist(code === 0 || mayBeFull, `Ping is answered with ${code}`, () => '');
  };

  return async (choices) => {
    const isSpoilt = choices.once(3) && hasSoundHttp2(process.version);
    const outcome = await (isSpoilt ? spoilt(choices) : oddCall(choices));
    if (choices.once(40)) await insistServing();
    return outcome;
  };
}

/** All that a client sends that makes these calls at once, and waits for no answer. */
async function recorded(...bodies: readonly Uint8Array[]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const port = await tcpServer((socket) => void socket.on('data', (chunk: Buffer) => chunks.push(chunk)));
  const session = connected(port);
  for (const [index, body] of bodies.entries())
    void callOn(session, paths[index] ?? '/', { body: framedMessage(body) });
  await new Promise((resolve) => session.once('connect', () => setImmediate(resolve)));
  while (!Buffer.concat(chunks).includes(framedMessage(bodies.at(-1) ?? new Uint8Array(0))))
    await new Promise((resolve) => setImmediate(resolve));
  session.destroy();
  return Buffer.concat(chunks);
}

const connected = (port: number): ClientHttp2Session => sessionOn(`http://127.0.0.1:${port}`);

interface Answer {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
}

/** `givesUp`: the call is cancelled as soon as it is sent. */
function callOn(
  session: ClientHttp2Session,
  path: string,
  call: { readonly body: Buffer; readonly extra?: object; readonly givesUp?: boolean },
): Promise<Answer> {
  return new Promise((resolve) => {
    let headers: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    const stream = beginCall(session, path, call.extra);
    stream.on('response', (received) => (headers = received));
    stream.on('trailers', (received: IncomingHttpHeaders) => (trailers = received));
    stream.on('close', () => resolve({ headers, trailers }));
    stream.resume();
    stream.end(call.body);
    if (call.givesUp === true) stream.close(constants.NGHTTP2_CANCEL);
    // What has no end is left once the server has had it before it.
    else if (ENDLESS.test(path)) session.ping(() => stream.close(constants.NGHTTP2_CANCEL));
  });
}

function fieldOf(name: string, { headers, trailers }: Answer): string | undefined {
  const found = trailers[name] ?? headers[name];
  return found === undefined ? undefined : String(found);
}

function framedMessage(message: Uint8Array, { compressed = 0, length = message.length } = {}): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = compressed;
  prefix.writeUInt32BE(length >>> 0, 1);
  return Buffer.concat([prefix, message]);
}

function bodyOf(choices: Choices): Buffer {
  const message = choices.of(messages);
  const often = () => framedMessage(mutated(choices, message, choices.of(messages)));
  return choices.of<() => Buffer>([
    () => noise(choices, choices.below(200)),
    () => framedMessage(message, { length: choices.of([0, message.length + 1, 2 ** 31, 2 ** 32 - 1]) }),
    () => framedMessage(message, { compressed: choices.of([1, 2, 255]) }),
    () => Buffer.concat([framedMessage(message), framedMessage(choices.of(messages))]),
    () => framedMessage(noise(choices, choices.of([10, 1_000, 20_000]))),
    () => Buffer.alloc(0),
    () => framedMessage(message),
    ...[often, often, often],
  ])();
}

/** What the server gives back once it has read everything before it: a PING frame. */
const LAST_WORD = Buffer.from('the end.', 'latin1');
const LAST_PING = Buffer.concat([Buffer.of(0, 0, 8, 6, 0, 0, 0, 0, 0), LAST_WORD]);
const lastWord = { word: LAST_WORD, idleMs: 100 };
