import { RpcChannel } from '../../src/access/transport/channel/RpcChannel.js';
import type { OpenChannel } from '../../src/access/index.js';
import { openLevelStore } from '../../src/app/stores/openStore.js';
import type { OpenStore } from '../../src/app/stores/openStore.js';
import { createLogger } from '../../src/observability/index.js';
import type { Logger } from '../../src/observability/index.js';
import { steppedDatabase } from './steppedDatabase.js';
import { stepped } from './steppedStore.js';
import type { Steps } from './Steps.js';

export function steppedStore(
  steps: Steps,
  options: { readonly isRewindCommand: boolean; readonly writeBufferBytes: number | undefined },
): OpenStore {
  const { isRewindCommand, writeBufferBytes } = options;
  return async (how, dependencies) => {
    const inner = await openLevelStore(
      { ...how, tuning: { ...how.tuning, ...(writeBufferBytes && { writeBufferBytes }) } },
      { ...dependencies, openDatabase: steppedDatabase(steps, isRewindCommand) },
    );
    steps.operation = 'idle';
    steps.take('open.read');
    return stepped(inner, steps, isRewindCommand);
  };
}

/** What the answer to a call brings, by the call's method. */
const SUBJECTS: readonly (readonly [pattern: RegExp, subject: string])[] = [
  [/\/(?:GetFullCollectionByID|GetCollectionByID|GetTransaction)$/, 'collection'],
  [/\/(?:SubscribeBlocksFromStartHeight|GetBlockByHeight)$/, 'block'],
  [/\/SubscribeExecutionData/, 'execution-data'],
  [/\/(?:SubscribeBlockDigestsFromLatest|GetLatestBlockHeader)$/, 'head'],
  [/\/(?:GetNetworkParameters|GetNodeVersionInfo)$/, 'identity'],
];

/** gRPC, with a step before each question and after each answer. */
export function steppedChannel(steps: Steps): OpenChannel {
  return (options, dependencies) => {
    const channel = new RpcChannel(options, dependencies);
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
        return channel.stream(path, request, {
          onMessage: (message) => {
            received(subject);
            sink.onMessage(message);
          },
          onEnd: (status) => sink.onEnd(status),
        });
      },
      close: () => channel.close(),
    };
  };
}

function subjectOf(path: string): string {
  return SUBJECTS.find(([pattern]) => pattern.test(path))?.[1] ?? 'other';
}

/** The log, whose constant messages name the steps that no other port sees. */
export function steppedLogger(steps: Steps): typeof createLogger {
  const onMessage = (message: string): void => {
    switch (message) {
      case 'listening':
        steps.take('listening');
        break;
      case 'batch is durable':
        steps.take('commit.announced');
        break;
      case 'height is indexed':
        steps.take('job.indexed');
        // The queue takes notice of `done` in a microtask that is queued behind this one.
        queueMicrotask(() => steps.take('job.done'));
        break;
      case 'stop height reached':
      case 'stopping; a second signal forces':
        steps.isStopping = true;
        steps.take('stop.asked');
        break;
    }
  };
  return (options) => {
    const inner = createLogger(options);
    const heard =
      (level: keyof Logger) =>
      (fields: object, message: string): void => {
        inner[level](fields, message);
        onMessage(message);
      };
    return {
      debug: heard('debug'),
      info: heard('info'),
      warn: heard('warn'),
      error: heard('error'),
      fatal: (fields, message) => inner.fatal(fields, message),
      setLevel: (level) => inner.setLevel(level),
    };
  };
}
