import type { Beginning } from '../../storage/index.js';
import { Boss } from './Boss.js';
import { BossWorkSource } from './BossWorkSource.js';
import { planQueues, type SharedWork } from './planQueues.js';
import { LIVE_QUEUE, WorkerRegistry, type QueueParts } from './WorkerRegistry.js';

/** Raised when ranges are filled in or stored differently than before: see docs/scale-out.md, upgrading. */
const WORK_VERSION = 2;

/** What the processes of one database share besides the store: the queue of ranges, the list of workers, and the leadership. */
export class SharedQueue extends WorkerRegistry {
  readonly #sources = new Set<BossWorkSource>();

  /**
   * Open the store first: its tables must exist. `roles`: none for a command, which takes no work; `workVersion`: default
   * `WORK_VERSION`; `patienceMs`: how long to wait later for a database that refuses or does not answer, default: for as long
   * as it takes. Expected errors: `StorageError`; OperatorError `configuration`; the reason of `signal`.
   */
  static async open(
    options: Beginning & {
      readonly url: string;
      readonly roles: readonly string[];
      readonly workVersion?: number;
      readonly patienceMs?: number;
    },
    dependencies: Pick<QueueParts, 'clock' | 'random' | 'logger'> & Partial<Pick<QueueParts, 'onKill'>>,
  ): Promise<SharedQueue> {
    const { patienceMs, roles, url, workVersion = WORK_VERSION } = options;
    const { onKill = () => undefined, ...common } = dependencies;
    const boss = await Boss.prepare({ url, patienceMs, supervise: roles.length > 0 }, common);
    try {
      const queue = new SharedQueue({ ...common, boss, roles, workVersion, onKill });
      await boss.database.begin(async () => {
        await boss.start();
        await boss.makeQueue(LIVE_QUEUE);
        if (queue.isWorker) await queue.join();
      }, options);
      if (queue.isWorker) queue.start();
      return queue;
    } catch (error) {
      await boss.close();
      throw error;
    }
  }

  /** Why the database does not serve the queue; `undefined` while it does. */
  trouble(): string | undefined {
    return this.parts.boss.database.trouble()?.concat(' Indexing needs no queue; history and takeovers do.');
  }

  /** The highest plan that has, or had, jobs; 0: none. Expected errors: `StorageError`. */
  async lastPlan(): Promise<number> {
    const { boss } = this.parts;
    const queues = await boss.database.persist(() => planQueues(boss));
    return Math.max(0, ...queues.map(({ plan }) => plan));
  }

  /** A work source, which polls the database until the queue is closed. */
  source(
    options: Pick<SharedWork, 'maxRangeHeights'>,
    { book, chain }: Pick<SharedWork, 'book' | 'chain'>,
  ): BossWorkSource {
    const source = new BossWorkSource({ ...this.parts, ...options, book, chain }, this);
    this.#sources.add(source);
    return source;
  }

  /** Call it after running ranges were given back, and before the store is closed. */
  async close(): Promise<void> {
    this.parts.boss.database.giveUp();
    for (const source of this.#sources) await source.close();
    if (this.isWorker) await this.leave();
    await this.parts.boss.close();
  }
}
