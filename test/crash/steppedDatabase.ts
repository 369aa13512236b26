import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { LevelDatabase } from '../../src/storage/leveldb/directory/LevelDatabase.js';
import type { Database } from '../../src/storage/index.js';
import type { OpenDatabase } from '../../src/storage/leveldb/directory/LevelDatabase.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';
import { standIn } from '../support/standIn.js';
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
function stepped(inner: Database, path: string, steps: Steps, isRewindCommand: boolean): Database {
  let rewindWrites = 0;
  const write = async (batch: WriteBatch): Promise<void> => {
    const name = writeName(steps, isRewindCommand, rewindWrites === 0);
    if (steps.operation === 'rewind') rewindWrites += 1;
    steps.take(`${name}.handed`);
    const writing = batch.write();
    steps.take(`${name}.under-way`);
    await writing;
    testify({ testimony: 'synced', step: name, ...newestLog(path) });
    steps.take(`${name}.durable`);
  };
  const filling = (): void => {
    if (steps.operation === 'commit') steps.take('commit.filling');
  };
  return standIn(() => inner, {
    batch: () => {
      const batch = inner.batch();
      return standIn(() => batch, {
        put: (key, value) => {
          filling();
          batch.put(key, value);
        },
        del: (key) => {
          filling();
          batch.del(key);
        },
        write: () => write(batch),
      });
    },
    close: async () => {
      steps.take('stop.closing');
      const closing = inner.close();
      steps.take('stop.close.under-way');
      await closing;
      steps.take('stop.closed');
    },
  });
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
  return async (path, options) => {
    steps.take('open.called');
    const opening = LevelDatabase.open(path, options);
    steps.take('open.under-way');
    const database = await opening;
    steps.take('open.recovered');
    return stepped(database, path, steps, isRewindCommand);
  };
}
