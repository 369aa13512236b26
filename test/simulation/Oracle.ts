import { createHash } from 'node:crypto';
import type { Backfill } from '../../src/app/line/history/fillHistory.js';
import type { IndexingLine } from '../../src/app/line/buildLine.js';
import type { HeightRecord } from '../../src/collections/heights/HeightRecord.js';
import type { DaemonConfig } from '../../src/config/index.js';
import type { DevnetMethod, DevnetRequest } from '../../src/devnet/index.js';
import type { FinalizedBlock, Identifier } from '../../src/flow/index.js';
import { silentLogger, type Metrics } from '../../src/observability/index.js';
import { checkStoredProof } from '../../src/proof/index.js';
import { invalidBlockReasons } from '../../src/proof/blocks/BlockProver.js';
import type { RangeJob } from '../../src/ranges/index.js';
import type { Clock } from '../../src/runtime/index.js';
import { LevelIndexStore } from '../../src/storage/index.js';
import type { HeightRange, SporkRecord, StoreMeta } from '../../src/storage/index.js';
import type { Stretch } from './catalogue.js';
import type { CallObserver } from './SimulatedChannel.js';
import type { SimulatedClock } from './SimulatedClock.js';
import { DISK_PATH, SimulatedDatabase, type SimulatedDisk, type WriteFate } from './SimulatedDisk.js';
import type { Trace } from './Trace.js';
import { numbers } from '../support/ranges.js';
import { digestOf } from '../support/storeDigest.js';
import { chainEntries } from '../support/storeDump.js';

/** Blocks above the end of a spork that its nodes have, at most (catalogue.ts). */
const MAX_DISCARDED = 5;

/** In the report of a block that its id refutes. */
const FORGED_WORDS = 'does not fit its id';

/** The store wants to be repaired before it can be read. */
class NotToBeWritten extends Error {
  override readonly name = 'NotToBeWritten';
}

export class Violation extends Error {
  override readonly name = 'Violation';
}

export interface Watched {
  readonly store: LevelIndexStore;
  head: () => number | undefined;
  line: IndexingLine | undefined;
  history: () => ReturnType<Backfill['running']>;
}

export interface OracleParts {
  readonly config: DaemonConfig;
  readonly stretch: Stretch;
  /** Nodes may name collections that nobody gave. */
  readonly mayMeetForgeries: boolean;
  /** The block of this height may be stored on the word of the nodes. */
  readonly mayLackProof: (height: number) => boolean;
  readonly disk: SimulatedDisk;
  readonly clock: SimulatedClock;
  readonly trace: Trace;
}

const COLLECTION_METHODS: ReadonlySet<string> = new Set(['GetFullCollectionByID', 'GetCollectionByID']);

/** Holds every promise of docs/architecture.md ("Invariants") against what happens, as it happens. */
export class Oracle implements CallObserver {
  readonly #parts: OracleParts;
  readonly #config: DaemonConfig;
  readonly #stretch: Stretch;
  readonly #unproven = new Set<number>();
  readonly #forged = new Map<string, number>();
  /** A node did not answer the question for its spork, or for its first block. */
  #isSporkRefused = false;
  #watched: Watched | undefined;
  readonly #asked = new Map<number, { readonly id: string; readonly endpoint: string }>();
  /** The collection that a node has just said it cannot give in full. */
  #fallsBack: string | undefined;
  /** The highest height that is complete and durable; undefined before the store begins. */
  watermark: number | undefined;
  #above: ReadonlySet<number> = new Set();
  /** Durable above the watermark when the process began: passed over once the chain has borne them out, not before. */
  #inherited: ReadonlySet<number> = new Set();
  /** Heights that were covered, and found to be as on the chain. */
  readonly #checked = new Set<number>();
  /** The whole stretch is there, history included. */
  isComplete = false;
  #isDurableNew = false;
  #restartedAt: number | undefined;
  #done = new Set<number>();
  readonly #handedOut = new Set<number>();
  #violation: Violation | undefined;
  readonly #calls = new Map<string, number>();
  #callNumber = 0;
  callsInFlight = 0;
  #head = { height: -1, atMs: 0 };
  #processes = 0;
  #lines = 0;

  constructor(parts: OracleParts) {
    this.#parts = parts;
    ({ config: this.#config, stretch: this.#stretch } = parts);
  }

  /** Some blocks have no proof, though all could have one: the nodes that hid it do so no more, in the end. */
  get lacksProofs(): boolean {
    return this.#stretch.isProvable && this.#config.proof.mode !== 'off' && this.#unproven.size > 0;
  }

  fail(what: string): void {
    if (this.#violation !== undefined) return;
    this.#violation = new Violation(what);
    this.#parts.trace.add(`VIOLATION ${what}`);
  }

  throwIfViolated(): void {
    if (this.#violation !== undefined) throw this.#violation;
  }

  /** The head that it told is forgotten. */
  nodeIsForeign(): void {
    this.#head = { height: -1, atMs: 0 };
  }

  heldAgainst(endpoint: string, detail: string): void {
    if (detail.includes(FORGED_WORDS)) this.#forged.set(endpoint, (this.#forged.get(endpoint) ?? 0) + 1);
  }

  processStarts(watched: Watched): void {
    this.#watched = watched;
    this.#processes += 1;
    this.#asked.clear();
    this.#done.clear();
    this.#handedOut.clear();
    this.callsInFlight = 0;
    this.#head = { height: -1, atMs: 0 };
    const { store } = watched;
    this.#inherited = new Set(store.blocksAboveWatermark().map(({ height }) => height));
    if (store.meta() === undefined) {
      if (this.watermark !== undefined) this.fail('a store that had begun is empty after a restart');
      return;
    }
    // What the last process had written may have become durable with its end, and has not been looked at yet.
    if (this.#isDurableNew) this.#restartedAt = store.latestIndexedHeight();
    else this.#checkRestart(store.latestIndexedHeight());
  }

  #checkRestart(found: number): void {
    if (found !== this.watermark) this.fail(`restart at watermark ${found}, ${this.watermark} was durable`);
  }

  processEnds(): void {
    this.#watched = undefined;
    this.#asked.clear();
    this.callsInFlight = 0;
  }

  /** A line begins: its processor is watched, so that every `done` is seen. */
  lineStarts(line: IndexingLine): void {
    const watched = this.#watched;
    if (watched === undefined) throw new Error('a line without a process');
    watched.line = line;
    this.#lines += 1;
    this.#done.clear();
    let running = 0;
    const { processor } = line;
    const run = processor.run.bind(processor);
    processor.run = (job, done) => {
      const { height } = job;
      const { firstHeight, stopHeight } = this.#stretch;
      if (height < firstHeight || height > stopHeight)
        this.fail(`height ${height} is handed out, outside ${firstHeight} to ${stopHeight}`);
      if (height > watched.store.latestIndexedHeight() + this.#config.window)
        this.fail(`height ${height} is handed out above the window`);
      this.#parts.trace.add(`job ${height}`);
      this.#handedOut.add(height);
      running += 1;
      if (running > this.#config.maxProcessing) this.fail(`${running} jobs run at once`);
      run(job, () => {
        // What a process does in the turn in which it dies, nobody sees.
        if (this.#watched !== watched) return;
        this.#parts.trace.add(`done ${height}`);
        if (watched.line !== line) this.fail(`height ${height} is done in a line that ended`);
        if (this.#done.has(height)) this.fail(`height ${height} is done twice`);
        this.#done.add(height);
        if (!this.#isDurable(height)) this.fail(`height ${height} is done before it is durable`);
        running -= 1;
        done();
      });
    };
  }

  onCall(endpoint: string, method: DevnetMethod, request: DevnetRequest): (outcome: string) => void {
    const number = (this.#callNumber += 1);
    const key = `${endpoint} ${method}`;
    this.#calls.set(key, (this.#calls.get(key) ?? 0) + 1);
    const id = request.id?.toString('hex');
    const asked = request.height ?? request.start_block_height ?? request.start_height;
    this.#parts.trace.add(`call ${number} ${endpoint} ${method} ${id?.slice(0, 8) ?? asked ?? ''}`);
    this.callsInFlight += 1;
    const isCollection = id !== undefined && COLLECTION_METHODS.has(method);
    if (isCollection) this.#collectionAsked(number, endpoint, method, id as Identifier);
    else if (asked !== undefined) this.#heightAsked(method, Number(asked));
    return (outcome) => {
      this.callsInFlight -= 1;
      if (isCollection) this.#asked.delete(number);
      const tellsSpork = method === 'GetNodeVersionInfo' || (method === 'GetBlockByHeight' && asked === '0');
      if (tellsSpork && outcome !== 'OK') this.#isSporkRefused = true;
      if (method === 'GetFullCollectionByID') this.#fallsBack = outcome === 'UNIMPLEMENTED' ? id : undefined;
      this.#parts.trace.add(`end ${number} ${outcome}`);
    };
  }

  onRead(endpoint: string, method: DevnetMethod, request: DevnetRequest, reads: number): void {
    this.#parts.trace.add(`read ${endpoint} ${method} ${reads}`);
    const from = request.start_block_height ?? request.start_height;
    if (from === undefined || reads === 1) return;
    // The root block's execution data may be left out: then the stream begins one higher than asked.
    const height = Number(from) + reads - 1;
    this.#heightAsked(method, height);
    // Each range of history has a budget of its own.
    const isLive = height > (this.#watched?.store.latestIndexedHeight() ?? 0);
    if (
      isLive &&
      (method.startsWith('SubscribeExecutionData') || method === 'SubscribeIndexedBlocks') &&
      this.#watched?.store.hasHeight(height) === false
    )
      this.#checkBudget(this.#watched.line, [height], 'a stream');
  }

  /** Of history: not durable for all that is known, and within the window of its range. */
  #isInOpenRange(height: number): boolean {
    const open = this.#watched?.store.ranges.open() ?? [];
    const { window: k } = this.#config.backfill;
    return open.some(({ from, to, next }) => height >= from && height <= Math.min(to, next - 1 + k));
  }

  /** What is durable of a range is not asked for again. */
  #isWantedOfHistory(height: number): boolean {
    const { store, history } = this.#watched!;
    const range = store.ranges.open().find(({ from, to }) => height >= from && height <= to);
    if (range === undefined || height < range.next || !this.#isInOpenRange(height)) return false;
    const run = history().find(({ job }) => job.range.from === range.from);
    return run?.job.store.blocksAboveWatermark().some((block) => block.height === height) !== true;
  }

  #endsSpork(height: number): boolean {
    const ended = this.#stretch.sporks.slice(0, -1);
    return ended.some(({ lastHeight }) => lastHeight <= height && height <= lastHeight + MAX_DISCARDED);
  }

  #heightAsked(method: DevnetMethod, height: number): void {
    const watched = this.#watched;
    if (watched?.store.meta() === undefined) return;
    const range = watched.store.ranges.open().find(({ from, to }) => height >= from && height <= to);
    // Of the block below a range it is asked what the first one must link to.
    const isBelowRange = watched.store.ranges.open().some(({ from }) => height === from - 1);
    // A node of a spork that has ended is compared with the store at its own head.
    const isIdentity = method === 'GetBlockByHeight' && this.#endsSpork(height);
    if (range !== undefined && !isBelowRange && !isIdentity && !this.#isInOpenRange(height))
      this.fail(
        `${method} asks for height ${height}, above the window of its range, which is at ${range.next}`,
      );
    const highest = watched.store.latestIndexedHeight() + this.#config.window;
    if (height > highest) this.fail(`${method} asks for height ${height}, above the window's end ${highest}`);
    if (height > this.#stretch.stopHeight)
      this.fail(`${method} asks for height ${height}, above the stop height`);
  }

  #collectionAsked(number: number, endpoint: string, method: DevnetMethod, id: Identifier): void {
    const { line, store } = this.#watched!;
    // Ranges know nothing of each other.
    const isAlone = store.ranges.open().length === 0;
    if (isAlone && [...this.#asked.values()].some((each) => each.id === id))
      this.fail(`collection ${id.slice(0, 8)} is asked for twice at once`);
    this.#asked.set(number, { id, endpoint });
    const { concurrency } = this.#config.requester;
    const atOnce = [...this.#asked.values()].filter((each) => each.endpoint === endpoint).length;
    if (atOnce > concurrency) this.fail(`${atOnce} collections are asked of ${endpoint} at once`);
    const places = this.#stretch.placesOf.get(id);
    if (places === undefined) {
      if (!this.#parts.mayMeetForgeries) this.fail(`collection ${id.slice(0, 8)} is none of the chain`);
      return;
    }
    // The light collection is asked for within the attempt in which the full one turned out to be unknown.
    if ((method !== 'GetCollectionByID' || this.#fallsBack !== id) && isAlone)
      this.#checkBudget(line, places, `collection ${id.slice(0, 8)}`);
    const watermark = store.latestIndexedHeight();
    const isWanted = places.some(
      (height) =>
        (height > watermark && height <= watermark + this.#config.window && !this.#isKnownDurable(height)) ||
        this.#isWantedOfHistory(height),
    );
    if (!isWanted)
      this.fail(
        `collection ${id.slice(0, 8)} of ${places.join(', ')} is asked for at watermark ${watermark}`,
      );
  }

  /** With the budget used up, nothing is asked for but what the lowest height that is not durable lacks. */
  #checkBudget(line: IndexingLine | undefined, heights: readonly number[], what: string): void {
    if (line === undefined || line.window.bytesInHand <= this.#config.maxInFlightBytes) return;
    const lowest = this.#holdingUp(line);
    if (lowest === undefined || !heights.some((height) => height <= lowest))
      this.fail(`${what} of ${heights.join(', ')} is asked for while the byte budget is used up`);
  }

  onDurable(): void {
    this.#isDurableNew = true;
  }

  /** Durable since before this step. */
  #isKnownDurable(height: number): boolean {
    return height <= (this.watermark ?? -1) || this.#above.has(height);
  }

  #isDurable(height: number): boolean {
    // What became durable in this very step has not been looked at yet; the store's own word is checked when it is.
    if (this.#isDurableNew) return this.#watched?.store.hasHeight(height) ?? false;
    return this.#isKnownDurable(height);
  }

  /** After every step, when all that it set in motion has settled. */
  async afterStep(): Promise<void> {
    if (this.#isDurableNew) {
      this.#isDurableNew = false;
      await this.#lookAtDisk();
      if (this.#restartedAt !== undefined) this.#checkRestart(this.#restartedAt);
      this.#restartedAt = undefined;
    }
    const watched = this.#watched;
    if (watched !== undefined && !(watched.store.meta() === undefined)) this.#lookAtParts(watched);
    this.throwIfViolated();
  }

  #lookAtRange({ range: { from, to }, store }: RangeJob, { window, blocks }: IndexingLine): void {
    const { window: k } = this.#config.backfill;
    if (window.inHand > k) this.fail(`${window.inHand} heights of range ${from} wait, its window is ${k}`);
    const watermark = store.latestIndexedHeight();
    if (blocks.blockAt(watermark + k + 1) !== undefined)
      this.fail(`range ${from} holds more than ${k} blocks`);
    if (watermark < from - 1 || watermark > to) this.fail(`range ${from} to ${to} is at ${watermark}`);
  }

  #lookAtParts({ head, history, store, line }: Watched): void {
    const { height, atMs } = this.#head;
    const [known, nowMs] = [head() ?? height, this.#parts.clock.monotonic()];
    // One that its node has denied for a minute was false.
    if (known < height && nowMs - atMs < 60_000) this.fail(`the head goes down from ${height} to ${known}`);
    if (known !== height) this.#head = { height: known, atMs: nowMs };
    const watermark = store.latestIndexedHeight();
    if (watermark > (this.watermark ?? -1))
      this.fail(`watermark ${watermark} is told, ${this.watermark} is durable`);
    for (const { job, line: one } of history()) this.#lookAtRange(job, one.indexing);
    if (line === undefined) return;
    const { window: k } = this.#config;
    if (line.window.inHand > k) this.fail(`${line.window.inHand} heights wait, the window is ${k}`);
    if (line.blocks.blockAt(watermark + k + 1) !== undefined) this.fail(`more than ${k} blocks are held`);
    const { bytesInHand } = line.window;
    const received = this.#receivedBytes(line, watermark);
    if (bytesInHand !== received) this.fail(`${bytesInHand} bytes count as in flight, ${received} are`);
  }

  /** Our own count: what the heights in hand hold. */
  #receivedBytes(line: IndexingLine, watermark: number): number {
    let bytes = 0;
    for (const { received } of this.#heightsInHand(line, watermark))
      for (const { collection } of received.values()) bytes += collection.encoded.byteLength;
    return bytes;
  }

  /** Our own search: the lowest height in hand, while it lacks a collection. */
  #holdingUp(line: IndexingLine): number | undefined {
    const watermark = this.#watched?.store.latestIndexedHeight() ?? 0;
    const [lowest] = this.#heightsInHand(line, watermark);
    return lowest !== undefined && lowest.missingCount > 0 ? lowest.height : undefined;
  }

  *#heightsInHand({ mcq, window }: IndexingLine, watermark: number): Generator<HeightRecord> {
    const { window: k } = this.#config;
    let left = window.inHand;
    // A batch moves the watermark a moment before the heights in it are let go.
    for (let height = watermark - k; height <= watermark + k && left > 0; height += 1) {
      const queued = mcq.get(height);
      if (queued === undefined) continue;
      left -= 1;
      yield queued;
    }
  }

  /** Reads what a process that started now would find. */
  async #lookAtDisk(): Promise<void> {
    const reader = await this.openReader();
    if (reader.meta() === undefined) {
      if (this.#parts.disk.size > 0 || this.watermark !== undefined)
        this.fail('the store has lost its meta record');
      return;
    }
    const { blockAt } = this.#stretch;
    const watermark = reader.latestIndexedHeight();
    const coverage = reader.coverage();
    const isCovered = (height: number): boolean =>
      coverage.some(({ from, to }) => height >= from && height <= to);
    if (this.watermark !== undefined && watermark < this.watermark)
      this.fail(`the watermark goes down from ${this.watermark} to ${watermark}`);
    for (const height of this.#checked)
      if (!isCovered(height)) this.fail(`height ${height} is not covered any more`);
    const { firstHeight = Infinity } = reader.meta() ?? {};
    if (
      watermark >= firstHeight &&
      !coverage.some(({ from, to }) => from === firstHeight && to === watermark)
    )
      this.fail(`the live range, ${firstHeight} to ${watermark}, is not the end of the coverage`);
    for (const height of coverage.flatMap(({ from, to }) => numbers(from, to))) {
      if (this.#checked.has(height)) continue;
      this.#checked.add(height);
      const stored = await reader.blockByHeight(height);
      const { collections, id, parentId } = blockAt(height);
      if (stored === undefined) this.fail(`height ${height} is missing below the watermark ${watermark}`);
      else if (stored.block.id !== id) this.fail(`block ${height} is not the one of the chain`);
      else if (stored.block.parentId !== parentId) this.fail(`block ${height} has another parent`);
      else this.#checkProof(stored.block, reader.unproven());
      const { bodies = [] } = (await reader.wholeBlock(height)) ?? {};
      if (!Buffer.concat(bodies).equals(Buffer.concat(collections.map(({ encoded }) => encoded))))
        this.fail(`height ${height} has other collections than the chain`);
    }
    for (const height of this.#unproven) {
      const stored = await reader.blockByHeight(height);
      if (stored?.block.proof !== undefined) this.#checkProof(stored.block, []);
    }
    this.isComplete = watermark === this.#stretch.stopHeight && firstHeight === this.#stretch.firstHeight;
    this.#checkSporks(reader, watermark);
    for (const height of this.#inherited) {
      if (height <= watermark && !this.#handedOut.has(height))
        this.fail(
          `the watermark passes over ${height}, of which this process does not know whether it is true`,
        );
    }
    const above = reader.blocksAboveWatermark().map(({ height }) => height);
    const highest = Math.max(watermark, ...above);
    if (highest > watermark + this.#config.window) this.fail(`height ${highest} is durable above the window`);
    if (above.includes(watermark + 1) && !this.#inherited.has(watermark + 1))
      this.fail(`the watermark ${watermark} does not pass over ${watermark + 1}`);
    this.#parts.trace.add(`durable to ${watermark} above ${above.join()}`);
    this.watermark = watermark;
    this.#above = new Set(above);
  }

  /** What is stored with a proof is true, and only what nothing could prove is stored without. */
  #checkProof({ encoded, height, id, proof }: FinalizedBlock, unproven: readonly HeightRange[]): void {
    const isProven = proof !== undefined;
    if (isProven) this.#unproven.delete(height);
    else {
      this.#unproven.add(height);
      if (!this.#parts.mayLackProof(height)) this.fail(`block ${height} is stored without a proof`);
      if (!unproven.some(({ from, to }) => from <= height && height <= to))
        this.fail(`block ${height} has no proof, and counts as proven`);
      return;
    }
    if (this.#config.proof.mode === 'off' || !this.#stretch.isProvable)
      this.fail(`block ${height} is stored with a proof that nobody gave`);
    if (checkStoredProof(encoded, proof, this.#config.chainId)?.id !== id)
      this.fail(`the proof of block ${height} does not hold`);
    if (!this.#stretch.blockAt(height).encoded.every((byte, at) => byte === encoded[at]))
      this.fail(`block ${height} is proven, and not the one of the chain`);
  }

  /** Every root that the store has is recorded. What a node did not tell may come later: an id, or the spork of the first block. */
  #checkSporks(reader: LevelIndexStore, watermark: number): void {
    if (this.#stretch.sporks.length === 1) return;
    const sporks = reader.meta()?.sporks ?? [];
    if (this.#config.backfill.plan !== undefined) {
      this.#checkSporksOfHistory(sporks, reader.coverage());
      return;
    }
    const expected = sporkRecordsOf(this.#stretch, watermark);
    const has = (rootHeight: number): boolean => sporks.some((spork) => spork.rootHeight === rootHeight);
    const isUntold = ({ rootHeight }: SporkRecord, at: number): boolean =>
      at === 0 && this.#isSporkRefused && !has(rootHeight);
    const known = expected
      .filter((spork, at) => (spork.rootHeight <= watermark && !isUntold(spork, at)) || has(spork.rootHeight))
      .map((spork, at) => {
        const recorded = sporks.find(({ rootHeight }) => rootHeight === spork.rootHeight);
        // The table tells no ids; and of the first spork no node is asked before the store begins.
        const mayLackId = this.#isSporkRefused || (at === 0 && this.#stretch.served === 'table');
        return mayLackId && recorded?.sporkId === '' ? { ...spork, sporkId: '' } : spork;
      });
    if (JSON.stringify(sporks) !== JSON.stringify(known))
      this.fail(`the sporks recorded at watermark ${watermark} are ${JSON.stringify(sporks)}`);
  }

  /** A spork may be recorded before its root is there, but every root that is covered is, with its parent where that is confirmed. */
  #checkSporksOfHistory(sporks: StoreMeta['sporks'], coverage: readonly HeightRange[]): void {
    const told = (what: string): void =>
      this.fail(`${what} in the sporks recorded: ${JSON.stringify(sporks)}`);
    const { served, sporks: real } = this.#stretch;
    for (const { from, to } of this.#watched?.store.ranges.open() ?? []) {
      if (served === 'table' && real.some(({ lastHeight }) => from <= lastHeight && lastHeight < to))
        this.fail(`the range ${from} to ${to} is of two sporks`);
    }
    for (const { rootHeight, rootParentId, sporkId } of sporks) {
      const its = real.find(({ chain }) => chain.generator.rootHeight === rootHeight)?.chain.generator;
      if (its === undefined) told(`${rootHeight} is no root`);
      else if (sporkId !== '' && sporkId !== its.sporkId) told(`the id of ${rootHeight} is wrong`);
      else if (rootParentId !== undefined && rootParentId !== its.parentId(rootHeight))
        told(`the parent of ${rootHeight} is wrong`);
    }
    for (const { chain } of real) {
      const { rootHeight } = chain.generator;
      if (!coverage.some(({ from, to }) => from <= rootHeight && rootHeight <= to)) continue;
      const record = sporks.find((each) => each.rootHeight === rootHeight);
      if (record === undefined) told(`${rootHeight} is missing`);
      else if (served === 'table' && record.rootParentId === undefined)
        told(`the parent of ${rootHeight} is missing`);
    }
  }

  /** As a process finds it that starts now. Where that would finish an interrupted rewind, it is done on a copy of the disk. */
  async openReader(): Promise<LevelIndexStore> {
    try {
      return await this.#open(this.#parts.disk, () => {
        throw new NotToBeWritten();
      });
    } catch (error) {
      if (!(error instanceof NotToBeWritten)) throw error;
      return this.#open(this.#parts.disk.copy(), () => ({ writtenMs: 0, syncedMs: 0, toldMs: 0 }));
    }
  }

  #open(disk: SimulatedDisk, writeFate: () => WriteFate): Promise<LevelIndexStore> {
    // Looking takes no time of the world.
    const clock: Clock = {
      now: () => this.#parts.clock.now(),
      monotonic: () => this.#parts.clock.monotonic(),
      setTimer: (_, callback) => {
        queueMicrotask(callback);
        return { cancel: () => undefined };
      },
    };
    return LevelIndexStore.over(
      new SimulatedDatabase(disk, { clock, writeFate }),
      { path: DISK_PATH, chainId: this.#config.chainId },
      { clock, logger: silentLogger },
    );
  }

  /** The stop height is reached and the process has ended in order. */
  async finished(reference: string | undefined): Promise<string> {
    const { firstHeight, stopHeight } = this.#stretch;
    const reader = await this.openReader();
    if (reader.meta()?.firstHeight !== firstHeight) this.fail('the store begins elsewhere');
    if (reader.latestIndexedHeight() !== stopHeight)
      this.fail(`the store ends at ${reader.latestIndexedHeight()}, not at ${stopHeight}`);
    await this.#lookUpEverything(reader);
    const digest = await this.#digestOf(reader);
    // A start does not wait for ever for the spork it is of: a store may begin without it where nodes failed to tell.
    const [first] = reader.meta()?.sporks ?? [];
    const hasNoTable = this.#stretch.sporks.length === 1 || this.#stretch.served === 'named';
    const isNameless = first === undefined || (first.sporkId === '' && hasNoTable);
    const isUntold = this.#isSporkRefused && isNameless;
    if (reference !== undefined && digest !== reference && !isUntold)
      this.fail(`the store is not the one of the fault-free run: ${digest}, expected ${reference}`);
    this.throwIfViolated();
    return digest;
  }

  /** Of a stretch of several sporks without the first record, which says how they became known; they are checked apart. */
  async #digestOf(reader: LevelIndexStore): Promise<string> {
    // Which protocol states are kept depends on when what was proven.
    if (this.#stretch.sporks.length === 1) return digestOf({ entries: () => chainEntries(reader) });
    const { schemaVersion } = reader.meta() ?? {};
    const hash = createHash('sha256').update(`schema ${schemaVersion}`);
    for await (const [key, value] of reader.entries()) {
      const isMeta = key.length === 1 && Buffer.from(value).includes(this.#config.chainId);
      if (isMeta) continue;
      hash.update(`${key.length} ${value.length} `).update(key).update(value);
    }
    return hash.digest('hex');
  }

  /** The product's own counters against what was seen to happen. */
  async checkCounters(
    { upstreamRequests, collectionsRequested, heightsCompleted, invalidBlocks }: Metrics,
    mayLie: ReadonlySet<string>,
  ): Promise<void> {
    const forged = new Map<string, number>();
    for (const { labels, value } of (await invalidBlocks.get()).values) {
      const endpoint = String(labels.endpoint);
      if (!(invalidBlockReasons as readonly unknown[]).includes(labels.reason) || value === 0) continue;
      forged.set(endpoint, (forged.get(endpoint) ?? 0) + value);
      if (!mayLie.has(endpoint))
        this.fail(`${value} forged blocks are counted for ${endpoint}, which is honest`);
    }
    for (const [endpoint, reports] of this.#forged)
      if ((forged.get(endpoint) ?? 0) < reports)
        this.fail(
          `${endpoint} is penalized for ${reports} forged blocks, ${forged.get(endpoint)} are counted`,
        );
    for (const { labels, value } of (await upstreamRequests.get()).values) {
      // A peer is asked for the latter, and answers the former.
      const method =
        labels.method === 'GetCommitteeEvidence' ? 'GetProtocolStateSnapshotByHeight' : labels.method;
      const seen = this.#calls.get(`${labels.endpoint} ${method}`) ?? 0;
      if (value !== seen) this.fail(`${value} calls of ${labels.method} are counted, ${seen} left`);
    }
    const asked = [...this.#calls].filter(([key]) => COLLECTION_METHODS.has(key.split(' ')[1] ?? ''));
    const seen = asked.reduce((sum, [, calls]) => sum + calls, 0);
    const counted = (await collectionsRequested.get()).values[0]?.value ?? 0;
    // A call that is cancelled while it waits for its turn at the limiter is counted, and never leaves.
    if (counted < seen) this.fail(`${counted} collection calls are counted, ${seen} left`);
    if (this.#processes > 1 || this.#lines > 1) return;
    const { firstHeight, stopHeight } = this.#stretch;
    const heights = (await heightsCompleted.get()).values.reduce((sum, { value }) => sum + value, 0);
    const expected = stopHeight - firstHeight + 1;
    // A range of history that failed may begin anew.
    if (heights !== expected && (this.#config.backfill.plan === undefined || heights < expected))
      this.fail(`${heights} heights are counted as completed`);
  }

  /** Every collection and transaction is found by its id, at its lowest place; and those of the system chunk are not. */
  async #lookUpEverything(reader: LevelIndexStore): Promise<void> {
    const { blockAt, firstHeight, placesOf, stopHeight } = this.#stretch;
    for (const [id, places] of placesOf) {
      const expected = places.filter((height) => height <= stopHeight);
      const found = await reader.item('collection', id);
      if (found?.place.height !== expected[0]) this.fail(`collection ${id.slice(0, 8)} is found elsewhere`);
    }
    const seen = new Set<string>();
    for (let height = firstHeight; height <= stopHeight; height += 1) {
      for (const { transactionIds } of blockAt(height).collections) {
        for (let at = 0; at < transactionIds.length; at += 32) {
          const id = transactionIds.toString('hex', at, at + 32) as Identifier;
          if (seen.has(id)) continue;
          seen.add(id);
          const found = await reader.item('transaction', id);
          if (found?.place.height !== height) this.fail(`transaction ${id.slice(0, 8)} is found elsewhere`);
        }
      }
    }
  }
}

/** What a store records of the sporks of a stretch, once it has crossed them all. */
function sporkRecordsOf({ firstHeight, served, sporks }: Stretch, watermark: number): SporkRecord[] {
  return sporks.map(({ chain: { generator } }, spork) => {
    const { rootHeight, sporkId } = generator;
    const record = { rootHeight, sporkId };
    if (served === 'named') return record;
    // Of the spork in which the store begins, the parent of the root is known once the root block is there.
    const isSeen = spork > 0 || (firstHeight === rootHeight && watermark >= rootHeight);
    return isSeen ? { ...record, rootParentId: generator.parentId(rootHeight) } : record;
  });
}
