import { describe, expect, it } from 'vitest';
import { EventReader } from '../../support/eventReader.js';
import { getJson } from '../../support/httpProbe.js';
import { servedBelow } from '../../support/prefixProxy.js';
import { ServedChain } from '../../support/servedChain.js';
import { smallChain, transactionIds, transactionWith } from '../../support/smallChain.js';
import { WsClient } from '../../support/wsClient.js';

const PREFIX = '/flow/of-mainnet';
const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const [block] = chain;
const collection = block!.collections[0]!.id;
const [transaction = ''] = transactionIds(block!, 0);

async function below() {
  const served = await ServedChain.start(chain, { sealed: 102 });
  return { served, url: await servedBelow(PREFIX, served) };
}

const documents = [
  `/v1/blocks/${block!.block.id}`,
  '/v1/blocks?height=100,101&expand=payload',
  `/v1/collections/${collection}`,
  `/v1/collections/${collection}?expand=transactions`,
  `/v1/transactions/${transaction}`,
  `/v1/transactions?block_height=100`,
  '/v1/blocks/100/collections',
];

describe('behind a proxy that serves it below a path', () => {
  it.each(['/', '/docs', '/docs/'])('the page at %s finds what it loads and links', async (path) => {
    const { url } = await below();
    const page = await fetch(url + path);
    expect(page.status).toBe(200);
    const wanted = [...(await page.text()).matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, link = '']) => link);
    const links = wanted.filter((link) => !link.startsWith('data:'));
    expect(links.length).toBeGreaterThan(1);
    for (const link of links) {
      const address = new URL(link, page.url);
      expect([address.href, (await fetch(address)).status]).toEqual([address.href, 200]);
      expect(address.pathname.startsWith(`${PREFIX}/`)).toBe(true);
    }
  });

  it('the script of the page asks for nothing outside of it', async () => {
    const { url } = await below();
    const script = await (await fetch(`${url}/page/page.js`)).text();
    // It is built from the paths of the daemon; an address from the root of the host would leave the prefix.
    expect(script).not.toMatch(/["'`]\/(?:status|events|explain|lookup|docs|openapi|v1)\b/);
    expect(script).toContain('import.meta.url');
  });

  it('the OpenAPI document names a server at which its paths are', async () => {
    const { url } = await below();
    const { servers, paths } = (await getJson(`${url}/openapi.json`)).body as {
      readonly servers: readonly { readonly url: string }[];
      readonly paths: object;
    };
    const server = new URL(servers[0]!.url, `${url}/openapi.json`).href.replace(/\/$/, '');
    expect(server).toBe(url);
    const plain = Object.keys(paths).filter((path) => !path.includes('{') && path !== '/events');
    for (const path of plain) expect((await fetch(server + path)).status, path).not.toBe(405);
    expect((await fetch(`${server}/status`)).status).toBe(200);
  });

  it('streams of events and of WebSocket move', async () => {
    const { url } = await below();
    const reader = await EventReader.open(`${url}/events?from=100`);
    expect((await reader.first(3)).map(({ event }) => event)).toEqual(['height', 'height', 'height']);
    const client = await WsClient.open(url);
    client.subscribe('a', 'blocks', { block_status: 'finalized', start_block_height: '100' });
    const [, first] = await client.first(2);
    expect(first).toMatchObject({ payload: { header: { height: '100' } } });
  });

  it('an answer is what it is without the proxy', async () => {
    const { served, url } = await below();
    for (const path of documents) {
      const [own, through] = [await served.get(path), await getJson(url + path)];
      expect(through.body).toEqual(own.body);
      expect(through.headers.get('etag')).toBe(own.headers.get('etag'));
    }
  });
});
