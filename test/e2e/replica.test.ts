import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { asAdmin, atEnd, daemonOn, devnetForTest, eventually, usePostgres } from '../support/daemons.js';
import { replicaMaker, startReplica } from '../support/postgresReplica.js';

const postgres = usePostgres({ isOwn: true });

const begin = async () => {
  const devnet = await devnetForTest({ seed: 7, startHead: 40, paused: true, sealedLag: 0 });
  const { url } = await postgres.home();
  const start = (...flags: string[]) => daemonOn(devnet, '--store', url, '--start-height', '0', ...flags);
  return { devnet, url, start };
};

it('see what it has, however far the index is, and are told when it is away, while indexing goes on', async () => {
  const { devnet, url, start } = await begin();
  const first = await start();
  await first.reaches(40);
  expect(await first.program.stop()).toBe(0);
  // A replica that has stood still since.
  const replica = new URL(url);
  replica.pathname += '_copy';
  const copied = `CREATE DATABASE ${replica.pathname.slice(1)} TEMPLATE ${new URL(url).pathname.slice(1)}`;
  await asAdmin(postgresOf(url), copied);
  const way = await postgres.faultsBefore(replica.href);
  // It is about to receive its store.
  await asAdmin(replica.href, 'ALTER SCHEMA flow_store RENAME TO coming');
  const received = sleep(2_000).then(() => asAdmin(replica.href, 'ALTER SCHEMA coming RENAME TO flow_store'));
  const daemon = await start('--api-store', way.url, '--ready-max-lag', '4');
  await received;
  expect(JSON.stringify(daemon.program.logs())).toContain('There is no store at');
  atEnd(async () => {
    await daemon.program.stop();
    await asAdmin(postgresOf(url), `DROP DATABASE ${replica.pathname.slice(1)} WITH (FORCE)`);
  });
  devnet.node.head.advance(5);
  await daemon.reaches(45);
  expect((await daemon.api('/v1/blocks?height=40')).status).toBe(200);
  expect((await daemon.api('/v1/blocks?height=41')).status).toBe(404);
  expect((await daemon.api('/status')).body).toMatchObject({ latestIndexed: 40, lag: 5 });
  expect((await daemon.reason('behind')).message).toContain('api.store, which has come only to 40');
  // What it says of itself counts.
  const behind =
    'UPDATE flow_store.coverage SET to_height = 39; UPDATE flow_store.store SET commits = commits + 1';
  await asAdmin(replica.href, behind);
  await daemon.statusUntil(({ latestIndexed }) => latestIndexed === 39);
  expect((await daemon.api('/v1/blocks?height=40')).status).toBe(404);
  const readable = async () => (await daemon.api('/v1/blocks?height=39')).status;
  await way.down();
  devnet.node.head.advance(5);
  await daemon.reaches(50);
  expect((await daemon.reason('database_unreachable')).message).toContain('127.0.0.1');
  expect(await readable()).toBe(503);
  await way.up();
  await eventually(async () => (await readable()) === 200);
});

it('see what a streaming replica has come to', async ({ skip }) => {
  const maker = replicaMaker();
  if (maker === undefined || postgres.server().machine === undefined)
    skip('pg_basebackup is not installed here');
  const { devnet, url, start } = await begin();
  await (await postgres.opening(url)).close();
  await asAdmin(url, 'DROP VIEW flow.block');
  const replica = await startReplica(url, maker ?? '');
  atEnd(() => replica.close());
  // It lags: the view that this start makes again is yet to come.
  await replica.pause();
  const daemon = await start('--api-store', replica.urlOf(url));
  await replica.resume();
  await daemon.reaches(40);
  const readable = (height: number) =>
    eventually(async () => (await daemon.api(`/v1/blocks?height=${height}`)).status === 200);
  await readable(40);
  await replica.pause();
  devnet.node.head.advance(5);
  await daemon.reaches(45);
  expect((await daemon.api('/v1/blocks?height=45')).status).toBe(404);
  await replica.resume();
  await readable(45);
});

function postgresOf(url: string): string {
  const its = new URL(url);
  its.pathname = '/postgres';
  return its.href;
}
