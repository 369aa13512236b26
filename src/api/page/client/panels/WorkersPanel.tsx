import type { VNode } from 'preact';
import { age, count, heights } from '../format.js';
import { Panel } from '../parts/Panel.js';
import type { Status, Worker } from '../types.js';

interface WorkersPanelProps {
  readonly cluster: NonNullable<Status['cluster']>;
  readonly elapsed: number;
}

/** Ranges named for one worker. */
const MAX_RANGES = 4;

/** The processes that share the database. */
export function WorkersPanel({ cluster, elapsed }: WorkersPanelProps): VNode {
  const { workers, leader, leads } = cluster;
  const alive = workers.filter(({ alive: isAlive }) => isAlive).length;
  const who =
    leader === null
      ? 'no process follows the chain'
      : `${leads ? 'this one' : `${leader.worker} on ${leader.host}`} follows the chain`;
  return (
    <Panel title="Workers" summary={`${count(alive)} of ${count(workers.length)} alive; ${who}`}>
      <ul class="cards">
        {workers.map((worker) => (
          <li key={worker.id} class="card">
            <p class="title">
              <strong class="long">
                {worker.host}, process {worker.pid}
              </strong>
              <span class={`pill ${worker.alive ? 'ok' : 'bad'}`}>{stateOf(worker)}</span>
            </p>
            <p class="dim">
              {worker.roles.join(', ')}; version {worker.version}; seen {age(worker.ageSeconds + elapsed)} ago
            </p>
            <p>{busyWords(worker)}</p>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function stateOf({ alive, state }: Worker): string {
  if (!alive && state !== 'stopped') return 'silent';
  return state;
}

function busyWords({ busyWith, leads }: Worker): string {
  const ranges = busyWith.slice(0, MAX_RANGES).map(({ from, to }) => heights(from, to));
  const more = busyWith.length > MAX_RANGES ? ` and ${count(busyWith.length - MAX_RANGES)} more` : '';
  const parts = [
    ...(leads ? ['Follows the chain'] : []),
    ...(ranges.length === 0 ? [] : [`Fills in ${ranges.join(', ').replaceAll('Height', 'height')}${more}`]),
  ];
  return parts.length === 0 ? 'Idle' : parts.join('. ');
}
