import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDevnet } from '../../src/devnet/index.js';
import type { DevnetHandle } from '../../src/devnet/index.js';
import type { OwnPostgres } from '../../scripts/postgres.mjs';
import { ownServer } from '../support/postgresServer.js';
import { Program } from '../support/program.js';
import { startArguments } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';
import { demand } from '../support/campaign.js';

/** Room for the databases of a few scenes. */
const SMALL_DISK_MIB = 3_000;

/** What all scenes share: a simulated node, a database server, and the index that one machine makes of the chain. */
export class World {
  readonly devnet: DevnetHandle;
  readonly server: OwnPostgres;
  /** The last height that is compared. */
  readonly lastHeight: number;
  /** SHA-256 of the export of a straight run on LevelDB, root to `lastHeight`. */
  readonly digest: string;
  /** The disk of the server, which is small enough to be filled; `undefined` where this user may mount none. */
  readonly smallDisk: string | undefined;
  readonly #scratch: string;

  private constructor(parts: {
    readonly devnet: DevnetHandle;
    readonly server: OwnPostgres;
    readonly lastHeight: number;
    readonly digest: string;
    readonly smallDisk: string | undefined;
    readonly scratch: string;
  }) {
    this.devnet = parts.devnet;
    this.server = parts.server;
    this.lastHeight = parts.lastHeight;
    this.digest = parts.digest;
    this.smallDisk = parts.smallDisk;
    this.#scratch = parts.scratch;
  }

  static async open({ seed, heights }: { readonly seed: number; readonly heights: number }): Promise<World> {
    const lastHeight = heights - 1;
    const devnet = await startDevnet({
      ...{ seed, profile: 'mainnet', startHead: lastHeight, paused: true, sealedLag: 0, port: 0 },
    });
    const scratch = mkdtempSync(join(tmpdir(), 'fci-cluster-'));
    const dataDir = join(scratch, 'straight');
    const straight = startArguments(
      devnet,
      dataDir,
      ...['--start-height', '0', '--stop-height', String(lastHeight)],
    );
    await run(straight);
    const digest = await exportDigest(storeFlags(dataDir), { scratch, lastHeight });
    const smallDisk = mountSmallDisk();
    const server = await ownServer({ max_connections: '200' }, smallDisk && join(smallDisk, 'server'));
    return new World({ devnet, server, lastHeight, digest, smallDisk, scratch });
  }

  /** A new directory, gone with the world. */
  directory(): string {
    return mkdtempSync(join(this.#scratch, 'd-'));
  }

  /** SHA-256 of the export of a store, root to `lastHeight`. */
  digestOf(where: readonly string[]): Promise<string> {
    return exportDigest(where, { scratch: this.#scratch, lastHeight: this.lastHeight });
  }

  async close(): Promise<void> {
    await this.devnet.close();
    await this.server.close();
    if (this.smallDisk !== undefined) {
      execFileSync('umount', ['-l', this.smallDisk]);
      rmSync(this.smallDisk, { recursive: true, force: true });
    }
    rmSync(this.#scratch, { recursive: true, force: true });
  }
}

/** A file system in memory; `undefined` where this user may mount none. */
function mountSmallDisk(): string | undefined {
  const path = mkdtempSync(join(tmpdir(), 'fci-disk-'));
  chmodSync(path, 0o755);
  try {
    const size = `size=${SMALL_DISK_MIB}m`;
    execFileSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', path], { stdio: 'ignore' });
    return path;
  } catch {
    rmSync(path, { recursive: true });
    return undefined;
  }
}

/** Runs a command to its end, which must be a good one. Expected errors: `Verdict`. */
export async function run(args: readonly string[]): Promise<string> {
  const program = new Program(args);
  const code = await program.exited;
  demand(code === 0, `${args.slice(0, 2).join(' ')} ended with ${code}: ${program.stderr}${program.stdout}`);
  return program.stdout;
}

async function exportDigest(
  where: readonly string[],
  { scratch, lastHeight }: { readonly scratch: string; readonly lastHeight: number },
): Promise<string> {
  const output = join(scratch, 'export.ndjson');
  rmSync(output, { force: true });
  await run(['export', '--from', '0', '--to', String(lastHeight), '--output', output, ...where]);
  const [last = '{}'] = readFileSync(output, 'utf8').trimEnd().split('\n').slice(-1);
  const { sha256, blocks } = JSON.parse(last) as { readonly sha256?: string; readonly blocks?: number };
  demand(
    sha256 !== undefined && blocks === lastHeight + 1,
    `the export holds ${blocks} blocks, not ${lastHeight + 1}`,
  );
  return sha256;
}
