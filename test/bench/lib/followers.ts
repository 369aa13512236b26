import { once } from 'node:events';
import { startScript } from './processes.js';

export interface FollowTask {
  /** On 127.0.0.1. */
  readonly httpPort: number;
  readonly grpcPort: number;
  /** Half of them follow `/events`, half `SubscribeIndexedHeights`, each on a connection of its own. */
  readonly followers: number;
  /** Indexed already: a follower is connected when it has heard of it. */
  readonly fromHeight: number;
  readonly toHeight: number;
}

/** When a follower had heard of a height, by the clock that all processes share. */
export type Arrival = readonly [height: number, atMs: number];

/** Followers in a process of their own. Resolves when all are connected; `done` when each has heard of its last height. */
export async function startFollowers(
  task: FollowTask,
): Promise<{ readonly done: Promise<readonly Arrival[]> }> {
  const child = startScript('test/bench/lib/followProcess.ts', [JSON.stringify(task)]);
  await once(child, 'message');
  const done = once(child, 'message').then(([arrivals]) => arrivals as readonly Arrival[]);
  return { done: done.finally(() => child.kill('SIGKILL')) };
}
