import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually, indexedHere, RestNode, startProgram, type DaemonHere } from '../support/daemons.js';
import type { Program } from '../support/daemons.js';
import { streamTopics } from '../support/streamedTopics.js';

const TOP = 1_010;
const TRANSACTION = 'ef'.repeat(32);
const script = [join(import.meta.dirname, '../support/fclProgram.mjs')];

const daemonWith = async (...flags: string[]) =>
  (await indexedHere({ seed: 3, rootHeight: 1_000, startHead: TOP }, ...flags)).daemon;

/** A process of its own: what nobody catches ends it. */
function fclProgram(daemon: DaemonHere, mode: 'once' | 'watch'): Program {
  return startProgram([daemon.apiUrl, mode, TRANSACTION], {}, { script });
}

it('waits for a transaction and follows events through a daemon that forwards', async () => {
  const node = await RestNode.start();
  const { asked } = streamTopics(node);
  const daemon = await daemonWith('--api-forward-rest', node.url);
  const program = fclProgram(daemon, 'once');
  expect(await program.exited, program.stderr).toBe(0);
  expect(program.stdout).toContain('sealed SEALED\n');
  expect(program.stdout).toContain('event 1005 {}\n');
  expect(asked.flatMap(({ topic = [] }) => topic)).toEqual(['transaction_statuses', 'events']);
  const metrics = await eventually(async () => {
    const scraped = await daemon.scrape();
    return scraped.value('forwarded_calls_in_flight', { protocol: 'rest', kind: 'stream' }) === 0
      ? scraped
      : undefined;
  });
  for (const [topic, outcome] of Object.entries({ transaction_statuses: 'answered', events: 'cancelled' })) {
    const labels = { protocol: 'rest', method: `WS ${topic}`, outcome };
    expect(metrics.value('forwarded_calls_total', labels)).toBe(1);
  }
});

it('is told that a daemon does not forward, and lives on though it catches nothing', async () => {
  const daemon = await daemonWith();
  const program = fclProgram(daemon, 'watch');
  expect(await program.exited, program.stdout + program.stderr).toBe(0);
  expect(program.stdout).toContain(`alive at ${TOP}\n`);
  for (const [what, topic] of [
    ['alone', 'transaction_statuses'],
    ['rejected', 'transaction_statuses'],
    ['refused', 'events'],
  ])
    expect(program.stdout).toMatch(
      new RegExp(`^${what}: Failed to subscribe to topic ${topic}: .*set its api\\.forwardRest`, 'm'),
    );
});
