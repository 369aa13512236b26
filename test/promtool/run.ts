/**
 * Has Prometheus' own checker read what is shipped for Prometheus, with the tests of the alert rules, and the metrics of a
 * real daemon that has something to tell: it has indexed, and was read. `npm run test:promtool` builds first. Without it
 * the same is held as far as it can be (test/unit/observability/metrics.test.ts, test/unit/deploy/alerts.test.ts).
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { startDevnet } from '../../src/devnet/index.js';
import { withCleanup, atEnd } from '../support/cleanup.js';
import { GrpcProbe } from '../support/grpcProbe.js';
import { scratchDirectory } from '../support/program.js';
import { startArguments, startDaemon } from '../support/runningDaemon.js';

const HEAD = 200;
const shipped = join(import.meta.dirname, '../../deploy/prometheus');

if (spawnSync('promtool', ['--version']).error !== undefined) {
  console.error(
    'promtool is not on the path. It comes with Prometheus (Debian: apt-get install prometheus).',
  );
  process.exit(1);
}

for (const [what, file] of [
  ['check rules', 'alerts.yml'],
  ['test rules', 'alerts.test.yml'],
  ['check config', 'prometheus.yml'],
] as const) {
  const { status, stdout, stderr } = spawnSync('promtool', [...what.split(' '), join(shipped, file)], {
    encoding: 'utf8',
  });
  process.stdout.write(stdout + stderr);
  if (status !== 0) {
    console.error(`promtool ${what}: see above.`);
    process.exit(1);
  }
}

const page = await withCleanup(async () => {
  const devnet = await startDevnet({ startHead: HEAD, paused: true, sealedLag: 0 });
  atEnd(() => devnet.close());
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), '--start-height', 'root'));
  await daemon.reaches(HEAD);
  for (const path of ['/status', '/v1/blocks?height=final', '/v1/blocks/abc', '/nowhere']) {
    await fetch(daemon.apiUrl + path);
  }
  const probe = new GrpcProbe(daemon.grpcAddress);
  atEnd(() => probe.close());
  await probe.call('GetLatestBlock');
  return (await fetch(`${daemon.metricsUrl}/metrics`)).text();
});
const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
  input: page,
  encoding: 'utf8',
});
const words = stdout + stderr;
process.stdout.write(words);
if (status !== 0 || words !== '') {
  console.error('promtool has something to say of the metrics: see above.');
  process.exit(1);
}
const samples = page.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length;
console.log(`promtool has nothing to say of ${samples} series.`);
