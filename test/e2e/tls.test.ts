import { describe, expect, it } from 'vitest';
import { certificate, encrypted } from '../support/encryptedNode.js';
import { scratchDirectory, startProgram } from '../support/program.js';
import { devnetForTest, startArguments } from '../support/runningDaemon.js';

const LAST = 40;

describe('a node behind TLS', () => {
  it('is indexed from when its certificate is confirmed', async () => {
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
