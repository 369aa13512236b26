import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect } from 'node:tls';
import { describe, expect, it } from 'vitest';
import type { ApiSecrets } from '../../../src/api/index.js';
import { OperatorError, type Clock } from '../../../src/runtime/index.js';
import { apiServerOver, atEnd, beginCall, getJson, GrpcProbe, grpcServerOver } from '../../support/index.js';
import { idOf, isOpen, MemoryIndexStore, metricsServerOver, openSession } from '../../support/index.js';
import { openSocket, refusal, VirtualClock } from '../../support/index.js';
import { certificateOf, keyOf } from '../../support/secretFiles.js';
import { waitingStore } from '../../support/waitingStore.js';

function openMetrics(ground: Ground = {}) {
  const made = metricsServerOver(ground);
  atEnd(() => made.server.close());
  return made;
}

it('the metrics server answers anything else with 404 and the list of what there is', async () => {
  const { server } = openMetrics();
  await server.start();
  const ask = (path: string, init?: RequestInit) =>
    getJson(`http://127.0.0.1:${server.address().port}${path}`, init);
  const message = 'there is nothing at "/healthz"; served here: /metrics, /livez, /readyz';
  const body = { code: 404, reason: 'not_served', message };
  expect(await ask('/healthz?x=1')).toMatchObject({ status: 404, body });
  expect((await ask('/metrics', { method: 'POST' })).status).toBe(405);
  expect((await ask('/livez', { method: 'HEAD' })).status).toBe(200);
});

interface Ground {
  readonly host?: string;
  readonly port?: number;
  readonly clock?: Clock;
  readonly requestTimeoutMs?: number;
  readonly store?: MemoryIndexStore;
  readonly secrets?: ApiSecrets | undefined;
}

const nothingIndexed = () => ({ firstIndexed: 1, latestIndexed: 0, head: null, sealed: null });

/** Every server of the daemon, with a caller of it: one who is answered and stays, and one who asks for a transaction. */
const servers = {
  metrics: {
    flags: ['--metrics-port', '--metrics-host'],
    make: (ground: Ground) => openMetrics(ground),
    call: (port: number) => getJson(`http://127.0.0.1:${port}/livez`),
  },
  api: {
    flags: ['--api-port', '--api-host'],
    make: ({ store = new MemoryIndexStore(), ...ground }: Ground) => {
      const made = apiServerOver(store, nothingIndexed, ground);
      atEnd(() => made.server.close());
      return made;
    },
    call: (port: number) => getJson(`http://127.0.0.1:${port}/status`),
  },
  grpc: {
    flags: ['--api-grpc-port', '--api-host'],
    make: ({ store = new MemoryIndexStore(), ...ground }: Ground) =>
      grpcServerOver(store, nothingIndexed, ground),
    call: (port: number) => {
      const probe = new GrpcProbe(`127.0.0.1:${port}`);
      atEnd(() => probe.close());
      return probe.call('Ping');
    },
  },
} as const;

type Headers = Readonly<Record<string, unknown>>;

/** Asks for a transaction; `leave` hangs up, and `cut` resolves when the server does. `answered`: with this status. */
async function asking(name: 'api' | 'grpc', port: number) {
  if (name === 'api') {
    const socket = await openSocket(port);
    socket.write(`GET /v1/transactions/${idOf('a')} HTTP/1.1\r\nHost: x\r\n\r\n`);
    const answered = once(socket, 'data').then(([data]) => String(data).split(' ')[1]);
    return { answered, leave: () => socket.destroy(), cut: once(socket, 'close') };
  }
  const session = await openSession(port);
  const stream = beginCall(session, '/flow.access.AccessAPI/GetTransaction');
  stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, 34, 0x0a, 32]), Buffer.from(idOf('a'), 'hex')]));
  const answered = once(stream, 'response').then(([headers]) => String((headers as Headers)['grpc-status']));
  const cut = once(stream, 'close').then(() => session.destroy());
  return { answered, leave: () => session.destroy(), cut };
}

describe.each(['metrics', 'api', 'grpc'] as const)('the server of %s', (name) => {
  const { call, flags, make } = servers[name];
  const [portFlag, hostFlag] = flags;

  it('refuses a port in use, and an address that is not of this machine, with the flag that mends it', async () => {
    const { server } = make({});
    await server.start();
    const { port } = server.address();
    const refused = make({ port }).server.start();
    await expect(refused).rejects.toBeInstanceOf(OperatorError);
    const words = `Port ${port} on 127.0.0.1 is in use, perhaps by another daemon. Choose another one with ${portFlag},`;
    await expect(refused).rejects.toMatchObject(refusal('unavailable', words));
    // 192.0.2.0/24 is reserved for documentation: no machine has it.
    const elsewhere = make({ host: '192.0.2.1' }).server.start();
    await expect(elsewhere).rejects.toMatchObject(refusal('unavailable', hostFlag));
  });

  it('closes at once although kept connections are open, also where it never listened', async () => {
    // The virtual clock never lets the grace period end.
    const { server } = make({ clock: new VirtualClock() });
    await server.start();
    await call(server.address().port);
    await server.close();
    expect(() => server.address()).toThrow('does not listen');
    await server.close();
    await make({}).server.close();
  });
});

it.each(['HTTP', 'HTTPS'])('answers over %s who has ended its side, and hangs up', async (protocol) => {
  const { store, reading, answer } = waitingStore();
  const pem = (path: string) => readFileSync(path, 'utf8');
  const tls = { certificate: pem(certificateOf('localhost')), key: pem(keyOf('localhost')) };
  const secrets =
    protocol === 'HTTPS' ? { tls, tokens: undefined, tokensFor: 'everything' as const } : undefined;
  const { server } = servers.api.make({ store, secrets, requestTimeoutMs: 3_000 });
  await server.start();
  const announced = secrets === undefined ? 'connection' : 'secureConnection';
  server.accepted.server.on(announced, (socket: Socket) => socket.once('end', () => setImmediate(answer)));
  const plain = await openSocket(server.address().port);
  const socket = secrets === undefined ? plain : connect({ socket: plain, ca: tls.certificate });
  socket.write(`GET /v1/transactions/${idOf('a')} HTTP/1.1\r\nHost: x\r\n\r\n`);
  const closed = once(socket, 'close');
  await reading;
  socket.end();
  const [data] = (await once(socket, 'data')) as [Buffer];
  expect(String(data)).toMatch(/^HTTP\/1\.1 404 [^]*"not_yet_indexed"/);
  await closed;
  // The check of a balancer ends its side at once; who never begins a handshake, or a request, is hung up on later.
  const silent = once((await openSocket(server.address().port)).resume(), 'close').then(() => 'silent');
  const check = once((await openSocket(server.address().port)).resume().end(), 'close');
  expect(await Promise.race([check.then(() => 'check'), silent])).toBe('check');
  await silent;
});

describe.each(['api', 'grpc'] as const)('the server of %s, with a read under way when it closes,', (name) => {
  it.each([
    ['and answers it', false],
    ['although the caller has hung up', true],
  ])('waits for that %s', async (_, hasLeft) => {
    const { store, reading, answer } = waitingStore();
    const { server } = servers[name].make({ store, clock: new VirtualClock() });
    await server.start();
    const { port } = server.address();
    const { answered, leave } = await asking(name, port);
    await reading;
    if (hasLeft) leave();
    const ended: string[] = [];
    const closing = server.close().then(() => ended.push('server'));
    // Where nobody is left, it has let go of the port by the time that nobody gets in any more, and waits for the read alone.
    while (hasLeft && (await isOpen(port)));
    ended.push('read');
    answer();
    await closing;
    expect(ended).toEqual(['read', 'server']);
    // There is none: 404, or in the words of gRPC NOT_FOUND.
    if (!hasLeft) expect(await answered).toBe(name === 'api' ? '404' : '5');
  });

  it('cuts what outlasts the grace period', async () => {
    const clock = new VirtualClock();
    const { store, reading } = waitingStore();
    const { server } = servers[name].make({ store, clock });
    await server.start();
    const { cut } = await asking(name, server.address().port);
    await reading;
    let isClosed = false;
    const closing = server.close().then(() => (isClosed = true));
    await clock.advance(1_999);
    expect(isClosed).toBe(false);
    await clock.advance(1);
    await Promise.all([cut, closing]);
    expect(clock.pendingTimers).toBe(0);
  });
});
