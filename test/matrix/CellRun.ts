import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDevnet } from '../../src/devnet/index.js';
import type { DevnetHandle, DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import type { Readiness, ReadinessReason } from '../../src/observability/index.js';
import { HousedProgram } from '../support/HousedProgram.js';
import { listening, startArguments, type DaemonHere } from '../support/runningDaemon.js';
import type { Cell } from './cells.js';
import { ORDINARY } from './expectations.js';
import { MAX_MESSAGE } from './faults.js';
import type { Phase } from './subjects.js';

/** Far enough behind that the head is not reached while a cell lasts. */
const CATCH_UP_HEIGHTS = 3_000;
const TIP_HEIGHTS = 40;
const BLOCK_INTERVAL_MS = 800;
const SEALED_LAG = 2;
const WINDOW = 16;
/** At the tip: blocks behind the head that are still "with it". Execution data comes when a block is sealed. */
const TIP_LAG = 5;
/** At the tip: blocks above the head of the moment when something changed. */
const NEW_BLOCKS = 3;
/** While catching up: blocks above the window that the streams may have under way. */
const BUFFERED_BLOCKS = 8;
const ENDED_MS = 10_000;
const TWO = { min: 2, max: 2 };

/** So slow that catching up lasts: ten blocks in a second, and little execution data on its way when a fault begins. */
const slowBlocks: readonly FaultRule[] = [
  { method: 'SubscribeBlocksFromStartHeight', fault: 'latency', delayMs: 100 },
  { method: 'GetBlockByHeight', fault: 'latency', delayMs: 500 },
  { method: 'SubscribeExecutionData*', fault: 'latency', delayMs: 110 },
];

const ofMode: Readonly<Record<Cell['subject']['mode'], readonly string[]>> = {
  hybrid: [],
  requester: ['--no-edi'],
  ediOnly: ['--edi-only'],
  peer: ['--no-edi'],
};

export interface Look {
  readonly atMs: number;
  readonly watermark: number;
  readonly reasons: readonly Pick<ReadinessReason, 'code' | 'message'>[];
}

/** The nodes of a cell, and the daemon before them. The first node is the one that the fault befalls. */
export class CellRun {
  readonly cell: Cell;
  readonly nodes: readonly DevnetHandle[];
  readonly #directory: string;
  readonly #normal: readonly FaultRule[];
  #program: HousedProgram;
  #daemon: DaemonHere | undefined;
  /** Heights that a look must be above to show that something new came. */
  #above = -1;

  static async start(cell: Cell): Promise<CellRun> {
    const isBehind = cell.phase === 'catching up';
    const normal = isBehind ? slowBlocks : [];
    const options: DevnetOptions = {
      seed: 11,
      // A forged block is one that its id refutes. No cell is about certificates: to sign them takes the time of all others.
      hashedIds: cell.subject.told === 'blocks',
      certificatesEvery: 0,
      profile: { base: 'dense', collectionsPerBlock: TWO, transactionsPerCollection: TWO },
      startHead: isBehind ? CATCH_UP_HEIGHTS : TIP_HEIGHTS,
      blockIntervalMs: BLOCK_INTERVAL_MS,
      sealedLag: SEALED_LAG,
      cacheBytes: 4 * 1024 * 1024,
      ...cell.subject.node,
    };
    const struck = await startDevnet({ ...options, faults: normal });
    const honest = cell.subject.way === 'node' ? [await startDevnet({ ...options, faults: normal })] : [];
    const run = new CellRun(cell, [struck, ...honest], normal);
    if (cell.phase === 'restart') {
      await run.healthy();
      await run.#program.stop();
      run.fault();
      run.restart();
    }
    return run;
  }

  private constructor(cell: Cell, nodes: readonly DevnetHandle[], normal: readonly FaultRule[]) {
    this.cell = cell;
    this.nodes = nodes;
    this.#normal = normal;
    this.#directory = mkdtempSync(join(tmpdir(), 'fci-matrix-'));
    // Of an empty store the first question is asked before anything else happens here.
    if (cell.phase === 'start') this.fault();
    this.#program = this.#start();
  }

  get daemon(): DaemonHere {
    if (this.#daemon === undefined) throw new Error(`the daemon does not listen: ${this.#program.stderr}`);
    return this.#daemon;
  }

  get ending() {
    const { endedWith: code, stderr } = this.#program;
    return code === undefined ? undefined : { code, message: stderr.trim() };
  }

  /** Resolves once the daemon listens, or has ended. */
  async listens(): Promise<void> {
    const listens = listening(this.#program).then((daemon) => (this.#daemon = daemon));
    await Promise.race([listens, this.#program.exited]);
  }

  async ended(withinMs: number): Promise<void> {
    await Promise.race([this.#program.exited, pause(withinMs)]);
  }

  #start(): HousedProgram {
    const [struck = '', ...honest] = this.nodes.map(({ address }) => address);
    // The struck node is a peer, or one of the access nodes.
    const isPeer = this.cell.subject.mode === 'peer';
    const [first = '', ...others] = isPeer ? honest : [struck, ...honest];
    const flags = [
      ...others.flatMap((address) => ['--access-node', address]),
      ...(isPeer ? ['--peer', struck] : []),
      ...['--start-height', 'root', '--window', String(WINDOW), '--access-max-message-bytes', MAX_MESSAGE],
      ...ofMode[this.cell.subject.mode],
    ];
    return new HousedProgram(startArguments({ address: first }, this.#directory, ...flags));
  }

  restart(): void {
    this.#program = this.#start();
  }

  async healthy(): Promise<Look> {
    await this.listens();
    const byMs = performance.now() + 30_000;
    for (;;) {
      const look = await this.look();
      const isUnderWay =
        this.cell.phase === 'catching up'
          ? look.watermark >= NEW_BLOCKS
          : this.isWithHead(look) && look.reasons.length === 0;
      if (isUnderWay) return look;
      if (performance.now() > byMs) throw new Error(`not healthy before the fault: ${JSON.stringify(look)}`);
      await pause();
    }
  }

  fault(watermark = -1): void {
    const { struck } = this.cell.subject;
    this.#set([...this.#normal, ...struck.flatMap((method) => this.cell.fault.rulesFor(method))], watermark);
  }

  fix(watermark: number): void {
    this.#set(this.#normal, watermark);
  }

  #set(rules: readonly FaultRule[], watermark: number): void {
    this.nodes[0]?.node.setFaults(rules);
    this.#above =
      this.cell.phase === 'catching up' ? watermark + WINDOW + BUFFERED_BLOCKS : this.#head() + NEW_BLOCKS;
  }

  async look(): Promise<Look> {
    // One after the other: what the second tells is not older than what the first told.
    const { body } = await this.daemon.health('/readyz');
    const { reasons } = body as Readiness;
    // A server that ends refuses in other words.
    if (!Array.isArray(reasons)) throw new Error(`/readyz: ${JSON.stringify(body)}`);
    const { latestIndexed } = await this.daemon.status();
    return { atMs: performance.now(), watermark: latestIndexed ?? -1, reasons };
  }

  /** The watermark stands at a height that came after the last change, and with the head where it was there. */
  isProgress(look: Look): boolean {
    return look.watermark >= this.#above && this.isWithHead(look);
  }

  isWithHead({ watermark }: Look): boolean {
    return this.cell.phase === 'catching up' || Math.abs(this.#head() - watermark) <= TIP_LAG;
  }

  causes({ reasons }: Look): Look['reasons'] {
    return reasons.filter(({ code }) => !ORDINARY[this.cell.phase].includes(code));
  }

  #head(): number {
    return Math.max(...this.nodes.map(({ node }) => node.head.finalized));
  }

  async close(): Promise<void> {
    const ending = await Promise.race([this.#program.stop(), pause(ENDED_MS)]);
    for (const node of this.nodes) {
      await node.close();
      // A bug of the devnet is told here.
      await node.finished;
    }
    rmSync(this.#directory, { recursive: true, force: true });
    if (ending === undefined) throw new Error('the daemon did not stop');
  }
}

export const isFromTheStart = (phase: Phase): boolean => phase === 'start' || phase === 'restart';

export async function pause(ms = 250): Promise<undefined> {
  await new Promise((resolve) => setTimeout(resolve, ms).unref());
  return undefined;
}
