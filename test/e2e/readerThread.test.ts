import { cpSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { atEnd, devnetForTest, eventually, listening, programPath } from '../support/daemons.js';
import { scratchDirectory, startArguments, startProgram, together } from '../support/daemons.js';
import type { RunningDaemon } from '../support/daemons.js';
import { inspectReaders } from '../support/inspector.js';
import { ReflectedClient } from '../support/reflectedClient.js';

const HEAD = 40;

/** A daemon that can be told, through Node's inspector, what its reader thread is to do. */
async function inspected(main = programPath, wrapper: readonly string[] = []) {
  const devnet = await devnetForTest({ rootHeight: 0, startHead: HEAD, blockIntervalMs: 50 });
  const args = startArguments(devnet, scratchDirectory(), '--start-height', 'root');
  const script = ['--enable-source-maps', '--inspect=127.0.0.1:0', main];
  const program = startProgram(args, {}, { script, wrapper });
  const [, inspectorPort = ''] = await program.sees(/ws:\/\/127\.0\.0\.1:(\d+)\//);
  const daemon = await listening(program);
  await daemon.reaches(HEAD);
  const readers = (expression: string): Promise<void> => inspectReaders(Number(inspectorPort), expression);
  return { daemon, program, readers };
}

function serves(daemon: RunningDaemon): Promise<true> {
  return eventually(async () => {
    const answer = await daemon.api('/v1/network/parameters').catch(() => undefined);
    return answer?.status === 200;
  });
}

it('the reader thread may hang, break, run out of memory, and loop for ever', { timeout: 300_000 }, () =>
  together({
    'may hang: that is told, indexing goes on, and another thread serves on the same ports': async () => {
      const { daemon, program, readers } = await inspected();
      await serves(daemon);
      const before = await daemon.scrape();
      await readers('Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)');
      await daemon.reason('reader_down');
      const height = (await daemon.scrape()).value('latest_indexed_height');
      expect(await daemon.health('/livez')).toMatchObject({ status: 200 });
      await daemon.reaches(height + 5);
      // What it counted is known still.
      const during = await daemon.scrape();
      expect(during.sum('api_requests_total')).toBe(before.sum('api_requests_total'));
      await daemon.scrapeUntil((metrics) => metrics.value('reader_replaced_total', { reason: 'hung' }) === 1);
      await serves(daemon);
      await eventually(async () => (await daemon.reasons()).every(({ code }) => code !== 'reader_down'));
      const after = await daemon.scrape();
      expect(after.sum('api_requests_total')).toBeGreaterThan(before.sum('api_requests_total'));
      expect(await program.stop()).toBe(0);
    },

    'goes on from an installation that is replaced or removed under it; a new one waits until the process is restarted':
      async () => {
        const root = dirname(dirname(programPath));
        const installation = scratchDirectory();
        const install = (): void => {
          for (const part of ['config', 'dist', 'package.json', 'proto'])
            cpSync(join(root, part), join(installation, part), { recursive: true });
          symlinkSync(join(root, 'node_modules'), join(installation, 'node_modules'));
        };
        install();
        // Its current directory is gone with it.
        const inside = ['sh', '-c', `cd ${installation}; exec "$@"`, 'sh'];
        const { daemon, program, readers } = await inspected(join(installation, 'dist', 'main.js'), inside);
        const client = new ReflectedClient(daemon.grpcAddress);
        atEnd(() => client.close());
        await serves(daemon);
        rmSync(installation, { recursive: true });
        for (const path of ['/', '/page/page.js', '/page/style.css', '/docs', '/openapi.json'])
          expect([path, (await fetch(daemon.apiUrl + path)).status]).toEqual([path, 200]);
        const [reflected] = await client.reflect({ list_services: '' });
        expect(reflected?.list_services_response?.service).toContainEqual({ name: 'flow.access.AccessAPI' });
        await readers('setImmediate(() => { throw new Error("planted") })');
        await daemon.reason(/readers\.js was replaced or removed while this process runs: restart it/);
        await daemon.reaches((await daemon.scrape()).value('latest_indexed_height') + 5);
        // The same version once more.
        install();
        await serves(daemon);
        expect(await program.stop()).toBe(0);
      },

    'may break, and run out of memory: each is told in the log, counted, and repaired; and loop for ever while the daemon ends':
      async () => {
        const { daemon, program, readers } = await inspected();
        await readers('setImmediate(() => { throw new Error("planted") })');
        await program.sees(/"msg":"readers are served again"/);
        const ended = program.logs().find(({ msg }) => msg === 'the reader thread has ended');
        expect(ended).toMatchObject({
          ...{ level: 'error', reason: 'died', detail: 'planted' },
          error: { type: 'Error', stack: expect.stringContaining('planted') as string },
        });
        await readers('globalThis.all = []; for (;;) all.push(new Array(1e6).fill(0.5))');
        // Where the machine is slow it may be given up before it has used all.
        await daemon.scrapeUntil((metrics) => metrics.sum('reader_replaced_total') === 2);
        await serves(daemon);

        await readers('for (;;);');
        const beganAtMs = performance.now();
        expect(await program.stop()).toBe(0);
        expect(performance.now() - beganAtMs).toBeLessThan(10_000);
      },
  }),
);
