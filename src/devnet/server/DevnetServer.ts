import { createServer, type Server as TcpServer, type Socket } from 'node:net';
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { ServiceDefinition } from '@grpc/proto-loader';
import { type Clock, hostAndPort, OperatorError, unlessAborted } from '../../runtime/index.js';
import type { Connection, DevnetNode } from '../node/DevnetNode.js';
import type { StatusName } from '../faults/faultRules.js';
import { type DevnetMethod, type DevnetRequest, methodNames, methods } from '../faults/rpcMethods.js';
import { StatusError } from '../faults/StatusError.js';
import { loadProtocol } from './loadProtocol.js';
import type { MessageSink, Subscriptions } from './Subscriptions.js';
import type { UnaryCalls } from './UnaryCalls.js';

/** The limit of Flow's nodes. */
const MAX_REQUEST_BYTES = 4 * 1024 * 1024;
/** How long `close` waits for callers to hang up. */
const CLOSE_GRACE_MS = 1000;

interface ServerDependencies {
  readonly node: DevnetNode;
  readonly calls: UnaryCalls;
  readonly subscriptions: Subscriptions;
  readonly clock: Clock;
  /** Called with any thrown bug. */
  readonly onBug: (error: unknown) => void;
}

/** Serves the node by gRPC on a TCP port. The node encodes its answers itself. */
export class DevnetServer {
  readonly #dependencies: ServerDependencies;
  readonly #grpc: Server;
  readonly #tcp: TcpServer;
  readonly #sockets = new Set<Socket>();
  readonly #calls = new Set<AbortController>();

  constructor(dependencies: ServerDependencies) {
    this.#dependencies = dependencies;
    this.#grpc = new Server({ 'grpc.max_receive_message_length': MAX_REQUEST_BYTES });
    this.#addServices();
    // We accept connections ourselves, so that faults can break them and port errors are clear.
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    this.#tcp = createServer({ noDelay: true }, (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
      injector.injectConnection(socket);
    });
  }

  /** Resolves with the port. Expected errors: `OperatorError` (`configuration`, `unavailable`). */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      const onError = (error: NodeJS.ErrnoException): void => reject(portError(host, port, error));
      this.#tcp.once('error', onError);
      this.#tcp.listen(port, host, () => {
        this.#tcp.off('error', onError);
        this.#tcp.on('error', this.#dependencies.onBug);
        resolve();
      });
    });
    const address = this.#tcp.address();
    if (address === null || typeof address === 'string') throw new TypeError('a TCP server has a port');
    return address.port;
  }

  /** Stops taking calls, ends open ones with UNAVAILABLE, and hangs up. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#tcp.close(() => resolve()));
    for (const call of this.#calls) call.abort(new StatusError('UNAVAILABLE', 'the node is shutting down'));
    const overdue = this.#dependencies.clock.setTimer(CLOSE_GRACE_MS, () => this.kill());
    this.#grpc.tryShutdown(() => this.#destroySockets());
    await closed;
    overdue.cancel();
    this.#grpc.forceShutdown();
  }

  /** Breaks all connections, as a crash does. The port is free when `close` resolves. */
  kill(): void {
    for (const socket of [...this.#sockets]) socket.resetAndDestroy();
  }

  #destroySockets(): void {
    for (const socket of [...this.#sockets]) socket.destroy();
  }

  #addServices(): void {
    const protocol = loadProtocol();
    for (const service of new Set(methodNames.map((method) => methods[method].service))) {
      const definition = protocol[service] as ServiceDefinition;
      const implementation: UntypedServiceImplementation = {};
      const encodedDefinition: ServiceDefinition = {};
      for (const method of methodNames.filter((name) => methods[name].service === service)) {
        const entry = definition[method];
        if (entry === undefined) throw new TypeError(`proto/ knows no method ${service}.${method}`);
        encodedDefinition[method] = { ...entry, responseSerialize: unchanged } as typeof entry;
        implementation[method] = methods[method].isStream ? this.#stream(method) : this.#unary(method);
      }
      this.#grpc.addService(encodedDefinition, implementation);
    }
  }

  #unary(method: DevnetMethod): handleUnaryCall<DevnetRequest, Buffer> {
    const { calls } = this.#dependencies;
    return (call, callback) =>
      this.#serve(method, call, {
        run: (signal) => calls.answer(method, call.request, { signal, connection: this.#connection(call) }),
        end: (answer) => callback(null, answer),
        refuse: callback,
      });
  }

  #stream(method: DevnetMethod): handleServerStreamingCall<DevnetRequest, Buffer> {
    const { subscriptions } = this.#dependencies;
    return (call) =>
      this.#serve(method, call, {
        run: (signal) => subscriptions.run(method, call.request, { sink: this.#sink(call), signal }),
        end: () => call.end(),
        refuse: (why) => call.emit('error', why),
      });
  }

  /** Runs a call until it is done, or aborted by its caller or the server. */
  #serve<Answer>(
    method: DevnetMethod,
    call: { readonly request: DevnetRequest; on(event: 'cancelled', listener: () => void): unknown },
    how: {
      readonly run: (signal: AbortSignal) => Promise<Answer>;
      readonly end: (answer: Answer) => void;
      readonly refuse: (why: ReturnType<typeof statusObject>) => void;
    },
  ): void {
    const { node, onBug } = this.#dependencies;
    const done = node.requests.begin(method, subjectOf(call.request));
    const controller = new AbortController();
    this.#calls.add(controller);
    call.on('cancelled', () => controller.abort());
    how
      .run(controller.signal)
      .then(how.end, (error: unknown) => {
        if (error instanceof StatusError) how.refuse(statusObject(error));
        else if (!controller.signal.aborted) {
          how.refuse(statusObject(bug));
          onBug(error);
        }
      })
      .finally(() => {
        done();
        this.#calls.delete(controller);
      })
      .catch(onBug);
  }

  #connection(call: { getPeer(): string }): Connection {
    const peer = call.getPeer();
    return { reset: () => [...this.#sockets].find((socket) => peerOf(socket) === peer)?.resetAndDestroy() };
  }

  #sink(call: ServerWritableStream<DevnetRequest, Buffer>): MessageSink {
    return {
      ...this.#connection(call),
      write: (message) => call.write(message),
      drained: (signal) =>
        unlessAborted(signal, (proceed) => {
          call.once('drain', proceed);
          return () => call.off('drain', proceed);
        }),
    };
  }
}

const bug = { status: 'INTERNAL', details: 'a bug of the devnet' } as const;

/** A non-OK answer in the form of grpc-js. */
function statusObject(error: { readonly status: StatusName; readonly details: string }): {
  code: status;
  details: string;
} {
  return { code: status[error.status], details: error.details };
}

function unchanged(message: Buffer): Buffer {
  return message;
}

/** What a request asks for, for the request log. */
function subjectOf(request: DevnetRequest): { height?: number; id?: string } {
  const height = request.height ?? request.block_height ?? request.start_block_height;
  const id = request.id ?? request.block_id ?? request.start_block_id;
  return {
    ...(height === undefined ? {} : { height: Number(height) }),
    ...(id === undefined || id.length === 0 ? {} : { id: id.toString('hex') }),
  };
}

/** The peer, as grpc-js names it. */
function peerOf(socket: Socket): string {
  return `${socket.remoteAddress ?? ''}:${socket.remotePort ?? 0}`;
}

function portError(host: string, port: number, error: NodeJS.ErrnoException): OperatorError {
  const where = hostAndPort({ host, port });
  switch (error.code) {
    case 'EADDRINUSE':
      return new OperatorError(
        'unavailable',
        `The devnet cannot listen on ${where}: the port is in use. Stop what listens there, or choose another port.`,
      );
    case 'EACCES':
      return new OperatorError(
        'configuration',
        `The devnet may not listen on ${where}. Choose a port above 1023.`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new OperatorError(
        'unavailable',
        `The devnet cannot listen on ${where}: this machine has no such address.`,
      );
    default:
      return new OperatorError('configuration', `The devnet cannot listen on ${where}: ${error.message}.`, {
        cause: error,
      });
  }
}
