import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeProto } from '../../../scripts/describe-proto.mjs';
import { atEnd, servedOverGrpc, smallChain, transactionWith } from '../../support/index.js';
import { decodeFile, descriptorFaults, typesOf, type FileShape } from '../../support/descriptorCheck.js';
import { ReflectedClient } from '../../support/reflectedClient.js';

const protoRoot = join(import.meta.dirname, '../../../proto');
const names = readdirSync(protoRoot, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.proto'),
);
/** What the files say of themselves, read as text. */
const texts = names.map((file) => readFileSync(join(protoRoot, file), 'utf8'));
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
    expect(answers[0]?.file_descriptor_response?.file_descriptor_proto.length).toBeGreaterThan(1);
    const named = expect.stringContaining('flow.access.Nothing') as string;
    expect(answers).toMatchObject([
      {},
      { error_response: { error_code: 5, error_message: named } },
      { error_response: { error_code: 5 } },
      { all_extension_numbers_response: { base_type_name: 'flow.entities.Block' } },
      { error_response: { error_code: 5 } },
      { error_response: { error_code: 3 } },
      { list_services_response: { service: { length: declared.size } } },
    ]);
  });
});

/** Every name, number and type of Flow's interface, one per line and in order. */
function facts(files: readonly FileShape[]): readonly string[] {
  const ofFlow = files.filter((file) => /^flow\.(access|entities|executiondata)$/.test(file.package));
  const lines = ofFlow.flatMap((file) => {
    const { enums, messages } = typesOf(file.package, file.messageType, file.enumType);
    return [
      ...messages.flatMap(([name, { field: fields }]) =>
        fields.map(({ name: field, number, label, type, typeName = '-', jsonName }) =>
          [`${name}.${field}`, number, label, type, typeName, jsonName].join(' '),
        ),
      ),
      ...enums.flatMap(([name, one]) => one.value.map((each) => `${name}.${each.name} ${each.number}`)),
      ...file.service.flatMap((service) =>
        service.method.map(({ name, inputType, outputType, clientStreaming, serverStreaming }) => {
          const isStreamed = [clientStreaming ?? false, serverStreaming ?? false];
          return [`${file.package}.${service.name}.${name}`, inputType, outputType, ...isStreamed].join(' ');
        }),
      ),
    ];
  });
  return lines.sort();
}

describe('the descriptors', () => {
  const files = (): FileShape[] =>
    describeProto().map(({ encoded }) => decodeFile(Buffer.from(encoded, 'base64')));

  it('are of all files and what these import, have all that Flow publishes, and nothing else, and stand up to a strict client', () => {
    const described = files().map(({ name }) => name);
    expect(described.toSorted()).toEqual([...names, 'google/protobuf/timestamp.proto'].toSorted());
    // Every name, number and type of its interface.
    const lines = facts(files());
    // Of github.com/onflow/flow/protobuf v0.4.20, taken from the descriptors of its Go module in the same way.
    expect(createHash('sha256').update(lines.join('\n')).digest('hex'), lines.join('\n')).toBe(
      '9c4044c7edaeb1fb0955adacd64b4708a650c31f19b95c3f728ef17e1c649e84',
    );
    expect(descriptorFaults(files())).toEqual([]);
  });

  it('come whole with each answer: nothing in it is missing, and nothing comes before what it imports is known', async () => {
    const client = await served();
    const inner = ['flow.entities.Account.ContractsEntry', 'flow.entities.SEALED'];
    for (const symbol of [...declared.keys(), ...inner]) {
      const [answer] = await client.reflect({ file_containing_symbol: symbol });
      const encoded = answer?.file_descriptor_response?.file_descriptor_proto ?? [];
      expect(encoded.length, symbol).toBeGreaterThan(0);
      expect(descriptorFaults(encoded.map(decodeFile)), symbol).toEqual([]);
    }
    const [answer] = await client.reflect({ file_by_filename: 'flow/entities/account.proto' });
    const [account] = answer?.file_descriptor_response?.file_descriptor_proto ?? [];
    const [message] = decodeFile(account ?? Buffer.alloc(0)).messageType;
    expect(message?.nestedType).toMatchObject([{ name: 'ContractsEntry', options: { mapEntry: true } }]);
  });
});
