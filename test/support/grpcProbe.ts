import { join } from 'node:path';
import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import type { ChannelOptions, ClientReadableStream, ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { Arrivals } from './arrivals.js';
import { atEnd } from './cleanup.js';

const DEADLINE_MS = 30_000;
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
const files = [
  'flow/access/access.proto',
  'flow/executiondata/executiondata.proto',
  'flow_collection_indexer/v1/index.proto',
  'grpc/health/v1/health.proto',
];
const protocol = loadSync(files, {
  includeDirs: [join(import.meta.dirname, '../../proto')],
  ...{ keepCase: true, longs: String, enums: String, defaults: true, oneofs: true },
});

export type Message = Readonly<Record<string, unknown>>;

interface Status {
  readonly code: string;
  readonly details: string;
}

interface Method {
  readonly path: string;
  readonly requestSerialize: (request: object) => Buffer;
  readonly responseDeserialize: (answer: Buffer) => object;
}

/** The service that a method is of, but for those of the health service. */
function serviceOf(method: string): string {
  if (/Indexed|Provable|CommitteeEvidence|AccountTransactions/.test(method))
    return 'flow_collection_indexer.v1.IndexAPI';
  return `flow.${method.includes('ExecutionData') ? 'executiondata.ExecutionDataAPI' : 'access.AccessAPI'}`;
}

function methodOf(service: string, method: string): Method {
  const found = (protocol[service] as unknown as Readonly<Record<string, Method>>)[method];
  if (found === undefined) throw new Error(`${service} has no method ${method}`);
  return found;
}

/** A gRPC client that knows nothing of ours but the `.proto` files, and can send what no file describes. */
export class GrpcProbe {
  readonly client: Client;

  constructor(
    address: string,
    options: ChannelOptions = {},
    channelCredentials = credentials.createInsecure(),
  ) {
    this.client = new Client(address, channelCredentials, {
      'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
      // A connection of its own for each probe.
      'grpc.use_local_subchannel_pool': 1,
      ...options,
    });
  }

  /** Rejects with a ServiceError. */
  call(
    method: string,
    request: object = {},
    service = serviceOf(method),
    deadlineMs = DEADLINE_MS,
  ): Promise<Message> {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, method);
    const decode = (answer: Buffer): Message => responseDeserialize(answer) as Message;
    return this.#unary(path, requestSerialize(request), decode, deadlineMs);
  }

  /** The status of a call that is expected to fail. */
  async refusal(method: string, request: object = {}, deadlineMs = DEADLINE_MS): Promise<Status> {
    const { code, details } = await refusalOf(this.call(method, request, serviceOf(method), deadlineMs));
    return { code, details };
  }

  /** The bytes that answer the bytes of a request. */
  raw(path: string, request: Buffer, metadata?: Metadata): Promise<Buffer> {
    return this.#unary(path, request, asItIs, DEADLINE_MS, metadata);
  }

  #unary<Answer>(
    path: string,
    request: Buffer,
    decode: (answer: Buffer) => Answer,
    deadlineMs: number,
    metadata = new Metadata(),
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + deadlineMs;
      this.client.makeUnaryRequest(path, asItIs, decode, request, metadata, { deadline }, (error, answer) => {
        if (error !== null) reject(error);
        else resolve(answer as Answer);
      });
    });
  }

  health(service = ''): Promise<Message> {
    return this.call('Check', { service }, 'grpc.health.v1.Health');
  }

  watchHealth(service = ''): ClientReadableStream<Message> {
    return this.stream('Watch', { service }, 'grpc.health.v1.Health');
  }

  /** A stream of answers, without a deadline. */
  stream(method: string, request: object, service = serviceOf(method)): ClientReadableStream<Message> {
    const { path, requestSerialize, responseDeserialize } = methodOf(service, method);
    const decode = (answer: Buffer): Message => responseDeserialize(answer) as Message;
    return this.client.makeServerStreamRequest(path, requestSerialize, decode, request);
  }

  /** As `stream`, with what it has brought so far. */
  follow(...call: Parameters<GrpcProbe['stream']>): StreamReader {
    return new StreamReader(this.stream(...call));
  }

  /** The first messages of a stream, which is then cancelled. */
  async take(method: string, request: object, count: number): Promise<readonly Message[]> {
    const reader = this.follow(method, request);
    const messages = await reader.first(count);
    reader.cancel();
    return messages;
  }

  /** All messages of a stream until it ends, and how it ended. */
  drain(method: string, request: object): Promise<{ readonly messages: Message[]; readonly end: Status }> {
    const { messages, stream } = this.follow(method, request);
    return new Promise((resolve) => {
      stream.on('status', ({ code, details }) => resolve({ messages, end: { code: status[code], details } }));
    });
  }

  close(): void {
    this.client.close();
  }
}

/** One until the end of the test. */
export function probeOn(...how: ConstructorParameters<typeof GrpcProbe>): GrpcProbe {
  const probe = new GrpcProbe(...how);
  atEnd(() => probe.close());
  return probe;
}

/** Reads a stream as fast as it comes. It may end with a ServiceError. */
export class StreamReader extends Arrivals<Message> {
  readonly stream: ClientReadableStream<Message>;
  readonly messages = this.arrived;

  constructor(stream: ClientReadableStream<Message>) {
    super();
    this.stream = stream;
    stream.on('data', (message: Message) => this.arrives(message));
    stream.on('end', () => this.ends());
    stream.on('error', (error) => this.ends(error));
  }

  /** Rejects with the ServiceError that the stream ends with. */
  async ended(): Promise<never> {
    throw (await this.over()) ?? new Error('the stream ended without an error');
  }

  /** Resolves once the stream has ended of itself. Rejects with the ServiceError that it ends with. */
  async finished(): Promise<void> {
    const error = await this.over();
    if (error !== undefined) throw error;
  }

  cancel(): void {
    this.stream.cancel();
  }
}

export function metadataOf(fields: Readonly<Record<string, string | Buffer>>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(fields)) metadata.set(name, value);
  return metadata;
}

/** How a call ended that is expected to be refused. */
export async function refusalOf(call: Promise<unknown>) {
  const error = await call.then(
    (answer) => {
      throw new Error(`answered: ${JSON.stringify(answer)}`);
    },
    (reason: unknown) => reason as ServiceError,
  );
  const keys = ['reason', 'first-indexed', 'latest-indexed', 'head'];
  const sent = keys.map((key) => [key, error.metadata.get(key)[0]] as const);
  return {
    code: status[error.code],
    details: error.details,
    /** The trailing metadata, one text per key. */
    metadata: Object.fromEntries(
      sent.flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]])),
    ),
  };
}

const asItIs = (bytes: Buffer): Buffer => bytes;
