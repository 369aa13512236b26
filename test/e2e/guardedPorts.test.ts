import { createPrivateKey, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { get, request, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { connect } from 'node:tls';
import { credentials, type ChannelCredentials } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { atEnd, beginCall, devnetForTest, eventually, indexedHere, metadataOf } from '../support/daemons.js';
import { probeOn, runCommand, runDaemonHere, runProgram, scratchDirectory } from '../support/daemons.js';
import { sessionOn, startArguments } from '../support/daemons.js';
import { certificateOf, clientCaFile, clientCertificateFile } from '../support/secretFiles.js';
import { clientKeyFile, keyOf, TestSecrets } from '../support/secretFiles.js';
import type { CertificateName } from '../support/secretFiles.js';

interface Brought extends Pick<RequestOptions, 'cert' | 'key' | 'method'> {
  readonly session?: Buffer;
  readonly token?: string;
  readonly trusts?: CertificateName;
}

/** One request over TLS, with a connection of its own. Rejects where none comes about. */
async function askSecurely(
  port: number,
  path: string,
  { token, trusts = 'localhost', ...rest }: Brought = {},
) {
  const options = {
    ...{ host: 'localhost', port, path, agent: false, ca: readFileSync(certificateOf(trusts)), ...rest },
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  };
  const [response] = (await once(request(options).end(), 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) };
}

function grpcCredentials({ token, trusts = 'localhost', cert, key }: Brought = {}): ChannelCredentials {
  const [ca, own] = [readFileSync(certificateOf(trusts)), [key, cert] as (Buffer | undefined)[]];
  const channel = credentials.createSsl(ca, own[0] ?? null, own[1] ?? null);
  if (token === undefined) return channel;
  const call = credentials.createFromMetadataGenerator((_options, give) => {
    give(null, metadataOf({ authorization: `Bearer ${token}` }));
  });
  return credentials.combineChannelCredentials(channel, call);
}

async function fingerprintShown(port: number): Promise<string> {
  const how = { port, host: 'localhost', rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] };
  const socket = connect(how);
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

const TOKEN = 'a-token-of-this-test-0123';
const OTHER = 'another-token-of-this-test';
const LAST = 20;
const UNAUTHENTICATED = { code: 'UNAUTHENTICATED' };

async function guarded(flags: (secrets: TestSecrets) => readonly string[]) {
  const secrets = new TestSecrets(`${TOKEN} tests # the tests\n`);
  const chain = { seed: 5, profile: 'mixed', startHead: LAST } as const;
  const { daemon, dataDir } = await indexedHere(chain, ...flags(secrets));
  const portOf = (address: string): number => Number(new URL(address).port);
  const [port, grpcPort] = [portOf(daemon.apiUrl), portOf(`http://${daemon.grpcAddress}`)];
  const client = (brought?: Brought) => probeOn(`localhost:${grpcPort}`, {}, grpcCredentials(brought));
  return { daemon, dataDir, secrets, port, grpcPort, client };
}

function webSocket(port: number, protocols: readonly string[], token?: string): Promise<number | 'open'> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const ca = readFileSync(certificateOf('localhost'));
  const socket = new WebSocket(`wss://localhost:${port}/v1/ws`, [...protocols], { ca, headers });
  atEnd(() => socket.terminate());
  return new Promise((resolve, reject) => {
    socket.on('open', () => socket.send(JSON.stringify({ action: 'list_subscriptions' })));
    socket.on('message', () => resolve('open'));
    socket.on('close', resolve);
    socket.on('error', reject);
  });
}

describe('an API with a certificate and tokens', () => {
  it('answers who brings a token over TLS, refuses everybody else by name, and takes others over from its files, unless those cannot be used', async () => {
    const { client, daemon, dataDir, grpcPort, port, secrets } = await guarded((files) => files.flags());
    expect((await askSecurely(port, '/status', { token: TOKEN })).status).toBe(200);
    for (const brought of [{}, { token: OTHER }]) {
      const { body, headers, status } = await askSecurely(port, '/status', brought);
      expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer']);
      expect(JSON.parse(body)).toMatchObject({ code: 401, reason: 'unauthorized' });
      expect((await askSecurely(port, '/nowhere', brought)).status).toBe(401);
      expect(await client(brought).refusal('GetLatestBlock')).toMatchObject(UNAUTHENTICATED);
      const stream = await client(brought).drain('SubscribeBlocksFromLatest', { block_status: 1 });
      expect(stream).toMatchObject({ messages: [], end: UNAUTHENTICATED });
    }
    const latest = { block: { height: String(LAST) } };
    expect(await client({ token: TOKEN }).call('GetLatestBlock')).toMatchObject(latest);
    expect(await webSocket(port, [])).toBe(3000);
    expect(await webSocket(port, ['bearer', OTHER])).toBe(3000);
    expect(await webSocket(port, [], TOKEN)).toBe('open');
    expect(await webSocket(port, ['bearer', TOKEN])).toBe('open');
    // The page has to come before anybody can type a token into it; probes have none.
    expect((await askSecurely(port, '/')).status).toBe(200);
    expect((await daemon.health('/readyz')).status).toBe(200);

    await expect(fetch(`${daemon.apiUrl}/status`)).rejects.toThrow();
    await expect(askSecurely(port, '/status', { token: TOKEN, trusts: 'renewed' })).rejects.toThrow();
    const inTheClear = await probeOn(daemon.grpcAddress).refusal('Ping', {}, 2_000);
    expect(inTheClear.code).toBe('UNAVAILABLE');
    // Commands of this machine are let in by the record in the data directory, whatever the certificate is for.
    const answer = await runCommand(['status', '--network', 'devnet', '--data-dir', dataDir, '--json']);
    expect(answer).toMatchObject({ code: 0, stderr: '' });

    // Others are taken over while a stream of the old ones goes on.
    const fingerprint = (name: CertificateName): string =>
      new X509Certificate(readFileSync(certificateOf(name))).fingerprint256;
    expect(await fingerprintShown(port)).toBe(fingerprint('localhost'));
    let events = '';
    let isOver = false;
    const headers = { authorization: `Bearer ${TOKEN}` };
    const options = { ca: readFileSync(certificateOf('localhost')), headers };
    const request = get(`https://localhost:${port}/events?from=0`, options, (response) => {
      response.on('data', (text: Buffer) => (events += text.toString()));
      response.on('close', () => (isOver = true));
    });
    atEnd(() => void request.destroy());
    await eventually(() => events.includes(`id: ${LAST}-`));

    secrets.use('renewed');
    secrets.writeTokens(`${OTHER}\n`);
    for (const each of [port, grpcPort])
      await eventually(async () => (await fingerprintShown(each)) === fingerprint('renewed'));
    const renewed = { token: OTHER, trusts: 'renewed' } as const;
    await eventually(async () => (await askSecurely(port, '/status', renewed)).status === 200);
    expect((await askSecurely(port, '/status', { ...renewed, token: TOKEN })).status).toBe(401);
    expect(await client(renewed).call('Ping')).toEqual({});
    const told = daemon.program.logs().filter(({ msg }) => msg === 'a secret has changed');
    expect(told).toContainEqual(
      expect.objectContaining({ secret: 'tokens', tokens: 1, added: ['line 1'], removed: ['tests'] }),
    );
    expect(isOver).toBe(false);
    request.destroy();

    // What cannot be used is told once, and what was before stays.
    writeFileSync(secrets.keyFile, readFileSync(secrets.certificateFile));
    secrets.writeTokens('short\n');
    const REFUSED = 'a secret cannot be used: the one before stays in use';
    const refusals = () => daemon.program.logs().filter(({ msg }) => msg === REFUSED);
    await eventually(() => refusals().length > 1);
    const refused = refusals();
    expect(refused.map(({ level, secret }) => [level, secret])).toEqual([
      ['error', 'certificate'],
      ['error', 'tokens'],
    ]);
    expect(refused[0]?.['why']).toMatch(/has no private key in PEM/);
    expect(refused[1]?.['why']).toMatch(/line 1 has 5 characters/);
    expect((await askSecurely(port, '/status', renewed)).status).toBe(200);
    await daemon.scrapeUntil(
      (metrics) => metrics.value('secret_reloads_total', { secret: 'tokens', outcome: 'refused' }) > 1,
    );
    // Nor is it left open whether all is well once they are put back.
    secrets.use('renewed');
    secrets.writeTokens(`${OTHER}\n`);
    const AGAIN = 'a secret can be used again, and is the one in use';
    await eventually(() => daemon.program.logs().filter(({ msg }) => msg === AGAIN).length === 2);
    expect(refusals()).toHaveLength(2);
    const { stdout, stderr } = daemon.program;
    for (const secret of [TOKEN, OTHER, 'short'])
      expect(answer.stdout + stdout + stderr).not.toContain(secret);
    expect(await daemon.program.stop()).toBe(0);
  });

  it('may ask for a token where it is expensive alone, and take a client certificate for one', async () => {
    const { client, grpcPort, port } = await guarded((files) => [
      ...[...files.tlsFlags(), '--api-tls-client-ca-file', clientCaFile, '--api-tokens-for', 'expensive'],
    ]);
    const own = { cert: readFileSync(clientCertificateFile), key: readFileSync(clientKeyFile) };
    expect((await askSecurely(port, '/status')).status).toBe(200);
    expect((await askSecurely(port, '/export?from=1')).status).toBe(401);
    expect((await askSecurely(port, '/export?from=1', own)).status).toBe(200);
    expect(await client().call('GetLatestBlock')).toMatchObject({ block: { height: String(LAST) } });
    const { end } = await client().drain('SubscribeBlocksFromLatest', { block_status: 1 });
    expect(end).toMatchObject(UNAUTHENTICATED);
    const from = { start_block_height: 1, block_status: 1 };
    expect(await client(own).take('SubscribeBlocksFromStartHeight', from, 2)).toHaveLength(2);
    // A certificate that the authority has not signed is none.
    const strange = { cert: readFileSync(certificateOf('renewed')), key: readFileSync(keyOf('renewed')) };
    expect((await askSecurely(port, '/export?from=1', strange)).status).toBe(401);
    // Nor does a session bring one that it did not begin with.
    const ca = readFileSync(certificateOf('localhost'));
    for (const [began, isKnown] of [
      [{}, false],
      [strange, false],
      [own, true],
    ] as const) {
      const sessionOf = async (at: number, protocol: string): Promise<Buffer> => {
        const how = { host: 'localhost', port: at, ca, ALPNProtocols: [protocol], ...began };
        return ((await once(connect(how).resume(), 'session')) as [Buffer])[0];
      };
      const session = await sessionOf(port, 'http/1.1');
      expect((await askSecurely(port, '/export?from=1', { session })).status).toBe(isKnown ? 200 : 401);
      const url = `https://localhost:${grpcPort}`;
      const resumed = sessionOn(url, { ca, session: await sessionOf(grpcPort, 'h2') });
      const call = beginCall(resumed, '/flow_collection_indexer.v1.IndexAPI/SubscribeIndexedBlocks');
      call.end(Buffer.from([0, 0, 0, 0, 2, 8, 1])).resume();
      const [headers] = (await once(call, 'response')) as [Readonly<Record<string, string>>];
      expect(headers['grpc-status']).toBe(isKnown ? undefined : '16');
    }

    // Flow's SDK cannot send a token, and needs none for this.
    const script = [join(import.meta.dirname, '../support/sdkProgram.mjs'), `https://localhost:${port}`, '7'];
    const sdk = await runProgram([], { NODE_EXTRA_CA_CERTS: certificateOf('localhost') }, { script });
    expect(sdk.code, sdk.stderr).toBe(0);
    const { body } = await askSecurely(port, '/v1/blocks?height=7');
    expect(sdk.stdout.trim()).toBe((JSON.parse(body) as [{ header: { id: string } }])[0].header.id);
  });
});

it('a start with files that cannot be used is refused before anything is opened, and the refusal names the file and not what is in it', async () => {
  const secrets = new TestSecrets(`${TOKEN}\n${TOKEN}\n`);
  const elsewhere = join(import.meta.dirname, '../data/tls/elsewhere-cert.pem');
  const passphrase = { type: 'pkcs8', format: 'pem', cipher: 'aes-128-cbc', passphrase: TOKEN } as const;
  const locked = join(scratchDirectory(), 'locked.pem');
  writeFileSync(locked, createPrivateKey(readFileSync(secrets.keyFile)).export(passphrase));
  const [certificate, key] = ['--api-tls-certificate-file', '--api-tls-key-file'];
  const cases = [
    [[certificate, secrets.certificateFile, key, locked], /needs a passphrase/],
    [['--api-tokens-file', secrets.tokensFile], /the token of line 2 is there twice/],
    [[certificate, secrets.certificateFile], /has no private key in PEM/],
    [[certificate, elsewhere, key, keyOf('renewed')], /is not the key of/],
    [[certificate, '/nowhere.pem'], /ENOENT/],
    [[key, secrets.keyFile], /api\.tls\.certificateFile is not, so the ports would speak plain/],
  ] as const;
  const node = await devnetForTest({ startHead: 3, paused: true });
  for (const [flags, why] of cases) {
    const { code, stdout, stderr } = await runDaemonHere(startArguments(node, scratchDirectory(), ...flags));
    expect([code, stderr]).toEqual([78, expect.stringMatching(why)]);
    expect(stdout + stderr).not.toContain(TOKEN);
  }
});
