import type { Clock } from '../../../runtime/index.js';
import { StorageError } from '../../../storage/index.js';
import type { Leader, Leadership, Term } from '../../ports.js';
import { within } from '../Boss.js';
import type { Boss } from '../Boss.js';
import { Claim } from '../Claim.js';
import type { WorkerRegistry } from './WorkerRegistry.js';
import { LIVE_QUEUE } from './workerRows.js';

/** How often to try to become the leader. */
const LOOK_EVERY_MS = 1_000;

export interface BossLeadershipDependencies {
  readonly boss: Boss;
  readonly registry: WorkerRegistry;
  readonly clock: Clock;
}

/**
 * The process that holds the one job of an exclusive queue leads. The job goes to another process when its holder is silent:
 * the other workers give it back after seven seconds, pg-boss after ten.
 */
export class BossLeadership implements Leadership {
  readonly #deps: BossLeadershipDependencies;

  constructor(dependencies: BossLeadershipDependencies) {
    this.#deps = dependencies;
  }

  lead(signal: AbortSignal): Promise<Term | undefined> {
    return this.#deps.boss.database.watch(() => this.#take(), LOOK_EVERY_MS, signal);
  }

  leader(): Leader | undefined {
    const { registry } = this.#deps;
    if (registry.isBlind()) return undefined;
    const found = registry.workers().find(({ leads, isAlive }) => leads && isAlive);
    return found && { worker: found.id, host: found.host, beatAgeMs: found.beatAgeMs };
  }

  async #take(): Promise<Term | undefined> {
    const { boss, registry, clock } = this.#deps;
    // Has no effect if the job exists, queued or held.
    await boss.run((jobs) => jobs.send(LIVE_QUEUE, {}, { singletonKey: LIVE_QUEUE }));
    let taken: string | undefined;
    try {
      const claim = await boss.database.transaction(async (session) => {
        const [job] = await boss.run((jobs) =>
          jobs.fetch<object>(LIVE_QUEUE, { includeMetadata: true, ...within(session) }),
        );
        if (job === undefined) return undefined;
        taken = job.id;
        await registry.hold(session, { queue: LIVE_QUEUE, id: job.id, attempt: job.retryCount });
        return job;
      });
      if (claim === undefined) return undefined;
      return this.#term(new Claim(claim, { boss, clock, onRenewed: (key) => registry.renew(key) }));
    } catch (error) {
      if (taken !== undefined) registry.forget(taken);
      throw error;
    }
  }

  #term(claim: Claim): Term {
    const { boss, registry } = this.#deps;
    let released: Promise<void> | undefined;
    const release = async (): Promise<void> => {
      await claim.end();
      try {
        await boss.database.transaction((session) => claim.giveBack(session));
      } catch (error) {
        // It is given back when this process is silent.
        if (!(error instanceof StorageError)) throw error;
      }
      await registry.release(claim.key);
    };
    return { lost: claim.lost, release: () => (released ??= release()) };
  }
}
