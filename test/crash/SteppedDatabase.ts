import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openLevelDatabase } from '../../src/storage/index.js';
import type { Database, Entry, KeyRange, OpenDatabase, WriteBatch } from '../../src/storage/index.js';
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
    case 'idle':
      return operation;
  }
}

/** LevelDB, with a step between any two things that are done to it. */
class SteppedDatabase implements Database {
  readonly #inner: Database;
  readonly #path: string;
  readonly #steps: Steps;
  readonly #isRewindCommand: boolean;
  #rewindWrites = 0;

  constructor(inner: Database, path: string, steps: Steps, isRewindCommand: boolean) {
    this.#inner = inner;
    this.#path = path;
    this.#steps = steps;
    this.#isRewindCommand = isRewindCommand;
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.#inner.get(key);
  }

  getMany(keys: Buffer[]): Promise<(Buffer | undefined)[]> {
    return this.#inner.getMany(keys);
  }

  hasMany(keys: Buffer[]): Promise<boolean[]> {
    return this.#inner.hasMany(keys);
  }

  first(range: Partial<KeyRange>, limit: number): Promise<Entry[]> {
    return this.#inner.first(range, limit);
  }

  lastKey(range: KeyRange): Promise<Buffer | undefined> {
    return this.#inner.lastKey(range);
  }

  pages(range: Partial<KeyRange>): AsyncGenerator<Entry[], void, undefined> {
    return this.#inner.pages(range);
  }

  keyPages(range: Partial<KeyRange>): AsyncGenerator<Buffer[], void, undefined> {
    return this.#inner.keyPages(range);
  }

  compact(range: KeyRange): Promise<void> {
    return this.#inner.compact(range);
  }

  batch(): WriteBatch {
    const batch = this.#inner.batch();
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
      discard: () => batch.discard(),
    };
  }

  async close(): Promise<void> {
    this.#steps.take('stop.closing');
    const closing = this.#inner.close();
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
    const opening = openLevelDatabase(path, tuning, options);
    steps.take('open.under-way');
    const database = await opening;
    steps.take('open.recovered');
    return new SteppedDatabase(database, path, steps, isRewindCommand);
  };
}
