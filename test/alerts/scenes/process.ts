import { execFileSync } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspectReaders } from '../../support/inspector.js';
import { TestSecrets } from '../../support/secretFiles.js';
import { demandRoot, type Scenes } from '../Stage.js';

/** With the key of the one for `localhost`. */
const EXPIRED = join(import.meta.dirname, '../../data/tls/expired-cert.pem');
const growing = { blockIntervalMs: 200, paused: false };

export const processScenes: Scenes = {
  gone: async (stage) => {
    const { instance } = await stage.startUsual();
    await stage.provoke({
      alerts: ['FlowIndexerNotScraped'],
      fault: 'the daemon is killed (SIGKILL)',
      strike: () => stage.daemon(instance).program.stop('SIGKILL'),
      repaired: 'it is started again',
      fix: () => stage.restart(instance),
    });
    await stage.provoke({
      alerts: ['FlowIndexerRestarting'],
      fault: 'it is killed again and again, and started again each time',
      strike: async () => {
        for (let kill = 0; kill < 6; kill += 1) {
          await stage.daemon(instance).program.stop('SIGKILL');
          await stage.restart(instance);
          // Prometheus has to see each of them.
          await stage.isScraped(instance);
        }
      },
      repaired: 'it runs',
    });
  },
  'log is not read': async (stage) => {
    const { instance } = await stage.startUsual(growing, ['--log-level', 'debug']);
    await stage.provoke({
      alerts: ['FlowIndexerLogLinesLost'],
      fault: 'whoever reads its log, at level debug, ends',
      strike: () => stage.daemon(instance).program.child.stdout?.destroy(),
      repaired: 'it is started again, and its log is read',
      fix: async () => {
        await stage.daemon(instance).program.stop();
        await stage.restart(instance);
      },
    });
  },
  'no file can be opened': async (stage) => {
    demandRoot();
    const { instance } = await stage.startUsual(growing);
    const daemon = stage.daemon(instance);
    // Prometheus keeps the connection over which it scrapes: it must have it before none can be opened.
    await stage.isScraped(instance);
    const allow = (files: string): void => {
      execFileSync('prlimit', ['--pid', String(daemon.program.child.pid), `--nofile=${files}:`]);
    };
    await stage.provoke({
      alerts: ['FlowIndexerDescriptorsLow'],
      fault: 'its limit of open files is lowered to 20 (`prlimit`)',
      strike: () => allow('20'),
      repaired: 'the limit is raised again',
      fix: () => allow('4096'),
    });
  },
  'reader hangs': async (stage) => {
    const { instance } = await stage.startUsual(growing, [], ['--inspect=127.0.0.1:0']);
    const { program } = stage.daemon(instance);
    const [, port = ''] = await program.sees(/ws:\/\/127\.0\.0\.1:(\d+)\//);
    await stage.provoke({
      alerts: ['FlowIndexerReaderDown', 'FlowIndexerReaderReplaced'],
      fault: 'the thread that serves readers loops for ever',
      strike: () => inspectReaders(Number(port), 'for (;;);'),
      repaired: 'the daemon replaces it by itself',
    });
  },
  certificate: async (stage) => {
    const secrets = new TestSecrets('');
    await stage.startUsual({}, secrets.tlsFlags());
    await stage.provoke({
      alerts: ['FlowIndexerCertificateExpires'],
      fault: 'a certificate that has expired stands in the file of `--api-tls-certificate-file`',
      strike: () => copyFileSync(EXPIRED, secrets.certificateFile),
      repaired: 'one that has not stands there',
      fix: () => secrets.use('localhost'),
    });
    await stage.provoke({
      alerts: ['FlowIndexerSecretRefused'],
      fault: 'the file of the certificate holds something else',
      strike: () => writeFileSync(secrets.certificateFile, 'no certificate\n'),
      repaired: 'it holds one again',
      fix: () => secrets.use('localhost'),
    });
  },
};
