import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { tcpServer } from '../../support/httpProbe.js';
import { asAdmin } from '../../support/postgresServer.js';
import { scratchDirectory } from '../../support/program.js';
import { usePostgres } from '../../support/storeKinds.js';
import { fault, refusal } from '../../support/refusal.js';

const tlsFiles = join(import.meta.dirname, '../../data/tls');
const certificate = join(tlsFiles, 'localhost-cert.pem');

describe('a database', () => {
  const postgres = usePostgres({ isOwn: true });

  const { opening } = postgres;

  it('is refused where the server is too old', async () => {
    const { url } = await postgres.home();
    const { rows } = await asAdmin(url, 'SHOW server_version_num');
    const { server_version_num: number } = rows[0] as { server_version_num: string };
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
    await expect(opening(through)).rejects.toMatchObject(
      refusal('configuration', /is PostgreSQL .*, which is too old: 15 or newer is needed/),
    );
  });

  describe('behind TLS', () => {
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
      const named = new URL(through);
      named.hostname = 'localhost';
      return { named: named.href, byAddress: through };
    };

    it('is used where its certificate is confirmed', async () => {
      const { named } = await encrypted();
      const store = await opening(`${named}?sslmode=verify-full&sslrootcert=${certificate}`);
      expect(store.trouble()).toBeUndefined();
    });

    it.each(['require', 'verify-ca', 'verify-full'])('is refused otherwise (%s)', async (mode) => {
      const { named } = await encrypted();
      await expect(opening(`${named}?sslmode=${mode}`)).rejects.toMatchObject(
        fault('permission', /certificate/),
      );
    });

    it('is refused where the certificate is for another host, unless that is not to be checked', async () => {
      const { byAddress } = await encrypted();
      const full = opening(`${byAddress}?sslmode=verify-full&sslrootcert=${certificate}`);
      await expect(full).rejects.toMatchObject({ kind: 'permission' });
      const store = await opening(`${byAddress}?sslmode=verify-ca&sslrootcert=${certificate}`);
      expect(store.trouble()).toBeUndefined();
    });
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
        if (alert !== undefined)
          client.once('data', () => client.end(Buffer.from([21, 3, 3, 0, 2, 2, alert])));
      });
    });
    const files = `sslcert=${join(tlsFiles, 'client-cert.pem')}&sslkey=${join(tlsFiles, `${key}-key.pem`)}`;
    const tls = `sslmode=require&sslrootcert=${certificate}`;
    await expect(opening(`${through}?${tls}&${files}`)).rejects.toMatchObject(fault('permission', advice));
  });

  it('is not blamed for what PGOPTIONS asks of it', async () => {
    const { url } = await postgres.home();
    vi.stubEnv('PGOPTIONS', '-c nothing=here');
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(opening(url)).rejects.toMatchObject(fault('unavailable', 'change or unset it'));
  });

  it('takes the password from the file that PGPASSFILE names', async () => {
    const { url } = await postgres.home();
    const hba = await asAdmin(url, 'SHOW hba_file');
    // Somebody else's server keeps its rules.
    expect(postgres.server().machine !== undefined || process.env['PGURL'] !== undefined).toBe(true);
    if (postgres.server().machine === undefined) return;
    const { hba_file: rules } = hba.rows[0] as { hba_file: string };
    const before = readFileSync(rules, 'utf8');
    await asAdmin(url, `CREATE ROLE guarded LOGIN PASSWORD 'hush-hush' SUPERUSER`);
    writeFileSync(rules, `host all guarded 127.0.0.1/32 scram-sha-256\n${before}`);
    await asAdmin(url, 'SELECT pg_reload_conf()');
    onTestFinished(async () => {
      vi.unstubAllEnvs();
      writeFileSync(rules, before);
      await asAdmin(url, 'SELECT pg_reload_conf()');
    });
    const { host, hostname, port, pathname } = new URL(url);
    const guarded = `postgres://guarded@${host}${pathname}`;
    await vi.waitFor(() => expect(asAdmin(guarded, 'SELECT 1')).rejects.toThrow(/password/), 10_000);
    await expect(opening(guarded)).rejects.toMatchObject(fault('permission', /PGPASSFILE/));
    const mistaken = opening(guarded.replace('guarded@', 'guarded:wrong-one@'));
    const wrong: unknown = await mistaken.catch((error: unknown) => error);
    expect(wrong).toMatchObject({ kind: 'permission' });
    expect(String(wrong)).not.toMatch(/wrong-one|guarded:/);
    const file = join(scratchDirectory(), 'pgpass');
    writeFileSync(file, `${hostname}:${port}:*:guarded:hush-hush\n`);
    chmodSync(file, 0o600);
    vi.stubEnv('PGPASSFILE', file);
    const store = await opening(guarded);
    expect(store.trouble()).toBeUndefined();
    await store.close();
  });
});

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
  its.hostname = '127.0.0.1';
  its.port = String(port);
  return its.href;
}
