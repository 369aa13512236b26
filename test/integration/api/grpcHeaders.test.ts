import { beforeEach, expect, it } from 'vitest';
import { identifierBytes, WireWriter } from '../../../src/flow/index.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import { asItIs, evidenceOf, HashedChain, refusalOf, servedOverGrpc } from '../../support/index.js';
import type { GrpcProbe, MemoryIndexStore } from '../../support/index.js';

const FIRST = 100;
const LATEST = 106;
const hashed = new HashedChain({ rootHeight: FIRST });
const chain = hashed.generator;

let store: MemoryIndexStore;
let probe: GrpcProbe;

beforeEach(async () => {
  const unproven = hashed.entries(FIRST, FIRST, { isProven: false });
  const blocks = [...unproven, ...hashed.entries(FIRST + 1, LATEST)];
  const served = await servedOverGrpc(blocks, { sealed: LATEST - 2, chainId: chain.chainId });
  store = served.index.store;
  probe = served.probe();
});

const byId = new WireWriter().bytes(1, identifierBytes(chain.blockId(FIRST + 3)));

it.each([
  ['GetBlockHeaderByHeight', new WireWriter().number(1, LATEST - 1), LATEST - 1, 1],
  ['GetBlockHeaderByID', byId, FIRST + 3, 2],
  ['GetLatestBlockHeader', new WireWriter(), LATEST, 1],
  ['GetLatestBlockHeader', new WireWriter().number(1, 1), LATEST - 2, 2],
])('%s answers with the bytes that the node has', async (method, request, height, status) => {
  const answer = await probe.raw(`/flow.access.AccessAPI/${method}`, request.finish());
  const header = chain.block(height).hashed?.header ?? Buffer.alloc(0);
  const expected = new WireWriter().element(1, header).number(2, status).finish();
  expect(Buffer.from(answer).subarray(0, expected.length)).toEqual(expected);
});

it('streams the headers that the node has, and refuses at once where the first is not proven', async () => {
  const path = '/flow.access.AccessAPI/SubscribeBlockHeadersFromStartHeight';
  const request = Buffer.from([8, FIRST + 1, 16, 1]);
  const answers: Buffer[] = [];
  const stream = probe.client.makeServerStreamRequest(path, asItIs, asItIs, request);
  for await (const bytes of stream) if (answers.push(bytes as Buffer) === LATEST - FIRST) break;
  stream.on('error', () => undefined).cancel();
  const expected = answers.map((_, index) =>
    new WireWriter().element(1, chain.block(FIRST + 1 + index).hashed?.header ?? Buffer.alloc(0)).finish(),
  );
  expect(answers).toEqual(expected);
  const first = { start_block_id: identifierBytes(chain.blockId(FIRST)), block_status: 'BLOCK_SEALED' };
  const refused = probe.follow('SubscribeBlockHeadersFromStartBlockID', first);
  expect(await refusalOf(refused.ended())).toMatchObject({ metadata: { reason: 'not_served' } });
});

it('says of a block without a proof that there is no more than its light form', async () => {
  const details = expect.stringContaining('in its light form only') as string;
  const refused = refusalOf(probe.call('GetBlockHeaderByHeight', { height: FIRST }));
  expect(await refused).toMatchObject({ code: 'UNIMPLEMENTED', details });
  const light = await probe.call('GetBlockByID', { id: identifierBytes(chain.blockId(FIRST)) });
  expect(light['block']).toMatchObject({ height: String(FIRST) });
});

it('come with who signs, as it is kept of the newest stored block at or below a height', async () => {
  const service = 'flow_collection_indexer.v1.IndexAPI';
  const at = (height: number) => hashed.entries(height, height)[0]!;
  const of = (entry: BlockEntry) => ({
    height: String(entry.block.height),
    block_id: identifierBytes(entry.block.id),
    protocol_state: Buffer.from(evidenceOf(entry).protocolState),
    epoch_state: Buffer.from(evidenceOf(entry).epochState),
    events: evidenceOf(entry).events,
  });
  const ask = (height: number) => probe.call('GetCommitteeEvidence', { height }, service);
  expect(await refusalOf(ask(LATEST))).toMatchObject({ code: 'NOT_FOUND' });
  await store.keepEvidence(evidenceOf(at(FIRST + 1), true));
  await store.keepEvidence(evidenceOf(at(FIRST + 3)));
  await store.keepEvidence({ ...evidenceOf(at(FIRST + 5)), id: chain.blockId(FIRST) });
  expect(await ask(LATEST)).toMatchObject(of(at(FIRST + 3)));
  expect(await ask(FIRST + 2)).toMatchObject(of(at(FIRST + 1)));
  const unknown = { code: 'NOT_FOUND', metadata: { reason: 'unknown_id' } };
  expect(await refusalOf(ask(FIRST))).toMatchObject(unknown);
});
