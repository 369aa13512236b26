import { readFileSync } from 'node:fs';
import * as sdk from '@onflow/sdk';
import { describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { atEnd } from '../support/cleanup.js';
import { Program, scratchDirectory } from '../support/program.js';
import { oddKinds } from '../../src/devnet/index.js';
import type { DevnetHandle } from '../../src/devnet/index.js';
import { GrpcProbe } from '../support/grpcProbe.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';

const ROOT = 100;
const HEAD = 127;
const SEALED = 117;
/** Once in how many blocks each odd thing comes. */
const ODD_EVERY = 14;

interface OddChain {
  readonly node: DevnetHandle;
  /** Asks the node. */
  readonly client: GrpcProbe;
  readonly daemon: RunningDaemon;
  /** All of the chain, ascending: the first is the root, the last the finalized head. */
  readonly heights: readonly number[];
  readonly sealed: number;
}

/** A still chain in which every odd thing comes, and a daemon that has indexed all of it and knows what is sealed. */
async function indexedOddChain(): Promise<OddChain> {
  const node = await devnetForTest({
    ...{ seed: 3, rootHeight: ROOT },
    profile: {
      ...{ base: 'mixed', bigCollectionBytes: 100_000 },
      odd: Object.fromEntries(oddKinds.map((kind) => [kind, ODD_EVERY])),
    },
    ...{ startHead: HEAD, sealedLag: HEAD - SEALED, paused: true },
  });
  const heights = Array.from({ length: HEAD - ROOT + 1 }, (_, index) => ROOT + index);
  const seen = new Set(heights.flatMap((height) => node.chain.block(height).odd));
  if (seen.size < oddKinds.length)
    throw new Error(`of the odd things this chain has only ${[...seen].join()}`);
  const client = new GrpcProbe(node.address);
  atEnd(() => client.close());
  const daemon = await startDaemon(startArguments(node, scratchDirectory(), '--start-height', 'root'));
  await daemon.reaches(HEAD);
  await daemon.statusUntil(({ sealed }) => sealed === SEALED);
  return { node, client, daemon, heights, sealed: SEALED };
}

/** `flow.entities.Transaction.Signature`, as a client loaded from the proto files has it. */
interface SignatureMessage {
  readonly address: Buffer;
  readonly key_id: number;
  readonly signature: Buffer;
  readonly extension_data: Buffer;
}
/** `flow.entities.Transaction`, likewise: 64-bit numbers are texts. */
interface TransactionMessage {
  readonly script: Buffer;
  readonly arguments: readonly Buffer[];
  readonly reference_block_id: Buffer;
  readonly gas_limit: string;
  readonly proposal_key: {
    readonly address: Buffer;
    readonly key_id: number;
    readonly sequence_number: string;
  } | null;
  readonly payer: Buffer;
  readonly authorizers: readonly Buffer[];
  readonly payload_signatures: readonly SignatureMessage[];
  readonly envelope_signatures: readonly SignatureMessage[];
}

const hex = (bytes: Buffer): string => bytes.toString('hex');
const address = (from: Buffer): string => hex(from).padStart(16, '0').slice(-16);
const NO_BYTES = Buffer.alloc(0);

interface BlockMessage {
  readonly id: Buffer;
  readonly parent_id: Buffer;
  readonly height: string;
  readonly timestamp: { readonly seconds: string; readonly nanos: number };
  readonly collection_guarantees: readonly { readonly collection_id: Buffer }[];
  readonly signatures: readonly Buffer[];
}

/** A block of the node, as the SDK gives blocks to its callers. */
function blockOf({ id, parent_id, height, timestamp, collection_guarantees, signatures }: BlockMessage) {
  return {
    ...headerOf({ id, parent_id, height, timestamp }),
    parentVoterSignature: (signatures[0] ?? NO_BYTES).toString('base64'),
    collectionGuarantees: collection_guarantees.map((one) => ({ collectionId: hex(one.collection_id) })),
    // Intended: seals are not indexed.
    blockSeals: [],
  };
}

function headerOf(block: Pick<BlockMessage, 'id' | 'parent_id' | 'height' | 'timestamp'>) {
  return {
    id: hex(block.id),
    parentId: hex(block.parent_id),
    height: Number(block.height),
    timestamp: expect.toSatisfy(
      (text: string) => Date.parse(text) === millisecondsOf(block.timestamp),
    ) as string,
  };
}

function millisecondsOf({ seconds, nanos }: BlockMessage['timestamp']): number {
  return Number(seconds) * 1000 + Math.trunc(nanos / 1e6);
}

function signatureOf({ address: signer, key_id: keyId, signature, extension_data }: SignatureMessage) {
  return {
    ...{ address: address(signer), keyId, signature: signature.toString('base64') },
    ...(extension_data.length > 0 ? { extensionData: hex(extension_data) } : {}),
  };
}

/** A transaction of the node, as the SDK gives transactions to its callers: large numbers rounded to what JavaScript has. */
function transactionOf(from: TransactionMessage) {
  const key = from.proposal_key;
  return {
    script: from.script.toString('utf8'),
    args: from.arguments.map((argument) => JSON.parse(argument.toString('utf8')) as unknown),
    referenceBlockId: hex(from.reference_block_id),
    gasLimit: Number(from.gas_limit),
    payer: address(from.payer),
    proposalKey: {
      address: address(key?.address ?? NO_BYTES),
      keyId: key?.key_id ?? 0,
      sequenceNumber: Number(key?.sequence_number ?? 0),
    },
    authorizers: from.authorizers.map(address),
    payloadSignatures: from.payload_signatures.map(signatureOf),
    envelopeSignatures: from.envelope_signatures.map(signatureOf),
  };
}

const ask = async (...builders: readonly sdk.InteractionBuilderFn[]): Promise<unknown> =>
  (await sdk.decode(await sdk.send([...builders]))) as unknown;

interface SdkError {
  readonly name: string;
  readonly statusCode: number;
  readonly errorMessage: string;
}

const refusalOf = (call: Promise<unknown>): Promise<SdkError> =>
  call.then(
    (answer) => {
      throw new Error(`answered: ${JSON.stringify(answer)}`);
    },
    (error: unknown) => error as SdkError,
  );

const block = async ({ client }: OddChain, method: string, request: object = {}): Promise<BlockMessage> =>
  (await client.call(method, request))['block'] as BlockMessage;

async function transactionIds({ client }: OddChain, id: Buffer): Promise<readonly Buffer[]> {
  const { collection } = (await client.call('GetCollectionByID', { id })) as {
    collection: { readonly transaction_ids: readonly Buffer[] };
  };
  return collection.transaction_ids;
}

async function readsEveryBlock(chain: OddChain): Promise<void> {
  for (const height of chain.heights) {
    const expected = await block(chain, 'GetBlockByHeight', { height });
    const id = hex(expected.id);
    expect(await sdk.block({ height })).toEqual(blockOf(expected));
    expect(await sdk.block({ id })).toEqual(blockOf(expected));
    expect(await ask(sdk.getBlockHeader(), sdk.atBlockHeight(height))).toEqual(headerOf(expected));
    expect(await ask(sdk.getBlockHeader(), sdk.atBlockId(id))).toEqual(headerOf(expected));
  }
}

async function readsTheLatestBlocks(chain: OddChain): Promise<void> {
  const final = await block(chain, 'GetLatestBlock');
  const sealed = await block(chain, 'GetLatestBlock', { is_sealed: true });
  expect([Number(final.height), Number(sealed.height)]).toEqual([chain.heights.at(-1), chain.sealed]);
  expect(await sdk.block()).toEqual(blockOf(final));
  expect(await sdk.block({ sealed: true })).toEqual(blockOf(sealed));
  expect(await ask(sdk.getBlockHeader(), sdk.atLatestBlock())).toEqual(headerOf(final));
  expect(await ask(sdk.getBlockHeader(), sdk.atLatestBlock(true))).toEqual(headerOf(sealed));
}

async function readsEveryCollection(chain: OddChain): Promise<void> {
  let transactions = 0;
  for (const height of chain.heights) {
    for (const { collection_id: id } of (await block(chain, 'GetBlockByHeight', { height }))
      .collection_guarantees) {
      const ids = (await transactionIds(chain, id)).map(hex);
      expect(await ask(sdk.getCollection(hex(id)))).toEqual({ id: hex(id), transactionIds: ids });
      const { transactions: bodies } = (await chain.client.call('GetFullCollectionByID', { id })) as {
        transactions: readonly TransactionMessage[];
      };
      const read = await Promise.all(ids.map((one) => ask(sdk.getTransaction(one))));
      expect(read).toEqual(bodies.map(transactionOf));
      transactions += ids.length;
    }
  }
  expect(transactions).toBeGreaterThan(100);
}

async function readsWhatTheIndexSaysOfItself({ client, heights }: OddChain): Promise<void> {
  const { info } = (await client.call('GetNodeVersionInfo')) as {
    info: { readonly spork_id: Buffer; readonly spork_root_block_height: string };
  };
  expect(await sdk.nodeVersionInfo()).toEqual({
    ...{ semver: `v${packageJson.version}`, commit: '', protocolVersion: 0 },
    sporkId: hex(info.spork_id),
    sporkRootBlockHeight: Number(info.spork_root_block_height),
    nodeRootBlockHeight: heights[0],
  });
  const { chain_id } = (await client.call('GetNetworkParameters')) as { chain_id: string };
  // The SDK leaves out what all chain ids begin with.
  expect(await ask(sdk.getNetworkParameters())).toEqual({ chainId: chain_id.replace(/^flow-/, '') });
  expect(await sdk.send([sdk.ping()])).toMatchObject({ tag: 'PING' });
}

async function isToldWhatIsNotHere({ heights }: OddChain): Promise<void> {
  const [root = 0, head = 0] = [heights[0], heights.at(-1)];
  const nothing = '07'.repeat(32);
  const range = `in heights ${root}..${head}`;
  const refusals: readonly (readonly [() => Promise<unknown>, number, string | RegExp])[] = [
    [
      () => sdk.block({ height: head + 1 }),
      404,
      `height ${head + 1} is not yet indexed (latest ${head}, head ${head})`,
    ],
    [
      () => sdk.block({ height: root - 1 }),
      404,
      `height ${root - 1} is below the first indexed height ${root}`,
    ],
    [() => sdk.block({ id: nothing }), 404, `no such block ${range}`],
    [() => ask(sdk.getCollection(nothing)), 404, `no such collection ${range}`],
    [() => ask(sdk.getTransaction(nothing)), 404, `no such transaction ${range}`],
    [() => ask(sdk.getTransaction('abc')), 400, /expected 64 hexadecimal digits, got "abc"/],
    [
      () => ask(sdk.getTransactionStatus(nothing)),
      404,
      /not served: .*execution is not indexed; ask an access node/,
    ],
    [() => ask(sdk.getAccount('0xf8d6e0586b0a20c7')), 404, /not served: .*accounts.*; ask an access node/],
  ];
  for (const [call, statusCode, sentence] of refusals) {
    const error = await refusalOf(call());
    expect(error).toMatchObject({ name: 'HTTP Request Error', statusCode });
    expect(error.errorMessage).toEqual(
      typeof sentence === 'string' ? sentence : expect.stringMatching(sentence),
    );
  }
}

describe('a program that reads with @onflow/sdk and its HTTP transport', () => {
  it('reads what the chain has, field by field, and is told in a sentence what is not here', async () => {
    const chain = await indexedOddChain();
    sdk.config().put('accessNode.api', chain.daemon.apiUrl);
    await readsEveryBlock(chain);
    await readsTheLatestBlocks(chain);
    await readsEveryCollection(chain);
    await readsWhatTheIndexSaysOfItself(chain);
    await isToldWhatIsNotHere(chain);
  });

  it('can be written as docs/data-guide.md shows', async () => {
    const page = readFileSync(new URL('../../docs/data-guide.md', import.meta.url), 'utf8');
    const [, example = ''] = /```js\n(import [^`]*@onflow\/sdk[^`]*)```/.exec(page) ?? [];
    expect(example).toContain("'http://127.0.0.1:7180'");
    const chain = await indexedOddChain();
    const code = example.replaceAll('http://127.0.0.1:7180', chain.daemon.apiUrl);
    const program = new Program([], {}, [], ['--input-type=module', '--eval', code]);
    atEnd(async () => {
      await program.stop('SIGKILL');
    });
    expect(await program.exited).toBe(0);
    const { height, collection_guarantees } = await block(chain, 'GetLatestBlock', { is_sealed: true });
    const expected: string[] = [];
    for (const { collection_id } of collection_guarantees) {
      for (const id of await transactionIds(chain, collection_id)) {
        const { transaction } = (await chain.client.call('GetTransaction', { id })) as {
          transaction: TransactionMessage;
        };
        expected.push(`${height} ${hex(id)} paid by ${address(transaction.payer)}`);
      }
    }
    expect(expected).not.toEqual([]);
    expect(program.stdout.trim().split('\n')).toEqual(expected);
  });
});
