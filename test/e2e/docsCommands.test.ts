import { expect, it } from 'vitest';
import { setDocsStage } from '../docs/DocsStage.js';
import { pages } from '../docs/files.js';
import { LinePlayer } from '../docs/LinePlayer.js';
import { shellLines } from '../docs/shell.js';

/** Pages whose commands a test of their own runs, or that tell what was. */
const elsewhere: Readonly<Record<string, string>> = {
  'docs/command-line.md': 'test/integration/commandLineDocs.test.ts',
  'docs/rest-api.md': 'test/integration/api/restDocs.test.ts',
  'docs/grpc.md': 'test/e2e/grpcDocs.test.ts',
  'CHANGELOG.md': 'history',
};

it('runs the commands of the pages', async () => {
  const stage = await setDocsStage();
  const started = new Set<string>();
  const failures: string[] = [];
  const onlyChecked = new Map<string, string>();
  let runs = 0;
  for (const page of pages.filter(({ file }) => !(file in elsewhere))) {
    const player = new LinePlayer(stage, started);
    for (const line of shellLines(page).filter(({ isInline }) => !isInline)) {
      const outcome = await player.play(line);
      if (outcome.kind === 'ran') runs += 1;
      if (outcome.kind === 'checked') onlyChecked.set(line.text, outcome.reason);
      if (outcome.kind === 'failed')
        failures.push(`${line.file}:${line.line}: ${line.text}\n  ${outcome.what}`);
    }
  }
  expect(failures).toEqual([]);
  expect(runs).toBeGreaterThan(40);
  // Whatever is not run has a reason.
  expect([...onlyChecked.values()].filter((reason) => reason === '')).toEqual([]);
}, 300_000);
