import { expect, it } from 'vitest';
import { countWorkers } from '../../../src/ranges/index.js';

it('counts the processes that share a store: those that live, those that went silent, those that stopped', () => {
  const workers = [
    { state: 'running', isAlive: true },
    { state: 'ready', isAlive: true },
    { state: 'running', isAlive: false },
    { state: 'stopped', isAlive: false },
  ] as const;
  expect(Object.fromEntries(countWorkers(workers))).toEqual({ live: 2, silent: 1, stopped: 1 });
});
