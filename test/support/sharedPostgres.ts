import type { TestProject } from 'vitest/node';
import type { OwnPostgres } from '../../scripts/postgres.mjs';
import { loadQueue } from '../../src/ranges/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { seededRandom } from './seededRandom.js';
import { loadPostgres } from '../../src/storage/index.js';
import { asAdmin, ownServer, PREPARED } from './postgresServer.js';
import { RecordingLogger } from './recordingLogger.js';

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgresUrl: string;
  }
}

/** Each project loads this file for itself, in one process. */
const everywhere = globalThis as { postgresOfTests?: Promise<OwnPostgres> };

/** One server for all files of all projects: each makes databases of its own in it. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const isFirst = everywhere.postgresOfTests === undefined;
  const server = await (everywhere.postgresOfTests ??= begin());
  project.provide('postgresUrl', server.url);
  return isFirst ? () => server.close() : undefined;
}

async function begin(): Promise<OwnPostgres> {
  const server = await ownServer({ max_connections: '400' });
  await prepare(server.url);
  return server;
}

/** The tables of a store and of the queue, as a process makes them at its first start. */
async function prepare(server: string): Promise<void> {
  await asAdmin(server, `CREATE DATABASE ${PREPARED}`);
  const its = new URL(server);
  its.pathname = `/${PREPARED}`;
  const parts = { clock: systemClock, random: seededRandom(1), logger: new RecordingLogger() };
  const { PostgresIndexStore } = await loadPostgres();
  const store = await PostgresIndexStore.open({ url: its.href, chainId: 'flow-localnet' }, parts);
  const { SharedQueue } = await loadQueue();
  const queue = await SharedQueue.open({ url: its.href, roles: [] }, parts);
  await queue.close();
  await store.close();
}
