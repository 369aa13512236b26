import { expect, it } from 'vitest';
import { getJson, ServedChain, smallChain } from '../../support/index.js';
import { servedBelow } from '../../support/prefixProxy.js';

const PREFIX = '/flow/of-mainnet';
async function below(): Promise<string> {
  return servedBelow(PREFIX, await ServedChain.start(smallChain(100, [[], [], []]), { sealed: 102 }));
}

it.each(['/', '/docs', '/docs/'])('the page at %s finds what it loads and links', async (path) => {
  const url = await below();
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

it('the OpenAPI document names a server at which its paths are', async () => {
  const url = await below();
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
