import { readFileSync, writeFileSync } from 'node:fs';
import { constants, type ServerHttp2Stream } from 'node:http2';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { devnetForTest, scratchDirectory, seededRandom, startArguments } from '../support/daemons.js';
import { startDaemon, stopAndProve, type RunningDaemon } from '../support/daemons.js';
import { FaultProxy, type Identity, type Weather } from '../support/faultProxy.js';

/** Recovery unaided: within a minute of the fault's end. */
const RECOVERY_MS = 60_000;
const MIB = 1024 ** 2;
/** Memory is collected some times in as many. */
const MANY_ROUNDS = 30;

const tls = (name: string) => readFileSync(join(import.meta.dirname, '../data/tls', name), 'utf8');
const identity = (name: string, key = 'localhost'): Identity => ({
  key: tls(`${key}-key.pem`),
  cert: tls(`${name}-cert.pem`),
});

type Line = Awaited<ReturnType<typeof lineOf>>;

interface LineOptions {
  readonly identity?: Identity;
  readonly weather?: Weather;
  readonly address?: (port: number) => string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Calls are given up soon, so that no fault takes longer to be noticed than it must. */
const quick = ['--requester-timeout-ms', '1000', '--requester-backoff-max-ms', '1000'];
const HEAD = 40;

/** To a process, whose memory and environment are its own. */
async function lineOf({ environment, ...options }: LineOptions = {}) {
  const node = await devnetForTest({ seed: 31, startHead: HEAD, paused: true, executionDataLag: -4 });
  const proxy = await FaultProxy.before(node, options.identity);
  if (options.weather !== undefined) await proxy.become(options.weather);
  const address = options.address?.(proxy.port) ?? `127.0.0.1:${proxy.port}`;
  const dataDir = scratchDirectory();
  const args = startArguments({ address }, dataDir, '--start-height', '0', ...quick);
  return { node, proxy, dataDir, daemon: await startDaemon(args, environment) };
}

/** Waits no longer than recovery may take. */
async function recovers(line: Line): Promise<void> {
  const head = line.node.node.head.finalized;
  const tooLate = new Promise<never>((_, reject) =>
    setTimeout(() => reject(new Error(`not back at ${head} within ${RECOVERY_MS} ms`)), RECOVERY_MS).unref(),
  );
  await Promise.race([line.daemon.reaches(head), tooLate]);
  await Promise.race([line.daemon.ready(), tooLate]);
}

async function proves({ daemon, dataDir, node: { chain, node } }: Line): Promise<void> {
  const whole = { firstHeight: 0, latestHeight: node.head.finalized, chainAt: () => chain };
  await stopAndProve(daemon, dataDir, whole);
}

function isMissed({ daemon }: Line): Promise<unknown> {
  const states = ['failing', 'set_aside', 'unknown'];
  return daemon.statusUntil(({ endpoints }) => endpoints.every(({ state }) => states.includes(state)));
}

/** What the heap holds, and what it holds beside itself. */
async function usedBytes(daemon: RunningDaemon): Promise<number> {
  const metrics = await daemon.scrape();
  return metrics.sum('nodejs_heap_size_used_bytes') + metrics.sum('nodejs_external_memory_bytes');
}

function errorsAtLeast(daemon: RunningDaemon, kind: string, count: number): Promise<unknown> {
  return daemon.scrapeUntil((metrics) => metrics.sum('upstream_errors_total', { kind }) >= count);
}

describe('one bad weather after the other', () => {
  /** `NETWORK_ROUNDS=500 NETWORK_SEED=7` makes it a long one. */
  const rounds = Number(process.env['NETWORK_ROUNDS'] ?? 3);
  const seed = Number(process.env['NETWORK_SEED'] ?? 1);
  const weathers: readonly Weather[] = [
    { kind: 'refused' },
    { kind: 'reset' },
    { kind: 'half-open' },
    { kind: 'mute' },
    { kind: 'drip', everyMs: 100 },
    { kind: 'go-away', afterMs: 50, code: constants.NGHTTP2_NO_ERROR, reason: '' },
    { kind: 'go-away', afterMs: 50, code: constants.NGHTTP2_ENHANCE_YOUR_CALM, reason: 'too_many_pings' },
  ];

  it(
    'is lived through, whatever follows on what, told at /readyz, and leaves no trace in memory and nothing wrong in the store',
    async () => {
      const random = seededRandom(seed);
      const line = await lineOf({ weather: { kind: 'refused' } });
      await line.daemon.reason(
        /UNAVAILABLE: .*(?:ECONNREFUSED|ECONNRESET|Connection dropped|No connection established)/,
      );
      expect((await line.daemon.health('/readyz')).status).toBe(503);
      await line.proxy.become({ kind: 'fair' });
      await recovers(line);
      // As a wire that was pulled: it stands still and then moves on, and nothing is cut.
      await line.proxy.become({ kind: 'half-open' });
      line.node.node.head.advance(10);
      await errorsAtLeast(line.daemon, 'deadline', 2);
      line.proxy.thaw();
      await recovers(line);
      const before = await line.daemon.peakMemoryBytes();
      const used: number[] = [];
      for (let round = 1; round <= rounds; round += 1) {
        const spell: string[] = [];
        for (let left = 1 + Math.floor(random.next() * 3); left > 0; left -= 1) {
          const weather = weathers[Math.floor(random.next() * weathers.length)] ?? { kind: 'refused' };
          spell.push(weather.kind);
          await line.proxy.become(weather);
          line.node.node.head.advance(3);
          // How long it lasts.
          await new Promise((resolve) => setTimeout(resolve, random.next() * 1_500));
        }
        await line.proxy.become({ kind: 'fair' });
        await recovers(line).catch((error: unknown) => {
          throw new Error(`round ${round} of seed ${seed}: ${spell.join(', ')}`, { cause: error });
        });
        used.push(await usedBytes(line.daemon));
      }
      // The peak of many rounds says how late memory was collected; the least of many rounds, what is kept.
      if (rounds < MANY_ROUNDS) expect((await line.daemon.peakMemoryBytes()) - before).toBeLessThan(96 * MIB);
      else {
        const third = Math.floor(rounds / 3);
        const [first, last] = [used.slice(0, third), used.slice(-third)].map((each) => Math.min(...each));
        expect((last ?? 0) - (first ?? 0)).toBeLessThan(16 * MIB);
      }
      await proves(line);
    },
    (rounds + 2) * RECOVERY_MS,
  );
});

it('from the start a certificate that has expired, or is not for the address, is not trusted; /readyz says so until there is a good one', async () => {
  // The daemon knows the authorities: what is wrong is the date, or the name.
  const authorities = join(scratchDirectory(), 'authorities.pem');
  writeFileSync(
    authorities,
    ['localhost', 'expired', 'renewed'].map((name) => identity(name).cert).join('\n'),
  );
  const line = await lineOf({
    ...{ identity: identity('expired'), address: (port) => `grpcs://127.0.0.1:${port}` },
    environment: { GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: authorities },
  });
  await line.daemon.reason(/certificate has expired/);
  expect((await line.daemon.health('/readyz')).status).toBe(503);
  expect(line.node.node.requests.count('GetNetworkParameters')).toBe(0);
  await line.proxy.become({ kind: 'fair' }, identity('localhost'));
  await line.daemon.reason(/IP: 127\.0\.0\.1 is not in the cert's list/);
  await line.proxy.become({ kind: 'fair' }, identity('renewed', 'renewed'));
  await recovers(line);
  // An address is no name to ask for.
  expect(line.proxy.serverNames).toEqual([]);
  await proves(line);
});

it('from the start a name that does not resolve is said, and is found once it does', async () => {
  const hosts = join(scratchDirectory(), 'hosts.json');
  writeFileSync(hosts, JSON.stringify({}));
  const stub = new URL('../support/stubbedNames.mjs', import.meta.url).href;
  const environment = { NODE_OPTIONS: `--import=${stub}`, STUBBED_NAMES: hosts };
  const line = await lineOf({ address: (port) => `node.test:${port}`, environment });
  await line.daemon.reason(/Name resolution failed|ENOTFOUND/);
  // A height of 0 would be one of the chain.
  for (const name of ['head_height', 'sealed_height', 'first_indexed_height'])
    expect((await line.daemon.scrape()).series(name)).toEqual([]);
  writeFileSync(hosts, JSON.stringify({ 'node.test': '127.0.0.1' }));
  await recovers(line);

  // It goes again while the connection breaks: nobody can be called, until it is back.
  writeFileSync(hosts, JSON.stringify({}));
  await line.proxy.become({ kind: 'refused' });
  line.node.node.head.advance(10);
  await isMissed(line);
  expect((await line.daemon.health('/livez')).status).toBe(200);
  await line.proxy.become({ kind: 'fair' });
  writeFileSync(hosts, JSON.stringify({ 'node.test': '127.0.0.1' }));
  await recovers(line);
  await proves(line);
});

/** Announces a message of a gigabyte and then sends it, as fast as it is taken. */
const gigabyte = (stream: ServerHttp2Stream): void => {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.write(Buffer.from([0, 0x40, 0, 0, 0]));
  const chunk = Buffer.alloc(256 * 1024);
  const pump = (): void => {
    while (!stream.destroyed) if (!stream.write(chunk)) return;
  };
  stream.on('drain', pump);
  pump();
};

it('messages without end are refused as soon as they are announced: memory stays where it was', async () => {
  const line = await lineOf();
  await recovers(line);
  const before = await line.daemon.peakMemoryBytes();
  await line.proxy.become({ kind: 'impostor', answer: gigabyte });
  line.node.node.head.advance(10);
  await errorsAtLeast(line.daemon, 'too_large', 5);
  expect((await line.daemon.peakMemoryBytes()) - before).toBeLessThan(96 * MIB);
  await line.proxy.become({ kind: 'fair' });
  await recovers(line);
  await proves(line);
});
