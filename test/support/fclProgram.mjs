// A program that leaves every error to FCL: `node fclProgram.mjs API_URL once|watch TRANSACTION_ID`.
import process from 'node:process';
import { block, config, events, tx } from '@onflow/fcl-core';

const [, , apiUrl, mode, transactionId = ''] = process.argv;
config({ 'accessNode.api': apiUrl });

const EVENT = 'A.0ae53cb6e3f42a79.FlowToken.TokensDeposited';
const say = (line) => process.stdout.write(`${line}\n`);

if (mode === 'once') {
  const status = await tx(transactionId).onceSealed();
  say(`sealed ${status.statusString}`);
  const unsubscribe = events(EVENT).subscribe((event) => {
    say(`event ${event.blockHeight} ${JSON.stringify(event.data)}`);
    unsubscribe();
    process.exit(0);
  });
} else {
  // FCL tells whoever waits for the same transaction again in its own words alone.
  const alone = await tx(transactionId.replace(/^../, '00'))
    .onceSealed()
    .catch((error) => error);
  say(`alone: ${alone.message}`);
  tx(transactionId).subscribe((status) => say(`status ${status.status}`));
  events(EVENT).subscribe(() => say('event'));
  const rejected = await tx(transactionId)
    .onceSealed()
    .catch((error) => error);
  say(`rejected: ${rejected.message}`);
  const refused = await new Promise((resolve) => events(EVENT).subscribe(() => undefined, resolve));
  say(`refused: ${refused.message}`);
  // What nobody caught has ended the process by the time that another answer is here.
  say(`alive at ${(await block()).height}`);
  process.exit(0);
}
