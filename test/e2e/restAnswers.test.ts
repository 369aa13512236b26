import { describe, expect, it } from 'vitest';
import { atEnd } from '../support/cleanup.js';
import { PlainClient } from '../support/plainClient.js';
import { indexedOddChain } from '../support/oddChain.js';
import { violations } from '../support/schemaCheck.js';
import type { JsonSchema } from '../support/schemaCheck.js';
import type { SignatureMessage, TransactionMessage } from '../support/flowMessages.js';

/** Single transactions that are asked for, besides all of them in their collections and blocks. */
const EVERY = 10;

interface Guarantee {
  readonly collection_id: Buffer;
  readonly reference_block_id: Buffer;
  readonly signature: Buffer;
  readonly signer_indices: Buffer;
  readonly cluster_chain_id: Buffer;
}
interface BlockAnswer {
  readonly block: {
    readonly id: Buffer;
    readonly parent_id: Buffer;
    readonly height: string;
    readonly timestamp: { readonly seconds: string; readonly nanos: number };
    readonly collection_guarantees: readonly Guarantee[];
    readonly signatures: readonly Buffer[];
  };
  readonly block_status: string;
}
interface NodeVersion {
  readonly spork_id: Buffer;
  readonly spork_root_block_height: string;
  readonly node_root_block_height: string;
}

const hex = (bytes: Buffer): string => bytes.toString('hex');
const base64 = (bytes: Buffer): string => bytes.toString('base64');
const address = (bytes: Buffer): string => hex(bytes).padStart(16, '0').slice(-16);

function timeOf({ seconds, nanos }: BlockAnswer['block']['timestamp']): string {
  const [date = ''] = new Date(Number(seconds) * 1000).toISOString().split('.');
  const fraction = (nanos / 1e9)
    .toFixed(9)
    .slice(1)
    .replace(/\.?0+$/, '');
  return `${date}${fraction}Z`;
}

/** As an access node's REST interface writes it, seals aside. */
function blockOf({ block, block_status }: BlockAnswer) {
  const id = hex(block.id);
  return {
    header: {
      id,
      parent_id: hex(block.parent_id),
      height: block.height,
      timestamp: timeOf(block.timestamp),
      parent_voter_signature: base64(block.signatures[0] ?? Buffer.alloc(0)),
    },
    payload: {
      collection_guarantees: block.collection_guarantees.map((guarantee) => ({
        collection_id: hex(guarantee.collection_id),
        signer_indices: hex(guarantee.signer_indices),
        signature: base64(guarantee.signature),
        reference_block_id: hex(guarantee.reference_block_id),
        cluster_chain_id: guarantee.cluster_chain_id.toString('utf8'),
      })),
      block_seals: [],
    },
    _expandable: {},
    _links: { _self: `/v1/blocks/${id}` },
    block_status,
    // An addition of ours: the ids of this chain are made up, so nothing is proven.
    proven: false,
  };
}

function signatureOf(signature: SignatureMessage) {
  return {
    address: address(signature.address),
    key_index: String(signature.key_id),
    signature: base64(signature.signature),
    ...(signature.extension_data.length > 0 ? { extension_data: base64(signature.extension_data) } : {}),
  };
}

function transactionOf(id: string, transaction: TransactionMessage) {
  const key = transaction.proposal_key;
  return {
    id,
    script: base64(transaction.script),
    arguments: transaction.arguments.map(base64),
    reference_block_id: hex(transaction.reference_block_id).padEnd(64, '0'),
    gas_limit: transaction.gas_limit,
    payer: address(transaction.payer),
    proposal_key: {
      address: address(key?.address ?? Buffer.alloc(0)),
      key_index: String(key?.key_id ?? 0),
      sequence_number: key?.sequence_number ?? '0',
    },
    authorizers: transaction.authorizers.map(address),
    payload_signatures: transaction.payload_signatures.map(signatureOf),
    envelope_signatures: transaction.envelope_signatures.map(signatureOf),
    _expandable: { result: `/v1/transaction_results/${id}` },
    _links: { _self: `/v1/transactions/${id}` },
  };
}

describe('the REST answers of a daemon', () => {
  it('are those of its node, whatever block is asked for', async () => {
    const { client, daemon, heights, sealed } = await indexedOddChain();
    const [root = 0, head = 0] = [heights[0], heights.at(-1)];
    const get = async (path: string): Promise<unknown> => (await daemon.api(path)).body;

    const asked = (await Promise.all(
      heights.map((height) => client.call('GetBlockByHeight', { height })),
    )) as unknown as BlockAnswer[];
    const blocks = asked.map(blockOf);
    const folded = blocks.map(({ payload: _, ...block }) => ({
      ...block,
      _expandable: { payload: `${block._links._self}/payload` },
    }));
    expect(blocks.map(({ block_status }) => block_status)).toEqual(
      heights.map((height) => (height <= sealed ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED')),
    );
    const range = `start_height=${root}&end_height=${head}`;
    expect(await get(`/v1/blocks?${range}`)).toEqual(folded);
    expect(await get(`/v1/blocks?${range}&expand=payload`)).toEqual(blocks);
    expect(await get(`/v1/blocks?height=${heights.join(',')}&expand=payload`)).toEqual(blocks);
    const ids = blocks.map(({ header }) => header.id);
    expect(await get(`/v1/blocks/${ids.join(',')}?expand=payload`)).toEqual(blocks);
    expect(await get('/v1/blocks?height=final&expand=payload')).toEqual([
      blockOf((await client.call('GetLatestBlock')) as unknown as BlockAnswer),
    ]);
    expect(await get('/v1/blocks?height=sealed&expand=payload')).toEqual([
      blockOf((await client.call('GetLatestBlock', { is_sealed: true })) as unknown as BlockAnswer),
    ]);

    let seen = 0;
    for (const [index, { header, payload }] of blocks.entries()) {
      expect(await get(`/v1/blocks/${header.id}/payload`)).toEqual(payload);
      const collections = await Promise.all(
        payload.collection_guarantees.map(async ({ collection_id: id }) => {
          const request = { id: Buffer.from(id, 'hex') };
          const light = await client.call('GetCollectionByID', request);
          const full = await client.call('GetFullCollectionByID', request);
          const transactionIds = (light['collection'] as { transaction_ids: Buffer[] }).transaction_ids.map(
            hex,
          );
          const transactions = (full['transactions'] as TransactionMessage[]).map((transaction, place) =>
            transactionOf(transactionIds[place] ?? '', transaction),
          );
          const _links = { _self: `/v1/collections/${id}` };
          const _expandable = { transactions: transactions.map((one) => one._links._self) };
          expect(await get(`/v1/collections/${id}`)).toEqual({ id, _expandable, _links });
          const expanded = { id, transactions, _expandable: {}, _links };
          expect(await get(`/v1/collections/${id}?expand=transactions`)).toEqual(expanded);
          return { ...expanded, transaction_ids: transactionIds };
        }),
      );
      const _links = { _self: `/v1/blocks/${header.id}/collections` };
      const whole = { block_id: header.id, height: header.height, collections, _links };
      expect(await get(`/v1/blocks/${header.id}/collections?expand=transactions`)).toEqual(whole);
      expect(await get(`/v1/blocks/${heights[index] ?? ''}/collections?expand=transactions`)).toEqual(whole);

      // The node appends those of the system chunk, which are not indexed.
      const guaranteed = collections.flatMap(({ transactions }) => transactions);
      const all = await client.call('GetTransactionsByBlockID', { block_id: Buffer.from(header.id, 'hex') });
      const byBlock = (all['transactions'] as TransactionMessage[]).slice(0, guaranteed.length);
      expect(await get(`/v1/transactions?block_id=${header.id}`)).toEqual(
        byBlock.map((transaction, place) => transactionOf(guaranteed[place]?.id ?? '', transaction)),
      );
      for (const { id } of guaranteed) {
        seen += 1;
        if (seen % EVERY !== 0) continue;
        const answer = await client.call('GetTransaction', { id: Buffer.from(id, 'hex') });
        expect(await get(`/v1/transactions/${id}`)).toEqual(
          transactionOf(id, answer['transaction'] as TransactionMessage),
        );
      }
    }
    expect(seen).toBeGreaterThan(100);

    const parameters = await client.call('GetNetworkParameters');
    expect(await get('/v1/network/parameters')).toEqual({ chain_id: parameters['chain_id'] });
    // The same as over gRPC, and as the node itself where an index can know it.
    const ours = new PlainClient(daemon.grpcAddress);
    atEnd(() => ours.close());
    const [own, its] = (await Promise.all(
      [ours, client].map(async (one) => (await one.call('GetNodeVersionInfo'))['info']),
    )) as [NodeVersion, NodeVersion];
    const version = await get('/v1/node_version_info');
    expect(version).toEqual({ ...own, spork_id: hex(own.spork_id) });
    expect(version).toMatchObject({
      spork_id: hex(its.spork_id),
      spork_root_block_height: its.spork_root_block_height,
      node_root_block_height: its.node_root_block_height,
      compatible_range: { start_height: String(root), end_height: String(head) },
    });

    // What only a running daemon has to say is described as well.
    const { components } = (await get('/openapi.json')) as {
      components: { schemas: Record<string, JsonSchema> };
    };
    expect(violations(components.schemas['Status'] ?? {}, await get('/status'), components.schemas)).toEqual(
      [],
    );
  });
});
