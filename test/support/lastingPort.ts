import { createServer } from 'node:net';

/** Below what systems hand out by themselves (Linux: from 32768), where whoever asks for any port may get one just given up. */
const FIRST_PORT = 20_000;
const PORTS_PER_PROCESS = 100;
const PROCESSES = 120;
/** Without a common divisor with `PROCESSES`: processes that start one after another are far apart. */
const STRIDE = 37;

const ownFirstPort = FIRST_PORT + ((process.pid * STRIDE) % PROCESSES) * PORTS_PER_PROCESS;
let handedOut = 0;

/** A port that can be given up and taken again: no process that asks for a free one, and no other test, gets it meanwhile. */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = ownFirstPort + (handedOut++ % PORTS_PER_PROCESS);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
