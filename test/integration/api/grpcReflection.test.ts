import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MessageTypeDefinition, MethodDefinition } from '@grpc/proto-loader';
import { describe, expect, it } from 'vitest';
import { loadDescriptors } from '../../../src/flow/index.js';
import { atEnd } from '../../support/cleanup.js';
import { GrpcProbe, refusalOf } from '../../support/grpcProbe.js';
import { ReflectedClient } from '../../support/reflectedClient.js';
import { servedOverGrpc } from '../../support/servedOverGrpc.js';
import { smallChain, transactionIds, transactionWith } from '../../support/smallChain.js';

const protoRoot = join(import.meta.dirname, '../../../proto');
/** What the files say of themselves, read as text. */
const texts = readdirSync(protoRoot, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.proto'))
  .map((file) => readFileSync(join(protoRoot, file), 'utf8'));
const declared = new Map(
  texts.flatMap((text) => {
    const inPackage = /^package (\S+);/m.exec(text)?.[1] ?? '';
    return [...text.matchAll(/^service (\w+) \{(.*?)^\}/gms)].map(
      ([, name, body]) =>
        [`${inPackage}.${name}`, [...body!.matchAll(/^ {2}rpc (\w+)\(/gm)].map(([, rpc]) => rpc!)] as const,
    );
  }),
);

const one = transactionWith({ gasLimit: 1n });
const two = transactionWith({ gasLimit: 2n });
const chain = smallChain(100, [[[one, two]], [], [[two]]]);

/** The fields of a message, by name. */
function fieldNumbers(
  message: MessageTypeDefinition<object, object> | undefined,
): Readonly<Record<string, number>> {
  const { field } = message?.type as {
    readonly field: readonly { readonly name: string; readonly number: number }[];
  };
  return Object.fromEntries(field.map(({ name, number }) => [name, number]));
}

async function served(version?: 'v1' | 'v1alpha'): Promise<ReflectedClient> {
  const { address } = await servedOverGrpc(chain);
  const client = new ReflectedClient(address, version);
  atEnd(() => client.close());
  return client;
}

describe.each(['v1', 'v1alpha'] as const)('reflection %s', (version) => {
  it('lists every service that the files declare, with exactly their methods', async () => {
    const client = await served(version);
    expect(await client.services()).toEqual([...declared.keys()].sort());
    for (const [service, methods] of declared) {
      const definition = (await client.describe(service))[service];
      expect(Object.keys(definition as object).sort(), service).toEqual([...methods].sort());
    }
  });

  it('answers several questions on one call, in order, and goes on after one that it cannot answer', async () => {
    const client = await served(version);
    const answers = await client.reflect(
      { file_containing_symbol: 'flow.access.AccessAPI.GetBlockByHeight' },
      { file_containing_symbol: 'flow.access.Nothing' },
      { file_by_filename: 'nothing.proto' },
      { all_extension_numbers_of_type: 'flow.entities.Block' },
      { all_extension_numbers_of_type: 'flow.entities.Nothing' },
      {},
      { list_services: '' },
    );
    expect(answers).toHaveLength(7);
    const [symbol, noSymbol, noFile, extensions, noType, nothing, services] = answers;
    expect(symbol?.file_descriptor_response?.file_descriptor_proto.length).toBeGreaterThan(1);
    expect(noSymbol?.error_response).toMatchObject({ error_code: 5 });
    expect(noSymbol?.error_response?.error_message).toContain('flow.access.Nothing');
    expect(noFile?.error_response).toMatchObject({ error_code: 5 });
    expect(extensions?.all_extension_numbers_response).toEqual({ base_type_name: 'flow.entities.Block' });
    expect(noType?.error_response).toMatchObject({ error_code: 5 });
    expect(nothing?.error_response).toMatchObject({ error_code: 3 });
    expect(services?.list_services_response?.service).toHaveLength(declared.size);
  });
});

describe('a client built from reflection alone', () => {
  it('reads blocks, collections and transactions, and knows the fields of what is not served', async () => {
    const client = await served();
    const call = await client.service('flow.access.AccessAPI');
    const { block } = chain[0]!;
    const found = (await call('GetBlockByHeight', { height: 100 }))['block'] as Record<string, unknown>;
    expect(found['id']).toEqual(Buffer.from(block.id, 'hex'));
    const [collection] = found['collection_guarantees'] as { readonly collection_id: Buffer }[];
    const light = await call('GetCollectionByID', { id: collection?.collection_id });
    const ids = transactionIds(chain[0]!, 0);
    expect(light['collection']).toMatchObject({ transaction_ids: ids.map((id) => Buffer.from(id, 'hex')) });
    const full = await call('GetFullCollectionByID', { id: collection?.collection_id });
    expect((full['transactions'] as { gas_limit: string }[]).map(({ gas_limit }) => gas_limit)).toEqual([
      '1',
      '2',
    ]);
    const transaction = await call('GetTransaction', { id: Buffer.from(ids[1] ?? '', 'hex') });
    expect(transaction['transaction']).toMatchObject({ gas_limit: '2', script: two.script });
    const script = call('ExecuteScriptAtLatestBlock', { script: Buffer.from('x'), arguments: [] });
    expect(await refusalOf(script)).toMatchObject({ code: 'UNIMPLEMENTED' });
    const health = await client.service('grpc.health.v1.Health');
    expect(await health('Check', { service: 'flow.access.AccessAPI' })).toEqual({ status: 'SERVING' });
  });
});

describe('what only access nodes answer', () => {
  const ACCESS = 'flow.access.AccessAPI';
  const DATA = 'flow.executiondata.ExecutionDataAPI';
  const filtered = { filter: 2, heartbeat_interval: 3, event_encoding_version: 4 };
  const fromLatest = { filter: 1, heartbeat_interval: 2, event_encoding_version: 3 };
  const statuses = { block_id: 1, block_height: 2, message_index: 3, results: 4 };
  const events = { block_id: 1, block_height: 2, events: 3, block_timestamp: 4, message_index: 5 };

  // Where these differ from the network's, clients read nonsense: nothing on our side would tell.
  it.each([
    [
      ACCESS,
      'SendAndSubscribeTransactionStatuses',
      { transaction: 1, event_encoding_version: 2 },
      { transaction_results: 1, message_index: 2 },
    ],
    [DATA, 'SubscribeEventsFromStartBlockID', { start_block_id: 1, ...filtered }, events],
    [DATA, 'SubscribeEventsFromStartHeight', { start_block_height: 1, ...filtered }, events],
    [DATA, 'SubscribeEventsFromLatest', fromLatest, events],
    [DATA, 'SubscribeAccountStatusesFromStartBlockID', { start_block_id: 1, ...filtered }, statuses],
    [DATA, 'SubscribeAccountStatusesFromStartHeight', { start_block_height: 1, ...filtered }, statuses],
    [DATA, 'SubscribeAccountStatusesFromLatestBlock', fromLatest, statuses],
  ])('has the fields of %s/%s', async (service, method, request, answer) => {
    const client = await served();
    const methods = (await client.describe(service))[service] as Readonly<
      Record<string, MethodDefinition<object, object>>
    >;
    const found = methods[method];
    expect(found?.responseStream).toBe(true);
    expect(fieldNumbers(found?.requestType)).toEqual(request);
    expect(fieldNumbers(found?.responseType)).toEqual(answer);
  });

  it('is named in the documentation where it is not described', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../../docs/grpc.md'), 'utf8');
    const [, named = ''] = /^Not described, (.*?)^$/ms.exec(page) ?? [];
    const undescribed = [...named.matchAll(/`(Get\w+)`/g)].map(([, method]) => method!);
    expect(undescribed).toHaveLength(4);
    const { address } = await servedOverGrpc(chain);
    const probe = new GrpcProbe(address);
    atEnd(() => probe.close());
    for (const method of undescribed) {
      expect(declared.get(ACCESS)).not.toContain(method);
      const refusal = await refusalOf(probe.raw(`/${ACCESS}/${method}`, Buffer.alloc(0)));
      expect(refusal, method).toMatchObject({ code: 'UNIMPLEMENTED', metadata: { reason: 'not_served' } });
    }
  });
});

describe('the descriptors', () => {
  it('are of all packages, each once', () => {
    const packages = texts.map((text) => /^package (\S+);/m.exec(text)?.[1]);
    // And of google.protobuf, which is imported.
    expect(loadDescriptors()).toHaveLength(new Set(packages).size + 1);
  });
});
