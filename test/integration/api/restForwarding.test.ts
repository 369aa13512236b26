import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { atEnd } from '../../support/cleanup.js';
import { lastingPort } from '../../support/lastingPort.js';
import { ServedChain } from '../../support/servedChain.js';
import { smallChain, transactionWith } from '../../support/smallChain.js';

const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const NOBODY = 'ab'.repeat(32);

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A REST interface that answers as it is told, and keeps what it was asked. */
class Upstream {
  readonly seen: Seen[] = [];
  readonly server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      this.seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      this.reply(request, response);
    });
  });
  reply: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain', 'x-from-node': 'yes' }).end('of the node');
  };

  static async start(): Promise<Upstream> {
    const upstream = new Upstream();
    await upstream.listen(await lastingPort());
    atEnd(() => upstream.stop());
    return upstream;
  }

  async listen(port: number): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(port, '127.0.0.1', resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

async function served(base = ''): Promise<{ upstream: Upstream; daemon: ServedChain }> {
  const upstream = await Upstream.start();
  const daemon = await ServedChain.start(chain, { sealed: 102 }, { forwardRest: upstream.url + base });
  return { upstream, daemon };
}

describe('a forwarded request', () => {
  it('of a route that is none of ours goes to the node as it is, and so does the answer', async () => {
    const { upstream, daemon } = await served('/base');
    const answer = await fetch(`${daemon.url}/v1/accounts/f8d6e0586b0a20c7?expand=keys&x=%2F`, {
      headers: { 'x-from-client': 'yes', te: 'trailers' },
    });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe('of the node');
    expect(answer.headers.get('x-from-node')).toBe('yes');
    expect(answer.headers.get('via')).toBe('1.1 flow-collection-indexer');
    const [seen] = upstream.seen;
    expect(seen).toMatchObject({
      method: 'GET',
      url: '/base/v1/accounts/f8d6e0586b0a20c7?expand=keys&x=%2F',
    });
    expect(seen?.headers).toMatchObject({ 'x-from-client': 'yes', via: '1.1 flow-collection-indexer' });
    expect(seen?.headers).not.toHaveProperty('te');
    expect(`http://${seen?.headers.host}`).toBe(upstream.url);
  });

  it('may send transactions and scripts', async () => {
    const { upstream, daemon } = await served();
    upstream.reply = (_request, response) => response.writeHead(201).end('{"id":"x"}');
    for (const path of ['/v1/transactions', '/v1/scripts?block_height=sealed']) {
      const body = JSON.stringify({ script: 'x'.repeat(2_000_000) });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(daemon.url + path, { method: 'POST', body, headers });
      expect([answer.status, await answer.text()]).toEqual([201, '{"id":"x"}']);
      expect(upstream.seen.at(-1)).toMatchObject({ method: 'POST', url: path, body });
      expect(upstream.seen.at(-1)?.headers['content-type']).toBe('application/json');
    }
    const head = await fetch(`${daemon.url}/v1/accounts/1`, { method: 'HEAD' });
    expect(head.status).toBe(201);
    expect(upstream.seen.at(-1)?.method).toBe('HEAD');
  });

  it('brings a body up to a bound, said or unsaid', async () => {
    const { upstream, daemon } = await served();
    const said = await fetch(`${daemon.url}/v1/transactions`, {
      method: 'POST',
      body: 'x'.repeat(4 * 1024 * 1024 + 1),
    }).catch(() => undefined);
    // The caller may be cut off while it still sends.
    if (said !== undefined) expect(said.status).toBe(413);
    const unsaid = await new Promise<number | undefined>((resolve) => {
      const request = httpRequest(`${daemon.url}/v1/transactions`, { method: 'POST' }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.on('error', () => resolve(undefined));
      for (let left = 5; left > 0; left -= 1) request.write('x'.repeat(1024 * 1024));
    });
    if (unsaid !== undefined) expect(unsaid).toBe(413);
    expect(upstream.seen).toEqual([]);
  });

  it('gets what the node answers, whatever it is, and while it comes', async () => {
    const { upstream, daemon } = await served();
    upstream.reply = (_request, response) => {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end('{"code":400,"message":"Invalid Flow argument"}');
    };
    const refused = await daemon.get('/v1/accounts/nonsense');
    expect([refused.status, refused.body]).toEqual([400, { code: 400, message: 'Invalid Flow argument' }]);

    let finish = (): void => undefined;
    upstream.reply = (_request, response) => {
      response.write('first');
      finish = () => response.end('last');
    };
    const answer = await fetch(`${daemon.url}/v1/events?type=x`);
    const reader = answer.body!.getReader();
    const first = await reader.read();
    expect(Buffer.from(first.value ?? []).toString()).toBe('first');
    finish();
    const last = await reader.read();
    expect(Buffer.from(last.value ?? []).toString()).toBe('last');
  });

  it('is ended at the node when its caller hangs up', async () => {
    const { upstream, daemon } = await served();
    let closed = false;
    upstream.reply = (request) => request.socket.once('close', () => (closed = true));
    const caller = new AbortController();
    const call = fetch(`${daemon.url}/v1/events`, { signal: caller.signal }).catch(() => 'aborted');
    await expect.poll(() => upstream.seen.length, { timeout: 60_000 }).toBe(1);
    caller.abort();
    expect(await call).toBe('aborted');
    await expect.poll(() => closed, { timeout: 60_000 }).toBe(true);
  });
});

describe('what the index does not have', () => {
  it('is asked of the node: heights out of range, unknown ids, and parts that only nodes have', async () => {
    const { upstream, daemon } = await served();
    const paths = [
      '/v1/blocks?height=500',
      '/v1/blocks?height=1',
      `/v1/blocks/${NOBODY}?expand=payload`,
      `/v1/transactions/${NOBODY}`,
      '/v1/blocks?height=100&expand=execution_result',
    ];
    for (const path of paths) {
      const answer = await fetch(daemon.url + path);
      expect([answer.status, await answer.text()], path).toEqual([200, 'of the node']);
      expect(answer.headers.get('via')).toContain('flow-collection-indexer');
    }
    expect(upstream.seen.map(({ url }) => url)).toEqual(paths);
    // Indexed, malformed, or about the index itself.
    const own = await daemon.get('/v1/blocks?height=100');
    expect(own.status).toBe(200);
    expect((await daemon.get('/v1/transactions/abc')).status).toBe(400);
    expect((await daemon.get('/lookup/block/500')).body).toMatchObject({ reason: 'not_yet_indexed' });
    expect((await daemon.get('/status')).status).toBe(200);
    expect(upstream.seen).toHaveLength(paths.length);
  });

  it('is refused in the words of the index where the node has it neither, or is not there', async () => {
    const { upstream, daemon } = await served();
    upstream.reply = (_request, response) => response.writeHead(404).end('words of the node');
    const expectOwn = async (): Promise<void> => {
      const above = await daemon.get('/v1/blocks?height=500');
      expect([above.status, above.body]).toMatchObject([
        404,
        { reason: 'not_yet_indexed', latestIndexed: 102 },
      ]);
      const unknown = await daemon.get(`/v1/transactions/${NOBODY}`);
      expect([unknown.status, unknown.body]).toMatchObject([404, { reason: 'unknown_id' }]);
    };
    await expectOwn();
    expect(upstream.seen).toHaveLength(2);
    await upstream.stop();
    await expectOwn();
  });
});

describe('without a node that answers', () => {
  it('says so, and goes on when it is back', async () => {
    const { upstream, daemon } = await served();
    const { port } = upstream.server.address() as AddressInfo;
    await upstream.stop();
    for (const method of ['GET', 'POST']) {
      const answer = await fetch(`${daemon.url}/v1/scripts`, {
        method,
        ...(method === 'POST' ? { body: '{}' } : {}),
      });
      expect(answer.status).toBe(503);
      expect(await answer.json()).toMatchObject({ code: 503, reason: 'upstream_unreachable' });
      expect(answer.headers.get('retry-after')).not.toBeNull();
    }
    expect((await daemon.get('/v1/blocks?height=100')).status).toBe(200);
    await upstream.listen(port);
    expect(await (await fetch(`${daemon.url}/v1/scripts`)).text()).toBe('of the node');
  });
});

describe('nothing else is forwarded', () => {
  it.each([
    ['GET', '/v1/ws', 404],
    ['GET', '/v1/subscribe_events', 404],
    ['GET', '/v2/accounts', 404],
    ['GET', '/metrics', 404],
    ['GET', '/v1/%2e%2e/metrics', 404],
    ['GET', '/v1/accounts/..%2f..%2fmetrics', 404],
    ['POST', '/status', 405],
    ['DELETE', '/v1/transactions', 405],
    ['PUT', '/v1/accounts/1', 405],
  ])('%s %s', async (method, path, expected) => {
    const { upstream, daemon } = await served();
    const status = await new Promise((resolve, reject) => {
      // As it is: fetch would resolve the dots.
      const request = httpRequest({ port: daemon.port, host: '127.0.0.1', method, path }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.on('error', reject);
      request.end();
    });
    expect(status).toBe(expected);
    expect(upstream.seen).toEqual([]);
  });
});
