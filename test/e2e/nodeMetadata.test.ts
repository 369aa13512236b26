import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { devnetForTest, eventually, metadataOf, probeOn, refusalOf, RestNode } from '../support/daemons.js';
import { runCommand, runDaemonHere, scratchDirectory, startArguments } from '../support/daemons.js';
import { startDaemonHere, WsClient, type DaemonHere } from '../support/daemons.js';
import { HostedNode } from '../support/hostedNode.js';

const ROOT = 1_000;
const TOP = 1_030;
const FIRST = 'f1rst-0123456789abcdef';
const SECOND = 's3cond-0123456789abcdef';

function nodeAt(top: number): Promise<DevnetHandle> {
  return devnetForTest({ seed: 5, rootHeight: ROOT, startHead: top, paused: true, sealedLag: 0 });
}

function metadataFile(text: string, mode = 0o600): string {
  const file = join(scratchDirectory(), 'metadata');
  writeFileSync(file, text, { mode });
  return file;
}

const doctorOf = ([, ...flags]: readonly string[]) => runCommand(['doctor', ...flags]);

/** How a call of the read API is refused that only a node can answer. */
function forwardedCall(daemon: DaemonHere, metadata: Readonly<Record<string, string>>) {
  const path = '/flow.access.AccessAPI/GetEventsForHeightRange';
  return refusalOf(probeOn(daemon.grpcAddress).raw(path, Buffer.alloc(0), metadataOf(metadata)));
}

describe('hosted access nodes that want metadata with every call', () => {
  it('get their own, and nobody gets that of another, whatever is called and forwarded', async () => {
    const devnet = await nodeAt(TOP);
    const [first, second] = [await HostedNode.before(devnet), await HostedNode.before(devnet)];
    first.wants = { 'x-token': FIRST };
    second.wants = { authorization: `Bearer ${SECOND}`, api_key: 'second-customer' };
    const file = metadataFile(
      [
        '\uFEFF# Our two providers.',
        '',
        `${first.name}   X-Token: ${FIRST}  `,
        `grpcs://${second.name} authorization: Bearer ${SECOND}`,
        `${second.name}\tapi_key : second-customer`,
        'elsewhere.example:443 x-token: unused-0123456789',
      ].join('\r\n'),
    );
    const flags = ['--access-metadata-file', file, '--start-height', 'root', '--api-forward'];
    const named = ['--access-node', second.address, '--edi-node', second.address];
    const args = startArguments(first, scratchDirectory(), ...flags, ...named);
    const daemon = await startDaemonHere(args);
    await daemon.reaches(TOP);

    const unknown = daemon.program
      .logs()
      .find(({ msg }) => msg === 'access.metadataFile names nodes that are not called');
    expect(unknown).toMatchObject({ level: 'warn', nodes: 'elsewhere.example:443' });
    // A caller's own metadata neither replaces what the node wants, nor is it kept from it.
    await forwardedCall(daemon, { 'x-token': 'of the caller', 'x-mine': 'yes' });
    const forwarded = [...first.asked, ...second.asked].filter(({ path }) => path.includes('GetEvents'));
    expect(forwarded.map(({ headers }) => headers['x-mine'])).toEqual(['yes']);

    const paths = [...first.asked, ...second.asked].map(({ path }) => path);
    for (const method of ['GetNetworkParameters', 'GetBlockByHeight', 'SubscribeBlockDigestsFromLatest'])
      expect(paths).toContain(`/flow.access.AccessAPI/${method}`);
    expect(second.asked.some(({ path }) => path.includes('SubscribeExecutionData'))).toBe(true);
    for (const { headers } of first.asked) {
      expect(headers['x-token']).toBe(FIRST);
      expect([headers['authorization'], headers['api_key']]).toEqual([undefined, undefined]);
    }
    for (const { headers } of second.asked) {
      expect([headers['authorization'], headers['api_key']]).toEqual([`Bearer ${SECOND}`, 'second-customer']);
      expect(headers['x-token']).not.toBe(FIRST);
    }
    // Of what the daemon shows, nothing holds a value.
    const pages = ['/status', '/', '/openapi.json', `/explain/${TOP}`].map((path) => daemon.apiUrl + path);
    const shown = await Promise.all(
      [...pages, `${daemon.metricsUrl}/metrics`].map(async (page) => (await fetch(page)).text()),
    );
    const doctor = await doctorOf(args);
    const printed = await runCommand(['config', 'print', ...args.slice(1)]);
    await daemon.program.stop();
    const { stdout, stderr } = daemon.program;
    const all = [...shown, stdout, stderr, doctor.stdout, printed.stdout].join('\n');
    for (const secret of [FIRST, SECOND, 'second-customer', 'unused-0123456789'])
      expect(all).not.toContain(secret);
    expect(doctor.stdout).toContain(`Node ${first.name}`);
    expect(doctor.stdout).not.toContain('refuses us');
  });

  it('name what is wrong with it, and are served again once the file is right, after a restart as well', async () => {
    const devnet = await nodeAt(TOP);
    const node = await HostedNode.before(devnet);
    node.wants = { 'x-token': SECOND };
    const file = metadataFile('other.example:443 x-token: something\n');
    const flags = ['--access-metadata-file', file, '--start-height', 'root', '--api-forward'];
    const daemon = await startDaemonHere(startArguments(node, scratchDirectory(), ...flags));
    const unnamed = await daemon.reason('upstream_refusing');
    expect(unnamed.message).toContain(`has no line for ${node.name}`);
    const without = await doctorOf(startArguments(node, scratchDirectory()));
    expect(without.stdout).toContain('--access-metadata-file FILE');
    writeFileSync(file, `${node.name} x-token: ${FIRST}\n`);
    const refusal = await eventually(async () =>
      (await daemon.reasons()).find(
        ({ code, message }) => code === 'upstream_refusing' && message.includes('does not accept what'),
      ),
    );
    expect(refusal.message).toContain('UNAUTHENTICATED: no such customer: x-token ***');
    expect(refusal.message).toContain(`it does not accept what ${file} (access.metadataFile) has for it`);
    expect(refusal.message).not.toContain('can be reached from here');
    const doctor = await doctorOf(startArguments(node, scratchDirectory(), ...flags));
    expect(doctor.stdout).toContain(`Node ${node.name} refuses us`);

    writeFileSync(file, `${node.name} x-token: ${SECOND}\n`);
    const metrics = await daemon.reaches(TOP);
    expect(metrics.value('secret_reloads_total', { secret: 'node_metadata', outcome: 'changed' })).toBe(2);

    // Another one that cannot be used changes nothing.
    writeFileSync(file, `${node.name} x-token\n`);
    await daemon.program.sees(/"secret":"node_metadata".*line 1 is in another form/);
    node.stop();
    await node.start();
    node.asked.length = 0;
    devnet.node.head.advance(5);
    await daemon.reaches(TOP + 5);
    for (const { headers } of node.asked) expect(headers['x-token']).toBe(SECOND);

    // A node that stops accepting it is no matter of those whose calls are forwarded.
    node.wants = { 'x-token': 'changed' };
    const refused = await forwardedCall(daemon, { 'x-token': 'of the caller' });
    expect(refused.details).toContain('the access node refuses what this indexer identifies itself with');
    await daemon.program.stop();
    for (const secret of [FIRST, SECOND]) {
      expect(doctor.stdout + daemon.program.stdout + daemon.program.stderr).not.toContain(secret);
      expect(JSON.stringify(refused)).not.toContain(secret);
    }
  });
});

it('a REST address that wants headers gets them with every forwarded request and socket, in the clear only where that is allowed', async () => {
  const rest = await RestNode.start();
  const devnet = await nodeAt(TOP);
  const name = rest.url.replace('http://', '');
  const file = metadataFile(`${rest.url} x-token: ${FIRST}\n${devnet.address} x-token: ${SECOND}\n`);
  const base = ['--api-forward-rest', `${rest.url}/base-${SECOND}`, '--access-metadata-file', file];
  const args = startArguments(devnet, scratchDirectory(), ...base, '--start-height', 'root');
  const refused = await runDaemonHere(args);
  expect(refused.code).toBe(78);
  expect(refused.stderr).toContain(`line 1 is for ${name}, which is not called over TLS`);
  expect(refused.stderr).not.toContain(FIRST);

  const daemon = await startDaemonHere([...args, '--access-metadata-without-tls']);
  await daemon.reaches(TOP);
  rest.reply = (_request, response, { headers }) => {
    response.writeHead(200, { 'x-echo': String(headers['x-token']) });
    // Even in two pieces.
    response.write(`you sent ${String(headers['x-token']).slice(0, 7)}`);
    setImmediate(() => response.end(`${String(headers['x-token']).slice(7)}, thank you`));
  };
  const asked = async (): Promise<Response> =>
    fetch(`${daemon.apiUrl}/v1/accounts/f8d6e0586b0a20c7`, { headers: { 'X-Token': 'of the caller' } });
  const answer = await asked();
  const stars = '*'.repeat(FIRST.length);
  expect(answer.headers.get('x-echo')).toBe(stars);
  expect(await answer.text()).toBe(`you sent ${stars}, thank you`);
  expect(rest.seen.at(-1)?.headers['x-token']).toBe(FIRST);

  rest.speak(`/base-${SECOND}/v1/ws`, (socket, headers) =>
    socket.on('message', () =>
      socket.send(JSON.stringify({ subscription_id: 'x', topic: 'events', payload: headers['x-token'] })),
    ),
  );
  const client = await WsClient.open(daemon.apiUrl);
  client.send({ action: 'subscribe', subscription_id: 'x', topic: 'events', arguments: {} });
  expect(await client.next()).toMatchObject({ payload: stars });

  rest.reply = (_request, response) => response.writeHead(401).end(`unknown: ${FIRST}`);
  const refusal = await asked();
  expect(refusal.status).toBe(503);
  expect(await refusal.json()).toMatchObject({ reason: 'upstream_refusing' });
  const printed = await runCommand(['config', 'print', ...args.slice(1)]);
  expect(printed.stdout).toContain(`${rest.url}/***`);
  await daemon.program.stop();
  for (const secret of [FIRST, SECOND])
    expect(printed.stdout + daemon.program.stdout + daemon.program.stderr).not.toContain(secret);
});

describe('a file of metadata that cannot be used', () => {
  const SECRET = 'sesame-0123456789';
  it.each<readonly [string, text: string | Buffer | undefined, words: string]>([
    ['is missing', undefined, 'ENOENT'],
    ['has only comments', '# nothing\r\n\r\n', 'it has no line that counts'],
    ['is UTF-16', Buffer.from(`\uFEFFn:1 a: ${SECRET}`, 'utf16le'), 'it is not text in UTF-8'],
    ['has no name', `n:1 ${SECRET}\n`, 'line 1 is in another form'],
    ['has a path in the node', `https://n/${SECRET} x-token: v`, 'line 1 does not begin with a node'],
    ['has a binary name', `# first\nn:1 token-bin: ${SECRET}`, 'line 2 has a name that ends with -bin'],
    ['has a name with odd characters', `n:1 to(ken): ${SECRET}`, 'line 1 has a name with other characters'],
    ['has a name of HTTP itself', `n:1 Content-Type: ${SECRET}`, 'line 1 has a name that HTTP or gRPC sets'],
    ['has no value', 'n:1 x-token:   \n', 'line 1 has no value'],
    ['has a value beyond ASCII', `n:1 x-token: ${SECRET}ß`, 'line 1 has a value with other characters'],
    ['has a value without end', `n:1 a: ${SECRET.repeat(300)}`, 'line 1 has a value of 5100 characters'],
    ['has a name twice', `n:1 a: ${SECRET}\nN:1 A: c\n`, 'line 2 sets a name that an earlier line sets'],
    ['has too many lines', `n:1 a: b\n${manyLines()}`, 'line 257 is one too many'],
  ])('%s: is named with the line, and never quoted', async (_, text, words) => {
    const file = join(scratchDirectory(), 'metadata');
    if (text !== undefined) writeFileSync(file, text, { mode: 0o600 });
    const { stdout, stderr } = await runCommand([
      ...['doctor', '--network', 'devnet', '--data-dir', scratchDirectory()],
      ...['--access-metadata-file', file],
    ]);
    expect(stdout).toContain(`Cannot use ${file} (access.metadataFile)`);
    expect(stdout).toContain(words);
    expect(stdout + stderr).not.toContain(SECRET);
  });

  it('may be changed by everyone: is refused; read by everyone: doctor says so', async () => {
    const file = metadataFile('127.0.0.1:1 a: b\n');
    const args = ['--network', 'devnet', '--data-dir', scratchDirectory(), '--access-metadata-file', file];
    chmodSync(file, 0o666);
    const { code, stderr } = await runDaemonHere(['start', ...args]);
    expect([code, stderr]).toEqual([78, expect.stringContaining('every user of this machine may change it')]);
    chmodSync(file, 0o644);
    const openWords = 'is open to other users of this machine (mode 644)';
    expect((await runCommand(['doctor', ...args])).stdout).toContain(openWords);
  });
});

/** One for each name, so that none is there twice. */
function manyLines(): string {
  return Array.from({ length: 256 }, (_, index) => `n:1 name-${index}: value\n`).join('');
}
