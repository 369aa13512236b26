import { readFileSync } from 'node:fs';
import * as sdk from '@onflow/sdk';
import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { oddKinds, type GeneratedBlock } from '../../src/devnet/index.js';
import { decodeBlock, decodeTransaction, type TransactionSignature } from '../../src/flow/index.js';
import { indexedHere, matching, runProgram } from '../support/daemons.js';

const ROOT = 100;
const HEAD = 127;
const SEALED = 117;
/** Once in how many blocks each odd thing comes. */
const ODD_EVERY = 14;

/** A still chain in which every odd thing comes, and a daemon that has indexed all of it and knows what is sealed. */
async function indexedOddChain() {
  const odd = Object.fromEntries(oddKinds.map((kind) => [kind, ODD_EVERY]));
  const { daemon, devnet: node } = await indexedHere({
    ...{ seed: 3, rootHeight: ROOT, startHead: HEAD, sealedLag: HEAD - SEALED },
    profile: { base: 'mixed', bigCollectionBytes: 100_000, odd },
  });
  const blocks = Array.from({ length: HEAD - ROOT + 1 }, (_, index) => node.chain.block(ROOT + index));
  expect([...new Set(blocks.flatMap(({ odd }) => odd))].toSorted()).toEqual(oddKinds.toSorted());
  await daemon.statusUntil(({ sealed }) => sealed === SEALED);
  const [head, sealed] = [blocks[HEAD - ROOT]!, blocks[SEALED - ROOT]!];
  return { blocks, head, sealed, daemon, generator: node.chain };
}
type OddChain = Awaited<ReturnType<typeof indexedOddChain>>;

const bytesOf = (bytes: Uint8Array, encoding: 'hex' | 'utf8' | 'base64'): string =>
  Buffer.from(bytes).toString(encoding);
const address = (from: Uint8Array = Buffer.alloc(0)): string =>
  bytesOf(from, 'hex').padStart(16, '0').slice(-16);

/** A block, as the SDK gives blocks to its callers. */
function blockOf(block: GeneratedBlock) {
  const { guarantees, signatures } = decodeBlock(block.encoded);
  return {
    ...headerOf(block),
    parentVoterSignature: bytesOf(signatures[0] ?? Buffer.alloc(0), 'base64'),
    collectionGuarantees: guarantees.map(({ collectionId }) => ({ collectionId })),
    // Intended: seals are not indexed.
    blockSeals: [],
  };
}

function headerOf({ id, parentId, height, timestamp: { seconds, nanos } }: GeneratedBlock) {
  const milliseconds = Number(seconds) * 1000 + Math.trunc(nanos / 1e6);
  const timestamp = expect.toSatisfy((text: string) => Date.parse(text) === milliseconds) as string;
  return { id, parentId, height, timestamp };
}

function signatureOf({ address: signer, keyId, signature, extensionData }: TransactionSignature) {
  return {
    ...{ address: address(signer), keyId, signature: bytesOf(signature, 'base64') },
    ...(extensionData.length > 0 ? { extensionData: bytesOf(extensionData, 'hex') } : {}),
  };
}

/** A transaction, as the SDK gives transactions to its callers: large numbers rounded to what JavaScript has. */
function transactionOf(encoded: Uint8Array) {
  const from = decodeTransaction(encoded);
  const key = from.proposalKey;
  return {
    script: bytesOf(from.script, 'utf8'),
    args: from.arguments.map((argument) => JSON.parse(bytesOf(argument, 'utf8')) as unknown),
    referenceBlockId: bytesOf(from.referenceBlockId, 'hex'),
    gasLimit: Number(from.gasLimit),
    payer: address(from.payer),
    proposalKey: {
      address: address(key?.address),
      keyId: key?.keyId ?? 0,
      sequenceNumber: Number(key?.sequenceNumber ?? 0),
    },
    authorizers: from.authorizers.map(address),
    payloadSignatures: from.payloadSignatures.map(signatureOf),
    envelopeSignatures: from.envelopeSignatures.map(signatureOf),
  };
}

function idsIn({ transactionIds }: GeneratedBlock['collections'][number]): string[] {
  return bytesOf(transactionIds, 'hex').match(/.{64}/g) ?? [];
}

const ask = async (...builders: readonly sdk.InteractionBuilderFn[]): Promise<unknown> =>
  (await sdk.decode(await sdk.send([...builders]))) as unknown;

async function readsEveryBlock({ blocks }: OddChain): Promise<void> {
  for (const block of blocks) {
    const { height, id } = block;
    for (const key of [{ height }, { id }]) expect(await sdk.block(key)).toEqual(blockOf(block));
    for (const at of [sdk.atBlockHeight(height), sdk.atBlockId(id)])
      expect(await ask(sdk.getBlockHeader(), at)).toEqual(headerOf(block));
  }
}

async function readsTheLatestBlocks({ head, sealed }: OddChain): Promise<void> {
  expect(await sdk.block()).toEqual(blockOf(head));
  expect(await sdk.block({ sealed: true })).toEqual(blockOf(sealed));
  expect(await ask(sdk.getBlockHeader(), sdk.atLatestBlock())).toEqual(headerOf(head));
  expect(await ask(sdk.getBlockHeader(), sdk.atLatestBlock(true))).toEqual(headerOf(sealed));
}

async function readsEveryCollection({ blocks }: OddChain): Promise<void> {
  const collections = blocks.flatMap((block) => block.collections);
  for (const collection of collections) {
    const transactionIds = idsIn(collection);
    expect(await ask(sdk.getCollection(collection.id))).toEqual({ id: collection.id, transactionIds });
    const read = await Promise.all(transactionIds.map((one) => ask(sdk.getTransaction(one))));
    expect(read).toEqual(collection.transactions.map(transactionOf));
  }
  expect(collections.flatMap(idsIn).length).toBeGreaterThan(100);
}

async function readsWhatTheIndexSaysOfItself({ generator }: OddChain): Promise<void> {
  expect(await sdk.nodeVersionInfo()).toEqual({
    ...{ semver: `v${packageJson.version}`, commit: '', protocolVersion: 0 },
    ...{ sporkId: generator.sporkId, sporkRootBlockHeight: ROOT, nodeRootBlockHeight: ROOT },
  });
  // The SDK leaves out what all chain ids begin with.
  expect(await ask(sdk.getNetworkParameters())).toEqual({ chainId: generator.chainId.replace(/^flow-/, '') });
  expect(await sdk.send([sdk.ping()])).toMatchObject({ tag: 'PING' });
}

async function isToldWhatIsNotHere(): Promise<void> {
  const nothing = '07'.repeat(32);
  const range = `in heights ${ROOT}..${HEAD}`;
  const refusals: readonly (readonly [Promise<unknown>, number, string | RegExp])[] = [
    [sdk.block({ height: HEAD + 1 }), 404, `height ${HEAD + 1} is not yet indexed (latest ${HEAD}, head`],
    [sdk.block({ height: ROOT - 1 }), 404, `height ${ROOT - 1} is below the first indexed height ${ROOT}`],
    [sdk.block({ id: nothing }), 404, `no such block ${range}`],
    [ask(sdk.getCollection(nothing)), 404, `no such collection ${range}`],
    [ask(sdk.getTransaction(nothing)), 404, `no such transaction ${range}`],
    [ask(sdk.getTransaction('abc')), 400, 'expected 64 hexadecimal digits, got "abc"'],
    [ask(sdk.getTransactionStatus(nothing)), 404, /not served: .*execution is not indexed; ask an access/],
    [ask(sdk.getAccount('0xf8d6e0586b0a20c7')), 404, /not served: .*accounts.*; ask an access node/],
  ];
  await Promise.all(
    refusals.map(([call, statusCode, words]) =>
      expect(call).rejects.toMatchObject({
        ...{ name: 'HTTP Request Error', statusCode, errorMessage: matching(words) },
      }),
    ),
  );
}

async function canBeWrittenAsTheGuideShows({ sealed, daemon }: OddChain): Promise<void> {
  const page = readFileSync(new URL('../../docs/data-guide.md', import.meta.url), 'utf8');
  const [, example = ''] = /```js\n(import [^`]*@onflow\/sdk[^`]*)```/.exec(page) ?? [];
  expect(example).toContain("'http://127.0.0.1:7180'");
  const code = example.replaceAll('http://127.0.0.1:7180', daemon.apiUrl);
  const program = await runProgram([], {}, { script: ['--input-type=module', '--eval', code] });
  expect(program.code).toBe(0);
  const expected = sealed.collections.flatMap((collection) => {
    const payers = collection.transactions.map((each) => transactionOf(each).payer);
    return idsIn(collection).map((id, index) => `${sealed.height} ${id} paid by ${payers[index]}`);
  });
  expect(expected).not.toEqual([]);
  expect(program.stdout.trim().split('\n')).toEqual(expected);
}

it('a program with @onflow/sdk and its HTTP transport reads what the chain has, field by field, and is told in a sentence what is not here', async () => {
  const chain = await indexedOddChain();
  sdk.config().put('accessNode.api', chain.daemon.apiUrl);
  await readsEveryBlock(chain);
  await readsTheLatestBlocks(chain);
  await readsEveryCollection(chain);
  await readsWhatTheIndexSaysOfItself(chain);
  await isToldWhatIsNotHere();
  await canBeWrittenAsTheGuideShows(chain);
});
