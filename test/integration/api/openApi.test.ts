import { describe, expect, it } from 'vitest';
import { accountsOff } from '../../support/accountsOff.js';
import { EventReader } from '../../support/eventReader.js';
import { HashedChain } from '../../support/hashedChain.js';
import { violations } from '../../support/schemaCheck.js';
import type { JsonSchema } from '../../support/schemaCheck.js';
import { ServedChain } from '../../support/servedChain.js';
import { idOf, smallChain, transactionIds, transactionWith } from '../../support/smallChain.js';

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: 'path' | 'query' | 'header';
    readonly required: boolean;
    readonly schema: JsonSchema;
  }[];
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string;
        readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>;
      }
    >
  >;
}

interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Readonly<Record<string, { readonly get: Operation }>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

const FIRST = 100;
const chain = smallChain(
  FIRST,
  Array.from({ length: 10 }, (_, index) =>
    index % 2 === 0 ? [[transactionWith({ gasLimit: BigInt(index) }), transactionWith()], []] : [],
  ),
);
const [first] = chain;
const blockId = first!.block.id;
const collectionId = first!.collections[0]!.id;
const transaction = transactionIds(first!, 0)[0]!;
const payer = 'f8d6e0586b0a20c7';
const unknown = idOf('nothing');
const fiftyOne = Array.from({ length: 51 }, (_, index) => idOf(String(index))).join(',');
const fiftyOneHeights = Array.from({ length: 51 }, (_, index) => 100 + index).join(',');

const serve = () => ServedChain.start(chain, { sealed: 105, head: 120 });
/** Blocks with proofs. */
const proven = new HashedChain({ rootHeight: FIRST }).entries(FIRST, FIRST + 9);
const filled = proven.find(({ collections }) => collections.some(({ ranges }) => ranges.length > 0))!;
const serveProven = () => ServedChain.start(proven, { sealed: 105, head: 120 });
const documentOf = async (served: ServedChain) => (await served.get('/openapi.json')).body as Document;

/** Every route that is served, with calls that are answered. */
const answered: Readonly<Record<string, readonly string[]>> = {
  '/v1/blocks': [
    '/v1/blocks?height=100',
    '/v1/blocks?height=101,109&expand=payload',
    '/v1/blocks?height=final',
    '/v1/blocks?start_height=100&end_height=sealed&expand=payload',
  ],
  '/v1/blocks/{ids}': [`/v1/blocks/${blockId}`, `/v1/blocks/${blockId},${chain[9]!.block.id}?expand=payload`],
  '/v1/blocks/{id}/payload': [`/v1/blocks/${blockId}/payload`],
  '/v1/blocks/{block}/collections': [
    `/v1/blocks/${blockId}/collections`,
    '/v1/blocks/100/collections?expand=transactions',
    '/v1/blocks/101/collections',
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
    `/lookup/collection/${collectionId}`,
    `/lookup/transaction/${transaction}`,
  ],
  '/events': ['/events?from=103'],
  '/proof/{kind}/{key}': [
    `/proof/block/${FIRST}?to=${FIRST + 9}`,
    `/proof/collection/${filled.collections[0]!.id}`,
    `/proof/transaction/${transactionIds(filled, 0)[0]!}`,
  ],
  '/explain/{key}': [
    '/explain/100',
    '/explain/99',
    '/explain/110',
    `/explain/${transaction}`,
    `/explain/${unknown}`,
  ],
  '/export': ['/export?from=100', '/export?from=101&to=101', '/export?from=100&form=stored'],
  '/accounts/{address}/transactions': [
    `/accounts/${payer}/transactions`,
    `/accounts/0x${payer}/transactions?role=payer&limit=1`,
    `/accounts/${'9'.repeat(16)}/transactions`,
  ],
  '/openapi.json': ['/openapi.json'],
};

/** For every route, calls that are refused, by reason. `early` ones are made while nothing is indexed, `hole` ones while heights are missing in the middle, `off` ones without an index of accounts. */
const refused: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/v1/blocks': {
    invalid_argument: '/v1/blocks?height=abc',
    too_many: `/v1/blocks?height=${fiftyOneHeights}`,
    not_served: '/v1/blocks?height=100&expand=execution_result',
    not_yet_indexed: '/v1/blocks?height=110',
    below_first_indexed: '/v1/blocks?height=99',
    hole: 'hole /v1/blocks?height=104',
  },
  '/v1/blocks/{ids}': {
    invalid_argument: `/v1/blocks/${blockId}?select=${'a,'.repeat(51)}`,
    too_many: `/v1/blocks/${fiftyOne}`,
    not_served: `/v1/blocks/${blockId}?expand=execution_result`,
    malformed_id: '/v1/blocks/0x00',
    unknown_id: `/v1/blocks/${unknown}`,
    not_yet_indexed: `early /v1/blocks/${unknown}`,
  },
  '/v1/blocks/{id}/payload': {
    invalid_argument: `/v1/blocks/${blockId}/payload?select=${'a,'.repeat(51)}`,
    malformed_id: '/v1/blocks/100/payload',
    unknown_id: `/v1/blocks/${unknown}/payload`,
    not_yet_indexed: `early /v1/blocks/${unknown}/payload`,
  },
  '/v1/blocks/{block}/collections': {
    invalid_argument: `/v1/blocks/100/collections?select=${'a,'.repeat(51)}`,
    malformed_id: '/v1/blocks/final/collections',
    unknown_id: `/v1/blocks/${unknown}/collections`,
    not_yet_indexed: '/v1/blocks/110/collections',
    below_first_indexed: '/v1/blocks/99/collections',
    hole: 'hole /v1/blocks/104/collections',
  },
  '/v1/collections/{id}': {
    invalid_argument: `/v1/collections/${collectionId}?select=${'a,'.repeat(51)}`,
    malformed_id: '/v1/collections/abc',
    unknown_id: `/v1/collections/${unknown}`,
    not_yet_indexed: `early /v1/collections/${unknown}`,
  },
  '/v1/transactions': {
    invalid_argument: `/v1/transactions?block_id=${blockId}&block_height=100`,
    not_served: `/v1/transactions?block_id=${blockId}&expand=result`,
    malformed_id: '/v1/transactions?block_id=100',
    unknown_id: `/v1/transactions?block_id=${unknown}`,
    not_yet_indexed: '/v1/transactions?block_height=110',
    below_first_indexed: '/v1/transactions?block_height=99',
    hole: 'hole /v1/transactions?block_height=104',
  },
  '/v1/transactions/{id}': {
    invalid_argument: `/v1/transactions/${transaction}?select=${'a,'.repeat(51)}`,
    not_served: '/v1/transactions/17',
    malformed_id: '/v1/transactions/abc',
    unknown_id: `/v1/transactions/${unknown}`,
    not_yet_indexed: `early /v1/transactions/${unknown}`,
  },
  '/v1/network/parameters': {},
  '/v1/node_version_info': { not_yet_indexed: 'early /v1/node_version_info' },
  '/status': {},
  '/lookup/{kind}/{key}': {
    invalid_argument: '/lookup/account/f8d6e0586b0a20c7',
    malformed_id: '/lookup/collection/100',
    unknown_id: `/lookup/transaction/${unknown}`,
    not_yet_indexed: '/lookup/block/110',
    below_first_indexed: '/lookup/block/99',
    hole: 'hole /lookup/block/104',
  },
  '/proof/{kind}/{key}': {
    invalid_argument: '/proof/accounts/100',
    malformed_id: '/proof/collection/100',
    unknown_id: `/proof/transaction/${unknown}`,
    not_yet_indexed: '/proof/block/110',
    below_first_indexed: '/proof/block/99',
    hole: 'hole /proof/block/104',
    unproven: '/proof/block/100',
  },
  '/events': {
    invalid_argument: '/events?from=abc',
    not_yet_indexed: '/events?from=150',
    below_first_indexed: '/events?from=99',
    hole: 'hole /events?from=104',
  },
  '/explain/{key}': { malformed_id: '/explain/final' },
  '/export': {
    invalid_argument: '/export?to=109',
    not_yet_indexed: '/export?from=110',
    below_first_indexed: '/export?from=99',
    hole: 'hole /export?from=104',
  },
  '/accounts/{address}/transactions': {
    malformed_address: '/accounts/12/transactions',
    invalid_argument: `/accounts/${payer}/transactions?role=owner`,
    too_many: `/accounts/${payer}/transactions?limit=51`,
    index_off: `off /accounts/${payer}/transactions`,
    not_yet_indexed: `early /accounts/${payer}/transactions`,
  },
  '/openapi.json': {},
};

/** Any request may be refused for these, whatever its route. */
const common = ['bad_request', 'too_large', 'rate_limited', 'healing', 'storage', 'internal', 'busy'];

function schemaOf(operation: Operation, status: number): JsonSchema | undefined {
  return Object.values(operation.responses[status]?.content ?? {})[0]?.schema;
}

/** The reasons that a route is said to be refused for. */
function reasonsOf(operation: Operation): string[] {
  return Object.keys(operation.responses)
    .flatMap((status) => schemaOf(operation, Number(status))?.['allOf'] ?? [])
    .flatMap((part) => {
      const { properties } = part as { readonly properties?: { readonly reason: { enum: string[] } } };
      return properties?.reason.enum ?? [];
    });
}

describe('/openapi.json', () => {
  it('names every route that is served, and no other', async () => {
    const served = await serve();
    const document = await documentOf(served);
    expect(document).toMatchObject({ openapi: '3.1.0', info: { version: '0.1.0' } });
    expect(Object.keys(document.paths).sort()).toEqual(Object.keys(answered).sort());
    // The text of a 404 lists what the server has routes for.
    const { message } = (await served.get('/nothing')).body as { message: string };
    expect(message.split('served here: ')[1]?.split(', ').sort()).toEqual(Object.keys(document.paths).sort());
  });

  it('says of each route what it takes, under a name of its own', async () => {
    const { paths } = await documentOf(await serve());
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
      const served = await (path.startsWith('/proof/') ? serveProven() : serve());
      const { paths, components } = await documentOf(served);
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
    const served = await serve();
    const { paths, components } = await documentOf(served);
    const { schema } = paths['/events']!.get.responses[200]!.content!['text/event-stream']!;
    const reader = await EventReader.open(`${served.url}/events?from=103`);
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
    const served = await serve();
    const { paths, components } = await documentOf(served);
    const operation = paths[path]!.get;
    expect(reasonsOf(operation).sort()).toEqual([...Object.keys(calls), ...common].sort());
    for (const [reason, call] of Object.entries(calls)) {
      const { range } = served;
      const early = call.startsWith('early ');
      if (early) served.range = { firstIndexed: null, latestIndexed: null, head: null, sealed: null };
      if (call.startsWith('hole ')) {
        const coverage = [
          { from: 100, to: 102 },
          { from: 106, to: 109 },
        ];
        served.range = { ...range, firstIndexed: 106, coverage };
      }
      if (call.startsWith('off ')) served.store.accounts = accountsOff;
      const { status, body } = await served.get(call.replace(/^(?:early|off|hole) /, ''));
      served.range = range;
      served.store.switchAccountsOn();
      expect(body).toMatchObject({ reason });
      expect(violations(schemaOf(operation, status) ?? { enum: [] }, body, components.schemas)).toEqual([]);
    }
  });

  it('would not describe another answer', async () => {
    const { paths, components } = await documentOf(await serve());
    const schema = schemaOf(paths['/v1/transactions/{id}']!.get, 200)!;
    const found = violations(schema, { id: 'AB', gas_limit: 7, extra: true }, components.schemas);
    const has = (words: string) => expect(found).toContainEqual(expect.stringContaining(words));
    has('/id must match pattern "^[0-9a-f]{64}$"');
    has('/gas_limit must be string');
    has('must NOT have additional properties extra');
    has("must have required property 'payer'");
  });
});
