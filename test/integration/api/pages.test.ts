import { describe, expect, it } from 'vitest';
import type { openApiDocument } from '../../../src/api/openapi.js';
import { readinessCodes } from '../../../src/observability/index.js';
import { ServedChain } from '../../support/servedChain.js';
import { smallChain } from '../../support/smallChain.js';

const chain = smallChain(100, [[], [], []]);

const read = async (path: string) => {
  const served = await ServedChain.start(chain, { sealed: 102 });
  const answer = await fetch(served.url + path);
  return { served, headers: answer.headers, status: answer.status, text: await answer.text() };
};

/** Everything that would make a browser load something of others. */
const loadsOfOthers = /<iframe|<img|@import|url\(|https?:\/\//i;

describe.each(['/', '/docs'])('the page at %s', (path) => {
  it('is HTML that loads nothing of others, and may do nothing but what its policy names', async () => {
    const { status, headers, text } = await read(path);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/html; charset=UTF-8');
    expect(text).toMatch(/^<!doctype html>/);
    const policy = headers.get('content-security-policy') ?? '';
    for (const part of [
      "default-src 'none'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ])
      expect(policy).toContain(part);
    expect(policy).not.toMatch(/script-src[^;]*unsafe|\*|https?:/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(text).not.toMatch(loadsOfOthers);
    expect(text.length).toBeLessThan(150_000);
    // Links to other pages: prefix.test.ts.
    for (const [, id] of text.matchAll(/href="#([^"]*)"/g)) expect(text).toContain(`id="${id}"`);
  });
});

describe('the status page', () => {
  it('may run its own script, and no other', async () => {
    const { headers, text } = await read('/');
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/script-src 'self'(?:;|$)/);
    expect(policy).toContain("style-src 'self'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    const scripts = [...text.matchAll(/<script\b([^>]*)>/g)].map(([, attributes]) => attributes);
    expect(scripts).toEqual([
      ' type="application/json" id="readiness-codes"',
      ' type="module" src="./page/page.js"',
    ]);
  });

  it('brings every readiness code with what to do, as its scripts read it', async () => {
    const { text } = await read('/');
    const json = /id="readiness-codes">(.*?)<\/script>/s.exec(text)?.[1] ?? '';
    expect(JSON.parse(json)).toEqual(readinessCodes);
  });

  it('serves its script, which imports nothing more', async () => {
    const { served } = await read('/');
    const answer = await fetch(`${served.url}/page/page.js`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/javascript; charset=UTF-8');
    const script = await answer.text();
    expect(script).toContain('readiness-codes');
    expect(script).not.toMatch(/\bimport\b(?!\.meta)|\bfrom\s*["']/);
  });

  it('is kept by browsers, which ask whether it is still the same', async () => {
    const served = await ServedChain.start(chain, { sealed: 102 });
    for (const path of ['/', '/page/page.js', '/page/style.css']) {
      const first = await fetch(served.url + path);
      expect(first.headers.get('cache-control')).toBe('no-cache');
      const etag = first.headers.get('etag') ?? '';
      const again = await fetch(served.url + path, { headers: { 'if-none-match': etag } });
      expect([path, again.status]).toEqual([path, 304]);
    }
  });

  it('has no other files than its own', async () => {
    const served = await ServedChain.start(chain, { sealed: 102 });
    for (const name of [
      'x.js',
      'main.js',
      '..%2Fmain.js',
      '%2e%2e%2fmain.js',
      'page.js.map',
      'constructor',
    ]) {
      const answer = await fetch(`${served.url}/page/${name}`);
      expect([name, answer.status]).toEqual([name, 404]);
      expect(await answer.json()).toMatchObject({ reason: 'not_served' });
    }
  });
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
