import { workersOf } from '../../app/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { ownValuesOf, workersFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { formatCount, formatDuration } from '../../observability/index.js';

/** `workers`: the processes that share a database. */
export async function workers(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const { json } = ownValuesOf(workersFlags, invocation);
  const { config } = await configOf(invocation, terminal);
  const found = await workersOf(config);
  terminal.out(json ? `${JSON.stringify(found)}\n` : renderWorkers(found));
  return 'done';
}

type Worker = Awaited<ReturnType<typeof workersOf>>[number];

/** Formats the processes that share a database for people. */
function renderWorkers(workers: readonly Worker[]): string {
  if (workers.length === 0) return 'No process has used this database yet.\n';
  return `${workers.map(lineOf).join('\n')}\n`;
}

function lineOf(worker: Worker): string {
  const { id, host, pid, version, workVersion, roles, busyWith, beatAgeMs, kill, leads } = worker;
  const facts = [
    `${id} ${host}:${pid}`,
    `version ${version} (work ${workVersion})`,
    roles.join(','),
    stateOf(worker),
    ...(leads ? ['leads'] : []),
    ...(busyWith.length === 0
      ? []
      : [
          `fills ${busyWith.map(({ from, to }) => `${formatCount(from)} to ${formatCount(to)}`).join(' and ')}`,
        ]),
    `last beat ${formatDuration(beatAgeMs / 1_000)} ago`,
    ...(kill === undefined ? [] : ['told to end']),
  ];
  return facts.join(', ');
}

function stateOf({ isAlive, state }: Worker): string {
  return isAlive || state === 'stopped' ? state : 'dead';
}
