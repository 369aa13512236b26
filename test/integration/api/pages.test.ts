import { expect, it } from 'vitest';
import type { openApiDocument } from '../../../src/api/openapi.js';
import { readinessCodes } from '../../../src/observability/index.js';
import { ServedChain, smallChain } from '../../support/index.js';

const chain = smallChain(100, [[], [], []]);

const read = async (path: string) => {
  const served = await ServedChain.start(chain, { sealed: 102 });
  const answer = await fetch(served.url + path);
  return { served, headers: answer.headers, status: answer.status, text: await answer.text() };
};

const loadsOfOthers = /<iframe|<img|@import|url\(|https?:\/\//i;

it.each(['/', '/docs'])(
  'the page at %s is HTML that loads nothing of others, and may do nothing but what its policy names',
  async (path) => {
    const { status, headers, text } = await read(path);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/html; charset=UTF-8');
    expect(text).toMatch(/^<!doctype html>/);
    const policy = headers.get('content-security-policy') ?? '';
    for (const part of ['default-src', 'base-uri', 'form-action', 'frame-ancestors'])
      expect(policy).toContain(`${part} 'none'`);
    for (const part of ['script-src', 'style-src', 'connect-src'])
      expect(policy).toMatch(new RegExp(`${part} 'self'(?:;|$)`));
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/script-src[^;]*unsafe|\*|https?:/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(text).not.toMatch(loadsOfOthers);
    expect(text.length).toBeLessThan(150_000);
    for (const [, id] of text.matchAll(/href="#([^"]*)"/g)) expect(text).toContain(`id="${id}"`);
  },
);

it('the status page has its own script, and no other, and brings every readiness code with what to do, as that reads it, and imports nothing more', async () => {
  const { text } = await read('/');
  const scripts = [...text.matchAll(/<script\b([^>]*)>/g)].map(([, attributes]) => attributes);
  const page = ' type="module" src="./page/page.js"';
  expect(scripts).toEqual([' type="application/json" id="readiness-codes"', page]);
  const json = /id="readiness-codes">(.*?)<\/script>/s.exec(text)?.[1] ?? '';
  expect(JSON.parse(json)).toEqual(readinessCodes);
  const script = await read('/page/page.js');
  expect(script.headers.get('content-type')).toBe('text/javascript; charset=UTF-8');
  for (const used of ['readiness-codes', 'import.meta.url']) expect(script.text).toContain(used);
  expect(script.text).not.toMatch(/\bimport\b(?!\.meta)|\bfrom\s*["']/);
  expect(script.text).not.toMatch(/["'`]\/(?:status|events|explain|lookup|docs|openapi|v1)\b/);
});

it('the status page is kept by browsers, which ask whether it is still the same, and has no other files', async () => {
  const served = await ServedChain.start(chain, { sealed: 102 });
  for (const path of ['/', '/page/page.js', '/page/style.css']) {
    const first = await fetch(served.url + path);
    expect(first.headers.get('cache-control')).toBe('no-cache');
    const etag = first.headers.get('etag') ?? '';
    const again = await fetch(served.url + path, { headers: { 'if-none-match': etag } });
    expect([path, again.status]).toEqual([path, 304]);
  }
  const refused = { status: 404, body: { reason: 'not_served' } };
  for (const name of ['x.js', '..%2Fmain.js', '%2e%2e%2fmain.js', 'page.js.map', 'constructor'])
    expect(await served.get(`/page/${name}`), name).toMatchObject(refused);
});

it('the page at /docs tells of every route, parameter, shape and reason of the OpenAPI document', async () => {
  const { served, text } = await read('/docs');
  const { paths, components } = (await served.get('/openapi.json')).body as ReturnType<
    typeof openApiDocument
  >;
  for (const [path, { get }] of Object.entries(paths)) {
    expect(text).toContain(`GET ${path}`);
    for (const { name } of get.parameters) expect(text).toContain(`<code>${name}</code>`);
  }
  for (const name of Object.keys(components.schemas)) expect(text).toContain(`id="${name}"`);
  expect(text).toContain('below_first_indexed: below the first indexed height');
});
