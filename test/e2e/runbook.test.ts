import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { runCommand } from '../support/commandLine.js';
import { scratchDirectory } from '../support/program.js';

const page = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');

/** The commands of our own that it tells to type, in a block or in a sentence, without what they are to find out. */
const commands = new Set(
  [...page.matchAll(/^flow-collection-indexer (.*?)(?:\s+#.*)?$|`flow-collection-indexer ([^`]*)`/gm)].map(
    ([, line, inline]) => (line ?? inline ?? '').trim(),
  ),
);

it.each([...commands])('%s is a command of this program', async (command) => {
  const words = command.replaceAll(/ID_OR_HEIGHT|HEIGHT/g, '1').split(/\s+/);
  const environment = { FCI_NETWORK: 'devnet', FCI_DATA_DIR: scratchDirectory() };
  const { code, stderr, stdout } = await runCommand(words, environment);
  // Nothing is there to be asked. What is wrong must be that, and not the command.
  if (code === 64) expect(stderr).toContain('Workers are processes that share a database');
  else expect([0, 65, 66, 69, 74], `${stdout}${stderr}`).toContain(code);
});

it('has commands', () => {
  expect(commands.size).toBeGreaterThan(10);
});
