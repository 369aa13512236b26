import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { LevelDatabase } from '../../src/storage/leveldb/directory/LevelDatabase.js';
import type { Database } from '../../src/storage/index.js';
import type { OpenDatabase } from '../../src/storage/leveldb/directory/LevelDatabase.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';
import { WrappedDatabase } from '../support/WrappedDatabase.js';
import { testify } from './Steps.js';
import type { Steps } from './Steps.js';

/** The steps of a write, as their names begin. */
function writeName({ operation, isStopping }: Steps, isRewindCommand: boolean, isFirst: boolean): string {
  switch (operation) {
    case 'open':
      return 'reopen.batch';
    case 'rewind':
      return `${isRewindCommand ? 'rewind' : 'anew'}.${isFirst ? 'intent' : 'batch'}`;
    case 'commit':
      return isStopping ? 'stop.commit' : 'commit';
    case 'begin':
    case 'prove':
    case 'idle':
      return operation;
  }
}

/** LevelDB, with a step between any two things that are done to it. */
class SteppedDatabase extends WrappedDatabase {
  readonly #path: string;
  readonly #steps: Steps;
  readonly #isRewindCommand: boolean;
  #rewindWrites = 0;

  constructor(inner: Database, path: string, steps: Steps, isRewindCommand: boolean) {
    super(inner);
    this.#path = path;
    this.#steps = steps;
    this.#isRewindCommand = isRewindCommand;
  }

  override batch(): WriteBatch {
    const batch = super.batch();
    const filling = (): void => {
      if (this.#steps.operation === 'commit') this.#steps.take('commit.filling');
    };
    return {
      put: (key, value) => {
        filling();
        batch.put(key, value);
      },
      del: (key) => {
        filling();
        batch.del(key);
      },
      get length() {
        return batch.length;
      },
      write: () => this.#write(batch),
      [Symbol.dispose]: () => batch[Symbol.dispose](),
    };
  }

  override async close(): Promise<void> {
    this.#steps.take('stop.closing');
    const closing = super.close();
    this.#steps.take('stop.close.under-way');
    await closing;
    this.#steps.take('stop.closed');
  }

  async #write(batch: WriteBatch): Promise<void> {
    const name = writeName(this.#steps, this.#isRewindCommand, this.#rewindWrites === 0);
    if (this.#steps.operation === 'rewind') this.#rewindWrites += 1;
    this.#steps.take(`${name}.handed`);
    const writing = batch.write();
    this.#steps.take(`${name}.under-way`);
    await writing;
    testify({ testimony: 'synced', step: name, ...newestLog(this.#path) });
    this.#steps.take(`${name}.durable`);
  }
}

/** The write-ahead log that LevelDB appends to. */
export function newestLog(path: string): { readonly file: string; readonly bytes: number } {
  const file = readdirSync(path)
    .filter((name) => /^\d+\.log$/.test(name))
    .sort()
    .at(-1);
  return file === undefined ? { file: '', bytes: 0 } : { file, bytes: statSync(join(path, file)).size };
}

export function steppedDatabase(steps: Steps, isRewindCommand: boolean): OpenDatabase {
  return async (path, tuning, options) => {
    steps.take('open.called');
    const opening = LevelDatabase.open(path, tuning, options);
    steps.take('open.under-way');
    const database = await opening;
    steps.take('open.recovered');
    return new SteppedDatabase(database, path, steps, isRewindCommand);
  };
}
