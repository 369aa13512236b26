import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { blocksOf, devnetForTest, EventReader, indexedHere, probeOn, refused } from '../support/daemons.js';
import { runCommand, scratchDirectory, startArguments, startDaemonHere } from '../support/daemons.js';
import { stopAndProve, storeFlags, type DaemonHere } from '../support/daemons.js';
import { flip, keyOf, withRawDatabase } from '../support/rawStore.js';

const HEAD = 70;
const chain = { seed: 31, startHead: HEAD, paused: true, hashedIds: true } as const;
const whole = (node: DevnetHandle) => ({
  ...{ firstHeight: 0, latestHeight: HEAD },
  chainAt: () => node.chain,
});

it('a daemon on a chain whose blocks can be proven gives documents from which another program proves a transaction, with and without a daemon', async () => {
  const { daemon, dataDir, devnet: node } = await indexedHere(chain);
  const { block: filled, collection } = blocksOf(node.chain, 0, HEAD - 1)
    .flatMap((block) => block.collections.map((each) => ({ block, collection: each })))
    .find(({ collection: { transactions } }) => transactions.length > 1)!;
  const id = collection.transactionIds.toString('hex', 32, 64);
  const served = await daemon.api(`/proof/transaction/${id}?to=${HEAD}`);
  expect(served.status).toBe(200);
  const ask = () => runCommand(['prove', id, '--to', String(HEAD), ...storeFlags(dataDir)]);
  const running = await ask();
  await stopAndProve(daemon, dataDir, whole(node));
  const stopped = await ask();
  for (const { code, stdout } of [running, stopped]) {
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(served.body);
  }
  const file = join(dataDir, 'proof.json');
  writeFileSync(file, stopped.stdout);
  const anchor = `${HEAD}:${node.chain.block(HEAD).id}`;
  const example = ['docs/examples/check-proof.mjs', file, anchor];
  const proven = execFileSync(process.execPath, example, { encoding: 'utf8' });
  expect(proven).toContain(`block ${filled.height}:${filled.id}`);
  expect(proven).toContain(`transaction ${id}`);
  const checked = (...args: string[]) => runCommand(['check-proof', file, ...args]);
  const held = await checked('--checkpoint', anchor);
  expect(held).toMatchObject({ code: 0, stderr: '' });
  expect(held.stdout).toBe(proven.replace('From ', 'From block '));
  expect(await checked()).toMatchObject({
    ...{ code: 0, stdout: held.stdout, stderr: expect.stringContaining('Compare the ID') as string },
  });
  // A parent that is no shell passes a socket, which cannot be opened by name.
  const piped = ['dist/main.js', 'check-proof', '-', '--checkpoint', anchor];
  const options = { encoding: 'utf8', input: stopped.stdout } as const;
  expect(execFileSync(process.execPath, piped, options)).toBe(held.stdout);
  const other = `${HEAD}:${node.chain.block(HEAD - 1).id}`;
  const elsewhere = { stdout: '', ...refused(65, `all follows from ${anchor}`) };
  expect(await checked('--checkpoint', other)).toMatchObject(elsewhere);
  expect(await checked('--checkpoint', '12')).toMatchObject({ code: 64, stdout: '' });
  expect(await runCommand(['check-proof', join(dataDir, 'none.json')])).toMatchObject({ code: 64 });
  const beyond = await runCommand(['prove', '1', '--to', '900', ...storeFlags(dataDir)]);
  expect(beyond).toMatchObject({ code: 66, stdout: '' });
});

describe('a daemon whose readers see only what is proven final', () => {
  const MINORITY_FROM = 61;
  /** Two below the last block whose certificate holds; block 50 has one of the timeouts. */
  const PROVEN = MINORITY_FROM - 3;
  /** To sign a block takes as long as all else with it. */
  const TOP = 44;
  const certified = { ...chain, startHead: TOP, certificatesEvery: 1 };
  const flags = ['--start-height', 'root', '--proof-finality', 'proven'];
  const heightOf = async (daemon: DaemonHere, query: string) => {
    const { body, status } = await daemon.api(`/v1/blocks?${query}`);
    return status === 200 ? Number((body as { header: { height: string } }[])[0]?.header.height) : status;
  };
  const proven = (daemon: DaemonHere, height: number) =>
    daemon.scrapeUntil((metrics) => metrics.value('proven_height') === height);

  it('indexes on where a minority signs, says so, and shows nothing above the proven height, also after a restart', async () => {
    const node = await devnetForTest({
      ...chain,
      ...{ startHead: MINORITY_FROM - 1, certificatesEvery: 1, minorityFrom: MINORITY_FROM },
    });
    const dataDir = scratchDirectory();
    const soon = ['--ready-max-lag', '5', '--index-accounts'];
    const daemon = await startDaemonHere(startArguments(node, dataDir, ...flags, ...soon));
    await proven(daemon, PROVEN);
    expect((await daemon.health('/readyz')).status).toBe(200);
    const stream = await EventReader.open(`${daemon.apiUrl}/events?from=${PROVEN - 1}`);

    node.node.head.set(HEAD);
    await daemon.reaches(HEAD);
    const failed = await daemon.reason('proof_failed');
    expect((await daemon.reasons()).map(({ code }) => code)).toContain('behind');
    expect(failed.height).toBeGreaterThanOrEqual(MINORITY_FROM);
    expect(failed.message).toContain(`rewind to that height`);
    expect(failed.message).toContain(`the chain is proven up to ${PROVEN}`);

    const status = await daemon.status();
    expect(status).toMatchObject({ latestIndexed: PROVEN, lag: HEAD - PROVEN, ready: false });
    expect(status.proof).toMatchObject({ finality: 'proven', provenHeight: PROVEN });
    expect(await heightOf(daemon, 'height=final')).toBe(PROVEN);
    expect(await heightOf(daemon, `height=${PROVEN + 1}`)).toBe(404);
    const { id } = node.chain.block(PROVEN + 1);
    expect((await daemon.api(`/v1/blocks/${id}`)).status).toBe(404);
    expect((await daemon.api(`/explain/${PROVEN + 1}`)).body).toMatchObject({ stage: 'awaiting_proof' });
    expect((await daemon.api(`/v1/blocks?height=${PROVEN}`)).body).toMatchObject([{ proven: true }]);
    expect(await probeOn(daemon.grpcAddress).call('GetLatestBlock')).toMatchObject({
      block: { height: String(PROVEN) },
      metadata: { latest_finalized_height: String(PROVEN) },
    });
    const events = (await stream.first(2)).map(({ data }) => data);
    expect(events).toMatchObject([PROVEN - 1, PROVEN].map((height) => ({ height, proven: true })));
    stream.close();
    expect(await daemon.program.stop()).toBe(0);

    // A closed store knows no proven height: it gives no certificate that its checker would refuse.
    const prove = (height: number) => runCommand(['prove', String(height), ...storeFlags(dataDir)]);
    expect(await prove(PROVEN)).toMatchObject({ code: 0 });
    expect(await prove(PROVEN + 1)).toMatchObject({
      stdout: '',
      ...refused(66, /^No certificate that is stored proves it: the certificate in .* a devnet signs few /),
    });

    // The store keeps who signs: without a node it is proven again from that.
    await node.close();
    const alone = await startDaemonHere(startArguments(node, dataDir, ...flags));
    await proven(alone, PROVEN);
    expect(await alone.status()).toMatchObject({ latestIndexed: PROVEN, proof: { provenHeight: PROVEN } });
    expect(await heightOf(alone, `height=${PROVEN}`)).toBe(PROVEN);
    await alone.program.stop();
  });

  it('prove themselves final from the anchor on, after a restart without a snapshot, also while a height heals', async () => {
    const node = await devnetForTest(certified);
    const dataDir = scratchDirectory();
    const start = () => startDaemonHere(startArguments(node, dataDir, ...flags));
    const snapshots = async (daemon: DaemonHere) => {
      const metrics = await proven(daemon, TOP - 2);
      return metrics.sum('upstream_requests_total', { method: 'GetProtocolStateSnapshotByHeight' });
    };
    const first = await start();
    expect(await snapshots(first)).toBe(1);
    expect(await first.program.stop()).toBe(0);
    await withRawDatabase(join(dataDir, 'index'), (database) => flip(database, keyOf(0x10, 20)));
    node.node.setFaults([{ method: '*', fault: 'error', code: 'UNAVAILABLE', fromHeight: 20, toHeight: 20 }]);
    const daemon = await start();
    expect(await snapshots(daemon)).toBe(0);
    await daemon.api('/v1/blocks?height=20');
    await daemon.statusUntil((status) => status.firstIndexed === 21);
    node.node.head.set(TOP + 1);
    await proven(daemon, TOP - 1);
    const { anchor } = (await daemon.status()).proof;
    expect(anchor).toMatchObject({ kind: 'first_use', height: 0, id: node.chain.block(0).id });
    node.node.setFaults([]);
    await daemon.statusUntil((status) => status.firstIndexed === 0);
    const served = await daemon.api('/proof/block/40');
    expect(served.body).toMatchObject({ way: [{ headers: [expect.any(String)] }] });
    // Certificates prove only what has two blocks above.
    expect((await daemon.api(`/proof/block/${TOP - 1}`)).body).not.toHaveProperty('way');
    expect((await daemon.api('/proof/block/0')).body).not.toHaveProperty('way');
    expect(await daemon.program.stop()).toBe(0);
    const { code, stdout } = await runCommand(['prove', '40', ...storeFlags(dataDir)]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(served.body);

    const verified = (id: string) =>
      runCommand(['verify', '--proof-checkpoint', `40:${id}`, ...storeFlags(dataDir)]);
    expect(await verified(node.chain.block(40).id)).toMatchObject({ code: 0 });
    const another = await verified(node.chain.block(41).id);
    expect(another.code).toBe(65);
    expect(another.stdout).toContain(`damage at height 40 (foreign): block of height 40: its id is`);
    expect(another.stdout).toContain('1 problem; index again into another --data-dir');

    const file = join(dataDir, 'proof.json');
    writeFileSync(file, stdout);
    const trusted = `0:${node.chain.block(0).id}`;
    const line = `block 40:${node.chain.block(40).id} of flow-localnet`;
    const example = execFileSync(process.execPath, ['docs/examples/check-proof.mjs', file, trusted]);
    const own = await runCommand(['check-proof', file, '--checkpoint', trusted]);
    for (const said of [example.toString(), own.stdout]) {
      expect(said).toContain(line);
      expect(said).toContain('is final');
    }
    expect(own.code).toBe(0);
  });
});
