import { expect, it } from 'vitest';
import { devnetForTest, runDaemonHere, scratchDirectory, startArguments } from '../support/daemons.js';

const LAST = 20;

it('what start says it is about to do is five lines for people, and one of the JSON log: a new index, then one that goes on', async () => {
  const devnet = await devnetForTest({ seed: 4, startHead: LAST, paused: true, sealedLag: 0 });
  const dataDir = scratchDirectory();
  const start = (stop: number): string[] => [
    ...startArguments(devnet, dataDir, '--start-height', '0', '--stop-height', String(stop)),
    ...['--log-format', 'pretty'],
  ];
  const lines = [/^network {2}devnet \(flow-localnet\)$/m, new RegExp(`^nodes {4}${devnet.address}; `, 'm')];
  const fresh = await runDaemonHere(start(10));
  for (const line of [...lines, /^heights {2}a new index, from 0 on, through 10$/m])
    expect(fresh.stdout).toMatch(line);
  expect(fresh.stdout).toMatch(new RegExp(`^data {5}${dataDir}, [\\d.]+ [GTM]iB free$`, 'm'));
  expect(fresh.stdout).toMatch(
    /^ports {4}API http:\/\/127\.0\.0\.1:\d+\/, gRPC 127\.0\.0\.1:\d+, metrics http:\/\/127\.0\.0\.1:\d+\/metrics$/m,
  );
  const again = await runDaemonHere(start(LAST));
  expect(again.stdout).toMatch(/^heights {2}has 0 to 10, continues at 11, through 20$/m);
  expect((await runDaemonHere([...start(10), '--log-level', 'warn'])).stdout).not.toContain(
    'network  devnet',
  );

  const other = scratchDirectory();
  const { stdout } = await runDaemonHere(
    startArguments(
      devnet,
      other,
      ...['--start-height', 'root', '--stop-height', '10'],
      ...['--no-edi', '--api-grpc-port', 'off'],
    ),
  );
  const logged = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(logged.filter(({ msg }) => msg === 'about to index')).toMatchObject([
    {
      ...{ level: 'info', network: 'devnet', chainId: 'flow-localnet', nodes: [devnet.address] },
      ...{ executionDataNodes: [], startHeight: 'root', stopHeight: 10, dataDir: other, store: 'leveldb' },
      ...{ metrics: { host: '127.0.0.1' }, freeBytes: expect.any(Number) as number },
    },
  ]);
  const listening = logged.find(({ msg }) => msg === 'listening');
  expect(listening).toHaveProperty('api');
  expect(listening).not.toHaveProperty('grpc');
});
