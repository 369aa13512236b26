import { join } from 'node:path';
import { blocksOf, writeReferenceStore } from '../support/chainReference.js';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';

const NAMED_HEIGHT = 158_000_000;
const ROOT = NAMED_HEIGHT - 50;
const LAST = NAMED_HEIGHT + 50;
/** The daemon begins above the root, so that there is history to plan. */
const FIRST = ROOT + 20;

export type DocsStage = Awaited<ReturnType<typeof setDocsStage>>;

/** What the commands of the pages are run against: a simulated node, a daemon that has indexed its chain, and a store at rest. */
export async function setDocsStage() {
  const node = await devnetForTest({
    ...{ seed: 3, rootHeight: ROOT, startHead: LAST },
    ...{ paused: true, hashedIds: true, certificatesEvery: 0 },
  });
  const dataDir = scratchDirectory();
  const flags = ['--start-height', String(FIRST), '--index-accounts'];
  const daemon = await startDaemonHere(startArguments(node, dataDir, ...flags));
  await daemon.reaches(LAST);
  const found = blocksOf(node.chain, NAMED_HEIGHT, LAST)
    .flatMap((block) => block.collections.map((collection) => ({ block, collection })))
    .find(({ collection }) => collection.transactions.length > 0);
  if (found === undefined) throw new Error('the chain has no transactions');
  const { block, collection } = found;
  const transactionId = collection.transactionIds.toString('hex', 0, 32);
  const { body } = await daemon.api(`/v1/transactions/${transactionId}`);
  // The account index follows the blocks.
  await daemon.statusUntil(({ accountIndex }) => accountIndex.state === 'complete');
  const values: Readonly<Record<string, string>> = {
    NODE: node.address,
    HEIGHT: String(block.height),
    ID_OR_HEIGHT: String(block.height),
    BLOCK_ID: block.id,
    COLLECTION_ID: collection.id,
    TRANSACTION_ID: transactionId,
    ADDRESS: (body as { payer: string }).payer,
  };
  return {
    node,
    dataDir,
    values,
    /** The same chain in a store that no daemon uses, in a directory of its own. */
    storeAtRest: async (): Promise<string> => {
      const other = scratchDirectory();
      await writeReferenceStore(other, blocksOf(node.chain, ROOT, LAST), { chainId: node.chain.chainId });
      return other;
    },
    addressOf: (url: string): string =>
      url
        .replace('http://127.0.0.1:7180', daemon.apiUrl)
        .replace('http://127.0.0.1:7182', daemon.metricsUrl)
        .replaceAll(/158000\d{3}/g, String(NAMED_HEIGHT))
        .replaceAll(/(?<=[/=])42\b/g, String(NAMED_HEIGHT)),
    scratchFile: (name: string): string => join(scratchDirectory(), name),
  };
}
