import { readFileSync } from 'node:fs';
import { connect, createSecureServer, constants } from 'node:http2';
import type {
  ClientHttp2Session,
  Http2SecureServer,
  IncomingHttpHeaders,
  ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import { atEnd } from './cleanup.js';
import { certificateOf, keyOf } from './secretFiles.js';
import type { CertificateName } from './secretFiles.js';
import { lastingPort } from './lastingPort.js';

/** What a hosted node looks at of a call. */
export interface HostedCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

const UNAUTHENTICATED = 16;

/** A gRPC server behind TLS for `localhost` that keeps the metadata of every call, and takes calls with the right one only. */
export class HostedNode {
  readonly calls: HostedCall[] = [];
  /** Calls must carry it. The refusal repeats what they carry. */
  wants: Readonly<Record<string, string>> = {};
  readonly port: number;
  readonly #behind: string;
  readonly #certificate: CertificateName;
  readonly #sockets = new Set<Socket>();
  #server: Http2SecureServer | undefined;
  #node: ClientHttp2Session | undefined;

  private constructor(port: number, behind: string, certificate: CertificateName) {
    this.port = port;
    this.#behind = behind;
    this.#certificate = certificate;
  }

  /** In front of the node at this address, until the end of the test. */
  static async before(
    { address }: { readonly address: string },
    certificate: CertificateName = 'localhost',
  ): Promise<HostedNode> {
    const node = new HostedNode(await lastingPort(), address, certificate);
    await node.start();
    atEnd(() => node.stop());
    return node;
  }

  get name(): string {
    return `localhost:${this.port}`;
  }

  /** As an access node of the configuration. */
  get address(): string {
    return `grpcs://${this.name}`;
  }

  async start(): Promise<void> {
    const server = createSecureServer({
      cert: readFileSync(certificateOf(this.#certificate)),
      key: readFileSync(keyOf(this.#certificate)),
    });
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    server.on('sessionError', () => undefined);
    server.on('stream', (stream, headers) => this.#take(stream, headers));
    await new Promise<void>((resolve) => server.listen(this.port, 'localhost', resolve));
    this.#server = server;
  }

  /** Cuts every connection. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#node?.destroy();
    this.#node = undefined;
    for (const socket of this.#sockets) socket.destroy();
    if (server !== undefined) await new Promise((resolve) => server.close(resolve));
  }

  #take(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on('error', () => undefined);
    this.calls.push({ path: headers[':path'] ?? '', headers });
    const wrong = Object.entries(this.wants).filter(([name, value]) => headers[name] !== value);
    if (wrong.length > 0) {
      const given = wrong.map(([name]) => `${name} ${String(headers[name] ?? 'absent')}`).join(', ');
      stream.respond(
        {
          ':status': 200,
          'content-type': 'application/grpc',
          'grpc-status': UNAUTHENTICATED,
          'grpc-message': `no such customer: ${given}`,
        },
        { endStream: true },
      );
      return;
    }
    this.#pass(stream, headers);
  }

  #pass(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    if (this.#node === undefined || this.#node.destroyed) {
      this.#node = connect(`http://${this.#behind}`);
      this.#node.on('error', () => undefined);
    }
    const call = this.#node.request({ ...headers, ':scheme': 'http', ':authority': this.#behind });
    const cancel = (): void => call.close(constants.NGHTTP2_CANCEL);
    call.on('error', () => stream.close(constants.NGHTTP2_INTERNAL_ERROR));
    stream.on('aborted', cancel);
    stream.on('close', cancel);
    stream.pipe(call);
    let trailers: IncomingHttpHeaders = {};
    call.on('trailers', (received: IncomingHttpHeaders) => void (trailers = received));
    call.on('response', (response, flags) => {
      if (stream.destroyed) return;
      const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      stream.respond(response, { endStream: isWhole, waitForTrailers: !isWhole });
      stream.on('wantTrailers', () => stream.sendTrailers(trailersOf(trailers)));
      if (!isWhole) call.pipe(stream);
    });
  }
}

/** What gRPC says in trailers. Node.js adds symbols to those that it received. */
function trailersOf(received: IncomingHttpHeaders): Record<string, string> {
  const named = ['grpc-status', 'grpc-message'].filter((name) => received[name] !== undefined);
  return Object.fromEntries(named.map((name) => [name, String(received[name])]));
}
