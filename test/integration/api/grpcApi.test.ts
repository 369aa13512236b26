import { once } from 'node:events';
import { beforeEach, describe, expect, it } from 'vitest';
import { describeProto } from '../../../scripts/describe-proto.mjs';
import type { Identifier } from '../../../src/flow/index.js';
import { StorageError } from '../../../src/storage/index.js';
import { chainOf, idOf, refusalOf, servedOverGrpc, transactionWith } from '../../support/index.js';
import type { GrpcProbe } from '../../support/index.js';

const FIRST = 100;
const LATEST = 119;
const HEAD = 130;
const SEALED = 115;
const SPORK = idOf('spork');
const one = transactionWith({ gasLimit: 1n });
const two = transactionWith({ gasLimit: 2n, proposalKey: undefined, arguments: [] });
const three = transactionWith({ gasLimit: 3n });
/** Every other block is empty; block 100 has two collections, the second of them empty. */
const chain = chainOf(FIRST, LATEST - FIRST + 1, (index) => {
  if (index === 0) return [[one, two], []];
  return index % 2 === 0 ? [[transactionWith({ gasLimit: BigInt(index) }), three]] : [];
});
const edges = { 'first-indexed': String(FIRST), 'latest-indexed': String(LATEST), head: String(HEAD) };

const nothingYet = {
  ...{ code: 'NOT_FOUND', details: 'nothing is indexed yet (latest unknown, head unknown)' },
  metadata: { reason: 'not_yet_indexed' },
};
const bytes = (id: Identifier): Buffer => Buffer.from(id, 'hex');

let served: Awaited<ReturnType<typeof servedOverGrpc>>;
let ready: boolean;
let probe: GrpcProbe;

beforeEach(async () => {
  ready = true;
  const health = { readiness: () => ({ ready }) };
  served = await servedOverGrpc(chain, { sealed: SEALED, head: HEAD, health });
  probe = served.probe();
});

const call = (method: string, request: object = {}) => probe.call(method, request);
const refused = (method: string, request: object = {}) => refusalOf(probe.call(method, request));
const nothingIndexed = () =>
  served.index.change({ firstIndexed: null, latestIndexed: null, head: null, sealed: null });

describe('the index as a node', () => {
  it('begins below a height that heals, and has no heights while none is indexed, and nothing to tell before the first is known', async () => {
    served.index.change({ latestIndexed: FIRST - 1 });
    const root = { node_root_block_height: String(FIRST) };
    expect((await call('GetNodeVersionInfo'))['info']).toMatchObject({ ...root, compatible_range: null });
    // Mirrors would begin above a height that heals, for good.
    const [below, healing] = [{ from: FIRST, to: 103 }, [{ from: 104, to: 104 }]];
    const coverage = [below, { from: 105, to: LATEST }];
    served.index.change({ firstIndexed: 105, latestIndexed: LATEST, coverage, healing });
    expect((await call('GetNodeVersionInfo'))['info']).toMatchObject(root);
    nothingIndexed();
    expect(await refused('GetNodeVersionInfo')).toEqual(nothingYet);
  });

  it('does not tell of a spork whose blocks stand above a gap', async () => {
    served.index.store.meta = () => ({
      ...{ schemaVersion: 1, chainId: 'flow-localnet', firstHeight: FIRST, createdBy: 'test' },
      sporks: [
        { rootHeight: 50, sporkId: SPORK },
        { rootHeight: LATEST + 2, sporkId: idOf('to come') },
      ],
    });
    expect((await call('GetNodeVersionInfo'))['info']).toMatchObject({ spork_id: bytes(SPORK) });
  });
});

it('blocks are not served in the full form, of which an index keeps only some', async () => {
  const refusal = await refused('GetBlockByHeight', { height: FIRST, full_block_response: true });
  expect(refusal).toMatchObject({ code: 'UNIMPLEMENTED', metadata: { reason: 'not_served' } });
  expect(refusal.details).toContain('leave it out, ask an access node');
});

it('blocks there is no latest while none is indexed, or none of them is sealed', async () => {
  served.index.change({ sealed: FIRST - 1 });
  const { code, metadata } = nothingYet;
  const noSealed = 'no sealed block is indexed yet (latest 119, head 130)';
  const refusal = await refused('GetLatestBlock', { is_sealed: true });
  expect(refusal).toEqual({ code, details: noSealed, metadata: { ...metadata, ...edges } });
  nothingIndexed();
  const details = 'no final block is indexed yet (latest unknown, head unknown)';
  expect(await refused('GetLatestBlock')).toEqual({ ...nothingYet, details });
});

const tooLarge = '18446744073709551615';

it.each([
  [99, 'NOT_FOUND', 'below_first_indexed', 'is below the first indexed height 100', edges],
  [120, 'NOT_FOUND', 'not_yet_indexed', 'is not yet indexed (latest 119, head 130)', edges],
  [tooLarge, 'INVALID_ARGUMENT', 'invalid_argument', 'expected a number up to 9007199254740991', {}],
])('what is not there height %s is %s: %s', async (height, code, reason, words, told) => {
  const details = expect.stringContaining(words) as string;
  const metadata = { reason, ...told };
  expect(await refused('GetBlockByHeight', { height })).toEqual({ code, details, metadata });
});

it.each([
  ['GetBlockByID', 'id', 'block'],
  ['GetCollectionByID', 'id', 'collection'],
  ['GetFullCollectionByID', 'id', 'collection'],
  ['GetTransaction', 'id', 'transaction'],
  ['GetTransactionsByBlockID', 'block_id', 'block'],
])('what is not there %s of an unknown or a malformed id says so', async (method, field, what) => {
  for (const id of [Buffer.alloc(0), Buffer.alloc(31), Buffer.from(idOf('as text'))]) {
    const details = `invalid ${what} ID: expected 32 raw bytes, got ${id.length}`;
    const metadata = { reason: 'malformed_id' };
    expect(await refused(method, { [field]: id })).toEqual({ code: 'INVALID_ARGUMENT', details, metadata });
  }
  const request = { [field]: bytes(idOf('nobody')) };
  expect(await refused(method, request)).toEqual({
    ...{ code: 'NOT_FOUND', details: `no such ${what} in heights 100..119` },
    metadata: { reason: 'unknown_id', ...edges },
  });
  nothingIndexed();
  expect(await refused(method, request)).toEqual(nothingYet);
});

it('what is not there a request that cannot be read is INVALID_ARGUMENT', async () => {
  const cut = Buffer.from([0x0a, 0x20, 1, 2]);
  const refusal = await refusalOf(probe.raw('/flow.access.AccessAPI/GetTransaction', cut));
  expect(refusal).toMatchObject({ code: 'INVALID_ARGUMENT', metadata: { reason: 'bad_request' } });
  expect(refusal.details).toMatch(/^the request cannot be read: /);
});

describe('what an index cannot answer', () => {
  it.each([
    ['GetTransactionResult', 'this index does not keep transaction results'],
    ['GetSystemTransaction', 'this index does not keep system transactions'],
    ['GetAccountAtLatestBlock', 'this index does not keep accounts'],
    ['ExecuteScriptAtBlockHeight', 'this index does not keep the state that scripts read'],
    ['GetEventsForHeightRange', 'this index does not keep events'],
    ['GetLatestProtocolStateSnapshot', 'this index does not keep protocol states'],
    ['GetExecutionResultByID', 'this index does not keep execution results'],
    ['SendTransaction', 'this index is read-only and accepts no transactions'],
  ])('%s is UNIMPLEMENTED with a sentence that says whom to ask', async (method, why) => {
    expect(await refusalOf(probe.raw(`/flow.access.AccessAPI/${method}`, Buffer.alloc(0)))).toEqual({
      code: 'UNIMPLEMENTED',
      details: `${method} is not served: ${why}; ask an access node, such as grpc://node:9000, or have the daemon forward such calls (api.forward)`,
      metadata: { reason: 'not_served' },
    });
  });

  it('nor is execution data, or a stream of what follows from it, however large the request', async () => {
    const data = 'flow.executiondata.ExecutionDataAPI';
    const refusedRaw = (path: string, size = 0) => refusalOf(probe.raw(path, Buffer.alloc(size)));
    const { details } = await refusedRaw(`/${data}/GetExecutionDataByBlockID`);
    expect(details).toContain('does not keep execution data');
    const others = [
      ...['GetScheduledTransaction', 'GetScheduledTransactionResult'],
      'SendAndSubscribeTransactionStatuses',
      ...['GetExecutionReceiptsByBlockID', 'GetExecutionReceiptsByResultID'],
    ].map((method) => `/flow.access.AccessAPI/${method}`);
    const symbols = describeProto().flatMap((file) => file.symbols);
    const ofData = symbols.filter((symbol) => symbol.startsWith(`${data}.`));
    expect(ofData.length).toBeGreaterThan(5);
    const notServed = { code: 'UNIMPLEMENTED', metadata: { reason: 'not_served' } };
    for (const path of [...ofData.map((name) => `/${data}/${name.slice(data.length + 1)}`), ...others])
      expect(await refusedRaw(path), path).toMatchObject(notServed);
    // A transaction may be larger than any request.
    const send = '/flow.access.AccessAPI/SendTransaction';
    expect(await refusedRaw(send, 1_500_000)).toMatchObject(notServed);
    expect((await refusedRaw('/flow.access.AccessAPI/GetAnything')).code).toBe('UNIMPLEMENTED');
  });
});

const damaged = new StorageError('corrupt', 'body of height 7: /secret/path is damaged');
const bug = new Error('a bug');
it.each([
  [damaged, 'UNAVAILABLE healing', 'the stored record is damaged, and is fetched again; retry'],
  [new StorageError('io', 'the device failed'), 'UNAVAILABLE storage', 'the store cannot be read'],
  [bug, 'INTERNAL internal', 'internal server error'],
] as const)('trouble %s is %s, and told once to the log or to its owner', async (error, status, words) => {
  const [code, reason] = status.split(' ');
  served.index.store.item = () => Promise.reject(error);
  for (let time = 0; time < 2; time += 1)
    expect(await refused('GetTransaction', { id: bytes(idOf('x')) })).toEqual({
      ...{ code, metadata: { reason }, details: expect.stringContaining(words) as string },
    });
  const records = served.logger.records.map(({ level, message }) => [level, message]);
  expect(records).toEqual(error === bug ? [] : [['error', 'a read failed']]);
  expect(served.failures.splice(0)).toEqual(error === bug ? [bug, bug] : []);
});

it('grpc.health.v1.Health says of the server and of its services what /readyz says, and knows no others', async () => {
  for (const service of ['', 'flow.access.AccessAPI', 'flow_collection_indexer.v1.IndexAPI']) {
    ready = true;
    expect(await probe.health(service)).toEqual({ status: 'SERVING' });
    ready = false;
    expect(await probe.health(service)).toEqual({ status: 'NOT_SERVING' });
  }
  const details = 'there is no service "flow.access.Nothing" here';
  const refusal = await refusalOf(probe.health('flow.access.Nothing'));
  expect(refusal).toMatchObject({ code: 'NOT_FOUND', details });
  const watch = probe.watchHealth('flow.access.Nothing').on('error', () => undefined);
  expect(await once(watch, 'data')).toEqual([{ status: 'SERVICE_UNKNOWN' }]);
  watch.cancel();
});

it('grpc.health.v1.Health tells those who watch of every change, and of the end', async () => {
  const watch = probe.watchHealth('flow.access.AccessAPI');
  const heard: unknown[] = [];
  for await (const { status } of watch as AsyncIterable<{ status: unknown }>) {
    heard.push(status);
    if (heard.length === 3) break;
    ready = !ready;
    served.server.health.notify();
  }
  expect(heard).toEqual(['SERVING', 'NOT_SERVING', 'SERVING']);
  watch.on('error', () => undefined).cancel();

  const last = probe.follow('Watch', { service: '' }, 'grpc.health.v1.Health');
  await last.first(1);
  const ended = refusalOf(last.ended());
  await served.server.close();
  expect(await ended).toMatchObject({ code: 'UNAVAILABLE', metadata: { reason: 'stopping' } });
  expect(last.messages).toEqual([{ status: 'SERVING' }, { status: 'NOT_SERVING' }]);
});
