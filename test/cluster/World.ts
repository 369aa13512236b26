import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { DevnetHandle } from '../../src/devnet/index.js';
import type { OwnPostgres } from '../../scripts/postgres.mjs';
import { atEnd } from '../support/cleanup.js';
import { ownServer } from '../support/postgresServer.js';
import { Program, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments } from '../support/runningDaemon.js';
import { smallFileSystem } from '../support/smallFileSystem.js';
import { storeFlags } from '../support/storeDump.js';
import { demand } from '../support/campaign.js';

/** Room for the databases of a few scenes. */
const SMALL_DISK_MIB = 3_000;

/** What all scenes share: a simulated node, a database server, and the index that one machine makes of the chain. */
export interface World {
  readonly devnet: DevnetHandle;
  readonly server: OwnPostgres;
  readonly lastHeight: number;
  /** SHA-256 of the export of a straight run on LevelDB, root to `lastHeight`. */
  readonly digest: string;
  /** The disk of the server, which is small enough to be filled; `undefined` where this user may mount none. */
  readonly smallDisk: string | undefined;
  /** SHA-256 of the export of a store, root to `lastHeight`. */
  digestOf(where: readonly string[]): Promise<string>;
}

export async function openWorld(seed: number, heights: number): Promise<World> {
  const lastHeight = heights - 1;
  const devnet = await devnetForTest({
    ...{ seed, profile: 'mainnet', startHead: lastHeight, paused: true, sealedLag: 0, port: 0 },
  });
  const dataDir = scratchDirectory();
  const straight = ['--start-height', '0', '--stop-height', String(lastHeight)];
  await run(startArguments(devnet, dataDir, ...straight));
  const output = join(scratchDirectory(), 'export.ndjson');
  const digestOf = async (where: readonly string[]): Promise<string> => {
    rmSync(output, { force: true });
    await run(['export', '--from', '0', '--to', String(lastHeight), '--output', output, ...where]);
    const [last = '{}'] = readFileSync(output, 'utf8').trimEnd().split('\n').slice(-1);
    const { sha256 = '', blocks } = JSON.parse(last) as {
      readonly sha256?: string;
      readonly blocks?: number;
    };
    demand(sha256 !== '' && blocks === heights, `the export holds ${blocks} blocks, not ${heights}`);
    return sha256;
  };
  const digest = await digestOf(storeFlags(dataDir));
  const smallDisk = smallFileSystem(SMALL_DISK_MIB)?.path;
  const server = await ownServer({ max_connections: '200' }, smallDisk && join(smallDisk, 'server'));
  atEnd(() => server.close());
  return { devnet, server, lastHeight, digest, smallDisk, digestOf };
}

/** Runs a command to its end, which must be a good one. Expected errors: `Verdict`. */
export async function run(args: readonly string[]): Promise<string> {
  const program = new Program(args);
  const code = await program.exited;
  demand(code === 0, `${args.slice(0, 2).join(' ')} ended with ${code}: ${program.stderr}${program.stdout}`);
  return program.stdout;
}
