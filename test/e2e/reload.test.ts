import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually, scratchDirectory } from '../support/program.js';
import { indexedHere, type DaemonHere } from '../support/runningDaemon.js';

const RELOADED = 'configuration reloaded';

async function world(content: unknown, ...flags: readonly string[]) {
  const file = join(scratchDirectory(), 'config.json');
  const write = (next: unknown): void =>
    writeFileSync(file, typeof next === 'string' ? next : JSON.stringify(next));
  write(content);
  const chain = { seed: 5, profile: 'mixed', startHead: 20 } as const;
  const { daemon, devnet } = await indexedHere(chain, '--config', file, ...flags);
  /** Has it reload, and gives the log lines from there on until one has this message. */
  const reload = (message: string) => {
    const before = daemon.program.logs().length;
    daemon.program.reload();
    return eventually(() => {
      const lines = daemon.program.logs().slice(before);
      return lines.some(({ msg }) => msg === message) ? lines : undefined;
    });
  };
  return { daemon, devnet, file, write, reload };
}

async function statuses(daemon: DaemonHere, count: number): Promise<readonly number[]> {
  const answers = Array.from({ length: count }, () => daemon.api('/v1/blocks?height=5'));
  return (await Promise.all(answers)).map(({ status }) => status);
}

const GET = 'GET /v1/blocks?height=5 HTTP/1.1\r\nhost: x\r\n\r\n';
/** How HTTP/2 begins: with an empty frame of settings. */
const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u0004\0\0\0\0\0';

/** A connection that was answered; `undefined` when it was closed instead. */
function served(port: number, hello: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(hello));
    socket.on('error', () => undefined);
    socket.once('data', () => resolve(socket)).once('close', () => resolve(undefined));
  });
}

async function allowedOrigin(daemon: DaemonHere): Promise<string | null> {
  const response = await fetch(`${daemon.apiUrl}/v1/blocks?height=5`, {
    headers: { origin: 'https://a.example' },
  });
  await response.text();
  return response.headers.get('access-control-allow-origin');
}

it('changes the log level and the limits of readers while the daemon runs, and says from what to what', async () => {
  const { daemon, devnet, reload, write } = await world({ api: { corsOrigins: ['*'] } });
  expect(await statuses(daemon, 20)).not.toContain(429);
  expect(await allowedOrigin(daemon)).toBe('*');
  write({ api: { corsOrigins: ['https://b.example'], ratePerSecondPerAddress: 2 }, log: { level: 'debug' } });
  const lines = await reload(RELOADED);
  expect(lines.find(({ msg }) => msg === RELOADED)?.['changed']).toEqual([
    'api.corsOrigins: * → https://b.example',
    'api.ratePerSecondPerAddress: 0 → 2',
    'log.level: info → debug',
  ]);
  await eventually(async () => (await statuses(daemon, 20)).includes(429));
  expect(await eventually(async () => ((await allowedOrigin(daemon)) === null ? 'none' : undefined))).toBe(
    'none',
  );
  // What only the debug level has, from the thread that indexes.
  devnet.node.head.set(25);
  await daemon.program.sees(/batch is durable/);

  write({ api: { corsOrigins: ['https://a.example'] } });
  await reload(RELOADED);
  await eventually(async () => ((await statuses(daemon, 20)).includes(429) ? undefined : true));
  expect(await allowedOrigin(daemon)).toBe('https://a.example');
  expect(await daemon.program.stop('SIGTERM')).toBe(0);
});

it('changes how many connections each port takes: those that rest are cut down to fewer', async () => {
  const { daemon, reload, write } = await world({ api: { maxConnections: 3 } });
  const open: Socket[] = [];
  for (const [address, words] of [
    [new URL(daemon.apiUrl).host, GET],
    [daemon.grpcAddress, PREFACE],
  ] as const)
    for (let count = 0; count < 3; count += 1)
      open.push((await served(Number(address.split(':')[1]), words))!);
  const left = Promise.all([0, 1, 3, 4].map((at) => once(open[at]!, 'close')));
  write({ api: { maxConnections: 1 } });
  const line = (await reload(RELOADED)).find(({ msg }) => msg === RELOADED);
  expect(line?.['changed']).toEqual(['api.maxConnections: 3 → 1']);
  await left;
  expect(open.map(({ destroyed }) => destroyed)).toEqual([true, true, false, true, true, false]);
  for (const socket of open) socket.destroy();
});

it('names what needs a restart or is decided by a flag, changes the rest, and nothing by a file that cannot be used, and says why', async () => {
  const { daemon, file, reload, write } = await world({ window: 32 }, '--log-level', 'info');
  write({ window: 32, log: { level: 'debug' } });
  const unchanged = 'configuration reloaded: nothing has changed';
  expect((await reload(unchanged)).find(({ msg }) => msg === unchanged)).toMatchObject({
    setElsewhere: ['log.level'],
  });
  write({ window: 64, ready: { maxLag: 3 } });
  const message = 'settings change at a restart only';
  const lines = await reload(message);
  expect(lines.find(({ msg }) => msg === RELOADED)?.['changed']).toEqual(['ready.maxLag: 100 → 3']);
  expect(lines.find(({ msg }) => msg === message)).toMatchObject({
    ...{ level: 'warn', settings: ['window: 32 → 64'], advice: 'restart the daemon' },
  });
  expect((await daemon.scrape()).value('window_heights')).toBe(32);
  // It waits still, and says so each time.
  expect((await reload(message)).map(({ msg }) => msg)).toContain(unchanged);

  const refused = 'the configuration was not reloaded: nothing has changed';
  for (const [content, why] of [
    ['{"api": ', /Cannot read the configuration file/],
    [{ api: { ratePerSecondPerAddress: 1, corsOrigins: 7 } }, /Wrong value for api\.corsOrigins/],
    [{ api: { ratePerSecondPerAddress: 1 }, edi: { nodes: ['http://x'] } }, /is not an access node/],
    [{ api: { ratePerSecondPerAddress: 1, colour: 'red' } }, /Unknown key/],
    [{ api: { ratePerSecondPerAddress: 1 }, store: 'postgres://db/x?sslmode=no' }, /store cannot be used/],
  ] as const) {
    write(content);
    const told = (await reload(refused)).filter(({ level }) => level === 'error');
    expect(told).toHaveLength(1);
    expect(told[0]?.['why']).toMatch(why);
  }
  expect(await statuses(daemon, 20)).not.toContain(429);
  rmSync(file);
  // Where it lies cannot be looked at, as a closed directory.
  symlinkSync(file, file);
  expect((await reload(refused)).find(({ msg }) => msg === refused)?.['why']).toContain('ELOOP');
  // It waits for no pipe.
  rmSync(file);
  execFileSync('mkfifo', [file]);
  await reload('there is no configuration file to reload');
  expect((await daemon.health('/livez')).status).toBe(200);
});
