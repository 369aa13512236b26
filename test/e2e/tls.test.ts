import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { describe, expect, it, onTestFinished } from 'vitest';
import { scratchDirectory, startProgram } from '../support/program.js';
import { devnetForTest, startArguments } from '../support/runningDaemon.js';

/** A self-signed certificate for `localhost`, as Flow's nodes have one for their own names; for tests only. */
const certificate = join(import.meta.dirname, '../data/tls/localhost-cert.pem');
const key = join(import.meta.dirname, '../data/tls/localhost-key.pem');

const LAST = 40;

/** A node behind TLS: what comes in encrypted goes on to it in the clear. Resolves with the port. */
async function encrypted(node: { readonly host: string; readonly port: number }): Promise<number> {
  const sockets = new Set<{ destroy(): unknown }>();
  const server = createServer(
    { cert: readFileSync(certificate), key: readFileSync(key), ALPNProtocols: ['h2'] },
    (outer) => {
      const inner = connect(node.port, node.host);
      for (const socket of [outer, inner]) {
        sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          outer.destroy();
          inner.destroy();
        });
      }
      outer.pipe(inner).pipe(outer);
    },
  );
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

describe('a node behind TLS', () => {
  it('is indexed from when its certificate is vouched for', async () => {
    const node = await devnetForTest({ startHead: LAST, paused: true });
    const address = `grpcs://localhost:${await encrypted(node)}`;
    const daemon = startProgram(
      startArguments(
        { address },
        scratchDirectory(),
        '--start-height',
        'root',
        '--stop-height',
        String(LAST),
      ),
      { GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: certificate },
    );
    expect(await daemon.exited, daemon.stderr).toBe(0);
    expect(daemon.logs()).toContainEqual(
      expect.objectContaining({ msg: 'stop height reached', height: LAST }),
    );
  });

  it('is not trusted otherwise, and the log says that it is the certificate', async () => {
    const node = await devnetForTest({ startHead: LAST, paused: true });
    const address = `grpcs://localhost:${await encrypted(node)}`;
    const daemon = startProgram(startArguments({ address }, scratchDirectory(), '--start-height', 'root'));
    await daemon.sees(/access node does not answer/);
    const told = daemon.logs().find(({ msg }) => msg === 'access node does not answer');
    expect(told?.['reason']).toMatch(/certificate/);
    expect(node.node.requests.count('GetNetworkParameters')).toBe(0);
    expect(await daemon.stop()).toBe(0);
  });
});
