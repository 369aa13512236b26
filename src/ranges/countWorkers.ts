import type { WorkerState } from './ports.js';

/** How many processes share a store, by state; `silent`: no beat any more, but never stopped. */
export function countWorkers(
  workers: readonly Pick<WorkerState, 'isAlive' | 'state'>[],
): ReadonlyMap<'live' | 'silent' | 'stopped', number> {
  const live = workers.filter(({ isAlive }) => isAlive).length;
  const stopped = workers.filter(({ state }) => state === 'stopped').length;
  return new Map([
    ['live', live],
    ['silent', workers.length - live - stopped],
    ['stopped', stopped],
  ]);
}
