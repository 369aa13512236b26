import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { Transform, type Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { expect, it, onTestFinished, vi } from 'vitest';
import { loadPostgres } from '../../../src/storage/index.js';
import { asAdmin, atEnd, batchOf, fault, parts } from '../../support/index.js';
import { plainChain, refusal, rowsOf, until } from '../../support/index.js';
import { tcpServer, usePostgres } from '../../support/index.js';

const tlsFiles = join(import.meta.dirname, '../../data/tls');
const certificate = join(tlsFiles, 'localhost-cert.pem');

const postgres = usePostgres({ isOwn: true });

const { opening } = postgres;

it('is refused where the server is too old', async () => {
  const { url } = await postgres.home();
  const number = await shown(url, 'server_version_num');
  // It answers as one of the last version that is too old.
  const through = await relayBefore(url, (client, server) => {
    const aged = new Transform({
      transform: (chunk: Buffer, _, done) => {
        const text = chunk.toString('latin1').replaceAll(number, `14${number.slice(2)}`);
        done(null, Buffer.from(text, 'latin1'));
      },
    });
    client.pipe(server).pipe(aged).pipe(client);
  });
  const error = refusal('configuration', /is PostgreSQL .*, which is too old: 15 or newer is needed/);
  await expect(opening(through)).rejects.toMatchObject(error);
});

/** Its certificate is for `localhost`, and no authority has signed it. */
const encrypted = async () => {
  const { url } = await postgres.home();
  const through = await relayBefore(url, (client, server) => {
    // The client asks whether there is TLS, and is told that there is.
    client.once('data', () => {
      client.write('S');
      const secure = new TLSSocket(client, {
        isServer: true,
        cert: readFileSync(certificate),
        key: readFileSync(join(tlsFiles, 'localhost-key.pem')),
      });
      secure.on('error', () => server.destroy());
      secure.pipe(server).pipe(secure);
    });
  });
  return { named: through.replace('127.0.0.1', 'localhost'), byAddress: through };
};

it.each(['require', 'verify-ca', 'verify-full'])('behind TLS is refused otherwise (%s)', async (mode) => {
  const { named } = await encrypted();
  await expect(opening(`${named}?sslmode=${mode}`)).rejects.toMatchObject(fault('permission', /certificate/));
});

it('behind TLS is used where its certificate is confirmed, for the host as well unless that is not to be checked', async () => {
  const { byAddress, named } = await encrypted();
  const full = opening(`${byAddress}?sslmode=verify-full&sslrootcert=${certificate}`);
  await expect(full).rejects.toMatchObject({ kind: 'permission' });
  for (const way of [`${byAddress}?sslmode=verify-ca`, `${named}?sslmode=verify-full`])
    expect((await opening(`${way}&sslrootcert=${certificate}`)).trouble()).toBeUndefined();
});

it.each([
  ['client', 48, /does not accept the certificate of this program/],
  ['client', 70, /ssl_min_protocol_version/],
  ['renewed', undefined, /a certificate and its own key/],
])('says which side is to be changed where TLS fails (key of %s, alert %s)', async (key, alert, advice) => {
  const { url } = await postgres.home();
  const through = await relayBefore(url, (client) => {
    client.once('data', () => {
      client.write('S');
      if (alert !== undefined) client.once('data', () => client.end(Buffer.from([21, 3, 3, 0, 2, 2, alert])));
    });
  });
  const files = `sslcert=${join(tlsFiles, 'client-cert.pem')}&sslkey=${join(tlsFiles, `${key}-key.pem`)}`;
  const tls = `sslmode=require&sslrootcert=${certificate}`;
  await expect(opening(`${through}?${tls}&${files}`)).rejects.toMatchObject(fault('permission', advice));
});

it('that waits for a standby that is not there says so, lets no command wait for ever, and goes on without it', async () => {
  const { store, url } = await postgres.filled(10);
  const awaitStandby = (change: string) =>
    asAdmin(url, `ALTER SYSTEM ${change}`).then(() => asAdmin(url, 'SELECT pg_reload_conf()'));
  await awaitStandby("SET synchronous_standby_names TO 'nobody'");
  atEnd(() => awaitStandby('RESET synchronous_standby_names'));
  await vi.waitFor(async () => expect(await shown(url, 'synchronous_standby_names')).toBe('nobody'), 10_000);
  const written = store.commit(batchOf(plainChain(10, 1)[0]!));
  const named =
    /not answered for.*: it waits for a standby \(synchronous_standby_names is nobody\)\)\. Bring/;
  await until(() => named.test(store.trouble() ?? ''));
  const { PostgresDatabase, databasePlace } = await loadPostgres();
  const updating = async (set: string, how = {}) => {
    const its = await postgres.later(Promise.resolve(new PostgresDatabase(databasePlace(url), parts(), how)));
    return { its, done: its.write((session) => session.query({ text: `UPDATE flow_store.${set}` })) };
  };
  const command = (await updating('proven SET height = height', { patienceMs: 0 })).done;
  await expect(command).rejects.toMatchObject(fault('unavailable', named));
  const { its, done } = await updating('store SET commits = commits');
  await until(() => /lock timeout: it waits for a standby.*Bring that/.test(its.trouble() ?? ''));
  await awaitStandby('RESET synchronous_standby_names');
  await Promise.all([written, done]);
  await until(() => store.trouble() === undefined);
});

it('is not blamed for what PGOPTIONS asks of it, nor asked for a TLS that the environment means for other programs', async () => {
  const { url } = await postgres.home();
  vi.stubEnv('PGSSLNEGOTIATION', 'direct');
  vi.stubEnv('PGOPTIONS', '-c nothing=here');
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(opening(url)).rejects.toMatchObject(fault('unavailable', 'change or unset it'));
});

async function shown(url: string, name: string): Promise<string> {
  const [row] = await rowsOf(url, `SELECT current_setting('${name}') AS value`);
  return (row as { readonly value: string }).value;
}

/** The URL of a way to the database, along which `relay` connects the two ends. */
async function relayBefore(url: string, relay: (client: Socket, server: Duplex) => void): Promise<string> {
  const its = new URL(url);
  const target = { host: its.hostname, port: Number(its.port || 5432) };
  const port = await tcpServer((client) => {
    const server = connect(target).on('error', () => undefined);
    server.on('close', () => client.destroy());
    client.on('close', () => server.destroy());
    relay(client, server);
  });
  return Object.assign(its, { hostname: '127.0.0.1', port: String(port) }).href;
}
