import { expect, it } from 'vitest';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, runDaemonHere, startArguments } from '../support/runningDaemon.js';

/** Between devnet28 and testnet51 of the spork table: no public node is left that has it. */
const WITHIN_THE_GAP = 50_000_000;
const NEXT_SERVED = 211_176_670;

it('a start height that nobody serves between two sporks is a configuration error that names the next one', async () => {
  const node = await devnetForTest({ chainId: 'flow-testnet', rootHeight: 305_778_201, paused: true });
  const command = startArguments(node, scratchDirectory(), '--network', 'testnet');
  const { code, stderr } = await runDaemonHere([...command, '--start-height', String(WITHIN_THE_GAP)]);
  expect(code).toBe(78);
  expect(stderr).toContain(`startHeight ${WITHIN_THE_GAP} lies between two sporks`);
  expect(stderr).toContain(`Use --start-height ${NEXT_SERVED} or higher`);
});
