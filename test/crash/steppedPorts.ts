import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { rpcChannel } from '../../src/access/transport/channel/rpcChannel.js';
import type { OpenChannel } from '../../src/access/index.js';
import { openLevelStore, type OpenStore } from '../../src/app/stores/openStore.js';
import { createLogger, type Logger } from '../../src/observability/index.js';
import type { Database, IndexStore } from '../../src/storage/index.js';
import { levelDatabase, type OpenDatabase } from '../../src/storage/leveldb/directory/levelDatabase.js';
import type { WriteBatch } from '../../src/storage/records/Database.js';
import { standIn } from '../support/standIn.js';
import { testify, type Operation, type Steps } from './Steps.js';

export function steppedStore(steps: Steps): OpenStore {
  const { writeBufferBytes } = steps.plan;
  return async (how, dependencies) => {
    const inner = await openLevelStore(
      { ...how, tuning: { ...how.tuning, ...(writeBufferBytes && { writeBufferSize: writeBufferBytes }) } },
      { ...dependencies, openDatabase: steppedDatabase(steps) },
    );
    steps.operation = 'idle';
    steps.take('open.read');
    return store(inner, steps);
  };
}

const SUBJECTS: readonly (readonly [pattern: RegExp, subject: string])[] = [
  [/\/(?:GetFullCollectionByID|GetCollectionByID|GetTransaction)$/, 'collection'],
  [/\/(?:SubscribeBlocksFromStartHeight|GetBlockByHeight)$/, 'block'],
  [/\/SubscribeExecutionData/, 'execution-data'],
  [/\/(?:SubscribeBlockDigestsFromLatest|GetLatestBlockHeader)$/, 'head'],
  [/\/(?:GetNetworkParameters|GetNodeVersionInfo)$/, 'identity'],
];

export function steppedChannel(steps: Steps): OpenChannel {
  return (options, dependencies) => {
    const channel = rpcChannel(options, dependencies);
    const received = (subject: string): void => {
      steps.take(`${subject}.received`);
      if (steps.operation === 'commit') steps.take(`${subject}.received-during-write`);
    };
    return {
      unary: async (path, request, limits) => {
        const subject = subjectOf(path);
        steps.take(`${subject}.asked`);
        const answer = await channel.unary(path, request, limits);
        if (answer instanceof Buffer) received(subject);
        return answer;
      },
      stream: (path, request, sink) => {
        const subject = subjectOf(path);
        steps.take(`${subject}.asked`);
        const onMessage = (message: Buffer): void => {
          received(subject);
          sink.onMessage(message);
        };
        return channel.stream(path, request, { onMessage, onEnd: (status) => sink.onEnd(status) });
      },
      close: () => channel.close(),
    };
  };
}

const subjectOf = (path: string): string => SUBJECTS.find(([pattern]) => pattern.test(path))?.[1] ?? 'other';

/** The log, whose constant messages name the steps that no other port sees. */
export function steppedLogger(steps: Steps): typeof createLogger {
  const stepOf = new Map([
    ['listening', 'listening'],
    ['batch is durable', 'commit.announced'],
    ['height is indexed', 'job.indexed'],
    ['stop height reached', 'stop.asked'],
    ['stopping; a second signal forces', 'stop.asked'],
  ]);
  return (options) => {
    const inner = createLogger(options);
    const heard = (level: keyof Logger) => (fields: object, message: string) => {
      inner[level](fields, message);
      const step = stepOf.get(message);
      if (step === undefined) return;
      steps.isStopping ||= step === 'stop.asked';
      steps.take(step);
      // The queue takes notice of `done` in a microtask that is queued behind this one.
      if (step === 'job.indexed') queueMicrotask(() => steps.take('job.done'));
    };
    const levels = { debug: heard('debug'), info: heard('info'), warn: heard('warn'), error: heard('error') };
    return standIn(() => inner, levels);
  };
}

/** The store, with a step before and after whatever changes it, and a word about each commit that was answered. */
function store(inner: IndexStore, steps: Steps): IndexStore {
  steps.shownWatermark = () => (inner.meta() === undefined ? undefined : inner.latestIndexedHeight());
  const during = async (operation: Operation, action: () => Promise<void> | undefined): Promise<void> => {
    steps.operation = operation;
    await action();
    steps.operation = 'idle';
  };
  const rewind = async (action: () => Promise<void>): Promise<void> => {
    steps.take(`${steps.rewinding}.called`);
    await during('rewind', action);
    steps.take(`${steps.rewinding}.told`);
  };
  return standIn(() => inner, {
    initialise: async (meta) => {
      steps.take('begin.called');
      await during('begin', () => inner.initialise(meta));
      testify({ testimony: 'durable', heights: [], watermark: inner.latestIndexedHeight() });
      steps.take('begin.told');
    },
    commit: async (batch) => {
      steps.take('commit.called');
      steps.commitCalled();
      await during('commit', () => inner.commit(batch));
      const heights = batch.blocks.map(({ block }) => block.height);
      testify({ testimony: 'durable', heights, watermark: inner.latestIndexedHeight() });
      steps.take(steps.isStopping ? 'stop.commit.told' : 'commit.told');
    },
    rewind: (height) => rewind(() => inner.rewind(height)),
    forgetAbove: () => rewind(() => inner.forgetAbove()),
    addProofs: async (proven) => {
      steps.take('prove.called');
      await during('prove', () => inner.addProofs(proven));
      steps.take('prove.told');
    },
  });
}

function writeName({ operation, isStopping, rewinding }: Steps, isFirst: boolean): string {
  switch (operation) {
    case 'open':
      return 'reopen.batch';
    case 'rewind':
      return `${rewinding}.${isFirst ? 'intent' : 'batch'}`;
    case 'commit':
      return isStopping ? 'stop.commit' : 'commit';
    case 'begin':
    case 'prove':
    case 'idle':
      return operation;
  }
}

function database(inner: Database, path: string, steps: Steps): Database {
  let rewindWrites = 0;
  const write = async (batch: WriteBatch): Promise<void> => {
    const name = writeName(steps, rewindWrites === 0);
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

export function newestLog(path: string): { readonly file: string; readonly bytes: number } {
  const file = readdirSync(path)
    .filter((name) => /^\d+\.log$/.test(name))
    .sort()
    .at(-1);
  return file === undefined ? { file: '', bytes: 0 } : { file, bytes: statSync(join(path, file)).size };
}

function steppedDatabase(steps: Steps): OpenDatabase {
  return async (path, options) => {
    steps.take('open.called');
    const opening = levelDatabase(path, options);
    steps.take('open.under-way');
    const opened = await opening;
    steps.take('open.recovered');
    return database(opened, path, steps);
  };
}
