import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { atEnd } from './cleanup.js';

export interface JsonAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** `undefined` where there is no body; of lines of JSON the first. */
export async function getJson(url: string, init: RequestInit = {}): Promise<JsonAnswer> {
  const response = await fetch(url, init);
  const text = await response.text();
  const isLines = response.headers.get('content-type')?.startsWith('application/x-ndjson') === true;
  const body: unknown = text === '' ? undefined : JSON.parse(isLines ? (text.split('\n')[0] ?? '') : text);
  return { status: response.status, headers: response.headers, body };
}

/** Sends bytes as they are to a local port, more once an answer begins, and gives back all that comes until the other side hangs up. */
export async function sendRaw(port: number, bytes: string, localAddress = '127.0.0.1', more = '') {
  const socket = connect({ port, host: '127.0.0.1', localAddress }, () => socket.write(bytes));
  let said = '';
  socket.setEncoding('utf8').on('data', (text: string) => (said += text));
  socket.once('data', () => socket.write(more));
  await once(socket, 'close');
  return said;
}

/** A local port at which every connection is given to `take`, until the end of the test. What breaks it is nobody's concern. */
export async function tcpServer(
  take: (socket: Socket) => void,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    take(socket);
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  atEnd(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

export function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** An open connection to a local port, until the end of the test. What breaks it is nobody's concern. */
export async function openSocket(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  atEnd(() => void socket.destroy());
  await once(socket, 'connect');
  return socket;
}
