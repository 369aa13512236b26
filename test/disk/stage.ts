import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { runCommand } from '../support/commandLine.js';
import { eventually, scratchDirectory, startProgram, type Program } from '../support/program.js';
import { proveStore } from '../support/provenStore.js';
import { devnetForTest, listening, runDaemonHere, startArguments } from '../support/runningDaemon.js';
import { startDaemon, startHere } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';
import { dumpStore, firstDifference, storeFlags, storePath } from '../support/storeDump.js';

/** Up to here in a first table, which holds the meta record. */
export const OLDEST = 20;
/** Up to here in a second one. */
export const SETTLED = 40;
/** Up to here in the write-ahead log, a batch for each height, when the process is killed. */
export const KILLED = 52;
export const FINAL = 60;

/** The watermark with which a daemon has opened its store; -1: none. */
export function openedAt(program: Pick<Program, 'logs'>): number {
  const opened = program.logs().find(({ msg }) => msg === 'store opened');
  return (opened as { readonly latestIndexedHeight?: number }).latestIndexedHeight ?? -1;
}

/** Nobody listens there: a daemon that only serves what it has. */
const nowhere = { address: '127.0.0.1:1' };

export class Stage {
  readonly #devnet: DevnetHandle;
  readonly #killed: string;
  readonly #reference: [Buffer, Buffer][];

  private constructor(devnet: DevnetHandle, killed: string, reference: [Buffer, Buffer][]) {
    this.#devnet = devnet;
    this.#killed = killed;
    this.#reference = reference;
  }

  static async set(): Promise<Stage> {
    const how = { seed: 41, profile: 'dense', startHead: OLDEST, paused: true, sealedLag: 0 } as const;
    const devnet = await devnetForTest(how);
    const killed = scratchDirectory();
    // Reading everything makes LevelDB merge the two tables.
    const args = startArguments(devnet, killed, '--start-height', '0', '--scrub-bytes-per-second', '0');
    for (const height of [OLDEST, SETTLED]) {
      devnet.node.head.set(height);
      expect(await runDaemonHere([...args, '--stop-height', String(height)])).toMatchObject({ code: 0 });
    }
    const daemon = await startDaemon(args);
    for (let height = SETTLED + 1; height <= KILLED; height += 1) {
      devnet.node.head.set(height);
      await daemon.reaches(height);
    }
    const note = join(storePath(killed), 'COVERAGE');
    await eventually(() => readFileSync(note, 'utf8').includes(`"to":${KILLED}}`));
    await daemon.program.stop('SIGKILL');

    devnet.node.head.set(FINAL);
    const faultless = scratchDirectory();
    const whole = startArguments(devnet, faultless, '--start-height', '0', '--stop-height', String(FINAL));
    expect(await runDaemonHere(whole)).toMatchObject({ code: 0 });
    return new Stage(devnet, killed, await dumpStore(faultless));
  }

  killedStore(): string {
    const dataDir = scratchDirectory();
    // A socket cannot be copied, and is nobody's without its daemon.
    cpSync(this.#killed, dataDir, { recursive: true, filter: (path) => !path.endsWith('.sock') });
    return dataDir;
  }

  async startAlone(dataDir: string, ...flags: readonly string[]): Promise<RunningDaemon | Program> {
    const program = startProgram(startArguments(nowhere, dataDir, '--start-height', '0', ...flags));
    return listening(program).catch(() => program);
  }

  /** Starts a daemon that follows the node, which gives no bodies until `give` is called. */
  async startBeside(dataDir: string, ...flags: readonly string[]) {
    const { node } = this.#devnet;
    const ways = ['GetFullCollectionByID', 'GetCollectionByID', 'SubscribeExecutionData*'] as const;
    node.setFaults(ways.map((method) => ({ method, fault: 'error', code: 'NOT_FOUND' }) as const));
    const daemon = await startDaemon(startArguments(this.#devnet, dataDir, ...flags));
    return { daemon, give: () => node.setFaults([]) };
  }

  /** Asks for everything: each answer is right, or says that the height is not indexed, or healing. Gives how many said that. */
  async askEverything(daemon: RunningDaemon) {
    const { latestIndexed } = await daemon.status();
    const watermark = latestIndexed ?? -1;
    let refused = 0;
    const ask = async (path: string, height: number, id: string): Promise<void> => {
      const { status, body } = await daemon.api(path);
      const what = `${path}, height ${height} of ${watermark}: ${JSON.stringify(body)}`;
      const isHealing = status === 503;
      if (isHealing) refused += 1;
      else expect(status, what).toBe(height > watermark ? 404 : 200);
      if (isHealing) expect(body, what).toMatchObject({ reason: 'healing' });
      else if (status === 200) expect(JSON.stringify(body), what).toContain(id);
    };
    for (let height = 0; height <= FINAL; height += 1) {
      const { id, collections } = this.#devnet.chain.block(height);
      await ask(`/v1/blocks?height=${height}`, height, id);
      for (const { id: collectionId } of collections.slice(0, 2))
        await ask(`/v1/collections/${collectionId}?expand=transactions`, height, collectionId);
    }
    return { watermark, refused };
  }

  /** Proves the store equal to the faultless one. `isHealed`: a damaged block that nobody reads may be left, for `repair`. */
  async goesOn(dataDir: string, { isHealed = false } = {}): Promise<number> {
    const flags = ['--start-height', '0', '--stop-height', String(FINAL)];
    const program = startHere(startArguments(this.#devnet, dataDir, ...flags));
    expect(await program.exited, program.stderr).toBe(0);
    if (isHealed) {
      const verified = await runCommand(['verify', ...storeFlags(dataDir)]);
      // It leaves out damaged blocks, and with them the sound pointers of such a block.
      expect(verified.stdout).not.toMatch(/at height \d+ \((?!pointer)/);
      if (verified.code !== 0)
        expect(await runCommand(['repair', ...storeFlags(dataDir), '--yes'])).toMatchObject({ code: 0 });
    }
    const range = { firstHeight: 0, latestHeight: FINAL, chainAt: () => this.#devnet.chain };
    await proveStore(dataDir, range);
    expect(firstDifference(await dumpStore(dataDir), this.#reference)).toBeUndefined();
    return openedAt(program);
  }
}
