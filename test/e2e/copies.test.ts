import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { create } from 'tar';
import { afterEach, describe, expect, it } from 'vitest';
import { runCommand } from '../support/commandLine.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { devnetForTest, runDaemonHere, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import { dumpStore, firstDifference, storeFlags, storePath } from '../support/storeDump.js';

const HEIGHTS = 700;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Serves one body under any path. */
async function serveBytes(body: Buffer): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-length': body.length }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/snapshot.tar`;
}

function archive(directory: string): Promise<Buffer> {
  return create({ cwd: directory, gzip: true }, ['.']).concat();
}

/** Indexes the chain while copies are made, one after the other, and stops. */
async function copiedUnderLoad(times: number) {
  const devnet = await devnetForTest({ seed: 11, startHead: HEIGHTS - 1, paused: true, sealedLag: 0 });
  const dataDir = scratchDirectory();
  const daemon = await startDaemonHere(startArguments(devnet, dataDir, '--start-height', '0'));
  const copies: string[] = [];
  for (let index = 0; index < times; index += 1) {
    const to = join(scratchDirectory(), 'copy');
    const done = await runCommand(['backup', '--to', to, ...storeFlags(dataDir)]);
    expect(done).toMatchObject({ code: 0, stderr: '' });
    copies.push(to);
  }
  await eventually(async () => {
    const { body } = await daemon.api('/status');
    return (body as { latestIndexed: number }).latestIndexed === HEIGHTS - 1 ? true : undefined;
  });
  await daemon.program.stop();
  const last = join(scratchDirectory(), 'last');
  expect(await runCommand(['backup', '--to', last, ...storeFlags(dataDir)])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      new RegExp(`Heights 0 to ${HEIGHTS - 1}; \\d+ tables, \\d+ MiB as hard links, \\d+ MiB copied`),
    ) as string,
  });
  return { devnet, dataDir, copies, last };
}

/** Copies that are none, and those that are refused: test/integration/storage/restore.test.ts. */
describe('copies of a store', () => {
  it('are made under a running daemon, hold whole blocks, and grow on', async () => {
    const { devnet, dataDir, copies, last } = await copiedUnderLoad(2);
    for (const copy of [...copies, last]) {
      const verified = await runCommand(['verify', '--network', 'devnet', '--data-dir', copy]);
      expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining('no damage') as string });
    }
    // Tables are shared with the store: a copy costs hardly any space.
    const tables = readdirSync(storePath(last)).filter((name) => name.endsWith('.ldb'));
    expect(tables.some((name) => statSync(join(storePath(last), name)).nlink > 1)).toBe(true);

    const [first = ''] = copies;
    const stop = ['--start-height', '0', '--stop-height', String(HEIGHTS - 1)];
    expect(await runDaemonHere(startArguments(devnet, first, ...stop))).toMatchObject({ code: 0 });
    expect(firstDifference(await dumpStore(first), await dumpStore(dataDir))).toBeUndefined();
  });

  it('become a store again, from a directory or an archive, only where there is none', async () => {
    const { devnet, dataDir, last } = await copiedUnderLoad(0);
    const restored = scratchDirectory();
    const restore = ['restore', '--from', last, '--network', 'devnet', '--data-dir', restored];
    expect(await runCommand(restore)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`Restored and verified: heights 0 to ${HEIGHTS - 1}`) as string,
    });
    expect(firstDifference(await dumpStore(restored), await dumpStore(dataDir))).toBeUndefined();
    expect(await runCommand(restore)).toMatchObject({
      code: 74,
      stderr: expect.stringContaining('already, and nothing is ever replaced') as string,
    });

    {
      const url = await serveBytes(await archive(last));
      const seeded = scratchDirectory();
      const stop = ['--stop-height', String(HEIGHTS - 1), '--from-snapshot', url];
      expect(await runDaemonHere(startArguments(devnet, seeded, ...stop))).toMatchObject({ code: 0 });
      expect(firstDifference(await dumpStore(seeded), await dumpStore(dataDir))).toBeUndefined();
      // The second time there is a store, and the address may be gone.
      for (const close of closing.splice(0)) close();
      expect(await runDaemonHere(startArguments(devnet, seeded, ...stop))).toMatchObject({ code: 0 });
    }
  });
});
