import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { connect } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';
import { describe, expect, it } from 'vitest';
import type { ApiSecrets } from '../../../src/api/index.js';
import { beginCall, sessionOn } from '../../support/http2Probe.js';
import { getJson } from '../../support/httpProbe.js';
import * as files from '../../support/secretFiles.js';
import { BEARER, guarded, ServedChain } from '../../support/servedChain.js';
import { servedOverGrpc } from '../../support/servedOverGrpc.js';
import { smallChain } from '../../support/smallChain.js';

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
      const paths = [...(cells[1] ?? '').matchAll(/`(\/[^`]*)`/g)].map(([, path = '']) => path);
      return paths.map((path) => [path, cells[column] === 'token'] as const);
    }),
  );
}

interface Document {
  readonly paths: Readonly<Record<string, { readonly get: { readonly security?: unknown } }>>;
}

describe.each(['everything', 'expensive'] as const)('with tokens for %s', (tokensFor) => {
  it.each([
    ['', false],
    [', also once they were read again', true],
  ])('each route asks for one where the page and the OpenAPI document say so%s', async (_, isReadAgain) => {
    const url = await apiOf(tokensFor, isReadAgain);
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

describe('a TLS session that is resumed', () => {
  const read = (file: string): string => readFileSync(file, 'utf8');
  const [certificate, key] = [read(files.certificateOf('localhost')), read(files.keyOf('localhost'))];
  const tls = { certificate, key, clientCa: read(files.clientCaFile) };
  const own = { cert: read(files.clientCertificateFile), key: read(files.clientKeyFile) };
  const secrets = { ...guarded('everything'), tls };
  const chain = smallChain(100, [[]]);

  it.each([
    {
      protocol: 'http/1.1',
      serve: () => ServedChain.start(chain, { sealed: 100 }, { secrets }),
      passes: async (port: number, how: ConnectionOptions): Promise<boolean> => {
        const asked = request({ host: 'localhost', port, path: '/status', agent: false, ...how }).end();
        const [response] = (await once(asked, 'response')) as [{ statusCode: number; resume(): void }];
        response.resume();
        return response.statusCode === 200;
      },
    },
    {
      protocol: 'h2',
      serve: () => servedOverGrpc(chain, { secrets }),
      passes: async (port: number, how: ConnectionOptions): Promise<boolean> => {
        const call = beginCall(sessionOn(`https://localhost:${port}`, how), '/flow.access.AccessAPI/Ping');
        call.end(Buffer.alloc(5)).resume();
        const [headers] = (await once(call, 'response')) as [Readonly<Record<string, string>>];
        return headers['grpc-status'] === undefined;
      },
    },
  ])('brings the client certificate that it began with, and else none ($protocol)', async (one) => {
    const { port } = await one.serve();
    for (const brought of [{}, own]) {
      const how = { ca: certificate, ...brought };
      const socket = connect({ host: 'localhost', port, ALPNProtocols: [one.protocol], ...how }).resume();
      const [session] = (await once(socket, 'session')) as [Buffer];
      socket.destroy();
      expect(await one.passes(port, how)).toBe(brought === own);
      expect(await one.passes(port, { ca: certificate, session })).toBe(brought === own);
    }
  });
});
