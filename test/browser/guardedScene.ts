import { scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { TestSecrets } from '../support/secretFiles.js';
import { holds } from './report.js';
import type { Scene } from './scene.js';
import { StatusPage } from './StatusPage.js';

const TOKEN = 'a-token-for-the-operator';

/** A daemon that wants a token: the page asks for it, by keyboard alone, and keeps it for its tab. */
export const guarded: Scene = async (browser, options) => {
  const devnet = await devnetForTest({ seed: 3, startHead: 300, blockIntervalMs: 500 });
  const { tokensFile } = new TestSecrets(`${TOKEN} operator\n`);
  const flags = ['--start-height', 'root', '--api-tokens-file', tokensFile];
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), ...flags));
  await daemon.reaches(300);
  const page = await StatusPage.open(browser, daemon.apiUrl, options);
  await page.says(
    'Token wanted',
    'only to callers with a bearer token',
    'but the request has none',
    'kept until this tab is closed',
  );
  await page.isFine('token');

  await page.page.run("document.querySelector('#token').focus();");
  await page.type('not-the-token-that-is-wanted');
  await page.press('Enter');
  await page.says('Token wanted', 'this bearer token is not known here');
  await page.isFine('token-refused');

  await page.page.run("document.querySelector('#token').focus();");
  await page.type(TOKEN);
  await page.press('Enter');
  await page.says(/\bReady\b/, /Latest indexed\s+\d{3}/);
  const forms = "return document.querySelectorAll('#token').length;";
  if ((await page.page.run<number>(forms)) !== 0) throw new Error('the page still asks for the token');
  await page.page.run("location.hash = '#find=123';");
  await page.says('/lookup/block/123', '"collections"');
  await page.page.go(daemon.apiUrl);
  await page.says(/\bReady\b/);
  holds(
    'the page asks for the token that the daemon wants, says that another is wrong, and keeps it for its tab',
  );
  page.neverComplained(daemon.apiUrl, /status of (401|503)/);
};
