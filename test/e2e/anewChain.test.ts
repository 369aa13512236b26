import { expect, it } from 'vitest';
import type { DevnetOptions } from '../../src/devnet/index.js';
import { devnetForTest, eventually, indexedHere, lastingPort, probeOn } from '../support/daemons.js';
import { refusalOf, RestNode } from '../support/daemons.js';

const HEAD = 60;
const chain = { seed: 31, startHead: HEAD, paused: true } satisfies DevnetOptions;

it('leaves an access node alone whose chain began anew, and forwards nothing to it', async () => {
  const port = await lastingPort();
  const rest = await RestNode.start();
  const flags = ['--api-forward', '--api-forward-rest', rest.url];
  const { daemon, devnet } = await indexedHere({ ...chain, port }, ...flags);
  const probe = probeOn(daemon.grpcAddress);
  const overGrpc = async () =>
    (await refusalOf(probe.call('ExecuteScriptAtLatestBlock', { script: Buffer.from('x') }))).code;
  const overRest = async () => (await fetch(`${daemon.apiUrl}/v1/accounts/f8d6e0586b0a20c7`)).status;
  // A devnet runs no scripts, and says so itself.
  expect([await overGrpc(), await overRest()]).toEqual(['UNIMPLEMENTED', 200]);
  await devnet.close();
  await devnetForTest({ ...chain, port, seed: 32, startHead: 20 });
  await daemon.program.sees(/access node is foreign and left out/);
  // The readers hear of it within half a second.
  await eventually(async () => (await overRest()) === 503);
  expect([await overGrpc(), await overRest()]).toEqual(['UNAVAILABLE', 503]);
});
