import { atEnd, apiServerOver, metricsServerOver } from '../support/index.js';
import { list, misspelt, mutated, noise, oddText } from './mutation.js';
import { chain, FIRST, ids, range, servedStore } from './servedBlocks.js';
import { converse, insist, insistReadable } from './target.js';
import type { Choices, FuzzTarget, Outcome, Run } from './target.js';

/** Every status that a request can deserve; 500 is none of them. */
const allowed = new Set([100, 200, 204, 304, 400, 403, 404, 405, 408, 409, 413, 414, 417, 429, 431, 503]);

export const httpTarget: FuzzTarget = { name: 'http', share: 60, concurrency: 16, open: openServers };

async function openServers(): Promise<Run> {
  const store = await servedStore();
  store.switchAccountsOn(FIRST + 2);
  const api = apiServerOver(store, () => range, { corsOrigins: ['http://page'] });
  const monitored = metricsServerOver();
  for (const { server } of [api, monitored]) {
    await server.start();
    atEnd(() => server.close());
  }
  return async (choices) => {
    const { failures, server } = choices.once(6) ? monitored : api;
    const { bytes, whole } = conversation(choices);
    const input = () => bytes.toString('latin1');
    const answer = await converse(server.address().port, bytes);
    insist(failures.length === 0, `a bug: ${String(failures[0])}`, input);
    if (answer.length > 0) return judge(answer, whole, input);
    insist(!whole, 'a whole request got no answer', input);
    return 'hung up on';
  };
}

function judge(answer: Buffer, whole: boolean, input: () => unknown): Outcome {
  const text = answer.toString('latin1');
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1]);
  insist(allowed.has(status), `status ${status}`, input);
  for (const [, further] of text.matchAll(/\r\nHTTP\/1\.1 (\d{3}) /g))
    insist(allowed.has(Number(further)), `status ${further ?? ''}`, input);
  if (!whole || status === 100 || status === 200 || status === 304) return String(status);
  const end = text.indexOf('\r\n\r\n');
  const isChunked = /\r\ntransfer-encoding: chunked\r\n/i.test(text.slice(0, end + 2));
  const body = bodyOf(answer.subarray(end + 4), isChunked);
  if (body.length === 0 || !/\r\ncontent-type: application\/json/i.test(text))
    return `${status} without a body`;
  if (status === 503) return '503';
  const refusal = JSON.parse(body.toString('utf8')) as Record<string, unknown>;
  insist(refusal['code'] === status, 'the body has another code', input);
  const { message, reason } = refusal;
  insist(typeof message === 'string' && typeof reason === 'string', 'a refusal without words', input);
  insistReadable(message, input);
  insist(status !== 409 || reason === 'unproven', '409 for another reason', input);
  insist(status !== 405 || /\r\nallow: GET, HEAD\r\n/i.test(text), '405 without Allow', input);
  return `${status} ${reason}`;
}

function bodyOf(bytes: Buffer, chunked: boolean): Buffer {
  if (!chunked) return bytes;
  const from = bytes.indexOf('\r\n') + 2;
  const chunkBytes = Number.parseInt(bytes.subarray(0, from).toString('latin1'), 16);
  return bytes.subarray(from, from + chunkBytes);
}

/** What one connection says. `whole`: it is one well-formed request, so that its answer can be read strictly. */
function conversation(choices: Choices): { readonly bytes: Buffer; readonly whole: boolean } {
  if (choices.once(25)) return { bytes: noise(choices, choices.below(400)), whole: false };
  if (choices.once(3)) return { bytes: Buffer.from(wellFormed(choices), 'latin1'), whole: true };
  const requests = Array.from({ length: choices.few(6) }, () => request(choices)).join('');
  const bytes = Buffer.from(requests, choices.once(4) ? 'utf8' : 'latin1');
  return { bytes: choices.once(3) ? mutated(choices, bytes, bytes) : bytes, whole: false };
}

function wellFormed(choices: Choices): string {
  const path = target(choices).replace(/[^\x21-\x7e]/g, (each) =>
    encodeURIComponent(/[\ud800-\udfff]/.test(each) ? '?' : each),
  );
  return `${choices.of(['GET', 'GET', 'GET', 'GET', 'HEAD', 'POST', 'OPTIONS'])} /${path.replace(/^\/+/, '').slice(0, 9_000)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
}

const methods = [...list('GET HEAD POST PUT DELETE OPTIONS TRACE CONNECT PATCH PRI get'), 'G E T', ''];
const versions = [...list('HTTP/1.1 HTTP/1.0 HTTP/0.9 HTTP/2.0 http/1.1 HTTP/9.9 FTP/1.1'), 'HTTP/1.1 ', ''];
const headers: readonly ((choices: Choices) => string)[] = [
  () => 'Host: x',
  () => 'Connection: close',
  () => 'Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13',
  () => 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__',
  (choices) => `Origin: ${choices.of(['http://page', 'http://other', 'null', oddText(choices)])}`,
  () => 'Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type',
  () => 'Expect: 100-continue',
  () => 'Expect: everything',
  () => 'Transfer-Encoding: chunked',
  () => 'Transfer-Encoding: chunked, identity\r\nContent-Length: 4',
  () => 'Content-Type: application/json',
  () => 'Accept-Encoding: gzip, br',
  () => 'Range: bytes=0-0',
  (choices) =>
    `Content-Length: ${choices.of(['0', '1', '-1', '1e3', '99999999999999999999', '4, 4', '0x10', ''])}`,
  (choices) => `If-None-Match: ${oddText(choices)}`,
  (choices) => `X-Large: ${'a'.repeat(choices.of([100, 8_000, 17_000, 70_000]))}`,
  (choices) =>
    Array.from({ length: choices.of([10, 100, 3_000]) }, (_, index) => `A${index}: b`).join('\r\n'),
  (choices) => `If-None-Match: ${choices.once(3) ? '*' : oddText(choices)}`,
  (choices) => `Accept-Encoding: ${choices.once(3) ? 'gzip;q=' : ''}${oddText(choices)}`,
  (choices) => `${oddText(choices)}: ${oddText(choices)}`,
  (choices) => oddText(choices),
];

function request(choices: Choices): string {
  const method = choices.once(3) ? choices.of(methods) : 'GET';
  const version = choices.once(5) ? choices.of(versions) : 'HTTP/1.1';
  const lines = ['Host: x'];
  for (let left = choices.below(4); left > 0; left -= 1) lines.push(choices.of(headers)(choices));
  const body = choices.once(5)
    ? choices.of(['0\r\n\r\n', '{"a":1}', '4\r\nabcd\r\n0\r\n\r\n', 'zz\r\n', 'x'.repeat(5_000)])
    : '';
  const end = choices.once(20) ? choices.of(['\n', '\r', '\r\r\n', ' \r\n']) : '\r\n';
  return [`${method} ${target(choices)} ${version}`, ...lines, '', body].join(end);
}

const paths = [
  ...list('/ /docs /page/page.js /page /v1/ws /status /v1/blocks /v1/collections /v1/transactions'),
  ...list('/v1/network/parameters /v1/node_version_info /openapi.json /lookup /proof /accounts'),
  ...list('/metrics /livez /readyz'),
];
const addresses = [...list('f8d6e0586b0a20c7 0xF8D6E0586B0A20C7 01cf0e2f2f715450 1 0x'), '0'.repeat(17)];
const kinds = list('block collection transaction account');
const provable = kinds.map((kind) => `${kind}s`);
const parameters = [
  ...list('height start_height end_height to expand select block_id role limit cursor'),
  ...['__proto__', 'constructor', 'height[]', ''],
];
const parameterValues = [
  ...list('final sealed 100 101,102 107 108 99 0 -1 9007199254740993 payload payer AAAAAAAAAGQAAAAAAAAAAA'),
  ...list('execution_result transactions header.id header,payload. . .. id,id __proto__ constructor.name'),
  ...['length', chain[0]?.block.id ?? ''],
];
const escapes = list('% %2 %zz %00 %2f %2e%2e %c0%af %ff %ed%a0%80 %25 + %F0%9F%98%80');

function target(choices: Choices): string {
  if (choices.once(30))
    return choices.of([...list('* // /// /.. http://x/status x:80 ? # /# /?'), 'x'.repeat(20_000)]);
  let path = choices.of(paths);
  if (/^\/v1\/[bct]/.test(path) && !choices.once(4)) path += `/${identifiers(choices)}`;
  if (path === '/lookup' || path === '/proof')
    path += `/${choices.of(path === '/lookup' ? kinds : provable)}/${choices.once(3) ? String(FIRST + choices.below(12)) : identifiers(choices)}`;
  if (path === '/accounts')
    path += `/${choices.once(4) ? oddText(choices) : choices.of(addresses)}${choices.once(8) ? '' : '/transactions'}`;
  if (path.startsWith('/v1/blocks/') && choices.once(3)) path += choices.of(['/payload', '/collections']);
  if (choices.once(8)) path = misspelt(choices, path);
  if (choices.once(8)) path += choices.of(escapes);
  return choices.once(3) ? path : `${path}?${query(choices)}`;
}

function identifiers(choices: Choices): string {
  const one = (): string => {
    if (choices.once(8)) return oddText(choices);
    return choices.once(8) ? misspelt(choices, choices.of(ids)) : choices.of(ids);
  };
  return Array.from({ length: choices.once(10) ? choices.of([2, 50, 51, 120]) : 1 }, one).join(',');
}

function query(choices: Choices): string {
  const pair = (): string => {
    const name = choices.once(8) ? oddText(choices) : choices.of(parameters);
    const value = choices.once(5) ? oddText(choices) : choices.of(parameterValues);
    const escape = choices.once(8) ? choices.of(escapes) : '';
    return choices.once(12) ? name : `${name}=${value}${escape}`;
  };
  const count = choices.once(60) ? choices.of([100, 1_500]) : choices.few(4);
  return Array.from({ length: count }, pair).join(choices.once(12) ? ';' : '&');
}
