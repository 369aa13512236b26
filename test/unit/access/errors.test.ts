import { status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { upstreamError } from '../../../src/access/transport/upstreamErrors.js';
import type { UpstreamErrorKind } from '../../../src/access/index.js';

const where = { node: 'node:9000', method: 'GetBlockByHeight' } as const;

const cases: readonly (readonly [status, string, UpstreamErrorKind])[] = [
  [status.NOT_FOUND, 'not found: could not find block', 'not_found'],
  [status.NOT_FOUND, 'could not find execution data', 'not_found'],
  // No integer can hold it.
  [status.NOT_FOUND, 'is less than the spork root block height 99999999999999999999', 'not_found'],
  [status.NOT_FOUND, 'not found: please retry for collection in finalized block: 4e', 'not_yet'],
  [status.OUT_OF_RANGE, 'height is beyond the index', 'not_found'],
  [status.INVALID_ARGUMENT, 'invalid block id', 'invalid_argument'],
  [status.RESOURCE_EXHAUSTED, 'GetCollectionByID rate limit reached, please retry later.', 'rate_limited'],
  [status.RESOURCE_EXHAUSTED, 'maximum number of streams reached', 'rate_limited'],
  [status.RESOURCE_EXHAUSTED, 'Received message larger than max (2097160 vs 1048576)', 'too_large'],
  [status.RESOURCE_EXHAUSTED, 'Received message that decompresses to a size larger than 1024', 'too_large'],
  [status.RESOURCE_EXHAUSTED, 'grpc: trying to send message larger than max (9 vs. 4)', 'too_large'],
  [status.UNIMPLEMENTED, 'unknown method SubscribeExecutionData', 'unimplemented'],
  [status.FAILED_PRECONDITION, 'index is still initializing', 'failed_precondition'],
  [status.DEADLINE_EXCEEDED, 'Deadline exceeded after 10s', 'deadline'],
  [status.UNAVAILABLE, 'No connection established', 'unavailable'],
  [status.CANCELLED, 'context canceled', 'unavailable'],
  // Answers of a node that is there.
  [status.ABORTED, '', 'internal'],
  [status.PERMISSION_DENIED, '', 'unauthenticated'],
  [status.UNAVAILABLE, 'Received HTTP status code 502', 'unavailable'],
  [status.UNAVAILABLE, 'Received HTTP status code 429', 'rate_limited'],
  [status.UNIMPLEMENTED, 'Received HTTP status code 404', 'internal'],
  [status.UNAUTHENTICATED, '', 'unauthenticated'],
  [status.PERMISSION_DENIED, 'Protocol not secure enough', 'unavailable'],
  [status.INTERNAL, 'failed to find: leveldb trouble', 'internal'],
  [status.INTERNAL, 'Failed to decompress gzip-encoded message', 'malformed'],
  [status.UNKNOWN, '', 'internal'],
];

it.each(cases)('%i "%s" is %s', (code, details, kind) => {
  const error = upstreamError({ code, details }, where);
  expect(error).toMatchObject({ name: 'UpstreamError', kind, ...where, lowestHeight: undefined });
  expect(error.message).toContain(details);
});

it.each([
  ['NOT_FOUND', 'height 5 is less than the spork root block height 65264. Try a historic node', 65264],
  ['NOT_FOUND', "height 5 is less than the node's root block height 900. Try another", 900],
  ['INVALID_ARGUMENT', 'start height must be greater than or equal to the root height 1373901', 1373901],
  ['INVALID_ARGUMENT', 'start height 5 is lower than lowest indexed height 4711', 4711],
  ['FAILED_PRECONDITION', 'refused: start height 5 is lower than the lowest indexed height 4711', 4711],
] as const)('%s "%s" is below_root with the height it names', (name, details, lowestHeight) => {
  const code = status[name];
  expect(upstreamError({ code, details }, where)).toMatchObject({ kind: 'below_root', lowestHeight });
});

it.each([
  ['80:error:0A00010B:SSL routines::wrong version number:', 'it speaks no TLS: write grpc://node:9000'],
  ['certificate has expired', 'its operator has to renew it'],
  ['certificate is not yet valid', 'this clock is wrong'],
  ["[ERR_TLS_CERT_ALTNAME_INVALID]: Hostname/IP does not match certificate's altnames", 'for other names'],
  ['80:error:0A000460:SSL routines::tlsv1 alert no application protocol', 'the gRPC port of the node'],
  ['Protocol error (2026-01-01T00:00:00.000Z)', 'perhaps a web server', ''],
  ['Failed to connect (2026-01-01T00:00:00.000Z)', 'if it speaks TLS, write grpcs://node:9000', ''],
  ['read ECONNRESET (2026-01-01T00:00:00.000Z)', 'if it speaks TLS, write grpcs://node:9000', ''],
  ['80:error:0A00045C:SSL routines::tlsv13 alert certificate required:', 'name a port that wants none'],
  ['80:error:0A00042E:SSL routines::tlsv1 alert protocol version:', 'its TLS is older than 1.2'],
  ['self-signed certificate', 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH'],
  ['CERT_HAS_EXPIRED', 'its operator has to renew it'],
  ['unable to verify the first certificate', 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH'],
])('says what to do about a connection that fails with "%s"', (words, advice, prefix = 'Error: ') => {
  const last = `${prefix}${words}`;
  const details = `No connection established. Last error: ${last}. Resolution note: `;
  const { message } = upstreamError({ code: status.UNAVAILABLE, details }, where);
  expect(message).toContain(`Last error: ${last}`);
  expect(message).toContain(advice);
});

it.each<[keyof typeof status, string, string]>([
  ['UNAVAILABLE', 'Received HTTP status code 502', 'a web server or proxy (HTTP 502): it reaches no node'],
  ['UNAVAILABLE', 'Received HTTP status code 504', '(HTTP 504): the node behind it is too slow'],
  ['PERMISSION_DENIED', 'Received HTTP status code 403', 'a web server or proxy (HTTP 403)'],
  ['UNKNOWN', 'Received HTTP status code 301', '(HTTP 301): check address and port'],
  // The length of a message is "html", or "<ht" on a new line.
  ['RESOURCE_EXHAUSTED', 'Received message larger than max (1752460652 vs 1000000)', 'no length but text'],
  ['RESOURCE_EXHAUSTED', 'Received message larger than max (171731060 vs 1000000)', 'no length but text'],
  ['INTERNAL', 'Received RST_STREAM with code 0 (Call ended without gRPC status)', 'has to pass gRPC on'],
  ['PERMISSION_DENIED', 'Protocol not secure enough', 'write grpcs://node:9000'],
  ['UNAVAILABLE', 'Name resolution failed for target dns:node:9000', 'the DNS of this machine'],
  ['DEADLINE_EXCEEDED', 'Deadline exceeded after 3.000s,waiting for name resolution', '/etc/resolv.conf'],
  ['DEADLINE_EXCEEDED', 'Deadline exceeded after 3.001s,Waiting for LB pick', 'no connection came about'],
  ['UNIMPLEMENTED', 'service flow_collection_indexer.v1.IndexAPI', 'it is an access node, or an indexer'],
])('says who answered, if it was no node: %s "%s"', (code, details, advice) => {
  expect(upstreamError({ code: status[code], details }, where).message).toContain(advice);
});

it('names the proxy of a node that is not reached, and what mends refused credentials', () => {
  const causes = { fix: 'put a valid one there', proxy: 'it is reached through a proxy' };
  // Of a proxy that refuses, the library says nothing.
  const details = 'why. Last error: undefined. Resolution note: ';
  const of = (code: status): string => upstreamError({ code, details }, where, causes).message;
  for (const code of [status.UNAVAILABLE, status.DEADLINE_EXCEEDED])
    expect(of(code)).toMatch(/why\.; it is reached through a proxy$/);
  for (const code of [status.UNAUTHENTICATED, status.PERMISSION_DENIED])
    expect(of(code)).toMatch(/why\.; put a valid one there$/);
  expect(of(status.INTERNAL)).toMatch(/why\.$/);
});
