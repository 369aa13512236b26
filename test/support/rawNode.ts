import { Metadata, Server, ServerCredentials, type ServerDuplexStream, type status } from '@grpc/grpc-js';
import { AccessNetwork, Forwarder } from '../../src/access/index.js';
import { WireWriter } from '../../src/flow/index.js';
import { createMetrics, createReaderMetrics } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { seededRandom } from './seededRandom.js';
import { atEnd } from './cleanup.js';
import { RecordingLogger } from './recordingLogger.js';

export type RawCall = ServerDuplexStream<Buffer, Buffer>;

export type RawHandler = (call: RawCall, request: Buffer) => void;

/** How a handler ends a call with something else than an answer. */
export function fail(call: RawCall, code: status, details: string, metadata = new Metadata()): void {
  call.emit('error', { code, details, metadata });
}

/** An access node that answers with bytes, and says which chain it is of. It can be stopped and come back on its port. */
export class RawNode {
  port = 0;
  /** Paths of the calls that came, in order; those by which it is asked who it is left out. */
  readonly calls: string[] = [];
  readonly #handlers: Readonly<Record<string, RawHandler>>;
  readonly #credentials: ServerCredentials;
  readonly #atOnce: number;
  #server: Server | undefined;

  constructor(
    handlers: Readonly<Record<string, RawHandler>>,
    credentials = ServerCredentials.createInsecure(),
    atOnce = 2 ** 31 - 1,
  ) {
    this.#handlers = handlers;
    this.#credentials = credentials;
    this.#atOnce = atOnce;
  }

  /** `atOnce`: how many calls it takes on one connection, by default any; others wait with their callers. */
  static async start(handlers: Readonly<Record<string, RawHandler>>, atOnce?: number): Promise<RawNode> {
    const node = new RawNode(handlers, undefined, atOnce);
    await node.start();
    atEnd(() => node.stop());
    return node;
  }

  get endpoint(): string {
    return `127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const unbounded = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };
    const server = new Server({ ...unbounded, 'grpc.max_concurrent_streams': this.#atOnce });
    // Of two for one path, the first is taken.
    const register = (path: string, handler: RawHandler, isCounted: boolean): void => {
      const take = (call: RawCall): void => {
        if (isCounted) this.calls.push(path);
        call.once('data', (request: Buffer) => handler(call, request));
      };
      server.register(path, take, asItIs, asItIs, 'bidi');
    };
    for (const [path, handler] of Object.entries(this.#handlers)) register(path, handler, true);
    const chain = new WireWriter().text(1, 'flow-localnet').finish();
    register('/flow.access.AccessAPI/GetNetworkParameters', (call) => answer(call, chain), false);
    const info = new WireWriter()
      .text(1, 'v1')
      .bytes(3, Buffer.alloc(32, 1))
      .number(5, 1)
      .number(6, 1)
      .finish();
    const version = new WireWriter().element(1, info).finish();
    register('/flow.access.AccessAPI/GetNodeVersionInfo', (call) => answer(call, version), false);
    this.port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${this.port}`, this.#credentials, (error, port) =>
        error === null ? resolve(port) : reject(error),
      );
    });
    this.#server = server;
  }

  /** Takes no more calls, says so (GOAWAY), and resolves once the last one has ended. */
  async stopGracefully(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await new Promise<unknown>((resolve) => server?.tryShutdown(resolve));
  }

  /** Cuts every connection. */
  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
  }
}

export function answer(call: RawCall, message: Buffer, trailers?: Metadata): void {
  call.write(message);
  call.end(trailers);
}

/** The access network of some nodes, which has asked them who they are; until the end of the test. */
export async function networkOf(nodes: readonly Pick<RawNode, 'endpoint'>[]): Promise<AccessNetwork> {
  const stop = new AbortController();
  const network = new AccessNetwork(
    {
      accessNodes: nodes.map(({ endpoint }) => endpoint),
      ...{ sporks: [], ratePerSecond: 0, maxMessageBytes: 128 * 1024 * 1024, timeoutMs: 10_000 },
      userAgent: 'test/1',
    },
    {
      ...{ clock: systemClock, random: seededRandom(1), logger: new RecordingLogger() },
      metrics: createMetrics({ version: 'test', node: 'test' }),
      expectation: () => ({ chainId: 'flow-localnet', network: 'devnet', sporks: [], watermark: undefined }),
    },
  );
  const running = network.run(stop.signal);
  atEnd(async () => {
    stop.abort();
    await running;
    network.close();
  });
  await network.whenAllAsked(stop.signal);
  return network;
}

/** What passes calls on to the nodes of a network, until the end of the test. */
export function forwarderTo(network: AccessNetwork): Forwarder {
  const forwarder = new Forwarder(
    { maxMessageBytes: 128 * 1024 * 1024, userAgent: 'test/1' },
    {
      ...{ clock: systemClock, metrics: createReaderMetrics() },
      nodes: () => network.live().map(({ endpoint }) => endpoint),
      admission: network.forwardingAdmission,
    },
  );
  atEnd(() => forwarder.close());
  return forwarder;
}

export const asItIs = (bytes: Buffer): Buffer => bytes;
