import { describe, expect, it } from 'vitest';
import { ServedChain, statusWith } from '../../support/servedChain.js';
import { smallChain } from '../../support/smallChain.js';

const chain = smallChain(100, [[], [], []]);

const read = async (path: string) => {
  const served = await ServedChain.start(chain, { sealed: 102 });
  const answer = await fetch(served.url + path);
  return { served, headers: answer.headers, status: answer.status, text: await answer.text() };
};

/** Everything that would make a browser load something, or run it. */
const loads = /<script|<iframe|<img|\ssrc=|@import|url\(|https?:\/\//i;

describe.each(['/', '/docs'])('the page at %s', (path) => {
  it('is HTML that loads nothing and runs nothing', async () => {
    const { status, headers, text } = await read(path);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/html; charset=UTF-8');
    expect(text).toMatch(/^<!doctype html>/);
    expect(text).toContain("default-src 'none'");
    expect(text).not.toMatch(loads);
    expect(text.length).toBeLessThan(100_000);
  });

  it('has links that lead somewhere', async () => {
    const { served, text } = await read(path);
    const links = [...text.matchAll(/href="(\/[^"]*|#[^"]*)"/g)].map(([, link]) => link ?? '');
    expect(links.length).toBeGreaterThan(1);
    const pages = links.filter((link) => link.startsWith('/') && link !== '/events');
    for (const link of new Set(pages)) {
      expect([link, (await fetch(served.url + link)).status]).toEqual([link, 200]);
    }
    for (const link of links.filter((each) => each.startsWith('#'))) {
      expect(text).toContain(`id="${link.slice(1)}"`);
    }
  });
});

it('the page at / says whose daemon this is, and how it does', async () => {
  const { text } = await read('/');
  const { network, chainId, reasons } = statusWith({ firstIndexed: 0, latestIndexed: 0, head: 0, sealed: 0 });
  for (const told of [network, chainId, '100 to 102', reasons[0]!.message, '/v1/ws', '/events']) {
    expect(text).toContain(told);
  }
});

it('the page at /docs tells of every route, parameter, shape and reason of the OpenAPI document', async () => {
  const { served, text } = await read('/docs');
  const { paths, components } = (await served.get('/openapi.json')).body as {
    readonly paths: Readonly<
      Record<
        string,
        { readonly get: { readonly summary: string; readonly parameters: { readonly name: string }[] } }
      >
    >;
    readonly components: { readonly schemas: object };
  };
  for (const [path, { get }] of Object.entries(paths)) {
    expect(text).toContain(`GET ${path}`);
    for (const { name } of get.parameters) expect(text).toContain(`<code>${name}</code>`);
  }
  for (const name of Object.keys(components.schemas)) expect(text).toContain(`id="${name}"`);
  expect(text).toContain('below_first_indexed: below the first indexed height');
});
