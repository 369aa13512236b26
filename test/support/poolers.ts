import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';
import { isOpen, tcpServer } from './httpProbe.js';
import { lastingPort } from './lastingPort.js';
import { scratchDirectory } from './program.js';
import { seededRandom } from './seededRandom.js';
import { elsewhere, messageOf, RequestReader } from './tcpFaults.js';

const PGBOUNCER = '/usr/sbin/pgbouncer';
/** PgBouncer is not installed everywhere; where it is not, the pooler below stands in for it. */
export const hasPgBouncer = existsSync(PGBOUNCER);

/**
 * PgBouncer as its package ships it, but for where it listens and what it stands before, and for these settings. The URL of the
 * database behind it, until the end of the test.
 */
export async function startPgBouncer(
  target: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { hostname, port, username } = new URL(target);
  const directory = scratchDirectory();
  chmodSync(directory, 0o777);
  const at = await lastingPort();
  const all = {
    ...{ listen_addr: '127.0.0.1', listen_port: String(at), unix_socket_dir: directory },
    ...{ auth_type: 'any', pidfile: join(directory, 'pid'), logfile: join(directory, 'log'), ...settings },
  };
  const file = join(directory, 'pgbouncer.ini');
  writeFileSync(
    file,
    [
      '[databases]',
      `* = host=${hostname} port=${port} user=${username}`,
      '[pgbouncer]',
      ...Object.entries(all).map(([name, value]) => `${name} = ${value}`),
    ].join('\n'),
  );
  const asOther = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
  const running = spawn(PGBOUNCER, ['-q', ...asOther, file], { stdio: 'ignore' });
  const hasEnded = () => running.exitCode !== null || running.signalCode !== null;
  atEnd(async () => {
    if (hasEnded()) return;
    const ended = once(running, 'exit');
    running.kill('SIGKILL');
    await ended;
  });
  while (!(await isOpen(at))) {
    if (hasEnded()) throw new Error(`PgBouncer has ended with ${running.exitCode ?? running.signalCode}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return elsewhere(target, at);
}

/** Which of its idle sessions a pooler gives to who asks next. */
export type Choice = 'last' | 'first' | 'any';

const SEED = 7;

/**
 * A pooler in transaction mode, as there are many: its clients share sessions, and each has one from the beginning of a
 * transaction to its end. The URL of the database behind it, until the end of the test.
 */
export async function startSharingPooler(
  target: string,
  { sessions, choice }: { readonly sessions: number; readonly choice: Choice },
): Promise<string> {
  const { hostname, port, pathname, username } = new URL(target);
  const random = seededRandom(SEED);
  const idle: ServerSession[] = [];
  const waiting: ((session: ServerSession) => void)[] = [];
  const free = (session: ServerSession): void => {
    const next = waiting.shift();
    if (next !== undefined) next(session);
    else idle.push(session);
  };
  const take = (use: (session: ServerSession) => void): void => {
    const at = { last: idle.length - 1, first: 0, any: Math.floor(random.next() * idle.length) }[choice];
    const [session] = idle.splice(at, 1);
    if (session === undefined) waiting.push(use);
    else use(session);
  };
  const all = Array.from(
    { length: sessions },
    () => new ServerSession(connect(Number(port), hostname), free),
  );
  for (const session of all) session.begin(username, pathname.slice(1));
  atEnd(() => all.forEach((session) => session.end()));
  const at = await tcpServer((client) => {
    const requests = new RequestReader();
    let held: ServerSession | undefined;
    let line: Promise<unknown> = Promise.resolve();
    client.on('data', (data) => {
      for (const { bytes, kind } of requests.read(data)) {
        if (kind === 'startup') client.write(WELCOME);
        if (kind !== 'statements') continue;
        line = line.then(async () => {
          held ??= await new Promise<ServerSession>(take);
          const isOver = await held.ask(bytes, client);
          if (!isOver) return;
          free(held);
          held = undefined;
        });
      }
    });
  });
  return elsewhere(target, at);
}

const WELCOME = Buffer.concat([
  messageOf('R', Buffer.alloc(4)),
  messageOf('K', Buffer.alloc(8)),
  messageOf('Z', Buffer.from('I')),
]);

/** A session that a pooler has with the server. */
class ServerSession {
  readonly #socket: Socket;
  #rest = Buffer.alloc(0);
  #to: Socket | undefined;
  #onReady: (isOver: boolean) => void;

  constructor(socket: Socket, onOpen: (session: ServerSession) => void) {
    this.#socket = socket;
    this.#onReady = () => onOpen(this);
    socket.on('error', () => undefined);
    socket.on('data', (data) => this.#receive(data));
  }

  begin(user: string, database: string): void {
    const body = Buffer.from(`user\0${user}\0database\0${database}\0\0`);
    const head = Buffer.alloc(8);
    head.writeInt32BE(8 + body.length, 0);
    head.writeInt32BE(196_608, 4);
    this.#socket.write(Buffer.concat([head, body]));
  }

  /** Resolves once the server is ready again: true where no transaction is open. */
  ask(bytes: Buffer, to: Socket): Promise<boolean> {
    this.#to = to;
    const ready = new Promise<boolean>((resolve) => (this.#onReady = resolve));
    this.#socket.write(bytes);
    return ready;
  }

  end(): void {
    this.#socket.destroy();
  }

  #receive(data: Buffer): void {
    this.#to?.write(data);
    this.#rest = Buffer.concat([this.#rest, data]);
    while (this.#rest.length >= 5) {
      const length = 1 + this.#rest.readInt32BE(1);
      if (this.#rest.length < length) return;
      const message = this.#rest.subarray(0, length);
      this.#rest = this.#rest.subarray(length);
      if (String.fromCharCode(message[0] ?? 0) === 'Z') this.#onReady(message[5] === 'I'.charCodeAt(0));
    }
  }
}
