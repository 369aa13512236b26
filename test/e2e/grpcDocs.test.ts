import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Client, credentials, status } from '@grpc/grpc-js';
import type { ServiceError } from '@grpc/grpc-js';
import type { MethodDefinition, PackageDefinition } from '@grpc/proto-loader';
import { expect, it } from 'vitest';
import { decodeTransaction } from '../../src/flow/index.js';
import { atEnd } from '../support/cleanup.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { ReflectedClient } from '../support/reflectedClient.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';

const page = readFileSync(new URL('../../docs/grpc.md', import.meta.url), 'utf8');
const DOCUMENTED_ADDRESS = '127.0.0.1:7181';
/** The height that the page asks for. */
const ROOT = 158_000_000;
const DEADLINE_MS = 60_000;

type Message = Readonly<Record<string, unknown>>;
type Method = MethodDefinition<object, object>;

/** Every line of the page's shell blocks. */
const shell = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block).join('');
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
  for (let at = 0; at < words.length - 1; at += Number(words[at]) + 1) {
    commands.push(words.slice(at + 1, at + 1 + Number(words[at])));
  }
  return commands;
}

/** What grpcurl does of all that it can, for a server that it knows nothing of. */
class Grpcurl {
  readonly #client: Client;
  readonly #reflected: ReflectedClient;
  readonly #services = new Map<string, PackageDefinition>();

  constructor(address: string) {
    this.#client = new Client(address, credentials.createInsecure());
    this.#reflected = new ReflectedClient(address);
  }

  close(): void {
    this.#client.close();
    this.#reflected.close();
  }

  /** The answer, or the first of the answers. */
  async run(words: readonly string[]): Promise<Message> {
    const [plaintext, ...rest] = words;
    expect(plaintext).toBe('-plaintext');
    const data = rest[0] === '-d' ? rest.splice(0, 2)[1] : undefined;
    const [address, verb = '', symbol = ''] = rest;
    expect(address).toBe(DOCUMENTED_ADDRESS);
    if (verb === 'list') return { services: await this.services() };
    if (verb === 'describe') {
      const [answer] = await this.#reflected.reflect({ file_containing_symbol: symbol });
      return { files: answer?.file_descriptor_response?.file_descriptor_proto ?? [] };
    }
    expect(rest).toHaveLength(2);
    const [service = '', method = ''] = verb.split('/');
    return this.call(await this.method(service, method), JSON.parse(data ?? '{}') as Message);
  }

  services(): Promise<readonly string[]> {
    return this.#reflected.services();
  }

  async methods(service: string): Promise<readonly string[]> {
    return Object.keys((await this.#describe(service))[service] ?? {});
  }

  async method(service: string, name: string): Promise<Method> {
    const methods = (await this.#describe(service))[service] as unknown as Readonly<Record<string, Method>>;
    const found = methods[name];
    if (found === undefined) throw new Error(`${service} has no method ${name}`);
    return found;
  }

  /** Bytes in a request are base64, and it may have no other fields than the method knows. */
  async call(method: Method, request: Message): Promise<Message> {
    const { field } = method.requestType.type as { readonly field: readonly { readonly name: string }[] };
    expect(field.map(({ name }) => name)).toEqual(expect.arrayContaining(Object.keys(request)));
    const decode = (answer: Buffer): Message => method.responseDeserialize(answer) as Message;
    const deadline = Date.now() + DEADLINE_MS;
    const { path, requestSerialize } = method;
    if (!method.responseStream) {
      return new Promise((resolve, reject) => {
        this.#client.makeUnaryRequest(
          path,
          requestSerialize,
          decode,
          request,
          { deadline },
          (error, answer) => (error === null ? resolve(answer ?? {}) : reject(error)),
        );
      });
    }
    const call = this.#client.makeServerStreamRequest(path, requestSerialize, decode, request, { deadline });
    return new Promise((resolve, reject) => {
      call.on('error', reject);
      call.on('end', () => reject(new Error(`${path} ended without an answer`)));
      call.once('data', (answer: Message) => {
        resolve(answer);
        call.cancel();
      });
    });
  }

  async #describe(service: string): Promise<PackageDefinition> {
    const known = this.#services.get(service) ?? (await this.#reflected.describe(service));
    this.#services.set(service, known);
    return known;
  }
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
  const devnet = await devnetForTest({
    rootHeight: ROOT,
    hashedIds: true,
    startHead: ROOT + 20,
    sealedLag: 2,
    paused: true,
  });
  const daemon = await startDaemonHere(
    startArguments(devnet, scratchDirectory(), '--start-height', 'root', '--index-accounts'),
  );
  await daemon.reaches(ROOT + 20);
  await eventually(async () => {
    const { proof, sealed } = await daemon.status();
    return (sealed ?? 0) >= ROOT && proof.committee !== null ? true : undefined;
  });
  const heights = Array.from({ length: 18 }, (_, index) => ROOT + 1 + index);
  const block = heights
    .map((height) => devnet.chain.block(height))
    .find(({ collections }) => collections[0])!;
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

  const grpcurl = new Grpcurl(daemon.grpcAddress);
  atEnd(() => grpcurl.close());
  const commands = commandsOf(filledIn);
  expect(commands).toHaveLength(lines.length);
  for (const [at, { line, fields }] of lines.entries()) {
    const answer = await grpcurl.run(commands[at] ?? []);
    if (fields !== undefined) expect(printed(answer), line).toEqual(fields.filter((field) => field !== ''));
  }

  const shown = commands.map((words) => words.at(-1) ?? '');
  const unshown: string[] = [];
  for (const service of (await grpcurl.services()).filter((name) => name.startsWith('flow'))) {
    for (const name of await grpcurl.methods(service)) {
      if (shown.includes(`${service}/${name}`)) continue;
      const call = grpcurl.call(await grpcurl.method(service, name), {});
      const isServed = await call.then(
        () => true,
        (error: unknown) => (error as ServiceError).code !== status.UNIMPLEMENTED,
      );
      if (isServed) unshown.push(name);
    }
  }
  expect(unshown).toEqual([]);
});
