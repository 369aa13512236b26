import { execFileSync } from 'node:child_process';
import { status, type ServiceError } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { decodeTransaction } from '../../src/flow/index.js';
import { pageAt } from '../docs/files.js';
import { atEnd, blocksOf, indexedHere } from '../support/daemons.js';
import { ReflectedClient } from '../support/reflectedClient.js';

const DOCUMENTED_ADDRESS = '127.0.0.1:7181';
const ROOT = 158_000_000;

type Message = Readonly<Record<string, unknown>>;

const fences = pageAt('docs/grpc.md').fences.filter(({ language }) => language === 'sh');
const shell = fences.map(({ text }) => `${text}\n`).join('');
const functions = [...shell.matchAll(/^(\w+)\(\) \{/gm)].map(([, name = '']) => name);
/** One call of the page, and the fields of its answer, or of the first of its answers, as it tells them. */
const lines = shell
  .split('\n')
  .filter((line) => ['grpcurl', ...functions].some((name) => line.startsWith(`${name} `)))
  .map((line) => ({
    line,
    fields: /# \{(.*)\}$/
      .exec(line)?.[1]
      ?.split(',')
      .map((field) => field.trim()),
  }));

/** What the shell hands to grpcurl, line by line. */
function commandsOf(script: string): string[][] {
  const recorder = `grpcurl() { printf '%s\\0' "$#" "$@"; }\n`;
  const words = execFileSync('bash', ['-eu', '-c', recorder + script], { encoding: 'utf8' }).split('\0');
  const commands: string[][] = [];
  for (let at = 0; at < words.length - 1; at += Number(words[at]) + 1)
    commands.push(words.slice(at + 1, at + 1 + Number(words[at])));
  return commands;
}

/** What grpcurl does of all that it can, for a server that it knows nothing of: the answer, or the first of the answers. */
async function grpcurl(client: ReflectedClient, words: readonly string[]): Promise<Message> {
  const [plaintext, ...rest] = words;
  expect(plaintext).toBe('-plaintext');
  const data = rest[0] === '-d' ? rest.splice(0, 2)[1] : undefined;
  const [address, verb = '', symbol = ''] = rest;
  expect(address).toBe(DOCUMENTED_ADDRESS);
  if (verb === 'list') return { services: await client.services() };
  if (verb === 'describe') {
    const [answer] = await client.reflect({ file_containing_symbol: symbol });
    return { files: answer?.file_descriptor_response?.file_descriptor_proto ?? [] };
  }
  expect(rest).toHaveLength(2);
  const [service = '', method = ''] = verb.split('/');
  const request = JSON.parse(data ?? '{}') as Message;
  const { field } = (await client.methods(service))[method]?.requestType.type as {
    readonly field: readonly { readonly name: string }[];
  };
  expect(field.map(({ name }) => name)).toEqual(expect.arrayContaining(Object.keys(request)));
  return client.call(service, method, request);
}

/** As grpcurl writes the names of the fields that it prints: those that have no value are left out. */
function printed(answer: Message): string[] {
  const isSet = (value: unknown): boolean =>
    Array.isArray(value) || Buffer.isBuffer(value)
      ? value.length > 0
      : !['', '0', 0, false, null, undefined].includes(value as string);
  return Object.entries(answer)
    .filter(([, value]) => isSet(value))
    .map(([name]) => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()));
}

it('docs/grpc.md shows every call that is served, and each can be made as it stands there', async () => {
  expect(lines.length).toBeGreaterThan(10);
  const chain = { rootHeight: ROOT, hashedIds: true, startHead: ROOT + 20, sealedLag: 2 };
  const { daemon, devnet } = await indexedHere(chain, '--index-accounts');
  await daemon.statusUntil(({ proof, sealed }) => (sealed ?? 0) >= ROOT && proof.committee !== null);
  const block = blocksOf(devnet.chain, ROOT + 1, ROOT + 18).find(({ collections }) => collections[0])!;
  const [collection] = block.collections;
  const ids = {
    block: Buffer.from(block.id, 'hex'),
    collection: Buffer.from(collection!.id, 'hex'),
    transaction: Buffer.from(collection!.transactionIds.subarray(0, 32)),
    account: Buffer.from(decodeTransaction(collection!.transactions[0]!).payer),
  };
  const filledIn = shell.replaceAll(/^.*BASE64.*$/gm, (line) => {
    const kind = /"address"/.test(line)
      ? 'account'
      : /block(header)?(by)?_?id/i.test(line)
        ? 'block'
        : /Collection/.test(line)
          ? 'collection'
          : 'transaction';
    return line.replaceAll('BASE64', ids[kind].toString('base64'));
  });

  const client = new ReflectedClient(daemon.grpcAddress);
  atEnd(() => client.close());
  const commands = commandsOf(filledIn);
  expect(commands).toHaveLength(lines.length);
  for (const [at, { line, fields }] of lines.entries()) {
    const answer = await grpcurl(client, commands[at] ?? []);
    if (fields !== undefined) expect(printed(answer), line).toEqual(fields.filter((field) => field !== ''));
  }

  const shown = commands.map((words) => words.at(-1) ?? '');
  const unshown: string[] = [];
  for (const service of (await client.services()).filter((name) => name.startsWith('flow'))) {
    for (const name of Object.keys(await client.methods(service))) {
      if (shown.includes(`${service}/${name}`)) continue;
      const isServed = await client.call(service, name).then(
        () => true,
        (error: unknown) => (error as ServiceError).code !== status.UNIMPLEMENTED,
      );
      if (isServed) unshown.push(name);
    }
  }
  expect(unshown).toEqual([]);
});
