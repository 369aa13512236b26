import { beforeEach, expect, it } from 'vitest';
import { indexerSilent } from '../../../src/api/index.js';
import type { openApiDocument } from '../../../src/api/openapi.js';
import { DatabaseFault } from '../../../src/storage/index.js';
import { accountsOff } from '../../support/accountsOff.js';
import { chainOf, EventReader, HashedChain, idOf, ServedChain, transactionIds } from '../../support/index.js';
import { transactionWith } from '../../support/index.js';
import { violations, type JsonSchema } from '../../support/schemaCheck.js';

type Document = ReturnType<typeof openApiDocument> & {
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
};
type Operation = Document['paths'][string]['get'];

const FIRST = 100;
const LATEST = 159;
const heads = { sealed: 155, head: 170 };
const chain = chainOf(FIRST, LATEST - FIRST + 1, (index) =>
  index % 2 === 0 ? [[transactionWith({ gasLimit: BigInt(index) }), transactionWith()], []] : [],
);
const [first] = chain;
const blockId = first!.block.id;
const collectionId = first!.collections[0]!.id;
const transaction = transactionIds(first!, 0)[0]!;
const payer = 'f8d6e0586b0a20c7';
const unknown = idOf('nothing');
const idsOf = (count: number) => Array.from(chain.slice(0, count), ({ block }) => block.id).join(',');
const fiftyOneHeights = Array.from({ length: 51 }, (_, index) => 100 + index).join(',');
const coverage = [{ from: FIRST, to: LATEST }];
const edges = { firstIndexed: FIRST, latestIndexed: LATEST, head: 170, coverage };

let served: ServedChain;

beforeEach(async () => {
  served = await ServedChain.start(chain, heads);
});

const proven = new HashedChain({ rootHeight: FIRST }).entries(FIRST, FIRST + 9);
const filled = proven.find(({ collections }) => collections.some(({ ranges }) => ranges.length > 0))!;
const documentOf = async () => (await served.get('/openapi.json')).body as Document;

/** Every route that is served, with calls that are answered. */
const answered: Readonly<Record<string, readonly string[]>> = {
  '/v1/blocks': [
    ...['/v1/blocks?height=100', '/v1/blocks?height=101,109&expand=payload', '/v1/blocks?height=final'],
    '/v1/blocks?start_height=150&end_height=sealed&expand=payload',
  ],
  '/v1/blocks/{ids}': [`/v1/blocks/${blockId}`, `/v1/blocks/${blockId},${chain[9]!.block.id}?expand=payload`],
  '/v1/blocks/{id}/payload': [`/v1/blocks/${blockId}/payload`],
  '/v1/blocks/{block}/collections': [
    ...[`/v1/blocks/${blockId}/collections`, '/v1/blocks/101/collections'],
    ...['/v1/blocks/100/collections?expand=transactions', '/v1/blocks/sealed/collections'],
  ],
  '/v1/collections/{id}': [
    `/v1/collections/${collectionId}`,
    `/v1/collections/${collectionId}?expand=transactions`,
    `/v1/collections/${first!.collections[1]!.id}?expand=transactions`,
  ],
  '/v1/transactions': [`/v1/transactions?block_id=${blockId}`, '/v1/transactions?block_height=100'],
  '/v1/transactions/{id}': [`/v1/transactions/${transaction}`],
  '/v1/network/parameters': ['/v1/network/parameters'],
  '/v1/node_version_info': ['/v1/node_version_info'],
  '/status': ['/status'],
  '/lookup/{kind}/{key}': [
    '/lookup/block/100',
    `/lookup/block/${blockId}`,
    ...first!.collections.map(({ id }) => `/lookup/collection/${id}`),
    `/lookup/transaction/${transaction}`,
  ],
  '/events': ['/events?from=103'],
  '/proof/{kind}/{key}': [
    `/proof/block/${FIRST}?to=${FIRST + 9}`,
    `/proof/collection/${filled.collections[0]!.id}`,
    `/proof/transaction/${transactionIds(filled, 0)[0]!}`,
  ],
  '/explain/{key}': [100, 99, 110, transaction, unknown].map((key) => `/explain/${key}`),
  '/export': ['/export?from=150', '/export?from=101&to=101', '/export?from=150&form=stored'],
  '/accounts/{address}/transactions': [
    `/accounts/${payer}/transactions`,
    `/accounts/0x${payer}/transactions?role=payer&limit=1`,
    `/accounts/${payer}/transactions?role=`,
    `/accounts/${'9'.repeat(16)}/transactions`,
  ],
  '/openapi.json': ['/openapi.json'],
};

const below = /^height 99 is below the first indexed height 100$/;
const above = /^height 160 is not yet indexed \(latest 159, head 170\)$/;
const badId = /^invalid ID format: expected 64 hex/;
const hole = /^height 104 is not indexed: it is in a hole, heights 103..105$/;
const silent = /^this needs the indexing thread, which does not answer now/;
const early = /^nothing is indexed yet \(latest unknown, head unknown\)$/;
const badPath = /^the path is not well-formed: each % must begin the two hexadecimal digits.{0,120}$/;
const noSuch = (what: string) => new RegExp(`^no such ${what} in heights 100..159$`);
const select = `select=${'a,'.repeat(51)}`;
const badIds = ['abc', `0x${'a'.repeat(63)}`, 'g'.repeat(64), '%20', ','];

type Refused = readonly [call: string, code: number, reason: string, words: RegExp];

/**
 * For every route, calls that are refused, with each reason that it is described to have. `early` ones are made while nothing is
 * indexed, `hole` ones while heights are missing in the middle, `off` ones without an index of accounts,
 * `away` ones without the database, `silent` ones without an answer of the indexing thread, `closed` ones at the end.
 */
const refused: Readonly<Record<string, readonly Refused[]>> = {
  '/v1/blocks': [
    ['/v1/blocks?height=99', 404, 'below_first_indexed', below],
    ['/v1/blocks?height=160', 404, 'not_yet_indexed', above],
    ['/v1/blocks?height=100,160', 404, 'not_yet_indexed', above],
    ['/v1/blocks?start_height=158&end_height=161', 404, 'not_yet_indexed', above],
    ['/v1/blocks', 400, 'invalid_argument', /give either height .*or start_height and end_height/],
    ['/v1/blocks?start_height=100', 400, 'invalid_argument', /start_height and end_height/],
    ['/v1/blocks?height=100&start_height=100&end_height=101', 400, 'invalid_argument', /not both/],
    ['/v1/blocks?height=abc', 400, 'invalid_argument', /expected a decimal height .*, final, .* got "abc"/],
    ['/v1/blocks?height=9007199254740992', 400, 'invalid_argument', /height up to 9007199254740991, /],
    ['/v1/blocks?height=-1', 400, 'invalid_argument', /got "-1"/],
    ['/v1/blocks?height=99999999999999999999', 400, 'invalid_argument', /invalid height/],
    ['/v1/blocks?height=final,100', 400, 'invalid_argument', /only alone/],
    ['/v1/blocks?start_height=102&end_height=101', 400, 'invalid_argument', /102 is above end_height 101/],
    ['/v1/blocks?start_height=100&end_height=150', 400, 'too_many', /at most 50 heights .* got 51/],
    // Access nodes give however many these are.
    ['/v1/blocks?start_height=1&end_height=final', 400, 'too_many', /at most 50 heights/],
    [`/v1/blocks?height=${fiftyOneHeights}`, 400, 'too_many', /at most 50 heights .* got 51/],
    ['/v1/blocks?height=100&expand=execution_result', 400, 'not_served', /"execution_result" .*payload/],
    ['hole /v1/blocks?height=104', 404, 'hole', hole],
    ['early /v1/blocks?height=100', 404, 'not_yet_indexed', /^height 100 .*\(latest unknown, head unkn/],
    ['early /v1/blocks?height=final', 404, 'not_yet_indexed', /^no final block is indexed yet \(latest unkn/],
    ['early /v1/blocks?height=sealed', 404, 'not_yet_indexed', /^no sealed block is indexed yet \(latest/],
    ['away /v1/blocks?height=100', 503, 'storage', /^the database that holds the index cannot be read now/],
  ],
  '/v1/blocks/{ids}': [
    [`/v1/blocks/${blockId}?${select}`, 400, 'invalid_argument', /at most 50 fields/],
    [`/v1/blocks/${idsOf(51)}`, 400, 'too_many', /at most 50 IDs .* got 51/],
    [`/v1/blocks/${blockId}?expand=execution_result`, 400, 'not_served', /"execution_result"/],
    ...badIds.map((id) => [`/v1/blocks/${id}`, 400, 'malformed_id', badId] as const),
    [`/v1/blocks/${unknown}`, 404, 'unknown_id', noSuch('block')],
    [`early /v1/blocks/${unknown}`, 404, 'not_yet_indexed', early],
  ],
  '/v1/blocks/{id}/payload': [
    [`/v1/blocks/${blockId}/payload?${select}`, 400, 'invalid_argument', /at most 50 fields/],
    ['/v1/blocks/100/payload', 400, 'malformed_id', badId],
    [`/v1/blocks/${unknown}/payload`, 404, 'unknown_id', noSuch('block')],
    [`early /v1/blocks/${unknown}/payload`, 404, 'not_yet_indexed', early],
  ],
  '/v1/blocks/{block}/collections': [
    [`/v1/blocks/100/collections?${select}`, 400, 'invalid_argument', /at most 50 fields/],
    ['/v1/blocks/12345678901234567/collections', 400, 'malformed_id', /a height or a block ID of 64 hex/],
    ['/v1/blocks/newest/collections', 400, 'malformed_id', /got "newest"/],
    [`/v1/blocks/${unknown}/collections`, 404, 'unknown_id', noSuch('block')],
    ['/v1/blocks/160/collections', 404, 'not_yet_indexed', above],
    ['/v1/blocks/99/collections', 404, 'below_first_indexed', below],
    ['hole /v1/blocks/104/collections', 404, 'hole', hole],
  ],
  '/v1/collections/{id}': [
    [`/v1/collections/${collectionId}?${select}`, 400, 'invalid_argument', /at most 50 fields/],
    ...badIds.map((id) => [`/v1/collections/${id}`, 400, 'malformed_id', badId] as const),
    // Odd characters of the caller are written out.
    ['/v1/collections/%1b%5B2J%7f%e2%80%ae', 400, 'malformed_id', /got "\\u001b\[2J\\u007f\\u202e"$/],
    [`/v1/collections/${unknown}`, 404, 'unknown_id', noSuch('collection')],
    [`early /v1/collections/${unknown}`, 404, 'not_yet_indexed', early],
  ],
  '/v1/transactions': [
    [`/v1/transactions?block_id=${idsOf(2)}`, 400, 'invalid_argument', /give one block, by block_id or/],
    [`/v1/transactions?block_id=${blockId}&block_height=100`, 400, 'invalid_argument', /give one block/],
    ['/v1/transactions?block_height=100,101', 400, 'invalid_argument', /give one block/],
    ['/v1/transactions?block_height=first', 400, 'invalid_argument', /invalid block_height: .* got "first"/],
    [`/v1/transactions?block_id=${blockId}&expand=result`, 400, 'not_served', /not serve expand="result"/],
    ['/v1/transactions?block_id=100', 400, 'malformed_id', badId],
    [`/v1/transactions?block_id=${unknown}`, 404, 'unknown_id', noSuch('block')],
    ['/v1/transactions?block_height=160', 404, 'not_yet_indexed', above],
    ['/v1/transactions?block_height=99', 404, 'below_first_indexed', below],
    ['hole /v1/transactions?block_height=104', 404, 'hole', hole],
  ],
  '/v1/transactions/{id}': [
    [`/v1/transactions/${transaction}?${select}`, 400, 'invalid_argument', /at most 50 fields/],
    // Access nodes know scheduled transactions by number.
    ['/v1/transactions/17', 400, 'not_served', /by number/],
    [`/v1/transactions/${unknown}?expand=result`, 400, 'not_served', /expand="result" \(nothing can be/],
    ...badIds.map((id) => [`/v1/transactions/${id}`, 400, 'malformed_id', badId] as const),
    [`/v1/transactions/${unknown}`, 404, 'unknown_id', noSuch('transaction')],
    [`early /v1/transactions/${unknown}`, 404, 'not_yet_indexed', early],
  ],
  '/v1/network/parameters': [],
  '/v1/node_version_info': [['early /v1/node_version_info', 404, 'not_yet_indexed', early]],
  '/status': [['silent /status', 503, 'indexer_silent', silent]],
  '/lookup/{kind}/{key}': [
    ['/lookup/account/f8d6', 400, 'invalid_argument', /"account"; known: block, collection, transaction$/],
    ['/lookup/block/0xabc', 400, 'malformed_id', /^expected a height or a block ID .* digits, got "0xabc"$/],
    ['/lookup/transaction/100', 400, 'malformed_id', badId],
    [`/lookup/collection/${'x'.repeat(7_000)}`, 400, 'malformed_id', /^.{0,300}$/],
    ...['block', 'collection', 'transaction'].map(
      (what) => [`/lookup/${what}/${unknown}`, 404, 'unknown_id', noSuch(what)] as const,
    ),
    ['/lookup/block/160', 404, 'not_yet_indexed', above],
    ['/lookup/block/99', 404, 'below_first_indexed', below],
    ['hole /lookup/block/104', 404, 'hole', hole],
    [`early /lookup/transaction/${unknown}`, 404, 'not_yet_indexed', early],
  ],
  '/proof/{kind}/{key}': [
    ['/proof/accounts/100', 400, 'invalid_argument', /^cannot prove "accounts"/],
    ['/proof/collection/100', 400, 'malformed_id', badId],
    [`/proof/transaction/${unknown}`, 404, 'unknown_id', noSuch('transaction')],
    ['/proof/block/160', 404, 'not_yet_indexed', above],
    ['/proof/block/99', 404, 'below_first_indexed', below],
    ['hole /proof/block/104', 404, 'hole', hole],
    ['/proof/block/100', 409, 'unproven', /^block 100 was taken on the word of the nodes/],
  ],
  '/events': [
    ...['abc', '1,2', '-1'].map(
      (from) => [`/events?from=${from}`, 400, 'invalid_argument', /^invalid from: /] as const,
    ),
    ['/events?from=180', 404, 'not_yet_indexed', /^height 180 is not yet indexed/],
    ['/events?from=99', 404, 'below_first_indexed', below],
    ['hole /events?from=104', 404, 'hole', hole],
    ['early /events', 404, 'not_yet_indexed', early],
    ['closed /events', 503, 'stopping', /^the daemon is stopping/],
  ],
  '/explain/{key}': [
    ['/explain/final', 400, 'malformed_id', /^expected a height or an ID/],
    ['silent /explain/100', 503, 'indexer_silent', silent],
  ],
  '/export': [
    ['/export?to=109', 400, 'invalid_argument', /^from is required/],
    ['/export?from=160', 404, 'not_yet_indexed', above],
    ['/export?from=99', 404, 'below_first_indexed', below],
    ['hole /export?from=104', 404, 'hole', hole],
  ],
  '/accounts/{address}/transactions': [
    ...['12', payer.slice(1), `${payer}a`, `0x0x${payer}`].map((odd): Refused => {
      const words = new RegExp(`^invalid address: .* got "${odd}"$`);
      return [`/accounts/${odd}/transactions`, 400, 'malformed_address', words];
    }),
    ...[
      ...['role=owner', 'role=PAYER', 'limit=0', 'limit=-1', 'limit=1e1'],
      ...['cursor=abc', `cursor=${'_'.repeat(22)}`, 'cursor=%00', 'finality=maybe'],
    ].map((query): Refused => {
      const words = new RegExp(`^invalid ${query.split('=', 1)[0]}: `);
      return [`/accounts/${payer}/transactions?${query}`, 400, 'invalid_argument', words];
    }),
    [`/accounts/${payer}/transactions?role=payer&role=payer`, 400, 'invalid_argument', /^give role once$/],
    [`/accounts/${payer}/transactions?limit=51`, 400, 'too_many', /at most 50 transactions .* got 51$/],
    [`off /accounts/${payer}/transactions`, 404, 'index_off', /^the account index is off/],
    [`early /accounts/${payer}/transactions`, 404, 'not_yet_indexed', early],
  ],
  '/openapi.json': [],
};

const astray: readonly Refused[] = [
  ...[
    ...['transaction_results/a', 'execution_results/a', 'accounts/f8d6', 'events?type=A.b.c', 'collections'],
    ...['transactions/a/b', 'network'],
  ].map((path) => [`/v1/${path}`, 404, 'not_served', /ask an access node/] as const),
  ...['/readyz', '/metrics'].map((path) => [path, 404, 'not_served', /at the port for metrics/] as const),
  ...['/nothing', '/v2/blocks', '/lookup', '/v1'].map(
    (path) => [path, 404, 'not_served', /served here: .*\/v1\/collections\/\{id\}/] as const,
  ),
  ...['%', '%zz', '%ff', '%c0%af', `${'a'.repeat(4_000)}%`].map(
    (path) => [`/v1/blocks/${path}`, 400, 'bad_request', badPath] as const,
  ),
  [`/v1/transactions/${'a'.repeat(9_000)}`, 414, 'too_large', /longer than 8192 characters/],
];

const away = new DatabaseFault('unavailable', 'no server', {});
const noAnswer = (): never => {
  throw indexerSilent();
};
const work = { momentAt: noAnswer };
const untold = Object.defineProperty({}, 'ready', { get: noAnswer, enumerable: true });

/** What is refused of a call; all of it is as it is told. */
async function refusalOf([call, code, reason, words]: Refused) {
  const { range } = served;
  const [state, path] = call.startsWith('/') ? ['', call] : call.split(' ');
  if (state === 'early') served.range = { firstIndexed: null, latestIndexed: null, head: null, sealed: null };
  const holed = [100, 106].map((from) => ({ from, to: from === 100 ? 102 : LATEST }));
  if (state === 'hole') served.change({ firstIndexed: 106, coverage: holed });
  if (state === 'off') served.store.accounts = accountsOff;
  if (state === 'silent') served = await ServedChain.start(chain, heads, { told: untold, work });
  if (state === 'away') served.store.blockByHeight = () => Promise.reject(away);
  if (state === 'closed') await served.feed.close();
  const { status, body } = await served.get(path!);
  served.range = range;
  served.store.switchAccountsOn();
  const message = expect.stringMatching(words) as string;
  // Those that depend on the range tell it.
  const told = state === '' && /indexed$|unknown_id/.test(reason) ? edges : {};
  const expected = { code, reason, message, ...told };
  expect({ call, status, body }).toEqual({
    ...{ call, status: code },
    body: state === '' ? expected : (expect.objectContaining(expected) as object),
  });
  return body;
}

/** Any request may be refused for these, whatever its route. */
const common = ['bad_request', 'too_large', 'rate_limited', 'healing', 'storage', 'internal', 'busy'];

function schemaOf(operation: Operation, status: number | string): JsonSchema | undefined {
  return Object.values(operation.responses[status]?.content ?? {})[0]?.schema as JsonSchema | undefined;
}

function reasonsOf(operation: Operation): string[] {
  return Object.keys(operation.responses)
    .flatMap((status) => schemaOf(operation, Number(status))?.['allOf'] ?? [])
    .flatMap((part) => {
      const { properties } = part as { readonly properties?: { readonly reason: { enum: string[] } } };
      return properties?.reason.enum ?? [];
    });
}

it('names every route that is served, and no other, and what each takes, under a name of its own', async () => {
  const document = await documentOf();
  // Of numbers that do not say how long they are, generated clients take 32 bits.
  expect(JSON.stringify(document)).not.toMatch(/[:[]"(?:integer|number)"(?:,"null"]|(?!,"n))(?!,"format")/);
  expect(document).toMatchObject({ openapi: '3.1.0', info: { version: '0.1.0' } });
  expect(Object.keys(document.paths).sort()).toEqual(Object.keys(answered).sort());
  // The text of a 404 lists what the server has routes for.
  const { message } = (await served.get('/nothing')).body as { message: string };
  expect(message.split('served here: ')[1]?.split(', ').sort()).toEqual(Object.keys(document.paths).sort());
  const { paths } = document;
  const operations = Object.entries(paths).map(([path, { get }]) => ({ path, ...get }));
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
  for (const { path, parameters, summary } of operations) {
    expect(summary).not.toBe('');
    const inPath = parameters.filter((parameter) => parameter.in === 'path');
    expect(inPath.map(({ name }) => `{${name}}`)).toEqual(path.match(/\{\w+\}/g) ?? []);
    expect(inPath.every(({ required }) => required)).toBe(true);
  }
  const byHeight = paths['/v1/blocks']!.get.parameters.map(({ name }) => name);
  expect(byHeight).toEqual(['height', 'start_height', 'end_height', 'finality', 'expand', 'select']);
});

it.each(Object.entries(answered).filter(([path]) => path !== '/events'))(
  'describes what %s answers',
  async (path, calls) => {
    if (path.startsWith('/proof/')) served = await ServedChain.start(proven, { sealed: 105, head: 120 });
    const { paths, components } = await documentOf();
    const schema = schemaOf(paths[path]!.get, 200)!;
    for (const call of calls) {
      const { status, headers, body } = await served.get(call);
      expect(status).toBe(200);
      expect(headers.get('content-type')).toMatch(/^application\/(?:json|x-ndjson);/);
      expect(violations(schema, body, components.schemas)).toEqual([]);
    }
  },
);

it('describes the events of a stream', async () => {
  const { paths, components } = await documentOf();
  const schema = schemaOf(paths['/events']!.get, 200)!;
  const reader = await EventReader.open(`${served.url}/events?from=153`);
  const behind = await EventReader.open(`${served.url}/events`, { 'last-event-id': `500-${unknown}` });
  await behind.first(1);
  await reader.first(7);
  await served.feed.close();
  const events = [...(await reader.first(8)), ...(await behind.first(2))];
  expect(events.map(({ event }) => event)).toEqual([
    ...Array.from({ length: 7 }, () => 'height'),
    ...['end', 'rewind', 'end'],
  ]);
  for (const { data } of events) expect(violations(schema, data, components.schemas)).toEqual([]);
});

it.each(Object.entries(refused))('describes every refusal of %s', async (path, calls) => {
  const { paths, components } = await documentOf();
  const operation = paths[path]!.get;
  const reasons = new Set([...calls.map(([, , reason]) => reason), ...common]);
  expect([...new Set(reasonsOf(operation))].sort()).toEqual([...reasons].sort());
  expect(schemaOf(operation, 'default')).toEqual({ $ref: '#/components/schemas/Error' });
  for (const call of calls) {
    const body = await refusalOf(call);
    const schema = schemaOf(operation, call[1]) ?? { enum: [] };
    expect(violations(schema, body, components.schemas)).toEqual([]);
  }
});

it('has no route for anything else, which is refused with a reason and a sentence', async () => {
  for (const call of astray) await refusalOf(call);
  expect(((await served.get(`/v1/blocks/${idsOf(50)}`)).body as unknown[]).length).toBe(50);
});

it('refuses what the pattern of a parameter does not describe', async () => {
  const { paths } = await documentOf();
  const calls = Object.entries(paths).flatMap(([path, { get }]) =>
    get.parameters.flatMap(({ in: place, name, schema }) => {
      if (!('pattern' in schema)) return [];
      const query = new URLSearchParams({ from: '100', [name]: 'x' });
      return place === 'path'
        ? path.replace(`{${name}}`, 'x')
        : `${answered[path]![0]!.split('?')[0]}?${query.toString()}`;
    }),
  );
  expect(calls.length).toBeGreaterThan(9);
  for (const call of calls)
    expect({ call, status: (await served.get(call)).status }).toEqual({ call, status: 400 });
});
