import type { Logger } from '../../observability/index.js';
import { programVersion } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { KillMode, Leadership, WorkerState } from '../ports.js';
import { Boss } from './Boss.js';
import { BossWorkSource } from './BossWorkSource.js';
import { planVersions } from './PlanQueues.js';
import type { QueueParts, SharedWork } from './PlanQueues.js';
import { killWorkers, LIVE_QUEUE, readWorkers, WorkerRegistry } from './WorkerRegistry.js';

/** Raised when ranges are filled in or stored differently than before: see docs/scale-out.md, upgrading. */
const WORK_VERSION = 1;

interface SharedQueueOptions {
  readonly url: string;
  /** Roles of this process; none for a command, which takes no work. */
  readonly roles: readonly string[];
  /** Default: `WORK_VERSION`. */
  readonly workVersion?: number;
  /** How long to wait at the beginning for a database that refuses or does not answer. Default: not at all. */
  readonly waitMs?: number;
  /** The same later. Default: for as long as it takes. */
  readonly patienceMs?: number;
}

interface SharedQueueDependencies {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Called when the operator wants this process to end. */
  readonly onKill?: (mode: KillMode) => void;
}

/** What the processes of one database share besides the store: the queue of ranges, the list of workers, and the leadership. */
export class SharedQueue {
  readonly #parts: QueueParts;
  readonly #boss: Boss;
  readonly #registry: WorkerRegistry | undefined;
  readonly #sources = new Set<BossWorkSource>();

  private constructor(parts: QueueParts, registry: WorkerRegistry | undefined) {
    this.#parts = parts;
    this.#boss = parts.boss;
    this.#registry = registry;
  }

  /** Open the store first: its tables must exist. Expected errors: `StorageError`; OperatorError `configuration`. */
  static async open(
    { patienceMs, roles, url, waitMs = 0, workVersion = WORK_VERSION }: SharedQueueOptions,
    { clock, random, logger, onKill = () => undefined }: SharedQueueDependencies,
  ): Promise<SharedQueue> {
    const isWorker = roles.length > 0;
    const boss = await Boss.prepare({ url, patienceMs, supervise: isWorker }, { clock, logger });
    try {
      const registry = isWorker
        ? new WorkerRegistry(
            { version: programVersion(), workVersion, roles },
            { boss, clock, logger, onKill },
          )
        : undefined;
      await boss.database.persist(async () => {
        await boss.start();
        await boss.makeQueue(LIVE_QUEUE, 'exclusive');
        await registry?.join();
      }, clock.monotonic() + waitMs);
      registry?.start();
      return new SharedQueue({ boss, clock, random, logger, workVersion }, registry);
    } catch (error) {
      await boss.close();
      throw error;
    }
  }

  /** The leadership of this process; `undefined` for a command. */
  leadership(): Leadership | undefined {
    return this.#registry;
  }

  /** Why the database does not do what is asked of it here; `undefined` while it does. */
  trouble(): string | undefined {
    return this.#boss.database.trouble();
  }

  /** Its id among the workers. */
  get worker(): string | undefined {
    return this.#registry?.id;
  }

  /** How many processes share the work and the rates of the nodes, as far as this one knows; at least one. */
  liveWorkers(): number {
    return this.#registry?.liveWorkers() ?? 1;
  }

  /** Expected errors: `StorageError`. */
  workers(): Promise<readonly WorkerState[]> {
    return readWorkers(this.#boss.database);
  }

  /** Tells workers to end. Returns how many. Expected errors: `StorageError`. */
  kill(ids: readonly string[], mode: KillMode): Promise<number> {
    return killWorkers(this.#boss.database, ids, mode);
  }

  /** The highest plan that has, or had, jobs; 0: none. Expected errors: `StorageError`. */
  async lastPlan(): Promise<number> {
    return Math.max(0, ...(await planVersions(this.#boss)).keys());
  }

  /** A work source, which polls the database until the queue is closed. */
  source(
    options: Pick<SharedWork, 'maxRangeHeights' | 'maxPartRanges'>,
    { book, chain }: Pick<SharedWork, 'book' | 'chain'>,
  ): BossWorkSource {
    const source = new BossWorkSource({ ...this.#parts, ...options, book, chain }, this.#registry);
    this.#sources.add(source);
    return source;
  }

  /** Call it after running ranges were given back, and before the store is closed. */
  async close(): Promise<void> {
    for (const source of this.#sources) await source.close();
    await this.#registry?.close();
    await this.#boss.close();
  }
}
