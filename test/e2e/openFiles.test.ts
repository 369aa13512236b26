import { readdirSync, writeFileSync } from 'node:fs';
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { atEnd, beginCall, devnetForTest, runCommand, runProgram } from '../support/daemons.js';
import { scratchDirectory, sessionOn, startArguments, startDaemon } from '../support/daemons.js';
import type { RunningDaemon } from '../support/daemons.js';
import { TestSecrets } from '../support/secretFiles.js';

const KEPT = 'Host: x\r\nConnection: keep-alive\r\n';
const REQUESTS = {
  silent: '',
  /** Begins a request that it never ends. */
  slow: 'GET /livez HTTP/1.1\r\nHost:',
  /** Was answered once, and stays. */
  idle: `GET /livez HTTP/1.1\r\n${KEPT}\r\n`,
  /** Follows the index for ever. */
  follower: `GET /events HTTP/1.1\r\n${KEPT}\r\n`,
  webSocket: `GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}\r\n\r\n`,
} as const;

type Manner = keyof typeof REQUESTS | 'grpcStream';

/** Callers that come at once and stay, until the test ends or they are told to go. */
class Crowd {
  readonly #ends: (() => void)[] = [];

  constructor() {
    atEnd(() => this.leave());
  }

  /** Resolves when each is connected, or was turned away. */
  async join(count: number, to: NetConnectOpts, manner: Manner): Promise<void> {
    const arrivals = Array.from({ length: count }, () =>
      manner === 'grpcStream' ? this.#watchHealth(to) : this.#connect(to, REQUESTS[manner]),
    );
    await Promise.all(arrivals);
  }

  leave(): void {
    for (const end of this.#ends.splice(0)) end();
  }

  #connect(to: NetConnectOpts, request: string): Promise<void> {
    const socket: Socket = connect(to);
    this.#ends.push(() => socket.destroy());
    socket.on('error', () => undefined).resume();
    return new Promise((resolve) => {
      socket.once('close', () => resolve());
      socket.once('connect', () => {
        if (request !== '') socket.write(request);
        resolve();
      });
    });
  }

  /** An open stream on a connection of its own. */
  #watchHealth(to: NetConnectOpts): Promise<void> {
    const session = sessionOn('http://localhost', { createConnection: () => connect(to) });
    this.#ends.push(() => session.destroy());
    return new Promise((resolve) => {
      session.once('close', () => resolve());
      const stream = beginCall(session, '/grpc.health.v1.Health/Watch');
      stream.once('response', () => resolve());
      stream.once('close', () => resolve());
      stream.resume().end(Buffer.alloc(5));
    });
  }
}

const nowhere = { address: '127.0.0.1:1' };
const withFiles = (limit: number) => ({ wrapper: ['bash', '-c', `ulimit -n ${limit}; exec "$@"`, 'bash'] });

/** Of each kind, more than there are files for all of them. */
const CROWD = 150;

const placeOf = (url: string) => {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
};

const portsOf = ({ apiUrl, grpcAddress, metricsUrl }: RunningDaemon) => ({
  ...{ api: placeOf(apiUrl), grpc: placeOf(`http://${grpcAddress}`), metrics: placeOf(metricsUrl) },
});

const crowds: Readonly<Record<string, readonly (readonly ['api' | 'grpc' | 'metrics', Manner])[]>> = {
  'silent ones at every port': [
    ['api', 'silent'],
    ['grpc', 'silent'],
    ['metrics', 'silent'],
  ],
  'slow and idle ones at the HTTP ports': [
    ['api', 'slow'],
    ['api', 'idle'],
    ['metrics', 'slow'],
    ['metrics', 'idle'],
  ],
  'WebSockets, followers and streams': [
    ['api', 'webSocket'],
    ['api', 'follower'],
    ['grpc', 'grpcStream'],
  ],
};

async function isWell({ daemon, limit }: { readonly daemon: RunningDaemon; readonly limit: number }) {
  for (const path of ['/livez', '/readyz'] as const) expect((await daemon.health(path)).status).toBe(200);
  const before = (await daemon.scrape()).value('latest_indexed_height');
  const metrics = await daemon.reaches(before + 5);
  const open = metrics.series('connections');
  expect(open.map(({ labels }) => labels['port']).sort()).toEqual(['api', 'grpc', 'metrics']);
  for (const { labels, value } of open) {
    const port = labels['port'] ?? '';
    expect([port, value <= metrics.value('connections_limit', { port })]).toEqual([port, true]);
  }
  const { pid = 0 } = daemon.program.child;
  // What is set aside for the store and the nodes is there.
  expect(readdirSync(`/proc/${pid}/fd`).length).toBeLessThanOrEqual(limit - 8);
}

async function isSound(daemon: RunningDaemon, dataDir: string): Promise<void> {
  expect(await daemon.program.stop(), daemon.program.stderr).toBe(0);
  const verified = await runCommand(['verify', '--network', 'devnet', '--data-dir', dataDir]);
  expect(verified.code, verified.stderr).toBe(0);
}

describe.runIf(process.platform === 'linux')('the files that the daemon may open', () => {
  it('are refused at the start where they cannot suffice, with the number that does', async () => {
    const args = startArguments(nowhere, scratchDirectory());
    const few = await runProgram(args, {}, withFiles(64));
    expect(few.code).toBe(78);
    const said =
      /^Only 64 files may be open at once, but .* the daemon needs (\d+), and (\d+) for api\.maxConnections\. Raise the limit \(ulimit -n \2, or LimitNOFILE=\2 of the systemd unit\)\.$/m;
    const [, fewest = ''] = said.exec(few.stderr) ?? [];
    expect(few.stderr).not.toMatch(/\n\s+at /);
    expect((await runProgram(args, {}, withFiles(Number(fewest) - 1))).code).toBe(78);
    const devnet = await devnetForTest({ startHead: 20, paused: true });
    const file = join(scratchDirectory(), 'config.json');
    writeFileSync(file, '{"api.maxConnections": 8}');
    const enough = startArguments(devnet, scratchDirectory(), '--start-height', '0', '--config', file);
    const daemon = await startDaemon(enough, {}, withFiles(Number(fewest)));
    await daemon.reaches(20);
    const tooFew = 'each port takes fewer connections than api.maxConnections: too few files may be open';
    expect(daemon.program.stdout).not.toContain(tooFew);
    writeFileSync(file, '{"api.maxConnections": 100}');
    daemon.program.child.kill('SIGHUP');
    await daemon.program.sees(new RegExp(tooFew));
  });

  it('are shared out, so that no crowd of callers takes what the daemon needs', async () => {
    const limit = 128;
    const devnet = await devnetForTest({ seed: 7, startHead: 100, blockIntervalMs: 200 });
    const dataDir = scratchDirectory();
    const args = startArguments(devnet, dataDir, '--start-height', '0');
    const daemon = await startDaemon(args, {}, withFiles(limit));
    await daemon.reaches(100);
    for (const [name, callers] of Object.entries(crowds)) {
      const crowd = new Crowd();
      const before = await daemon.scrape();
      const ports = portsOf(daemon);
      await Promise.all(callers.map(([port, manner]) => crowd.join(CROWD, ports[port], manner)));
      await crowd.join(30, { path: join(dataDir, 'control.sock') }, 'silent');
      await isWell({ daemon, limit });
      const after = await daemon.scrape();
      const cut = after.sum('connections_cut_total') - before.sum('connections_cut_total');
      expect([name, cut > 0]).toEqual([name, true]);
      crowd.leave();
      await daemon.scrapeUntil((metrics) => metrics.sum('connections') < 10);
    }
    const warnings = daemon.program.logs().filter(({ level }) => level === 'warn');
    const full = warnings.filter(({ msg }) => String(msg).startsWith('all connections are taken'));
    // Once for each port, whatever comes and goes within a minute.
    expect(full.map(({ server }) => server).sort()).toEqual(['api', 'grpc', 'metrics']);
    for (const { advice, server } of full)
      expect(advice).toMatch(server === 'metrics' ? /holds so many open/ : /open files: "start" says which$/);
    const isShort = warnings.filter(({ msg }) => /fewer connections than/.test(String(msg)));
    expect(isShort).toHaveLength(1);
    await isSound(daemon, dataDir);
  });

  it('count for callers in their TLS handshake too', async () => {
    const limit = 128;
    const devnet = await devnetForTest({ seed: 7, startHead: 50, blockIntervalMs: 200 });
    const tls = new TestSecrets('').tlsFlags();
    const args = startArguments(devnet, scratchDirectory(), '--start-height', '0', ...tls);
    const daemon = await startDaemon(args, {}, withFiles(limit));
    await daemon.reaches(50);
    const crowd = new Crowd();
    const { api, grpc } = portsOf(daemon);
    await Promise.all([crowd.join(CROWD, api, 'silent'), crowd.join(CROWD, grpc, 'silent')]);
    await isWell({ daemon, limit });
  });
});
