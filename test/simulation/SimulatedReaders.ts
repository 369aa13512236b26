import { EventEmitter } from 'node:events';
import { callsOver } from '../../src/app/threads/calls.js';
import { keepReaderThread, type ReaderThread } from '../../src/app/threads/keepReaderThread.js';
import type { IndexerCalls, ReaderCalls, ReaderData } from '../../src/app/threads/messages.js';
import type { ReaderHandle } from '../../src/app/threads/startWorker.js';
import { silentLogger, type Metrics } from '../../src/observability/index.js';
import { EndGate, type Clock } from '../../src/runtime/index.js';
import { levelReplica } from '../../src/storage/leveldb/reading/levelReader.js';
import type { Database, IndexReader, ShownIndex } from '../../src/storage/index.js';
import { readerOptions } from '../support/readerOptions.js';
import { VirtualClock } from '../support/virtualClock.js';
import type { Dice } from './Dice.js';

/** For a message to be taken, and for its acknowledgement to be on its way. */
const SLOWEST_MS = 40;
const HANGS_SHARE = 1 / 400;
const DIES_SHARE = 1 / 400;

/** Follows the world's time, and takes none of its steps: a seed is the same sequence with readers as without. */
class FollowingClock extends VirtualClock {
  readonly #world: Clock;

  constructor(world: Clock) {
    super(0, world.monotonic());
    this.#world = world;
  }

  override now(): number {
    return this.#world.now();
  }

  /** Does the next thing that fell due; false when nothing has. */
  follow(): boolean {
    const untilMs = this.#world.monotonic();
    const isDue = this.step(untilMs);
    if (!isDue) this.elapsedMs = untilMs;
    return isDue;
  }
}

export interface SimulatedReadersParts {
  readonly dice: Dice;
  readonly clock: Clock;
  readonly database: Database;
  readonly metrics: Metrics;
  readonly shown: () => ShownIndex;
  readonly durable: () => number | undefined;
  readonly fail: (what: string) => void;
}

/** The other thread of one process: readers over the disk of the world, that come late, hang and die. */
export class SimulatedReaders {
  readonly #parts: SimulatedReadersParts;
  readonly #clock: FollowingClock;
  readonly #thread: ReaderThread;
  #highest = -1;
  #isOver = false;

  constructor(parts: SimulatedReadersParts) {
    this.#parts = parts;
    this.#clock = new FollowingClock(parts.clock);
    this.#thread = keepReaderThread(readerOptions({ grpcPort: 'off' }), {
      ...{ clock: this.#clock, logger: silentLogger, metrics: parts.metrics },
      start: (given) => this.#begin(given),
    });
    const never = (): never => {
      throw new Error('nobody asks here');
    };
    void this.#thread.serve({
      state: () => ({
        ...{ shown: parts.shown(), head: null, sealed: null },
        ...{ isReady: true, forwardingOff: undefined, nodes: [] },
      }),
      ...{ status: never, momentAt: never, damaged: never, admission: { admit: never } },
    });
  }

  notify(): void {
    if (!this.#isOver) this.#thread.notify();
  }

  /** After each step of the world, until nothing happens any more. */
  follow(): boolean {
    return !this.#isOver && this.#clock.follow();
  }

  end(): void {
    this.#isOver = true;
  }

  #begin(options: ReaderData): ReaderHandle {
    EndGate.loaded(options.gate);
    const replica = levelReplica(this.#parts.database);
    const [events, fromOwner] = [new EventEmitter(), new EventEmitter()];
    const { dice } = this.#parts;
    let hangs = false;
    let hasEnded = false;
    let listens = false;
    const finish = (error?: unknown): void => {
      if (hasEnded) return;
      hasEnded = true;
      if (error !== undefined) events.emit('error', error);
      events.emit('exit');
    };
    const later = (action: () => void): void => {
      this.#clock.setTimer(dice.random.next() * SLOWEST_MS, () => {
        if (!hangs && !hasEnded && !this.#isOver) action();
      });
    };
    const served: Pick<ReaderCalls, 'show'> = {
      show: ({ shown }) => {
        // Not before it serves: that would end the daemon.
        if (listens && dice.chance(HANGS_SHARE)) hangs = true;
        else if (listens && dice.chance(DIES_SHARE)) finish(new Error('planted'));
        if (hangs || hasEnded) return undefined;
        replica.show(shown);
        this.#check(replica, shown);
        if (!listens) {
          listens = true;
          indexer.tell('listens', { api: { host: '', port: 1 } });
        }
        return undefined;
      },
    };
    const postMessage = (message: unknown): unknown => events.emit('message', message);
    const answered = {
      postMessage: (message: unknown) => later(() => postMessage(message)),
      on: fromOwner.on.bind(fromOwner),
    };
    callsOver<IndexerCalls>(answered, served);
    // Where it listens is said at once: were that lost in a hang, it would end the daemon too.
    const indexer = callsOver<IndexerCalls>({ postMessage, on: () => undefined }, {});
    return {
      postMessage: (message) => later(() => fromOwner.emit('message', message)),
      on: events.on.bind(events),
      terminate: () => finish(),
    };
  }

  /** What is shown is on the disk, whole, and never less than before; nothing above it is. */
  #check(replica: IndexReader, { meta, latestIndexedHeight: latest, latestBlock }: ShownIndex): void {
    if (meta === undefined) return;
    const { dice, durable, fail } = this.#parts;
    if (latest > (durable() ?? -1)) fail(`readers are shown ${latest}, which is not durable`);
    if (latest < this.#highest) fail(`readers are shown ${latest} after ${this.#highest}`);
    this.#highest = Math.max(this.#highest, latest);
    const some = dice.whole(meta.firstHeight, Math.max(meta.firstHeight, latest));
    const read = async (): Promise<void> => {
      const [newest, other, above] = await Promise.all(
        [latest, some, latest + 1].map((height) => replica.blockByHeight(height)),
      );
      const whole = await replica.wholeBlock(some);
      if (this.#isOver) return;
      if (above !== undefined) fail(`readers see height ${latest + 1}, which they are not shown`);
      if (latest < meta.firstHeight) return;
      if (newest?.block.id !== latestBlock?.id) fail(`readers see another block at height ${latest}`);
      if (other === undefined || whole?.bodies.length !== other.block.collectionIds.length)
        fail(`readers do not see all of height ${some}`);
    };
    read().catch((error: unknown) => {
      if (!this.#isOver) fail(`a read failed: ${String(error)}`);
    });
  }
}
