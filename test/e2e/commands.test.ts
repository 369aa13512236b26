import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ChainGenerator } from '../../src/devnet/index.js';
import type { ChainOptions, DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import { blocksOf, devnetForTest, dumpStore, expectNoDamage, filledDirectory } from '../support/daemons.js';
import { runCommand, runDaemonHere, runProgram, scratchDirectory } from '../support/daemons.js';
import { startArguments, startDaemon, startDaemonHere, startProgram } from '../support/daemons.js';
import { numbers, openSocket, storeFlags, storePath, tcpServer, until } from '../support/daemons.js';

const ROOT = 100;
const HEAD = 200;
/** The heights of a store that is made without a daemon. */
const FIRST = 120;
const LAST = 170;

const chainOptions: ChainOptions = { seed: 3, rootHeight: ROOT, profile: 'mixed' };
const chain = new ChainGenerator(chainOptions);
/** A block with collections of several transactions, away from the ends of the store. */
const rich = blocksOf(chain, FIRST + 5, LAST - 5).find(({ collections }) =>
  collections.every(({ transactions }) => transactions.length > 1),
)!;

function nodeWith(options: DevnetOptions = {}): Promise<DevnetHandle> {
  return devnetForTest({ ...chainOptions, startHead: HEAD, paused: true, sealedLag: 0, ...options });
}

/** A data directory with the heights FIRST to LAST, as a daemon leaves it. */
const filledStore = () => filledDirectory({ chain, from: FIRST, to: LAST });

type Outcome = Awaited<ReturnType<typeof runProgram>>;

/** A refusal is one readable line on standard error, without a stack trace anywhere. */
function expectRefusal({ code, stdout, stderr }: Outcome, expected: number, message: RegExp): void {
  expect(stderr).toMatch(message);
  expect(code).toBe(expected);
  expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  expect(stdout + stderr).not.toMatch(/\n {4}at |\.[jt]s:\d+:\d+/);
}

async function storedHeights(dataDir: string): Promise<number[]> {
  const records = (await dumpStore(dataDir)).filter(([key]) => key[0] === 0x10);
  return records.map(([key]) => Number(key.readBigUInt64BE(1)));
}

function runStart(node: { readonly address: string }, dataDir: string, ...flags: string[]): Promise<Outcome> {
  return runDaemonHere(startArguments(node, dataDir, ...flags));
}

/** A node that nobody may have to ask: no port is open there. */
const nowhere = { address: '127.0.0.1:1' };

describe('start', () => {
  it('indexes exactly the heights asked for and exits 0; again, it is done at once; then it goes on', async () => {
    const devnet = await nodeWith();
    const dataDir = join(scratchDirectory(), 'made', 'by', 'the', 'daemon');
    const bounds = ['--start-height', '130', '--stop-height', '150'];
    const args = startArguments(devnet, dataDir, ...bounds);
    expect(await runProgram(args)).toMatchObject({ code: 0, stderr: '' });
    expect(await storedHeights(dataDir)).toEqual(numbers(130, 150));
    const { requests } = devnet.node;
    expect(requests.highestHeightAsked()).toBeLessThanOrEqual(150);
    const ids = new Set<string>(
      blocksOf(chain, 130, 150).flatMap(({ collections }) => collections.map(({ id }) => id)),
    );
    expect(requests.idsAsked('GetFullCollectionByID').filter((id) => !ids.has(id))).toEqual([]);

    requests.reset();
    expect(await runStart(devnet, dataDir, ...bounds)).toMatchObject({ code: 0, stderr: '' });
    // As a daemon that was killed leaves it.
    const record = join(dataDir, 'daemon.json');
    writeFileSync(record, '{}');
    expect(await runStart(nowhere, dataDir, '--stop-height', '140')).toMatchObject({ code: 0, stderr: '' });
    expect(existsSync(record)).toBe(false);
    expect(requests.count()).toBe(0);

    const on = ['--start-height', '151', '--stop-height', '160'];
    expect(await runStart(devnet, dataDir, ...on)).toMatchObject({ code: 0 });
    expect(await storedHeights(dataDir)).toEqual(numbers(130, 160));
    await expectNoDamage(dataDir);
  });

  it('starts at the lowest height of a node that joined late', async () => {
    const devnet = await nodeWith({ nodeRootHeight: 140 });
    const dataDir = scratchDirectory();
    const bounds = ['--start-height', 'root', '--stop-height', '141'];
    expect(await runStart(devnet, dataDir, ...bounds)).toMatchObject({ code: 0 });
    expect(await storedHeights(dataDir)).toEqual(numbers(140, 141));
  });

  const filled = /does not fit.*120 to 170.*goes on at 171/;
  const late = /139 is below 140.*--start-height 140/;
  // Between devnet28 and testnet51 of the spork table: no public node is left that has it.
  const between = /50000000 lies between two sporks.*Use --start-height 211176670 or higher/s;
  const testnet = { chainId: 'flow-testnet', rootHeight: 305_778_201, startHead: 305_778_201 };
  const mute = /139 is below 140.*127\.0\.0\.1:1 did not answer/;
  it.each<readonly [string, flags: string, why: RegExp, DevnetOptions | undefined]>([
    ['below a filled store', `--start-height ${FIRST - 1}`, filled, undefined],
    ['above a filled store', `--start-height ${LAST + 2}`, filled, undefined],
    ['below that of a node that joined late', '--start-height 139', late, { nodeRootHeight: 140 }],
    ['that a node may have', '--start-height 139 --access-node 127.0.0.1:1', mute, { nodeRootHeight: 140 }],
    ['above the stop height', '--stop-height 150', /stopHeight 150 is below the first height, 200/, {}],
    ['with a plan from a spork that is not there', '--backfill spork:x.9', /There is no spork x\.9/, {}],
    ['below the root of a network that has none before', '--start-height 80', /--start-height 100/, {}],
    ['that nobody serves', '--network testnet --start-height 50000000', between, testnet],
  ])('refuses a start %s', async (_, flags, why, node) => {
    const dataDir = node === undefined ? await filledStore() : scratchDirectory();
    const asked = node === undefined ? nowhere : await nodeWith(node);
    expectRefusal(await runStart(asked, dataDir, ...flags.split(' ')), why === mute ? 75 : 78, why);
  });

  it('refuses a data directory in use, until its daemon is forced to end; so do the commands that read or change the store', async () => {
    const devnet = await nodeWith();
    const dataDir = await filledStore();
    const daemon = await startDaemon(startArguments(devnet, dataDir));
    const holder = new RegExp(`in use by process ${daemon.program.child.pid}: .*start`);
    const refused = await runStart(devnet, dataDir);
    expectRefusal(refused, 74, holder);
    // The log of the one that was refused ends with why.
    const last = JSON.parse(refused.stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>;
    expect(last).toMatchObject({ level: 'fatal', exitCode: 74, exit: 'storage' });
    expect(last['msg']).toMatch(holder);
    // The one for people does not say twice what stands below it.
    const pretty = await runStart(devnet, dataDir, '--log-format', 'pretty');
    expectRefusal(pretty, 74, /in use by process/);
    expect(pretty.stdout).not.toMatch(/in use by process/);
    expectRefusal(await runCommand(['verify', ...storeFlags(dataDir)]), 74, holder);
    const rewind = await runCommand(['rewind', ...storeFlags(dataDir), '--to', '130', '--yes']);
    expectRefusal(rewind, 74, holder);
    // The daemon did not notice, and it is still the one that is found.
    expect(await runCommand(['status', ...storeFlags(dataDir)])).toMatchObject({ code: 0 });

    // A request that never ends holds its graceful stop up: the second signal forces the end.
    const socket = await openSocket(Number(new URL(daemon.apiUrl).port));
    socket.write('GET /status HTTP/1.1\r\n');
    expect((await daemon.api('/status')).status).toBe(200);
    daemon.program.child.kill('SIGINT');
    await daemon.program.sees(/a second signal forces/);
    expect(await daemon.program.stop('SIGINT')).toBe('SIGINT');
  });

  it('refuses a data directory that cannot be one, or holds something else', async () => {
    const dataDir = scratchDirectory();
    writeFileSync(join(dataDir, 'file'), 'not a directory');
    expectRefusal(await runStart(nowhere, join(dataDir, 'file')), 74, /Cannot .*file/);
    mkdirSync(storePath(dataDir), { recursive: true });
    writeFileSync(join(storePath(dataDir), 'thesis.txt'), 'precious');
    const holdsOthers = /is not a store: it holds other files \(thesis\.txt\)/;
    expectRefusal(await runStart(nowhere, dataDir), 74, holdsOthers);
    expect(readdirSync(storePath(dataDir))).toEqual(['thesis.txt']);
  });
});

it('one signal ends a command that waits for a database; without a terminal, SIGHUP does not, as nohup wants', async () => {
  let calls = 0;
  const port = await tcpServer(() => (calls += 1));
  const place = `postgres://somebody@127.0.0.1:${port}/flow`;
  const waiting = async () => {
    const before = calls;
    const program = startProgram(['verify', '--network', 'devnet', '--store', place]);
    await until(() => calls > before);
    return program;
  };
  const kept = await waiting();
  kept.child.kill('SIGHUP');
  kept.child.kill('SIGUSR2');
  await kept.sees(/SIGUSR2 does nothing here/);
  expect(await (await waiting()).stop('SIGINT')).toBe('SIGINT');
  // Told before, it would have ended before.
  expect(kept.child.signalCode).toBe(null);
});

it('a signal ends a catch-up within 10 s, with calls under way, and leaves a sound store to go on with; one that means something else ends nothing', async () => {
  const devnet = await nodeWith({
    faults: [{ method: 'GetFullCollectionByID', fault: 'stall', fromHeight: 150 }],
  });
  const dataDir = scratchDirectory();
  const args = startArguments(devnet, dataDir, '--start-height', 'root', '--no-edi');
  const daemon = await startDaemon(args);
  await daemon.scrapeUntil(
    (metrics) =>
      metrics.value('collection_requests_in_flight') > 0 && metrics.value('latest_indexed_height') > 120,
  );
  daemon.program.child.kill('SIGUSR2');
  await daemon.program.sees(/SIGUSR2 does nothing here/);
  expect((await daemon.health('/livez')).status).toBe(200);
  const askedAtMs = performance.now();
  expect(await daemon.program.stop('SIGQUIT')).toBe(0);
  expect(performance.now() - askedAtMs).toBeLessThan(10_000);
  expect(daemon.program.stderr).toMatch(/^SIGUSR2 does nothing here.*\n$/);
  await expectNoDamage(dataDir);

  devnet.node.setFaults([]);
  expect(await runStart(devnet, dataDir, '--stop-height', String(HEAD))).toMatchObject({ code: 0 });
  expect(await storedHeights(dataDir)).toEqual(numbers(ROOT, HEAD));
  await expectNoDamage(dataDir);
});

it('get gives the same documents from the store and from a running daemon, whose status is told too', async () => {
  const devnet = await nodeWith();
  const dataDir = await filledStore();
  const collection = rich.collections[0]!;
  const questions = [
    ['block', String(rich.height)],
    ['block', rich.id],
    ['collection', collection.id],
    ['transaction', collection.transactionIds.toString('hex', 32, 64)],
  ] as const;
  const command = (...args: string[]) => runCommand([...args, ...storeFlags(dataDir)]);
  const documentsOf = async (): Promise<unknown[]> => {
    const documents: unknown[] = [];
    for (const question of questions) {
      const { stdout, ...ended } = await command('get', ...question);
      expect(ended).toEqual({ code: 0, stderr: '' });
      documents.push(JSON.parse(stdout));
    }
    return documents;
  };
  const fromStore = await documentsOf();
  const kinds = ['block', 'block', 'collection', 'transaction'];
  expect(fromStore).toMatchObject(kinds.map((kind) => ({ kind, height: rich.height })));
  const unknown = ['get', 'collection', 'ab'.repeat(32)];
  expectRefusal(await command(...unknown), 66, /no such collection in heights 120\.\.170/);

  const daemon = await startDaemonHere(startArguments(devnet, dataDir, '--stop-height', '1000'));
  await daemon.reaches(HEAD);
  expect(await documentsOf()).toEqual(fromStore);
  const served = questions.map(async (words) => (await daemon.api(`/lookup/${words.join('/')}`)).body);
  expect(await Promise.all(served)).toEqual(fromStore);
  const json = await command('status', '--json');
  expect(json).toMatchObject({ code: 0, stderr: '' });
  expect(json.stdout.trimEnd().split('\n')).toHaveLength(1);
  const printed = JSON.parse(json.stdout) as object;
  const { instance, ...status } = await daemon.status();
  expect(Object.keys(printed).sort()).toEqual(['instance', ...Object.keys(status)].sort());
  expect(printed).toMatchObject({ instance, latestIndexed: HEAD });
  const page = await command('status');
  expect(page).toMatchObject({ code: 0, stderr: '' });
  expect(page.stdout).toMatch(/^indexed +120 to 200: 81 heights, complete$/m);
  expect(page.stdout).toContain(devnet.address);
  expect(JSON.parse((await command('get', 'block', 'sealed')).stdout)).toMatchObject({
    height: status.sealed,
  });
  expectRefusal(await command(...unknown), 66, /no such collection in heights 120\.\.200/);
  expect(await daemon.program.stop()).toBe(0);
  expectRefusal(await command('status'), 69, /no daemon is recorded|No daemon answers/);
});
