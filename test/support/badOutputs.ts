import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';
import { scratchDirectory } from './program.js';

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
const READ_EVERY_MS = 20;

/** What a process writes to, as the one behind it sees it. */
export interface OtherEnd {
  /** For the process: its standard output or standard error. */
  readonly given: number | Socket;
  text(): string;
  read(): void;
  pause(): void;
  end(): void;
}

/** A pipe that nobody reads yet. `isFull`: it takes nothing at all. */
export function unreadPipe({ isFull }: { readonly isFull: boolean }): OtherEnd {
  const path = join(scratchDirectory(), 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, O_RDONLY | O_NONBLOCK);
  const given = openSync(path, O_WRONLY);
  if (isFull) fill(path);
  const chunks: Buffer[] = [];
  let timer: NodeJS.Timeout | undefined;
  let isOpen = true;
  const pause = (): void => clearInterval(timer);
  const end = (): void => {
    pause();
    if (isOpen) closeSync(reader);
    isOpen = false;
  };
  atEnd(() => {
    end();
    closeSync(given);
  });
  return {
    given,
    text: () => Buffer.concat(chunks).toString('utf8'),
    read: () => (timer = setInterval(() => chunks.push(...waitingIn(reader)), READ_EVERY_MS)),
    pause,
    end,
  };
}

const KIB = Buffer.alloc(1_024, '\n');

function fill(path: string): void {
  const filler = openSync(path, O_WRONLY | O_NONBLOCK);
  try {
    for (;;) writeSync(filler, KIB);
  } catch {
    // EAGAIN: full.
  }
  closeSync(filler);
}

function waitingIn(descriptor: number): Buffer[] {
  const chunks: Buffer[] = [];
  for (;;) {
    const chunk = Buffer.alloc(65_536);
    try {
      const length = readSync(descriptor, chunk);
      if (length === 0) return chunks;
      chunks.push(chunk.subarray(0, length));
    } catch {
      // EAGAIN: empty.
      return chunks;
    }
  }
}

/** A Unix socket, as the journal's is, that nobody reads yet. */
export async function unreadSocket(): Promise<OtherEnd> {
  const path = join(scratchDirectory(), 'socket');
  const server = createServer({ pauseOnConnect: true });
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const given = connect(path);
  const other = await accepted;
  atEnd(() => {
    for (const socket of [given, other]) socket.destroy();
    server.close();
  });
  let text = '';
  other.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  other.pause();
  return {
    given,
    text: () => text,
    read: () => other.resume(),
    pause: () => other.pause(),
    end: () => other.destroy(),
  };
}
