import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ApiSecrets } from '../../../src/api/index.js';
import { BEARER, getJson, guarded, ServedChain } from '../../support/index.js';

const ID = '0'.repeat(64);

/** `isReadAgain`: its secrets were others when it began. */
async function apiOf(tokensFor: ApiSecrets['tokensFor'], isReadAgain = false): Promise<string> {
  const others = tokensFor === 'everything' ? 'expensive' : 'everything';
  const secrets = guarded(isReadAgain ? others : tokensFor);
  const served = await ServedChain.start([], { sealed: null }, { secrets });
  served.secure(guarded(tokensFor));
  return served.url;
}

/** Of each path that the page names: whether it needs a token, in the column of `tokensFor`. */
function toldBy(tokensFor: ApiSecrets['tokensFor']): ReadonlyMap<string, boolean> {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/tls-and-tokens.md'), 'utf8');
  const column = tokensFor === 'everything' ? 2 : 3;
  const rows = page.split('\n').filter((line) => line.startsWith('| ') && line.includes('`/'));
  return new Map(
    rows.flatMap((row) => {
      const cells = row.split('|').map((cell) => cell.trim());
      const paths = cells[1]?.matchAll(/`(\/[^`]*)`/g) ?? [];
      return [...paths].map(([, path = '']) => [path, cells[column] === 'token'] as const);
    }),
  );
}

interface Document {
  readonly paths: Readonly<Record<string, { readonly get: { readonly security?: unknown } }>>;
}

describe.each(['everything', 'expensive'] as const)('with tokens for %s', (tokensFor) => {
  const again = ', also once they were read again';
  it.each(['', again])('each route asks for one where page and OpenAPI document say so%s', async (how) => {
    const url = await apiOf(tokensFor, how === again);
    const told = toldBy(tokensFor);
    const { paths } = (await getJson(`${url}/openapi.json`)).body as Document;
    expect([...told.keys()]).toEqual(expect.arrayContaining(Object.keys(paths)));
    for (const [path, { get }] of Object.entries(paths)) {
      const real = path.replace('{kind}', 'block').replace(/\{\w+\}/g, ID);
      const { status } = await getJson(url + real);
      const isRefused = [path, status === 401];
      expect(isRefused).toEqual([path, told.get(path)]);
      expect([path, get.security !== undefined]).toEqual(isRefused);
      if (path === '/events') continue;
      const known = await getJson(url + real, { headers: { authorization: BEARER } });
      expect(known.status, path).not.toBe(401);
    }
  });

  it('takes the scheme in any case, and nothing but the whole token', async () => {
    const url = `${await apiOf(tokensFor)}/export?from=1`;
    const statusOf = async (authorization: string) =>
      (await getJson(url, { headers: { authorization } })).status;
    const [, token = ''] = BEARER.split(' ');
    expect(await statusOf(`bearer ${token}`)).not.toBe(401);
    for (const wrong of [token, `Basic ${token}`, `Bearer ${token.slice(1)}`, `${BEARER} x`, 'Bearer'])
      expect(await statusOf(wrong), wrong).toBe(401);
  });
});
