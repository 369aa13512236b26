import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadDescriptors } from '../../../src/flow/index.js';
import { atEnd } from '../../support/cleanup.js';
import { refusalOf } from '../../support/grpcProbe.js';
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

describe('the descriptors', () => {
  it('are of all packages, each once', () => {
    const packages = texts.map((text) => /^package (\S+);/m.exec(text)?.[1]);
    // And of google.protobuf, which is imported.
    expect(loadDescriptors()).toHaveLength(new Set(packages).size + 1);
  });
});
