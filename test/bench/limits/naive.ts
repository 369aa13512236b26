/**
 * What one would write first: proto-loader decodes everything, each height is awaited, RLP and hashes by libraries, one
 * value per transaction, an array batch per block with LevelDB's default options, one write at a time. Nothing is
 * synced, so it promises less than what it is compared with.
 */
import { createHash } from 'node:crypto';
import { credentials, loadPackageDefinition } from '@grpc/grpc-js';
import type { ClientReadableStream, ServiceClientConstructor } from '@grpc/grpc-js';
import { RLP } from '@ethereumjs/rlp';
import { Level } from 'level';
import { loadProtocol } from '../../../src/flow/index.js';
import { limitTask, LimitWatch } from '../lib/limits.js';

interface Signature {
  readonly address: Buffer;
  readonly key_id: number;
  readonly signature: Buffer;
}

interface Transaction {
  readonly script: Buffer;
  readonly arguments: readonly Buffer[];
  readonly reference_block_id: Buffer;
  readonly gas_limit: string;
  readonly proposal_key: Pick<Signature, 'address' | 'key_id'> & { readonly sequence_number: string };
  readonly payer: Buffer;
  readonly authorizers: readonly Buffer[];
  readonly payload_signatures: readonly Signature[];
  readonly envelope_signatures: readonly Signature[];
}

interface ExecutionData {
  readonly block_height: string;
  readonly block_execution_data: {
    readonly chunk_execution_data: readonly {
      readonly collection: { readonly transactions: readonly Transaction[] };
    }[];
  };
}

interface Block {
  readonly block: {
    readonly id: Buffer;
    readonly height: string;
    readonly collection_guarantees: readonly { readonly collection_id: Buffer }[];
  };
}

const { node, heights, path } = limitTask();
const root = loadPackageDefinition(loadProtocol()) as unknown as {
  readonly flow: {
    readonly access: { readonly AccessAPI: ServiceClientConstructor };
    readonly executiondata: { readonly ExecutionDataAPI: ServiceClientConstructor };
  };
};
type Subscribe = (request: object) => ClientReadableStream<unknown>;
const options = { 'grpc.max_receive_message_length': 64 * 1024 * 1024 };
const access = new root.flow.access.AccessAPI(node, credentials.createInsecure(), options);
const data = new root.flow.executiondata.ExecutionDataAPI(node, credentials.createInsecure(), options);
const subscribeBlocks = access['SubscribeBlocksFromStartHeight'] as Subscribe;
const subscribeData = data['SubscribeExecutionDataFromStartBlockHeight'] as Subscribe;

const database = new Level<string, object>(path, { valueEncoding: 'json' });
const watch = new LimitWatch();
const blocks = subscribeBlocks.call(access, { start_block_height: '1', block_status: 'BLOCK_FINALIZED' });
const blockIterator = blocks[Symbol.asyncIterator]() as AsyncIterator<Block>;

for await (const message of subscribeData.call(data, { start_block_height: '1' })) {
  const { value: received } = (await blockIterator.next()) as { value: Block };
  watch.start();
  const { block_height: height, block_execution_data: execution } = message as ExecutionData;
  const block = received.block;
  if (block.height !== height) throw new Error('the streams do not go together');
  const collections = execution.chunk_execution_data.slice(0, -1);
  const operations: { type: 'put'; key: string; value: object }[] = [];
  const put = (key: string, value: object): void => void operations.push({ type: 'put', key, value });
  for (const [index, { collection_id: expected }] of block.collection_guarantees.entries()) {
    const transactions = collections[index]?.collection.transactions ?? [];
    const ids = transactions.map(transactionId);
    const id = sha3(RLP.encode([ids]));
    if (!id.equals(expected))
      throw new Error(`collection ${index} of height ${height} is not the guaranteed one`);
    put(`collection/${id.toString('hex')}`, {
      height,
      transactions: ids.map((each) => each.toString('hex')),
    });
    for (const [place, transaction] of transactions.entries())
      put(`transaction/${ids[place]?.toString('hex') ?? ''}`, { height, transaction: asText(transaction) });
  }
  put(`block/${height}`, {
    id: block.id.toString('hex'),
    collections: block.collection_guarantees.map((each) => each.collection_id.toString('hex')),
  });
  put('latest', { height });
  await database.batch(operations);
  if (Number(height) === heights) watch.finish(heights);
}

function sha3(bytes: Uint8Array): Buffer {
  return createHash('sha3-256').update(bytes).digest();
}

function transactionId(transaction: Transaction): Buffer {
  const { proposal_key: proposal, payer, authorizers } = transaction;
  const signers: string[] = [];
  for (const address of [proposal.address, payer, ...authorizers]) {
    const hex = address.toString('hex');
    if (!signers.includes(hex)) signers.push(hex);
  }
  const signatures = (list: readonly Signature[]) =>
    list.map(({ address, key_id: keyId, signature }) => [
      signers.indexOf(address.toString('hex')),
      keyId,
      signature,
    ]);
  return sha3(
    RLP.encode([
      [
        transaction.script,
        transaction.arguments.map((argument) => argument),
        transaction.reference_block_id,
        BigInt(transaction.gas_limit),
        proposal.address,
        proposal.key_id,
        BigInt(proposal.sequence_number),
        payer,
        authorizers.map((address) => address),
      ],
      signatures(transaction.payload_signatures),
      signatures(transaction.envelope_signatures),
    ]),
  );
}

/** Bytes as text, so that JSON holds them. */
function asText(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return value.toString('base64');
  if (Array.isArray(value)) return value.map(asText);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, asText(field)]));
}
