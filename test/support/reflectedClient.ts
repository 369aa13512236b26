import { once } from 'node:events';
import { Client, credentials } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer } from '@grpc/proto-loader';
import type { MethodDefinition, PackageDefinition } from '@grpc/proto-loader';
import protobuf from 'protobufjs8';

/** As much of the standard as a client needs, written out here so that no file of ours is read. */
const standard = `
  syntax = "proto3";
  message Request {
    string host = 1;
    oneof message_request {
      string file_by_filename = 3;
      string file_containing_symbol = 4;
      string all_extension_numbers_of_type = 6;
      string list_services = 7;
    }
  }
  message Files { repeated bytes file_descriptor_proto = 1; }
  message Extensions { string base_type_name = 1; }
  message Service { string name = 1; }
  message Services { repeated Service service = 1; }
  message Failure { int32 error_code = 1; string error_message = 2; }
  message Response {
    string valid_host = 1;
    bytes original_request = 2;
    oneof message_response {
      Files file_descriptor_response = 4;
      Extensions all_extension_numbers_response = 5;
      Services list_services_response = 6;
      Failure error_response = 7;
    }
  }`;
const { root } = protobuf.parse(standard, { keepCase: true });
const Request = root.lookupType('Request');
const Response = root.lookupType('Response');

export interface Reflected {
  readonly file_descriptor_response?: { readonly file_descriptor_proto: readonly Uint8Array[] };
  readonly all_extension_numbers_response?: { readonly base_type_name: string };
  readonly list_services_response?: { readonly service: readonly { readonly name: string }[] };
  readonly error_response?: { readonly error_code: number; readonly error_message: string };
}

type Message = Readonly<Record<string, unknown>>;
type Methods = Readonly<Record<string, MethodDefinition<object, object>>>;

const DEADLINE_MS = 60_000;

/** A gRPC client that learns everything from the server it talks to. */
export class ReflectedClient {
  readonly #client: Client;
  readonly #version: 'v1' | 'v1alpha';
  readonly #methods = new Map<string, Methods>();

  constructor(address: string, version: 'v1' | 'v1alpha' = 'v1') {
    this.#client = new Client(address, credentials.createInsecure(), {
      'grpc.max_receive_message_length': 64 * 1024 * 1024,
      'grpc.use_local_subchannel_pool': 1,
    });
    this.#version = version;
  }

  async reflect(...questions: readonly object[]): Promise<readonly Reflected[]> {
    const call = this.#client.makeBidiStreamRequest(
      `/grpc.reflection.${this.#version}.ServerReflection/ServerReflectionInfo`,
      (question: object) => Buffer.from(Request.encode(Request.create(question)).finish()),
      (answer: Buffer) => Response.toObject(Response.decode(answer)) as Reflected,
    );
    for (const question of questions) call.write(question);
    call.end();
    const answers: Reflected[] = [];
    for await (const answer of call) answers.push(answer as Reflected);
    return answers;
  }

  async services(): Promise<readonly string[]> {
    const [answer] = await this.reflect({ list_services: '*' });
    return answer?.list_services_response?.service.map(({ name }) => name) ?? [];
  }

  /** Everything that belongs to a service, by full name. */
  async describe(service: string): Promise<PackageDefinition> {
    const [answer] = await this.reflect({ file_containing_symbol: service });
    const files = answer?.file_descriptor_response?.file_descriptor_proto ?? [];
    const set = protobuf.Writer.create();
    for (const file of files) set.uint32(10).bytes(file);
    return loadFileDescriptorSetFromBuffer(Buffer.from(set.finish()), {
      keepCase: true,
      longs: String,
      enums: String,
      defaults: true,
    });
  }

  async methods(service: string): Promise<Methods> {
    const known =
      this.#methods.get(service) ?? ((await this.describe(service))[service] as unknown as Methods);
    this.#methods.set(service, known);
    return known;
  }

  /** The answer, or the first of the answers. Bytes may be base64. */
  async call(service: string, name: string, request: object = {}): Promise<Message> {
    const method = (await this.methods(service))[name];
    if (method === undefined) throw new Error(`${service} has no method ${name}`);
    const { path, requestSerialize } = method;
    const decode = (answer: Buffer): Message => method.responseDeserialize(answer) as Message;
    const deadline = Date.now() + DEADLINE_MS;
    if (method.responseStream) {
      const stream = this.#client.makeServerStreamRequest(path, requestSerialize, decode, request, {
        deadline,
      });
      const [answer] = (await once(stream, 'data')) as [Message];
      stream.on('error', () => undefined).cancel();
      return answer;
    }
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(path, requestSerialize, decode, request, { deadline }, (error, answer) =>
        error === null ? resolve(answer ?? {}) : reject(error),
      );
    });
  }

  close(): void {
    this.#client.close();
  }
}
