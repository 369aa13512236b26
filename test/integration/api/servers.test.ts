import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { metricsServer } from '../../../src/api/index.js';
import { createMetrics, mergedPage } from '../../../src/observability/index.js';
import type { Readiness } from '../../../src/observability/index.js';
import { OperatorError, systemClock } from '../../../src/runtime/index.js';
import type { Clock } from '../../../src/runtime/index.js';
import { getJson } from '../../support/httpProbe.js';
import { MemoryIndexStore } from '../../support/memoryIndexStore.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { apiServerOver } from '../../support/servedChain.js';
import { idOf } from '../../support/smallChain.js';
import { VirtualClock } from '../../support/virtualClock.js';

const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

function openMetrics(change: { host?: string; port?: number; clock?: Clock } = {}) {
  const logger = new RecordingLogger();
  const failures: unknown[] = [];
  const state: { readiness: Readiness } = { readiness: { ready: true, reasons: [] } };
  const metrics = createMetrics({ version: '0.1.0', node: 'v20' });
  const { clock = systemClock, host = '127.0.0.1', port = 0 } = change;
  const server = metricsServer(
    { host, port },
    {
      clock,
      logger,
      fail: (error) => failures.push(error),
      page: () => mergedPage(metrics.registry, []),
      health: { readiness: () => state.readiness },
    },
  );
  open.push(server);
  const url = (path: string) => `http://127.0.0.1:${server.address().port}${path}`;
  return { server, logger, failures, state, metrics, url };
}

function openApi(reader: MemoryIndexStore, options: { port?: number; clock?: Clock } = {}) {
  const range = { firstIndexed: 1, latestIndexed: 0, head: null, sealed: null };
  const { server } = apiServerOver(reader, () => range, options);
  open.push(server);
  return server;
}

/** What a port lacks that has neither. */
const unguarded = {
  without: ['TLS', 'tokens for everything'],
  advice: '"doctor" says what to change',
};

describe('the metrics server', () => {
  it('serves the text that Prometheus reads, with its content type', async () => {
    const { server, metrics, url } = openMetrics();
    await server.start();
    metrics.collectionsRequested.inc(3);
    const response = await fetch(url('/metrics'));
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await response.text()).toContain('\nflow_collection_indexer_collections_requested_total 3\n');
  });

  it('is ready with 200, not ready with 503 and the reasons', async () => {
    const { server, state, url } = openMetrics();
    await server.start();
    expect(await getJson(url('/readyz'))).toMatchObject({ status: 200, body: { ready: true, reasons: [] } });
    state.readiness = {
      ready: false,
      reasons: [{ code: 'behind', message: '200 heights behind', height: 7, sinceSeconds: 3 }],
    };
    expect(await getJson(url('/readyz'))).toMatchObject({ status: 503, body: state.readiness });
    expect(await getJson(url('/livez'))).toMatchObject({ status: 200, body: { live: true } });
  });

  it('answers anything else with 404 and the list of what there is', async () => {
    const { server, url } = openMetrics();
    await server.start();
    const answer = await getJson(url('/healthz?x=1'));
    expect(answer).toMatchObject({ status: 404, body: { code: 404, reason: 'not_served' } });
    expect((answer.body as { message: string }).message).toBe(
      'there is nothing at "/healthz"; served here: /metrics, /livez, /readyz',
    );
    expect((await fetch(url('/metrics'), { method: 'POST' })).status).toBe(405);
    expect((await fetch(url('/livez'), { method: 'HEAD' })).status).toBe(200);
  });

  it('hands a broken gauge to its owner', async () => {
    const { server, metrics, failures, url } = openMetrics();
    await server.start();
    const bug = new Error('a probe broke');
    metrics.registry.getMetricsAsJSON = () => Promise.reject(bug);
    expect((await fetch(url('/metrics'))).status).toBe(500);
    expect(failures).toEqual([bug]);
  });
});

describe('both servers', () => {
  it('refuse a port in use with the flag that mends it', async () => {
    const first = openMetrics();
    await first.server.start();
    const { port } = first.server.address();
    const refusal = (start: Promise<void>) =>
      start.then(
        () => undefined,
        (error: unknown) => error,
      );
    const metrics = await refusal(openMetrics({ port }).server.start());
    expect(metrics).toBeInstanceOf(OperatorError);
    expect(metrics).toMatchObject({ exit: 'configuration' });
    expect((metrics as Error).message).toBe(
      `Port ${port} on 127.0.0.1 is in use, perhaps by another daemon. Choose another one with --metrics-port, or stop the program that uses it.`,
    );
    const api = await refusal(openApi(new MemoryIndexStore(), { port }).start());
    expect((api as Error).message).toContain('--api-port');
  });

  it('refuse an address that is not of this machine', async () => {
    // 192.0.2.0/24 is reserved for documentation: no machine has it.
    await expect(openMetrics({ host: '192.0.2.1' }).server.start()).rejects.toMatchObject({
      exit: 'configuration',
      message: expect.stringContaining('--metrics-host') as string,
    });
  });

  it('warn when they can be reached from elsewhere, and only then', async () => {
    const local = openMetrics();
    await local.server.start();
    expect(local.logger.records).toEqual([]);
    const everywhere = openMetrics({ host: '0.0.0.0' });
    await everywhere.server.start();
    expect(everywhere.logger.records).toEqual([
      {
        level: 'warn',
        message: 'listening beyond this machine: anyone who reaches the port can read',
        fields: { server: 'metrics', host: '0.0.0.0', ...unguarded, port: everywhere.server.address().port },
      },
    ]);
  });

  it('close at once although keep-alive connections are open', async () => {
    const { server, url } = openMetrics({ clock: new VirtualClock() });
    await server.start();
    // fetch keeps its connection for the next request; the virtual clock never lets the grace period end.
    await getJson(url('/livez'));
    await server.close();
    expect(() => server.address()).toThrow('does not listen');
    await server.close();
  });

  it('wait for what is being read although the caller has hung up', async () => {
    const store = new MemoryIndexStore();
    let asked = (): void => undefined;
    let answer = (): void => undefined;
    const reading = new Promise<void>((resolve) => (asked = resolve));
    const nothing = new Promise<undefined>((resolve) => (answer = () => resolve(undefined)));
    store.transaction = () => {
      asked();
      return nothing;
    };
    const server = openApi(store, { clock: new VirtualClock() });
    await server.start();
    const { port } = server.address();
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(`GET /v1/transactions/${idOf('a')} HTTP/1.1\r\nHost: x\r\n\r\n`),
    );
    await reading;
    socket.destroy();
    const ended: string[] = [];
    const closing = server.close().then(() => ended.push('server'));
    // The server has let go of the port by the time that it refuses a caller: from there on it waits for the read alone.
    await expect(fetch(`http://127.0.0.1:${port}/status`)).rejects.toThrow('fetch failed');
    ended.push('read');
    answer();
    await closing;
    expect(ended).toEqual(['read', 'server']);
  });

  it('cut requests that outlast the grace period', async () => {
    const clock = new VirtualClock();
    const store = new MemoryIndexStore();
    let asked = (): void => undefined;
    const reading = new Promise<void>((resolve) => (asked = resolve));
    store.transaction = () => {
      asked();
      return new Promise(() => undefined);
    };
    const server = openApi(store, { clock });
    await server.start();
    const { port } = server.address();
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(`GET /v1/transactions/${idOf('a')} HTTP/1.1\r\nHost: x\r\n\r\n`),
    );
    const cut = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    await reading;
    let closed = false;
    const closing = server.close().then(() => (closed = true));
    await clock.advance(1999);
    expect(closed).toBe(false);
    await clock.advance(1);
    await Promise.all([cut, closing]);
    expect(clock.pendingTimers).toBe(0);
  });
});
