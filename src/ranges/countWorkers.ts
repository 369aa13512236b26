import type { WorkerState } from './ports.js';

/** How many processes share a store, by what is known of them; `silent`: not heard of, though it never stopped. */
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
