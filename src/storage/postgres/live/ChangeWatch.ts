import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import { loadStore, readMark } from '../reading/loadStore.js';
import type { StoreMark } from '../reading/loadStore.js';
import type { LeadershipDependencies, Leadership } from './Leadership.js';

/** How often to look for changes of other processes, each time with one small query. */
const LOOK_EVERY_MS = 300;

export interface ChangeWatchDependencies extends LeadershipDependencies {
  readonly leadership: Leadership;
}

/** Follows what other processes do to the store. */
export class ChangeWatch {
  readonly #deps: ChangeWatchDependencies;
  /** The mark of the state that is known here. */
  #mark: StoreMark | undefined;

  constructor(dependencies: ChangeWatchDependencies) {
    this.#deps = dependencies;
  }

  /** Runs until the database is closed. Expected errors: `StorageError`. */
  async run(): Promise<void> {
    const { database } = this.#deps;
    await database.watch<never>(() => this.#look(database), LOOK_EVERY_MS);
  }

  async #look(database: PostgresDatabase): Promise<undefined> {
    const { inTurn, known, leadership, onChanged } = this.#deps;
    const mark = await readMark(database);
    leadership.noticeEpoch(mark.epoch);
    const isKnown = mark.rest === this.#mark?.rest && (leadership.isLeading || mark.live === this.#mark.live);
    if (isKnown) return;
    await inTurn(async () => {
      const options = { isTolerant: true, before: known.latestBlock };
      const loaded = await database.snapshot((session) => loadStore(session, options));
      const { isLeading } = leadership;
      if (isLeading) known.join(loaded);
      else known.load(loaded);
      // What another leader has written is not known before this process has stopped leading.
      this.#mark = isLeading ? { ...mark, live: '' } : mark;
    });
    onChanged();
  }
}
