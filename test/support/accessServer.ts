import * as grpc from '@grpc/grpc-js';
import { loadProtocol } from '../../src/devnet/index.js';

/** A message in the protobuf library's plain form, or the very bytes that go out. */
export type Answer = object;

export type UnaryHandler = (request: Record<string, unknown>, call: CallHandle) => Answer | Promise<Answer>;
export type StreamHandler = (
  request: Record<string, unknown>,
  call: grpc.ServerWritableStream<object, Answer>,
) => void;

export interface CallHandle {
  /** Aborts when the client cancels, misses its deadline or goes away. */
  readonly cancelled: AbortSignal;
}

export interface AccessHandlers {
  readonly unary?: Readonly<Record<string, UnaryHandler>>;
  readonly streams?: Readonly<Record<string, StreamHandler>>;
}

/** What a handler throws to answer with a status. */
export class StatusError extends Error {
  readonly code: grpc.status;
  readonly details: string;

  constructor(code: grpc.status, details: string) {
    super(details);
    this.code = code;
    this.details = details;
  }
}

const SERVICES = [
  ...['flow.access.AccessAPI', 'flow.executiondata.ExecutionDataAPI'],
  'flow_collection_indexer.v1.IndexAPI',
];

/**
 * A bare Flow access node, or peer, over real gRPC: it answers with what the handlers say, and UNIMPLEMENTED to the rest. Can be
 * stopped and started again on the same port.
 */
export class AccessServer {
  port = 0;
  /** Calls received, by method. */
  readonly calls = new Map<string, number>();
  handlers: AccessHandlers;
  #server: grpc.Server | undefined;

  constructor(handlers: AccessHandlers) {
    this.handlers = handlers;
  }

  get endpoint(): string {
    return `127.0.0.1:${this.port}`;
  }

  async start(): Promise<this> {
    const server = new grpc.Server({
      'grpc.max_send_message_length': -1,
      'grpc.max_receive_message_length': -1,
    });
    for (const [service, definition] of Object.entries(loadProtocol())) {
      if (!SERVICES.includes(service) || 'format' in definition) continue;
      const implementation: grpc.UntypedServiceImplementation = {};
      const raw: Record<string, unknown> = {};
      for (const [method, entry] of Object.entries(definition)) {
        raw[method] = {
          ...entry,
          responseSerialize: (value: object) =>
            Buffer.isBuffer(value) ? value : entry.responseSerialize(value),
        };
        implementation[method] = entry.responseStream ? this.#stream(method) : this.#unary(method);
      }
      server.addService(raw as grpc.ServiceDefinition, implementation);
    }
    this.port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${this.port}`, grpc.ServerCredentials.createInsecure(), (error, port) =>
        error === null ? resolve(port) : reject(error),
      );
    });
    this.#server = server;
    return this;
  }

  /** Takes no more calls, says so (GOAWAY), and resolves once the last one has ended. */
  async stopGracefully(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await new Promise<void>((resolve) => {
      if (server === undefined) resolve();
      else server.tryShutdown(() => resolve());
    });
  }

  /** Cuts every connection. */
  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  #count(method: string): void {
    this.calls.set(method, (this.calls.get(method) ?? 0) + 1);
  }

  #unary(method: string): grpc.handleUnaryCall<Record<string, unknown>, Answer> {
    return (call, respond) => {
      this.#count(method);
      const cancelled = new AbortController();
      call.on('cancelled', () => cancelled.abort());
      const answer = async (): Promise<Answer> => {
        const handler = this.handlers.unary?.[method];
        if (handler === undefined)
          throw new StatusError(grpc.status.UNIMPLEMENTED, `unknown method ${method}`);
        return handler(call.request, { cancelled: cancelled.signal });
      };
      answer().then(
        (value) => respond(null, value),
        (error: unknown) => respond(error as grpc.ServiceError),
      );
    };
  }

  #stream(method: string): grpc.handleServerStreamingCall<Record<string, unknown>, Answer> {
    return (call) => {
      this.#count(method);
      const handler = this.handlers.streams?.[method];
      if (handler === undefined) {
        call.emit('error', new StatusError(grpc.status.UNIMPLEMENTED, `unknown method ${method}`));
        return;
      }
      handler(call.request, call);
    };
  }
}

/** 32 bytes that begin with a number: an id that tests can read. */
export function testId(number: number, kind = 0): Buffer {
  const id = Buffer.alloc(32, kind);
  id.writeUInt32BE(number, 0);
  return id;
}

/** A block in light form whose id and parent follow from its height; another `fork`, other ids. */
export function testBlock(height: number, fork = 0): object {
  return {
    id: testId(height, fork),
    parent_id: testId(Math.max(0, height - 1), fork),
    height: String(height),
    timestamp: { seconds: String(1_700_000_000 + height), nanos: 0 },
    collection_guarantees: [],
    signatures: [Buffer.from('aggregated')],
  };
}
