import pg from 'pg';
import type { Pool } from 'pg';

/** How long connections may take to say goodbye. */
const END_TIMEOUT_MS = 2_000;

/** A broken connection is told to whoever uses it next; an event that nobody listens to would end the process. */
export function quietPool(config: pg.PoolConfig): Pool {
  const pool = new pg.Pool({ ...config, allowExitOnIdle: true });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/** Resolves also when the database does not answer. */
export function endPool(pool: Pool): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, END_TIMEOUT_MS);
    pool.end().then(
      () => {
        clearTimeout(timer);
        resolve();
      },
      () => resolve(),
    );
  });
}
