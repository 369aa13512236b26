import { readdirSync, readFileSync } from 'node:fs';
import { asAdmin, ownServer } from '../../support/postgresServer.js';

/** A server of the bench's own, that writes through to the disk as one that is to be trusted does. */
export interface BenchPostgres {
  /** Of a new, empty database. */
  database(): Promise<string>;
  /** Of all its processes, since they began, to 10 ms. Not a number where there is no `/proc`. */
  processorMs(): number;
  close(): Promise<void>;
}

export async function startBenchPostgres(): Promise<BenchPostgres> {
  const server = await ownServer({
    ...{ fsync: 'on', shared_buffers: '256MB', max_wal_size: '2GB', max_connections: '200' },
  });
  // It is in a group of its own, and would outlive a bench that fails.
  const end = (): void => {
    if (server.pid !== undefined) process.kill(server.pid, 'SIGQUIT');
  };
  process.on('exit', end);
  let made = 0;
  return {
    database: async () => {
      made += 1;
      const name = `bench_${made}`;
      await asAdmin(server.url, `CREATE DATABASE ${name}`);
      const url = new URL(server.url);
      url.pathname = `/${name}`;
      return url.href;
    },
    processorMs: () => (server.pid === undefined ? Number.NaN : processorMsOf(String(server.pid))),
    close: async () => {
      process.off('exit', end);
      await server.close();
    },
  };
}

const TICK_MS = 10;

/** Of a process, of its children that live, and of those that have ended. */
function processorMsOf(pid: string): number {
  let ticks = 0;
  for (const name of namesIn('/proc').filter((each) => /^\d+$/.test(each))) {
    // From its state on: the name before may hold anything.
    const [, parent, ...fields] = statOf(name).split(' ');
    const [user, system, usersOfEnded, systemOfEnded] = fields.slice(9, 13).map(Number);
    if (name === pid) ticks += sum(user, system, usersOfEnded, systemOfEnded);
    else if (parent === pid) ticks += sum(user, system);
  }
  return ticks === 0 ? Number.NaN : ticks * TICK_MS;
}

function sum(...values: (number | undefined)[]): number {
  return values.reduce<number>((total, value) => total + (value ?? 0), 0);
}

/** Empty for a process that is gone. */
function statOf(pid: string): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2);
  } catch {
    return '';
  }
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
