import { isDeepStrictEqual } from 'node:util';
import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { indexedHere, oddChain, probeOn, transactionIdsOf, type Message } from '../support/daemons.js';

const { version } = packageJson;
const ROOT = 1_000;
const TOP = ROOT + 104;
const SEALED_LAG = 7;

const { options: chainOptions, chain, blocks } = oddChain(5, ROOT, TOP, 200_000);
const all = blocks.flatMap((block) => block.collections);
const collections = [...new Set(all.map(({ id }) => id))];
const transactions = [...new Set(all.flatMap(transactionIdsOf))];
/** Calls that are under way at once, to each of the two. */
const AT_ONCE = 16;
async function each<T>(all: readonly T[], compare: (one: T) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < all.length; at += AT_ONCE)
    await Promise.all(all.slice(at, at + AT_ONCE).map(compare));
}

/** The subscriptions, each from its beginning to the last block that it has to tell. */
async function expectSameStreams(our: string, their: string): Promise<void> {
  const clients = [our, their].map((address) => probeOn(address));
  const sealed = TOP - SEALED_LAG;
  const middle = blocks[20]!;
  const streams: readonly (readonly [from: string, start: object, first: number])[] = [
    ['FromStartHeight', { start_block_height: ROOT }, ROOT],
    ['FromStartBlockID', { start_block_id: Buffer.from(middle.id, 'hex') }, middle.height],
    // The latest sealed block, whichever head is followed.
    ['FromLatest', {}, sealed],
  ];
  for (const what of ['Blocks', 'BlockDigests']) {
    for (const [from, start, first] of streams) {
      for (const [block_status, last] of [
        ['BLOCK_FINALIZED', TOP],
        ['BLOCK_SEALED', sealed],
      ] as const) {
        const method = `Subscribe${what}${from}`;
        const [us, them] = await Promise.all(
          clients.map((client) => client.take(method, { ...start, block_status }, last - first + 1)),
        );
        if (!isDeepStrictEqual(us, them)) expect(us, method).toEqual(them);
      }
    }
  }
}

const bytes = (id: string): Buffer => Buffer.from(id, 'hex');

it('answers blocks, collections and transactions as the node itself, field by field', async () => {
  const still = { startHead: TOP, sealedLag: SEALED_LAG };
  const { daemon, devnet } = await indexedHere({ ...chainOptions, ...still });
  await daemon.statusUntil(({ sealed }) => sealed === TOP - SEALED_LAG);
  const [ours, theirs] = [probeOn(daemon.grpcAddress), probeOn(devnet.address)];

  /** Both answers to a call, without the metadata, which must agree as far as it can. */
  const both = async (method: string, request: object): Promise<readonly [Message, Message]> => {
    const answers = await Promise.all([ours.call(method, request), theirs.call(method, request)]);
    const [us, them] = answers.map(({ metadata }) => metadata as Message) as [Message, Message];
    // We are no node, and are asked for execution data nowhere: what we have indexed is what we have.
    const unlike = { node_id: Buffer.alloc(0), highest_indexed_height: String(TOP) };
    if (!isDeepStrictEqual(us, { ...them, ...unlike })) expect(us).toEqual({ ...them, ...unlike });
    const [mine, its] = answers.map(({ metadata: _, ...rest }) => rest) as [Message, Message];
    return [mine, its];
  };
  const expectSame = async (method: string, request: object): Promise<Message> => {
    const [mine, its] = await both(method, request);
    if (!isDeepStrictEqual(mine, its)) expect(mine, method).toEqual(its);
    return mine;
  };

  await each(blocks, async ({ height, id }) => {
    const byHeight = await expectSame('GetBlockByHeight', { height });
    expect(byHeight['block_status']).toBe(height <= TOP - SEALED_LAG ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED');
    await expectSame('GetBlockByID', { id: bytes(id) });
  });
  await expectSame('GetLatestBlock', { is_sealed: false });
  await expectSame('GetLatestBlock', { is_sealed: true });
  await each(collections, (id) => expectSame('GetCollectionByID', { id: bytes(id) }));
  await each(collections, (id) => expectSame('GetFullCollectionByID', { id: bytes(id) }));
  await each(transactions, (id) => expectSame('GetTransaction', { id: bytes(id) }));

  // Intended: the node adds the transactions of the system chunk.
  await each(blocks, async ({ height, id }) => {
    const [mine, its] = await both('GetTransactionsByBlockID', { block_id: bytes(id) });
    const all = its['transactions'] as readonly Message[];
    const system = chain.systemTransactions(height).length;
    const guaranteed = { transactions: all.slice(0, all.length - system) };
    if (!isDeepStrictEqual(mine, guaranteed)) expect(mine).toEqual(guaranteed);
  });

  await expectSameStreams(daemon.grpcAddress, devnet.address);
  expect(await ours.call('Ping')).toEqual(await theirs.call('Ping'));

  const network = await Promise.all([ours, theirs].map((client) => client.call('GetNetworkParameters')));
  expect(network[0]).toEqual(network[1]);
  const versions = await Promise.all(
    [ours, theirs].map(async (client) => (await client.call('GetNodeVersionInfo'))['info'] as Message),
  );
  // Intended: the version is our own, the range is what can be read here, and of the protocol we know nothing.
  const own = { semver: `v${version}`, commit: '', protocol_version: '0', protocol_state_version: '0' };
  const readable = { compatible_range: { start_height: String(ROOT), end_height: String(TOP) } };
  expect(versions[0]).toEqual({ ...versions[1], ...own, ...readable });

  expect(await ours.health('flow.access.AccessAPI')).toEqual({ status: 'SERVING' });
  expect(await daemon.program.stop()).toBe(0);
  expect(daemon.program.stderr).toBe('');
});
