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

async function below({ isReported }: { readonly isReported: boolean }) {
  const served = await ServedChain.start(chain, { sealed: 102 });
  return { served, url: await servedBelow(PREFIX, served, { isReported }) };
}

/** Every string among the links of a document. */
function linksOf(document: unknown, isLink = false): readonly string[] {
  if (typeof document === 'string') return isLink ? [document] : [];
  if (typeof document !== 'object' || document === null) return [];
  return Object.entries(document).flatMap(([name, field]) =>
    linksOf(field, isLink || name === '_links' || name === '_expandable'),
  );
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

describe.each([false, true])('behind a proxy that serves it below a path (told: %s)', (isReported) => {
  it.each(['/', '/docs', '/docs/'])('the page at %s finds what it loads and links', async (path) => {
    const { url } = await below({ isReported });
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
    const { url } = await below({ isReported });
    const script = await (await fetch(`${url}/page/page.js`)).text();
    // It is built from the paths of the daemon; an address from the root of the host would leave the prefix.
    expect(script).not.toMatch(/["'`]\/(?:status|events|explain|lookup|docs|openapi|v1)\b/);
    expect(script).toContain('import.meta.url');
  });

  it('the OpenAPI document names a server at which its paths are', async () => {
    const { url } = await below({ isReported });
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
    const { url } = await below({ isReported });
    const reader = await EventReader.open(`${url}/events?from=100`);
    expect((await reader.first(3)).map(({ event }) => event)).toEqual(['height', 'height', 'height']);
    const client = await WsClient.open(url);
    client.subscribe('a', 'blocks', { block_status: 'finalized', start_block_height: '100' });
    const [, first] = await client.first(2);
    expect(first).toMatchObject({ payload: { header: { height: '100' } } });
    const link = `/v1/blocks/${block!.block.id}`;
    expect(first).toMatchObject({ payload: { _links: { _self: isReported ? PREFIX + link : link } } });
  });

  it('an answer is what it is without the proxy, but for links that lead back', async () => {
    const { served, url } = await below({ isReported });
    for (const path of documents) {
      const [own, through] = [await served.get(path), await getJson(url + path)];
      const links = linksOf(through.body);
      expect(links.length).toBeGreaterThan(0);
      const expected = linksOf(own.body).map((link) => (isReported ? PREFIX + link : link));
      expect(links).toEqual(expected);
      for (const link of links.filter((each) => isReported && !each.includes('/transaction_results/'))) {
        expect([link, (await fetch(new URL(link, url))).status]).toEqual([link, 200]);
      }
      const bare = JSON.stringify(through.body).replaceAll(`"${PREFIX}/v1/`, '"/v1/');
      expect(JSON.parse(bare)).toEqual(own.body);
      // Other bytes, another tag; and a cache must not mix them up.
      expect(through.headers.get('etag') === own.headers.get('etag')).toBe(!isReported);
      expect(/x-forwarded-prefix/.test(through.headers.get('vary') ?? '')).toBe(isReported);
      const held = { headers: { 'if-none-match': through.headers.get('etag') ?? '' } };
      expect((await getJson(url + path, held)).status).toBe(304);
    }
  });
});

describe('X-Forwarded-Prefix', () => {
  it.each([
    ['/flow', '/flow'],
    ['/flow/', '/flow'],
    ['/a, /b', '/a/b'],
    ['/a,/b/c/', '/a/b/c'],
    ['', ''],
    ['/', ''],
    ['flow', ''],
    ['//evil.example', ''],
    ['https://evil.example', ''],
    ['/a"><script>', ''],
    ['/a?b', ''],
    [`/${'a'.repeat(300)}`, ''],
  ])('%j puts %j before links, and nothing that leads elsewhere', async (told, prefix) => {
    const served = await ServedChain.start(chain, { sealed: 102 });
    const headers = { 'x-forwarded-prefix': told };
    const { body } = await served.get('/v1/blocks/100/collections', { headers });
    const path = `/v1/blocks/${block!.block.id}/collections`;
    expect(body).toMatchObject({ _links: { _self: prefix + path } });
    const page = await (await fetch(`${served.url}/`, { headers })).text();
    expect(page).toContain(`src="${prefix === '' ? './' : `${prefix}/`}page/page.js"`);
  });
});
