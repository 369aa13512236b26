import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { atEnd, begin, countIn, fill, isOpen, plainChain, refusal } from '../../support/index.js';
import { scratchDirectory, usePostgres } from '../../support/index.js';
import { lastingPort } from '../../support/lastingPort.js';

const PGBOUNCER = '/usr/sbin/pgbouncer';
const chain = plainChain(10, 30, 2);
const REFUSAL = refusal(
  'configuration',
  /There is a pooler .* Set pool_mode = session .* or name the server itself/,
);

/** The same database at another port of this machine. */
const elsewhere = (target: string, port: number): string =>
  Object.assign(new URL(target), { port: String(port) }).href;

/**
 * PgBouncer as its package ships it, but for where it listens and what it stands before, and for these settings. The URL of the
 * database behind it, until the end of the test.
 */
async function startPgBouncer(target: string, settings: Readonly<Record<string, string>>): Promise<string> {
  const { hostname, port, username } = new URL(target);
  const directory = scratchDirectory();
  chmodSync(directory, 0o777);
  const at = await lastingPort();
  const all = {
    ...{ listen_addr: '127.0.0.1', listen_port: String(at), unix_socket_dir: directory },
    ...{ auth_type: 'any', pidfile: join(directory, 'pid'), logfile: join(directory, 'log'), ...settings },
  };
  const file = join(directory, 'pgbouncer.ini');
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`);
  const database = `* = host=${hostname} port=${port} user=${username}`;
  writeFileSync(file, ['[databases]', database, '[pgbouncer]', ...lines].join('\n'));
  const asOther = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
  const running = spawn(PGBOUNCER, ['-q', ...asOther, file], { stdio: 'ignore' });
  const hasEnded = () => running.exitCode !== null || running.signalCode !== null;
  atEnd(async () => {
    if (hasEnded()) return;
    const ended = once(running, 'exit');
    running.kill('SIGKILL');
    await ended;
  });
  while (!(await isOpen(at))) {
    if (hasEnded()) throw new Error(`PgBouncer has ended with ${running.exitCode ?? running.signalCode}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return elsewhere(target, at);
}

/** It is not installed everywhere. */
describe.runIf(existsSync(PGBOUNCER))('a database behind PgBouncer', { timeout: 120_000 }, () => {
  const { home, now, open, opening, queue, repaired, surveyed, verified } = usePostgres();
  const behind = async (settings: Readonly<Record<string, string>> = {}, change = (url: string) => url) => {
    const { url: direct } = await home({ isEmpty: true });
    const url = await startPgBouncer(change(direct), settings);
    // Before the pooler goes.
    atEnd(() => now());
    return { direct, url };
  };

  it('as it is shipped works', async () => {
    const { direct, url } = await behind();
    const store = await begin(open(url), 30, chain.slice(20, 29), 38);
    await fill(store, chain, { from: 10, to: 19 });
    const term = await (await queue(url)).lead(AbortSignal.timeout(20_000));
    expect(term).toBeDefined();
    expect((await store.blockByHeight(15))?.block.id).toBe(chain[5]!.block.id);
    expect(await verified(url)).toMatchObject({ damageCount: 0 });
    expect((await surveyed(url)).store?.coverage).toHaveLength(2);
    await store.close();
    // The next clients get the sessions of the first ones.
    const again = await opening(url);
    expect(again.coverage()).toHaveLength(2);
    expect(await countIn(direct, 'flow_store.block')).toBe(19);
  });

  // Every way to a database begins with the same question.
  it.each([
    { pool_mode: 'transaction' },
    { pool_mode: 'statement' },
    { pool_mode: 'transaction', default_pool_size: '1' },
    { pool_mode: 'transaction', server_round_robin: '1' },
    { pool_mode: 'transaction', server_reset_query_always: '1' },
    { pool_mode: 'transaction', ignore_startup_parameters: 'extra_float_digits,options,statement_timeout' },
  ])('with %j is refused by name', async (settings) => {
    const { url } = await behind(settings);
    for (const way of [
      () => opening(url),
      () => queue(url, { roles: [] }),
      () => queue(url, { waitMs: 20_000 }),
      () => surveyed(url),
      () => verified(url),
      () => repaired(url, false),
    ])
      await expect(way()).rejects.toMatchObject(REFUSAL);
  });

  it('that cannot reach the server is waited for, in its own words', async () => {
    const settings = { server_login_retry: '1', query_wait_timeout: '2' };
    const { url } = await behind(settings, (direct) => elsewhere(direct, 1));
    const error = { exit: 'storage', name: 'StorageError' };
    await expect(opening(url, { waitMs: 1_000 })).rejects.toMatchObject(error);
  });

  it('that has no session left says so in time', async () => {
    const { url } = await behind({ default_pool_size: '1' });
    const error = refusal('storage', /has not answered for \d s on a new connection/);
    await expect(opening(url)).rejects.toMatchObject(error);
  });
});
