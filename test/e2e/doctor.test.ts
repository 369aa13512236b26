import { createHash } from 'node:crypto';
import { chmodSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkCertificate } from '../../src/app/doctor/exposure.js';
import type { FaultRule } from '../../src/devnet/index.js';
import type { Verdict } from '../../src/app/index.js';
import type { DaemonConfig } from '../../src/config/index.js';
import { asAdmin, daemonOn, devnetForTest, indexedHere, runCommand } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemon, storeFlags, storePath } from '../support/daemons.js';
import { runDaemonHere, usePostgres } from '../support/daemons.js';
import { HostedNode } from '../support/hostedNode.js';
import { relayedPeer } from '../support/relayedPeer.js';
import { TestSecrets } from '../support/secretFiles.js';
import { smallFileSystem } from '../support/smallFileSystem.js';

const HEAD = 40;
const FOREIGN = 'serves flow-emulator; --network devnet expects flow-localnet';
const NO_HEAD = /are free on the disk of .*No node says how many heights/;
const checks = ['nodes', 'clock', 'disk', 'exposure'];

/** The flags of a `start` are those of `doctor`. */
async function examined([, ...flags]: readonly string[]) {
  const { code, stderr, stdout } = await runCommand(['doctor', '--json', ...flags]);
  expect(stderr).toBe('');
  const { verdicts } = JSON.parse(stdout) as { readonly verdicts: readonly Verdict[] };
  const saying = (check: string, kind: string): string =>
    verdicts
      .filter((each) => each.check === check && each.verdict === kind)
      .map(({ message }) => message)
      .join('\n');
  return { code, verdicts, saying };
}

function fingerprint(folder: string): string {
  const hash = createHash('sha256');
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    hash.update(`${name} ${statSync(path).mtimeMs} ${statSync(path).size}\n`).update(readFileSync(path));
  }
  return hash.digest('hex');
}

/** The same of a daemon that has no directory yet. */
const examinedOn = (address: string, ...flags: string[]) =>
  examined(startArguments({ address }, scratchDirectory(), ...flags));

const node = () => devnetForTest({ seed: 3, profile: 'mixed', startHead: HEAD, paused: true, sealedLag: 0 });

describe('doctor', () => {
  it('finds nothing wrong with a node that serves everything, and a place that is free, in JSON and in lines', async () => {
    const devnet = await node();
    const start = startArguments(devnet, scratchDirectory());
    const { code, saying, verdicts } = await examined(start);
    expect([...new Set(verdicts.map(({ check }) => check))]).toEqual(checks);
    expect(verdicts.filter(({ verdict }) => verdict === 'problem')).toEqual([]);
    expect(code).toBe(0);
    const well = `flow-localnet, spork root 0, in the clear) is at height ${HEAD}`;
    expect(saying('nodes', 'ok')).toContain(well);
    expect(saying('disk', 'ok')).toMatch(/are free on the disk of/);

    const { code: ended, stdout } = await runCommand(['doctor', ...start.slice(1)]);
    expect(ended).toBe(0);
    for (const check of checks) expect(stdout).toMatch(new RegExp(`^(?:ok|warning) +${check} `, 'm'));
    expect(stdout.trim().split('\n').at(-1)).toMatch(/^Nothing is wrong\.$|^0 problems, \d+ warnings?\.$/);
  });

  it('counts the heights to come by what a running daemon or a closed store has, without changing a byte of it', async () => {
    const devnet = await node();
    const secrets = new TestSecrets('a-token-of-this-test-0123\n');
    const dataDir = scratchDirectory();
    const start = startArguments(devnet, dataDir, '--start-height', '0', ...secrets.flags());
    const toCome = async (): Promise<string> => {
      const { code, saying } = await examined(start);
      expect([code, saying('exposure', 'warning')]).toEqual([0, expect.not.stringContaining('that runs')]);
      return /and (\w+) heights to come/.exec(saying('disk', 'ok'))?.[1] ?? '';
    };
    expect(await toCome()).toBe(String(HEAD + 1));
    // It wants TLS and a token.
    const daemon = await startDaemon(start);
    await daemon.reaches(HEAD);
    expect(await toCome()).toBe('0');
    const { saying: otherwise } = await examined(startArguments(devnet, dataDir));
    const told = /^The daemon that runs listens at 127\.0\.0\.1, over TLS: its settings differ .*--config/;
    expect(otherwise('exposure', 'warning')).toMatch(told);
    daemon.program.child.kill('SIGSTOP');
    const stopped = await examined(start);
    const words = /^The store in .* is in use by process \d+: .*, and no daemon answers there.*-CONT/;
    expect([stopped.code, stopped.saying('store', 'problem')]).toEqual([74, expect.stringMatching(words)]);
    daemon.program.child.kill('SIGCONT');
    // Not even the log is in tables yet.
    await daemon.program.stop('SIGKILL');
    const before = fingerprint(storePath(dataDir));
    expect(await toCome()).toBe('0');
    expect(fingerprint(storePath(dataDir))).toBe(before);
    // After a clean stop, too.
    expect(await runDaemonHere([...start, '--stop-height', String(HEAD)])).toMatchObject({ code: 0 });
    expect(await toCome()).toBe('0');
    // What is damaged is not counted on, and named as `start` names it.
    const table = readdirSync(storePath(dataDir)).find((name) => /\.(?:ldb|log)$/.test(name)) ?? '';
    truncateSync(join(storePath(dataDir), table), 100);
    const { code, saying } = await examined(start);
    const damaged = new RegExp(`^Cannot read the store at ${storePath(dataDir)} \\(.* files are damaged`);
    expect([code, saying('store', 'problem')]).toEqual([74, expect.stringMatching(damaged)]);
    expect(saying('disk', 'ok')).toContain(`and ${HEAD + 1} heights to come`);
    expect(await runDaemonHere(start)).toMatchObject({ code: 74 });
  });

  it('names nodes that do not answer, are of another chain, or speak another protocol', async () => {
    const devnet = await node();
    const secret = (await HostedNode.before(devnet)).name;
    const faults: FaultRule[] = [{ method: '*', fault: 'error', code: 'UNIMPLEMENTED' }];
    const hollow = await devnetForTest({ startHead: 5, faults });
    const { address: stranger } = await HostedNode.before(devnet, 'renewed');
    const emulator = await devnetForTest({ chainId: 'flow-emulator', startHead: 5, paused: true });
    for (const [address, code, words] of [
      ['127.0.0.1:1', 69, /^Node 127\.0\.0\.1:1 does not answer: .*ECONNREFUSED.*; check that it runs/],
      [emulator.address, 76, FOREIGN],
      [secret, 69, `write grpcs://${secret}`],
      [stranger, 69, 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH'],
      [hollow.address, 69, /answers nothing but errors: .*UNIMPLEMENTED/],
    ] as const) {
      const found = await examinedOn(address);
      expect([found.code, found.saying('nodes', 'problem')]).toEqual([code, expect.stringMatching(words)]);
      if (code === 69) expect(found.saying('disk', 'ok')).toMatch(NO_HEAD);
    }
    const some = await examinedOn(devnet.address, '--access-node', '127.0.0.1:1');
    expect(some.code, 'one node is enough').toBe(0);
    expect(some.saying('nodes', 'warning')).toContain('Node 127.0.0.1:1 does not answer');
  });

  it('tells what a node lacks, and what the daemon does instead', async () => {
    const poor = await devnetForTest({
      ...{ seed: 3, profile: 'dense', startHead: HEAD, paused: true },
      ...{ streams: false, executionData: false },
      faults: [{ method: 'GetFullCollectionByID', fault: 'error', code: 'PERMISSION_DENIED' }],
    });
    const lacking = await examinedOn(poor.address);
    expect(lacking.code).toBe(0);
    const refused =
      /does not serve GetFullCollectionByID \(unauthenticated: .* gets collections the other way/;
    expect(lacking.saying('nodes', 'warning')).toMatch(refused);
    expect(lacking.saying('nodes', 'warning')).toContain('the daemon gets blocks the other way');
    expect(lacking.saying('nodes', 'warning')).toContain('No node sent execution data just now');
    const only = await examinedOn(poor.address, '--edi-only');
    expect([only.code, only.saying('nodes', 'problem')]).toEqual([69, expect.stringContaining('--edi-node')]);
    const lacks = { fault: 'error', code: 'UNIMPLEMENTED' } as const;
    const faults = (['GetBlockByHeight', 'SubscribeBlocksFromStartHeight'] as const).map(
      (method): FaultRule => ({ method, ...lacks }),
    );
    const { address: blockless } = await devnetForTest({ startHead: 5, faults });
    const alone = await examinedOn(blockless);
    expect(alone.code).toBe(69);
    expect(alone.saying('nodes', 'problem')).toMatch(/^No node serves blocks/);
    const beside = await examinedOn(blockless, '--access-node', poor.address);
    expect([beside.code, beside.saying('nodes', 'problem')]).toEqual([0, '']);

    const rootless = await devnetForTest({
      startHead: 5,
      faults: [
        { method: 'GetNodeVersionInfo', ...lacks },
        { method: 'GetBlockByHeight', fault: 'error', code: 'NOT_FOUND', fromHeight: 0, toHeight: 0 },
        { method: 'SubscribeBlocksFromStartHeight', ...lacks },
      ],
    });
    const fromRoot = await examinedOn(rootless.address, '--start-height', 'root');
    const unsaid = /^No node gives the root of .*a height for --start-h/;
    expect([fromRoot.code, fromRoot.saying('nodes', 'problem')]).toEqual([78, expect.stringMatching(unsaid)]);
    expect((await examinedOn(rootless.address, '--start-height', '1')).code).toBe(0);
    const young = await devnetForTest({ startHead: 5, nodeRootHeight: 3 });
    const low = await examinedOn(young.address, '--start-height', '2');
    expect(low.saying('nodes', 'warning')).toContain('begins at height 3, above the next height to index, 2');
  });

  it('counts planned heights once, however the plans overlap', async () => {
    const devnet = await node();
    const dataDir = scratchDirectory();
    const stop = ['--start-height', String(HEAD), '--stop-height', String(HEAD)];
    expect(await runDaemonHere(startArguments(devnet, dataDir, ...stop))).toMatchObject({ code: 0 });
    const plan = ['backfill', 'plan', '--from', '10', '--to', '30', ...storeFlags(dataDir)];
    expect(await runCommand(plan)).toMatchObject({ code: 0, stderr: '' });

    for (const [start, heights, toCome] of [
      [startArguments(devnet, dataDir), '5..35', 31],
      // Nothing is indexed yet, and a part of it is that of the live range.
      [startArguments(devnet, scratchDirectory(), '--start-height', '20'), `0..${HEAD}`, HEAD + 1],
    ] as const) {
      const { saying } = await examined([...start, '--backfill', heights]);
      expect(saying('disk', 'ok')).toContain(`and ${toCome} heights to come need`);
    }
    expect(await runCommand(['doctor', '--backfill', 'spork:x.9'])).toMatchObject({ code: 78, stdout: '' });
  });

  it('asks for blocks as they are proven from, which an indexer has not', async () => {
    const { daemon: source } = await indexedHere({ seed: 3, startHead: 8, hashedIds: true });
    const { saying } = await examinedOn(source.grpcAddress);
    expect(saying('nodes', 'warning')).toMatch(/as its --peer too\), nor any other call for blocks/);
    const believing = await examinedOn(source.grpcAddress, '--proof-mode', 'off');
    expect(believing.saying('nodes', 'warning')).not.toContain('blocks');
  });

  it('tells which peers give blocks, and what keeps others from it', async () => {
    const devnet = await node();
    const indexing = ['--start-height', 'root', '--no-edi'];
    const source = await daemonOn(devnet, ...indexing);
    await source.reaches(HEAD);
    const secrets = new TestSecrets('a-token-of-this-test-0123\n');
    const tokens = ['--api-tokens-file', secrets.tokensFile];
    const guarded = await daemonOn(devnet, ...indexing, ...tokens);
    await guarded.reaches(HEAD);
    const emulator = await devnetForTest({ chainId: 'flow-emulator', startHead: 5, paused: true });
    const peers = [source.grpcAddress, guarded.grpcAddress, devnet.address, emulator.address, '127.0.0.1:1'];
    const flags = peers.flatMap((peer) => ['--peer', peer]);
    const { code, saying } = await examinedOn(devnet.address, ...flags);
    expect(code, 'peers are no condition').toBe(0);
    const fine = `Peer ${source.grpcAddress} (flow-localnet, in the clear) sends its blocks.`;
    expect(saying('nodes', 'ok')).toContain(fine);
    const said = saying('nodes', 'warning');
    expect(said).toMatch(new RegExp(`Peer ${guarded.grpcAddress} refuses us: .*--access-metadata-file FILE`));
    expect(said).toContain(`Peer ${devnet.address} has no stream of indexed blocks: it is not an indexer`);
    expect(said).toContain(`Peer ${emulator.address} ${FOREIGN}`);
    expect(said).toMatch(/Peer 127\.0\.0\.1:1 does not answer: .*or name another --peer/);

    const older = await relayedPeer(source.grpcAddress, undefined, 'GetProvableBlock');
    const lacking = await examinedOn('none', '--peer', older.endpoint);
    expect(lacking.code).not.toBe(0);
    const unmirrored = `Peer ${older.endpoint} does not know GetProvableBlock, so it cannot be mirrored`;
    expect(lacking.saying('nodes', 'warning')).toContain(unmirrored);
    const mirrored = await examinedOn('none', '--peer', older.endpoint, '--peer', source.grpcAddress);
    expect(mirrored.code).toBe(0);
    expect(mirrored.saying('nodes', 'ok')).toContain(`Peer ${source.grpcAddress}`);

    const metadata = join(scratchDirectory(), 'metadata');
    const line = `${guarded.grpcAddress} authorization: Bearer a-token-of-this-test-0123\n`;
    writeFileSync(metadata, line, { mode: 0o644 });
    const known = ['--peer', guarded.grpcAddress, '--access-metadata-file', metadata];
    const fed = await examinedOn(devnet.address, ...known, '--access-metadata-without-tls');
    expect(fed.saying('nodes', 'ok')).toContain(`Peer ${guarded.grpcAddress}`);
    expect(fed.saying('exposure', 'warning')).toMatch(/which has a secret.*chmod 600/);
  });

  it('finds a disk that is in memory, or has no room', async () => {
    const devnet = await node();
    const small = smallFileSystem(16);
    if (small === undefined) return;
    const start = startArguments(devnet, join(small.path, 'data'), '--disk-min-free-bytes', '1MiB');
    const { code, saying } = await examined(start);
    expect(code).toBe(0);
    expect(saying('disk', 'warning')).toMatch(/is in memory \(tmpfs\)[^]*plan for a larger one/);
    const paused = await examined(startArguments(devnet, join(small.path, 'data')));
    expect(paused.code).toBe(74);
    const why = /paused: \d+ MiB are free on .*, and 640 MiB are needed/;
    expect(paused.saying('disk', 'problem')).toMatch(why);
    const soon = startArguments(devnet, join(small.path, 'data'), '--disk-min-free-bytes', '15MiB');
    const { code: exit, saying: said } = await examined(soon);
    const needed = /pauses soon, or is paused still: 1\d MiB are free on .*, and 19 MiB are needed/;
    expect([exit, said('disk', 'warning')]).toEqual([0, expect.stringMatching(needed)]);
    // As after a fault of the disk.
    small.remount('ro');
    const fixed = await examined(start);
    expect([fixed.code, fixed.saying('disk', 'problem')]).toEqual([
      74,
      expect.stringMatching('is read-only'),
    ]);
    // Without a bound of its own it gives its size as 0: that is not full.
    const boundless = startArguments(devnet, join(smallFileSystem(0)?.path ?? '', 'data'));
    expect((await examined(boundless)).saying('disk', 'ok')).toContain('does not say how much is free');
    const { code: ended } = await runDaemonHere([...boundless, '--stop-height', String(HEAD)]);
    expect(ended).toBe(0);
  });

  it('warns of what is exposed, of secrets that others can read and of a certificate that is over, and of nothing behind TLS and tokens', async () => {
    const devnet = await node();
    const secrets = new TestSecrets('a-token-of-this-test-0123\n');
    const exposed = async (...flags: string[]) => {
      const { code, saying } = await examinedOn(devnet.address, ...flags);
      return { code, said: (kind: string) => saying('exposure', kind) };
    };
    const wide = ['--api-host', '0.0.0.0', '--api-forward'];
    const open = await exposed(...wide, '--metrics-host', '0.0.0.0');
    expect(open.code).toBe(0);
    for (const flag of [
      ...['--api-tls-certificate-file', '--api-tokens-file', '--api-cors-origin', '--api-forward'],
      ...['--api-rate-per-second-per-address', '--metrics-host'],
    ])
      expect(open.said('warning')).toContain(flag);

    chmodSync(secrets.keyFile, 0o600);
    const guarded = await exposed(...wide, ...secrets.flags());
    expect([guarded.code, guarded.said('warning')]).toEqual([0, '']);
    expect(guarded.said('ok')).toMatch(/is valid until 2126/);

    const files = [secrets.keyFile, secrets.tokensFile];
    for (const file of files) chmodSync(file, 0o644);
    const told = (await exposed(...secrets.flags())).said('warning');
    for (const file of files)
      expect(told).toMatch(new RegExp(`${file}, which has a secret, .*\\(mode 644\\); chmod 600`));

    const expired = join(import.meta.dirname, '../data/tls/expired-cert.pem');
    const over = ['--api-tls-certificate-file', expired, '--api-tls-key-file', secrets.keyFile];
    const late = await exposed(...over);
    expect(late.code).toBe(78);
    expect(late.said('problem')).toMatch(/expired at 2020-01-02.*put a new one/);
    // Beside a certificate that cannot be used, the rest is told as well.
    const broken = await exposed(...wide, '--api-tls-certificate-file', secrets.tokensFile);
    expect(broken.said('problem')).toContain('it has no certificate in PEM');
    expect(broken.said('warning')).toContain('--api-tokens-file');
  });

  it('warns of a certificate that ends within two weeks, and finds one that is not valid yet', () => {
    const { certificateFile, keyFile } = new TestSecrets('a-token-of-this-test-0123\n');
    const config = { api: { tls: { certificateFile, keyFile } }, roles: ['api'] };
    for (const [date, verdict, message] of [
      ['2126-10-20', 'warning', /expires in 8 days, at 2126-10-28/],
      ['2001-01-01', 'problem', /is valid only from .*; check the clock/],
    ] as const) {
      const clock = { now: () => Date.parse(date) };
      const [found] = checkCertificate(config as unknown as DaemonConfig, clock);
      expect(found).toMatchObject({ verdict, message: expect.stringMatching(message) as string });
    }
  });
});

const postgres = usePostgres();

it('doctor, where a database holds the index: tells the server and what it holds, before and after', async () => {
  const devnet = await node();
  const { url } = await postgres.home({ isEmpty: true });
  const start = startArguments(devnet, scratchDirectory(), '--start-height', '0', '--store', url);
  const before = await examined(start);
  expect(before.code).toBe(0);
  expect(before.saying('store', 'ok')).toMatch(/PostgreSQL \d+.*, in the clear, as .*; no index yet\./);
  expect(await runDaemonHere([...start, '--stop-height', String(HEAD)])).toMatchObject({ code: 0 });
  const after = await examined(start);
  expect(after.saying('store', 'ok')).toMatch(new RegExp(`heights 0 to ${HEAD}, .* pg-boss schema \\d+`));
  const daemon = await startDaemon(start);
  daemon.program.child.kill('SIGSTOP');
  const stopped = await examined(start);
  const words = /^Process \d+ is the daemon of .*, and does not answer\..*-CONT/;
  expect([stopped.code, stopped.saying('store', 'problem')]).toEqual([69, expect.stringMatching(words)]);
  await daemon.program.stop('SIGKILL');
  await asAdmin(
    url,
    'UPDATE flow_store.coverage SET from_height = 9; INSERT INTO flow_store.coverage VALUES (0, 5)',
  );
  const holed = await examined(start);
  expect(holed.code).toBe(0);
  expect(holed.saying('store', 'warning')).toContain('lacks heights 6 to 8, and no plan fetches them');
  const nowhere = await examined([...start, '--store', 'postgres://127.0.0.1:1/none']);
  expect(nowhere.code).toBe(74);
  expect(nowhere.saying('store', 'problem')).toContain('127.0.0.1:1');
  const noReplica = await examined([...start, '--api-store', 'postgres://127.0.0.1:1/none']);
  expect(noReplica.saying('store', 'problem')).toContain('127.0.0.1:1');
  expect(noReplica.saying('store', 'ok')).toMatch(/heights 0 to/);
});
