import { expect, it } from 'vitest';
import { openSecretFiles } from '../../../src/app/guard/openSecretFiles.js';
import { loadConfig } from '../../../src/config/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { RecordingLogger, untilEnd, VirtualClock } from '../../support/index.js';
import { TestSecrets } from '../../support/secretFiles.js';

it('a certificate is told of when it is not valid yet, and again when it no longer is', async () => {
  let year = 2020;
  const clock = Object.assign(new VirtualClock(), { now: () => Date.UTC(year, 0, 1) });
  const logger = new RecordingLogger();
  const { certificateFile, keyFile } = new TestSecrets('');
  const pair = { 'api.tls.certificateFile': [certificateFile], 'api.tls.keyFile': [keyFile] };
  const flags = new Map(Object.entries(pair));
  const { config } = loadConfig({ file: undefined, environment: {}, flags }, { isTerminal: false });
  const metrics = createMetrics({ version: 'test', node: 'test' });
  const files = await openSecretFiles(config, { clock, logger, metrics, sporks: [] });
  untilEnd(files.run);
  const told: number[] = [];
  for (year of [2020, 2100, 2200]) {
    await expect.poll(() => clock.pendingTimers).toBe(1);
    await clock.advance(60_000);
    // In time that passes at once, a real file answers late, which is an error.
    told.push(logger.of('warn').length);
  }
  expect(told).toEqual([1, 1, 2]);
});
