import { onTestFinished } from 'vitest';
import type { Window } from '../../../src/collections/index.js';
import { finalizedBlocks, followHeads, type FinalizationListener } from '../../../src/finality/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { isAbort } from '../../../src/runtime/index.js';
import { WorkSignal } from '../../../src/jobqueue/index.js';
import type { FinalizedBlocksOptions } from '../../../src/finality/index.js';
import type { ChainDependencies } from '../../../src/finality/ports.js';
import { seededRandom, RecordingLogger, VirtualClock, windowOf } from '../../support/index.js';
import type { BlockHead } from '../../../src/storage/index.js';
import { FakeAccessNode, FakeAccessNodes, FakeChain } from './fakeAccessNodes.js';
export { numbers as range } from '../../support/index.js';

class Tally {
  readonly counts: Record<string, number> = {};
  inc(labels: Record<string, string>): void {
    const key = Object.entries(labels)
      .filter(([name]) => name !== 'endpoint')
      .map(([, value]) => value)
      .join(' ');
    this.counts[key] = (this.counts[key] ?? 0) + 1;
  }
}

/** A network in memory, which ends with its test. */
export class World {
  readonly clock = new VirtualClock();
  readonly logger = new RecordingLogger();
  readonly streamReopens = new Tally();
  readonly invalidBlocks = new Tally();
  readonly chain = new FakeChain();
  readonly nodes: FakeAccessNodes;
  readonly stop = new AbortController();
  readonly #running: Promise<unknown>[] = [];
  #isEnded = false;
  indexed = 0;

  constructor(...names: string[]) {
    onTestFinished(() => (this.#isEnded ? undefined : this.end()));
    this.nodes = new FakeAccessNodes(names.map((name) => new FakeAccessNode(name, this.chain)));
  }

  node(name: string): FakeAccessNode {
    const node = this.nodes.all.find((candidate) => candidate.name === name);
    if (node === undefined) throw new Error(`no node ${name}`);
    return node;
  }

  /** The node gives these blocks as finalized, whatever its chain has there. */
  gives(name: string, ...blocks: readonly FinalizedBlock[]): void {
    for (const block of blocks) this.node(name).odd.set(block.height, { block, status: 'finalized' });
  }

  /** A block off the chain that links to what is below it. */
  strayed(height: number, fork = 'fork'): FinalizedBlock {
    return { ...this.chain.fork(fork, height).block(height), parentId: this.chain.idAt(height - 1) };
  }

  advance(finalized: number, sealed?: number): void {
    for (const node of this.nodes.all) node.advance(finalized, sealed);
  }

  common() {
    return {
      nodes: this.nodes,
      clock: this.clock,
      random: seededRandom(1),
      latestBlock: () => this.chain.block(this.indexed),
      logger: this.logger,
      metrics: { streamReopens: this.streamReopens, invalidBlocks: this.invalidBlocks },
    };
  }

  run(part: { run(signal: AbortSignal): Promise<void> }): void {
    // What it rejects with is looked at in `end`.
    const ended = part.run(this.stop.signal).catch((error: unknown) => {
      if (!isAbort(error)) throw error;
    });
    ended.catch(() => undefined);
    this.#running.push(ended);
  }

  /** Ends everything that was run; fails when something of it failed, or left a timer or a stream behind. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.stop.abort();
    await Promise.all(this.#running);
    await this.clock.settle();
    const openStreams = this.nodes.all.reduce((sum, node) => sum + node.openStreams, 0);
    if (this.clock.pendingTimers > 0 || openStreams > 0)
      throw new Error(`left behind: ${this.clock.pendingTimers} timers, ${openStreams} streams`);
  }

  /** One that runs; at the start all nodes stand at these heads, where they are given. */
  listener(finalized?: number, sealed?: number): FinalizationListener {
    if (finalized !== undefined) this.advance(finalized, sealed);
    const listener = followHeads(this.common());
    this.run(listener);
    return listener;
  }
}

/** FinalizedBlocks above a durable chain whose watermark the test moves. */
export class Reading {
  readonly world: World;
  readonly blocks: ReturnType<typeof finalizedBlocks>;
  readonly heights: Window;
  readonly signal = new WorkSignal();
  readonly replaced: { readonly height: number; readonly id: string }[] = [];
  watermark: number;
  latest: BlockHead | undefined;
  head = 0;

  constructor(
    world: World,
    options: Omit<FinalizedBlocksOptions, 'backoffMinMs' | 'backoffMaxMs'> & {
      readonly window: number;
      readonly stopHeight?: number;
      readonly watermark?: number;
      readonly empty?: boolean;
      readonly storedBlock?: ChainDependencies['storedBlock'];
      readonly headId?: ChainDependencies['headId'];
    },
  ) {
    this.world = world;
    const { window, stopHeight, watermark = 100, empty = false, storedBlock, ...rest } = options;
    const { headId = () => undefined, ...others } = rest;
    this.watermark = watermark;
    this.latest = empty ? undefined : world.chain.block(watermark);
    this.heights = windowOf(
      { latestIndexedHeight: () => this.watermark, hasHeight: () => false },
      { heights: window, stopHeight, head: () => this.head },
    );
    const pauses = { backoffMinMs: 250, backoffMaxMs: 10_000 };
    this.blocks = finalizedBlocks(
      { ...others, ...pauses },
      {
        ...{ ...world.common(), window: this.heights, signal: this.signal },
        headId,
        latestBlock: () => this.latest,
        onReplaced: (block, blockSource) => {
          this.replaced.push({ height: block.height, id: block.id });
          this.heights.drop(this.heights.at(block.height)!);
          this.heights.link(block, blockSource);
        },
        ...(storedBlock === undefined ? {} : { storedBlock }),
      },
    );
    world.run(this.blocks);
  }

  /** The network's head moves, we are told, and so much time passes. */
  async moveHead(head: number, thenMs = 0): Promise<void> {
    this.world.advance(head);
    this.head = head;
    this.heights.moved();
    this.blocks.notify();
    await this.world.clock.advance(thenMs);
  }

  /** Everything up to `height` becomes durable. */
  async makeDurable(height: number, block: BlockHead = this.world.chain.block(height)): Promise<void> {
    this.watermark = height;
    this.latest = block;
    for (const record of [...this.heights.all()]) {
      if (record.height > height) continue;
      record.missingCount = 0;
      if (record.status === 'collecting') this.heights.move(record, 'complete');
      this.heights.move(record, 'durable');
    }
    this.heights.moved();
    this.blocks.notify();
    await this.world.clock.settle();
  }

  idAt(height: number): string | undefined {
    return this.blocks.atIndex(height)?.block.id;
  }

  /** Heights whose blocks are read and linked, from the watermark on; the last one may still wait for its child. */
  linked(): number[] {
    const heights: number[] = [];
    for (let height = this.watermark + 1; this.blocks.blockAt(height) !== undefined; height += 1)
      heights.push(height);
    return heights;
  }

  /** Heights that a consumer could take now, from the watermark on, and which it has taken then: each lacks something. */
  available(): number[] {
    const heights: number[] = [];
    for (let height = this.watermark + 1; this.blocks.atIndex(height) !== undefined; height += 1) {
      heights.push(height);
      const record = this.heights.at(height)!;
      if (record.status !== 'linked') continue;
      record.missingCount = 1;
      this.heights.move(record, 'collecting');
    }
    return heights;
  }
}

/** A network of nodes with these names, and the reading of its blocks. */
export function reads(
  options: ConstructorParameters<typeof Reading>[1],
  ...names: string[]
): { readonly world: World; readonly reading: Reading } {
  const world = new World(...names);
  return { world, reading: new Reading(world, options) };
}

/** The same, and what it tells of its heads: the finalized one stands at 100, and so much time has passed. */
export async function follows(sealed: number, thenMs: number, ...names: string[]) {
  const world = new World(...names);
  const listener = world.listener(100, sealed);
  await world.clock.advance(thenMs);
  return { world, listener };
}
