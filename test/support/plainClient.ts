import {
  type ChannelCredentials,
  type ChannelOptions,
  type ClientReadableStream,
  credentials,
  makeGenericClientConstructor,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtocol } from '../../src/flow/index.js';

const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

type Message = Readonly<Record<string, unknown>>;
type Callback = (error: ServiceError | null, answer?: Message) => void;
/** Methods of a service by name, as `makeClientConstructor` gives them. */
interface Service {
  readonly unary: (method: string, request: object, deadline: number, callback: Callback) => void;
  readonly stream: (method: string, request: object) => ClientReadableStream<Message>;
  readonly close: () => void;
}

/** One service of the protocol. The generated methods carry their own encoders. */
function connect(
  name: string,
  address: string,
  options: ChannelOptions,
  channelCredentials: ChannelCredentials,
): Service {
  const definition = loadProtocol()[name] as ServiceDefinition;
  const Client = makeGenericClientConstructor({}, name);
  const client = new Client(address, channelCredentials, options);
  const entryOf = (method: string): MethodDefinition<object, object> => {
    const entry = definition[method];
    if (entry === undefined) throw new TypeError(`${name} has no method ${method}`);
    return entry;
  };
  return {
    unary: (method, request, deadline, callback) => {
      const { path, requestSerialize, responseDeserialize } = entryOf(method);
      const decode = (bytes: Buffer): Message => responseDeserialize(bytes) as Message;
      client.makeUnaryRequest(path, requestSerialize, decode, request, { deadline }, callback);
    },
    stream: (method, request) => {
      const { path, requestSerialize, responseDeserialize } = entryOf(method);
      const decode = (bytes: Buffer): Message => responseDeserialize(bytes) as Message;
      return client.makeServerStreamRequest(path, requestSerialize, decode, request);
    },
    close: () => client.close(),
  };
}

/** What a call came to, when it was not OK. */
export interface Refusal {
  readonly code: string;
  readonly details: string;
}

/** A Flow client that knows nothing of ours but the `.proto` files. */
export class PlainClient {
  readonly #access: Service;
  readonly #executionData: Service;
  readonly #index: Service;

  constructor(
    address: string,
    options: ChannelOptions = {},
    channelCredentials = credentials.createInsecure(),
  ) {
    const channel = { 'grpc.max_receive_message_length': MAX_MESSAGE_BYTES, ...options };
    this.#access = connect('flow.access.AccessAPI', address, channel, channelCredentials);
    this.#executionData = connect(
      'flow.executiondata.ExecutionDataAPI',
      address,
      channel,
      channelCredentials,
    );
    this.#index = connect('flow_collection_indexer.v1.IndexAPI', address, channel, channelCredentials);
  }

  call(method: string, request: object = {}, deadlineMs = 10_000): Promise<Message> {
    return new Promise((resolve, reject) => {
      this.#serviceOf(method).unary(method, request, Date.now() + deadlineMs, (error, answer) => {
        if (error !== null) reject(error);
        else resolve(answer ?? {});
      });
    });
  }

  /** The status of a call that is expected to fail. */
  async refusal(method: string, request: object = {}, deadlineMs = 10_000): Promise<Refusal> {
    try {
      await this.call(method, request, deadlineMs);
    } catch (error) {
      return refusalOf(error);
    }
    throw new Error(`${method} was answered`);
  }

  stream(method: string, request: object): ClientReadableStream<Message> {
    return this.#serviceOf(method).stream(method, request);
  }

  /** The first messages of a stream, which is then cancelled. */
  async take(method: string, request: object, count: number): Promise<Message[]> {
    const call = this.stream(method, request);
    call.on('error', () => undefined);
    const messages: Message[] = [];
    for await (const message of call) {
      messages.push(message as Message);
      if (messages.length === count) break;
    }
    call.cancel();
    return messages;
  }

  /** All messages of a stream until it ends, and how it ended. */
  drain(method: string, request: object): Promise<{ readonly messages: Message[]; readonly end: Refusal }> {
    const call = this.stream(method, request);
    const messages: Message[] = [];
    call.on('data', (message: Message) => messages.push(message));
    call.on('error', () => undefined);
    return new Promise((resolve) => {
      call.on('status', ({ code, details }: { code: number; details: string }) =>
        resolve({ messages, end: { code: status[code] ?? String(code), details } }),
      );
    });
  }

  close(): void {
    this.#access.close();
    this.#executionData.close();
    this.#index.close();
  }

  #serviceOf(method: string): Service {
    if (method.includes('Indexed')) return this.#index;
    return method.includes('ExecutionData') ? this.#executionData : this.#access;
  }
}

function refusalOf(error: unknown): Refusal {
  const { code, details } = error as ServiceError;
  return { code: status[code], details };
}
