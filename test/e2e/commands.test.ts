import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { programVersion } from '../../src/app/index.js';
import { ChainGenerator } from '../../src/devnet/index.js';
import type { ChainOptions, DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import { blocksOf, writeReferenceStore } from '../support/chainReference.js';
import { runCommand } from '../support/commandLine.js';
import { openSocket, tcpServer } from '../support/httpProbe.js';
import { runProgram, scratchDirectory, startProgram, until } from '../support/program.js';
import {
  devnetForTest,
  runDaemonHere,
  startArguments,
  startDaemon,
  startDaemonHere,
} from '../support/runningDaemon.js';
import { dumpStore, storeFlags, storePath } from '../support/storeDump.js';

const ROOT = 100;
const HEAD = 200;
/** The heights of a store that is made without a daemon. */
const FIRST = 120;
const LAST = 170;

const chainOptions: ChainOptions = { seed: 3, rootHeight: ROOT, profile: 'mixed' };
const chain = new ChainGenerator(chainOptions);
/** A block with collections of several transactions, away from the ends of the store. */
const rich = chain.block(
  blocksOf(chain, FIRST + 5, LAST - 5).find(({ collections }) =>
    collections.every(({ transactions }) => transactions.length > 1),
  )?.height ?? FIRST,
);

function nodeWith(options: DevnetOptions = {}): Promise<DevnetHandle> {
  return devnetForTest({ ...chainOptions, startHead: HEAD, paused: true, sealedLag: 0, ...options });
}

/** A data directory with the heights FIRST to `last`, as a daemon leaves it. */
async function filledDirectory(last = LAST): Promise<string> {
  const dataDir = scratchDirectory();
  await writeReferenceStore(dataDir, blocksOf(chain, FIRST, last), {
    chainId: chain.chainId,
    createdBy: `flow-collection-indexer ${programVersion()}`,
    sporks: [{ rootHeight: ROOT, sporkId: chain.sporkId }],
  });
  return dataDir;
}

type Outcome = Awaited<ReturnType<typeof runProgram>>;

/** A refusal is one readable line on standard error, without a stack trace anywhere. */
function expectRefusal({ code, stdout, stderr }: Outcome, expected: number, message: RegExp): void {
  expect(stderr).toMatch(message);
  expect(code).toBe(expected);
  expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  expect(stdout + stderr).not.toMatch(/\n {4}at |\.[jt]s:\d+:\d+/);
}

/** The heights of a store that no process uses. */
async function storedHeights(dataDir: string): Promise<{ first: number; last: number; count: number }> {
  const records = (await dumpStore(dataDir)).filter(([key]) => key[0] === 0x10);
  const heights = records.map(([key]) => Number(key.readBigUInt64BE(1)));
  return { first: heights[0] ?? NaN, last: heights.at(-1) ?? NaN, count: heights.length };
}

/** The outcome of a `verify` without its progress, which a slow machine prints. */
async function verified<T extends { readonly stderr: string }>(running: Promise<T>): Promise<T> {
  const outcome = await running;
  return { ...outcome, stderr: outcome.stderr.replace(/^verifying .*\n/gm, '') };
}

async function expectSound(dataDir: string): Promise<void> {
  const outcome = await verified(runCommand(['verify', ...storeFlags(dataDir)]));
  expect(outcome).toMatchObject({ code: 0, stderr: '' });
}

/** Runs `start` to its end, without a process. */
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
    expect(await storedHeights(dataDir)).toEqual({ first: 130, last: 150, count: 21 });
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
    expect(await storedHeights(dataDir)).toEqual({ first: 130, last: 160, count: 31 });
    await expectSound(dataDir);
  });

  it('starts at the lowest height of a node that joined late', async () => {
    const devnet = await nodeWith({ nodeRootHeight: 140 });
    const dataDir = scratchDirectory();
    const bounds = ['--start-height', 'root', '--stop-height', '141'];
    expect(await runStart(devnet, dataDir, ...bounds)).toMatchObject({ code: 0 });
    expect(await storedHeights(dataDir)).toEqual({ first: 140, last: 141, count: 2 });
  });

  const filled = /does not fit.*120 to 170.*goes on at 171/;
  it.each<readonly [string, flags: readonly string[], why: RegExp, DevnetOptions | 'nowhere' | undefined]>([
    [
      'a start height below that of a node that joined late',
      ['--start-height', '139'],
      /139 is below 140.*--start-height 140/,
      { nodeRootHeight: 140 },
    ],
    ['a start height below a filled store', ['--start-height', String(FIRST - 1)], filled, 'nowhere'],
    ['a start height above a filled store', ['--start-height', String(LAST + 2)], filled, 'nowhere'],
    [
      'a stop height below the head that it starts from',
      ['--stop-height', '150'],
      /stopHeight 150 is below the first height, 200/,
      {},
    ],
    [
      'a start height below the root of a network without a spork before it',
      ['--start-height', '80'],
      new RegExp(`--start-height ${ROOT}`),
      {},
    ],
    [
      // Between devnet28 and testnet51 of the spork table: no public node is left that has it.
      'a start height that nobody serves between two sporks',
      ['--network', 'testnet', '--start-height', '50000000'],
      /startHeight 50000000 lies between two sporks.*Use --start-height 211176670 or higher/s,
      { chainId: 'flow-testnet', rootHeight: 305_778_201, startHead: 305_778_201 },
    ],
  ])('refuses %s', async (_, flags, why, where) => {
    const dataDir = where === 'nowhere' ? await filledDirectory() : scratchDirectory();
    const node = where === 'nowhere' ? nowhere : await nodeWith(where);
    expectRefusal(await runStart(node, dataDir, ...flags), 78, why);
  });

  it('refuses a data directory in use, until its daemon is forced to end; so do the commands that read or change the store', async () => {
    const devnet = await nodeWith();
    const dataDir = await filledDirectory();
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
    const scratch = scratchDirectory();
    writeFileSync(join(scratch, 'file'), 'not a directory');
    expectRefusal(await runStart(nowhere, join(scratch, 'file')), 74, /Cannot .*file.*Look at|Cannot .*file/);

    const dataDir = join(scratch, 'other');
    mkdirSync(storePath(dataDir), { recursive: true });
    writeFileSync(join(storePath(dataDir), 'thesis.txt'), 'precious');
    expectRefusal(
      await runStart(nowhere, dataDir),
      74,
      /is not a store: it holds other files \(thesis\.txt\)/,
    );
    expect(readdirSync(storePath(dataDir))).toEqual(['thesis.txt']);
  });
});

it('one signal ends a command that waits for a database', async () => {
  let isCalled = false;
  const port = await tcpServer(() => (isCalled = true));
  const place = `postgres://somebody@127.0.0.1:${port}/flow`;
  const program = startProgram(['verify', '--network', 'devnet', '--store', place]);
  await until(() => isCalled);
  expect(await program.stop('SIGINT')).toBe('SIGINT');
});

it('a signal ends a catch-up within 10 s, with calls under way, and leaves a sound store to go on with', async () => {
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
  const askedAtMs = performance.now();
  expect(await daemon.program.stop('SIGTERM')).toBe(0);
  expect(performance.now() - askedAtMs).toBeLessThan(10_000);
  expect(daemon.program.stderr).toBe('');
  await expectSound(dataDir);

  devnet.node.setFaults([]);
  expect(await runStart(devnet, dataDir, '--stop-height', String(HEAD))).toMatchObject({ code: 0 });
  expect(await storedHeights(dataDir)).toEqual({ first: ROOT, last: HEAD, count: HEAD - ROOT + 1 });
  await expectSound(dataDir);
});

it('a signal that other programs take for something else ends nothing, and SIGQUIT stops in good order', async () => {
  const daemon = await startDaemon(startArguments(await nodeWith({}), scratchDirectory()));
  daemon.program.child.kill('SIGUSR2');
  await daemon.program.sees(/SIGUSR2 does nothing here/);
  expect((await daemon.health('/livez')).status).toBe(200);
  expect(await daemon.program.stop('SIGQUIT')).toBe(0);
});

it.each([['--version'], ['start', '--help']])(
  'the program loads no server and no database for %s %s',
  async (...args) => {
    const coverage = scratchDirectory();
    const words: string[] = args.flatMap((word) => word);
    expect(await runProgram(words, { NODE_V8_COVERAGE: coverage })).toMatchObject({ code: 0 });
    const loaded = readdirSync(coverage)
      .map((name) => readFileSync(join(coverage, name), 'utf8'))
      .join('');
    expect(loaded).toContain('dist/main.js');
    expect(loaded).not.toMatch(/node_modules\/(?:fastify|@grpc|classic-level|pino|prom-client)\//);
  },
);

it('verify prints what it checked', async () => {
  const dataDir = await filledDirectory();
  const blocks = blocksOf(chain, FIRST, LAST);
  const collections = blocks.flatMap((block) => block.collections);
  const transactions = collections.flatMap((collection) => collection.transactions);
  const whole = await verified(runCommand(['verify', ...storeFlags(dataDir)]));
  expect(whole).toMatchObject({ code: 0, stderr: '' });
  expect(whole.stdout).toContain(
    `checked: heights ${FIRST} to ${LAST}: ${blocks.length} blocks, ${collections.length} collections, ${transactions.length} transactions`,
  );
  expect(whole.stdout).toContain(`${blocks.length + collections.length + transactions.length} pointers`);
  expect(whole.stdout).toContain('no damage');

  const part = await runCommand(['verify', ...storeFlags(dataDir), '--from', '130', '--to', '140']);
  expect(part).toMatchObject({ code: 0 });
  expect(part.stdout).toContain('checked: heights 130 to 140: 11 blocks');
  const outside = await runCommand(['verify', ...storeFlags(dataDir), '--from', '10']);
  expectRefusal(outside, 64, /holds heights 120 to 170/);
});

it('get gives the same documents from the store and from a running daemon, whose status is told too', async () => {
  const devnet = await nodeWith();
  const dataDir = await filledDirectory();
  const [collection] = rich.collections;
  const position = (collection?.transactions.length ?? 0) - 1;
  const transactionId =
    collection?.transactionIds.subarray(32 * position, 32 * (position + 1)).toString('hex') ?? '';
  const questions = [
    ['block', String(rich.height)],
    ['block', rich.id],
    ['collection', collection?.id ?? ''],
    ['transaction', transactionId],
  ] as const;
  const get = (kind: string, key: string): ReturnType<typeof runCommand> =>
    runCommand(['get', kind, key, ...storeFlags(dataDir)]);
  const fromStore: unknown[] = [];
  for (const [kind, key] of questions) {
    const { code, stdout, stderr } = await get(kind, key);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    fromStore.push(JSON.parse(stdout));
  }
  const place = { height: rich.height, block_id: rich.id, collection_index: 0 };
  expect(fromStore).toMatchObject([
    { kind: 'block', id: rich.id, height: rich.height },
    { kind: 'block', id: rich.id, height: rich.height },
    { kind: 'collection', id: collection?.id, ...place },
    { kind: 'transaction', id: transactionId, ...place, transaction_index: position },
  ]);
  const unknown = 'ab'.repeat(32);
  expectRefusal(await get('collection', unknown), 66, /no such collection in heights 120\.\.170/);
  expect(JSON.parse((await get('transaction', `0x${transactionId}`)).stdout)).toEqual(fromStore[3]);
  for (const word of ['latest', 'final']) {
    expect(JSON.parse((await get('block', word)).stdout)).toMatchObject({ height: LAST });
  }

  const daemon = await startDaemonHere(startArguments(devnet, dataDir, '--stop-height', '1000'));
  await daemon.reaches(HEAD);
  for (const [index, [kind, key]] of questions.entries()) {
    const answer = await get(kind, key);
    expect(JSON.parse(answer.stdout)).toEqual(fromStore[index]);
    expect((await daemon.api(`/lookup/${kind}/${key}`)).body).toEqual(fromStore[index]);
  }
  const status = await daemon.status();
  const json = await runCommand(['status', '--json', ...storeFlags(dataDir)]);
  expect(json).toMatchObject({ code: 0, stderr: '' });
  expect(json.stdout.trimEnd().split('\n')).toHaveLength(1);
  const { chainId, firstIndexed, head, instance, lag, latestIndexed, network, sealed, version } = status;
  const printed = JSON.parse(json.stdout) as object;
  expect(Object.keys(printed)).toEqual(Object.keys(status));
  expect(printed).toMatchObject({
    ...{ chainId, firstIndexed, head, instance, lag, latestIndexed, network, sealed, version },
  });
  const page = await runCommand(['status', ...storeFlags(dataDir)]);
  expect(page).toMatchObject({ code: 0, stderr: '' });
  expect(page.stdout).toMatch(/^indexed +120 to 200: 81 heights, complete$/m);
  expect(page.stdout).toContain(devnet.address);
  expect(JSON.parse((await get('block', 'latest')).stdout)).toMatchObject({ height: HEAD });
  expect(JSON.parse((await get('block', 'sealed')).stdout)).toMatchObject({ height: status.sealed });
  expectRefusal(await get('collection', unknown), 66, /no such collection in heights 120\.\.200/);
  const { port } = new URL(daemon.apiUrl);
  const byAddress = await runCommand(['get', 'block', rich.id, '--api-port', port]);
  expect(JSON.parse(byAddress.stdout)).toEqual(fromStore[0]);
  expect(await daemon.program.stop()).toBe(0);
  expectRefusal(
    await runCommand(['status', ...storeFlags(dataDir)]),
    69,
    /no daemon is recorded|No daemon answers/,
  );
});
