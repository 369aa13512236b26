import { join } from 'node:path';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { blocksOf, writeReferenceStore } from '../support/chainReference.js';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';

/** A height that the pages name. */
const NAMED_HEIGHT = 158_000_000;
const ROOT = NAMED_HEIGHT - 50;
const LAST = NAMED_HEIGHT + 50;
/** The daemon begins above the root, so that there is history to plan. */
const FIRST = ROOT + 20;

/** What the commands of the pages are run against: a simulated node, a daemon that has indexed its chain, and a store at rest. */
export class DocsStage {
  readonly node: DevnetHandle;
  readonly daemon: DaemonHere;
  /** Of the daemon. */
  readonly dataDir: string;
  /** What stands for the placeholders of the pages, and for heights that other chains have. */
  readonly values: Readonly<Record<string, string>>;

  private constructor(
    node: DevnetHandle,
    daemon: DaemonHere,
    dataDir: string,
    values: Readonly<Record<string, string>>,
  ) {
    this.node = node;
    this.daemon = daemon;
    this.dataDir = dataDir;
    this.values = values;
  }

  static async set(): Promise<DocsStage> {
    const node = await devnetForTest({
      ...{ seed: 3, rootHeight: ROOT, startHead: LAST },
      ...{ paused: true, hashedIds: true, certificatesEvery: 0 },
    });
    const dataDir = scratchDirectory();
    const flags = ['--start-height', String(FIRST), '--index-accounts'];
    const daemon = await startDaemonHere(startArguments(node, dataDir, ...flags));
    await daemon.reaches(LAST);
    const block = blocksOf(node.chain, NAMED_HEIGHT, LAST).find(({ collections }) =>
      collections.some(({ transactions }) => transactions.length > 0),
    );
    const collection = block?.collections.find(({ transactions }) => transactions.length > 0);
    if (block === undefined || collection === undefined) throw new Error('the chain has no transactions');
    const transactionId = collection.transactionIds.toString('hex', 0, 32);
    const { body } = await daemon.api(`/v1/transactions/${transactionId}`);
    // The account index follows the blocks.
    await daemon.statusUntil(({ accountIndex }) => accountIndex.state === 'complete');
    return new DocsStage(node, daemon, dataDir, {
      NODE: node.address,
      HEIGHT: String(block.height),
      ID_OR_HEIGHT: String(block.height),
      BLOCK_ID: block.id,
      COLLECTION_ID: collection.id,
      TRANSACTION_ID: transactionId,
      ADDRESS: (body as { payer: string }).payer,
    });
  }

  /** The same chain in a store that no daemon uses, in a directory of its own. */
  async storeAtRest(): Promise<string> {
    const dataDir = scratchDirectory();
    const { chain } = this.node;
    await writeReferenceStore(dataDir, blocksOf(chain, ROOT, LAST), { chainId: chain.chainId });
    return dataDir;
  }

  /** An address of the pages, as it is here. */
  addressOf(url: string): string {
    const { apiUrl, metricsUrl } = this.daemon;
    return url
      .replace('http://127.0.0.1:7180', apiUrl)
      .replace('http://127.0.0.1:7182', metricsUrl)
      .replaceAll(/158000\d{3}/g, String(NAMED_HEIGHT))
      .replaceAll(/(?<=[/=])42\b/g, String(NAMED_HEIGHT));
  }

  /** A file of this page's own. */
  scratchFile(name: string): string {
    return join(scratchDirectory(), name);
  }
}
