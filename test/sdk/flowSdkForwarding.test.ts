import { createHash } from 'node:crypto';
import * as sdk from '@onflow/sdk';
import { expect, it } from 'vitest';
import { RestNode, type RestReply, type SeenRequest } from '../support/restNode.js';
import { daemonOn, devnetForTest } from '../support/runningDaemon.js';

const ROOT = 1_000;
const TOP = 1_010;
const ADDRESS = 'f8d6e0586b0a20c7';

interface Sent {
  readonly script: string;
  readonly arguments: readonly string[];
  readonly reference_block_id: string;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const text = (encoded: string): string => Buffer.from(encoded, 'base64').toString();
const idOf = (transaction: string): string => createHash('sha256').update(transaction).digest('hex');

/** As much of a node's REST interface as a program needs that runs a script and sends a transaction. */
const nodeReply: RestReply = (_request, response, { method, url, body }) => {
  const reply = (status: number, answer: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  };
  const path = url.split('?', 1)[0] ?? '';
  if (method === 'POST' && path === '/v1/scripts') {
    const [argument = ''] = (JSON.parse(body) as Sent).arguments;
    const { value } = JSON.parse(text(argument)) as { readonly value: string };
    reply(200, base64(JSON.stringify({ type: 'Int', value: String(Number(value) * 2) })));
  } else if (method === 'POST' && path === '/v1/transactions') {
    reply(201, { id: idOf(body) });
  } else if (path === `/v1/accounts/${ADDRESS}`) {
    const kind = { signing_algorithm: 'ECDSA_P256', hashing_algorithm: 'SHA3_256', weight: '1000' };
    const key = { index: '0', public_key: '0xab', ...kind, sequence_number: '42', revoked: false };
    reply(200, { address: ADDRESS, balance: '7', keys: [key], contracts: {} });
  } else if (path.startsWith('/v1/transaction_results/')) {
    reply(200, { block_id: '', status: 'Sealed', status_code: 0, error_message: '', events: [] });
  } else {
    reply(404, { code: 404, message: `no ${method} ${path}` });
  }
};

const ask = async (...builders: readonly sdk.InteractionBuilderFn[]): Promise<unknown> =>
  (await sdk.decode(await sdk.send([...builders]))) as unknown;

/** The SDK's types of Cadence values, of which it has no good description. */
const integer = { label: 'Int', asArgument: (value: string) => ({ type: 'Int', value }) };

it('a program with @onflow/sdk runs scripts and sends transactions through the daemon alone', async () => {
  const node = await RestNode.start(nodeReply);
  const devnet = await devnetForTest({ seed: 3, rootHeight: ROOT, startHead: TOP, paused: true });
  const daemon = await daemonOn(devnet, '--start-height', 'root', '--api-forward-rest', node.url);
  await daemon.reaches(TOP);
  // The SDK refers to the newest sealed block.
  await daemon.statusUntil(({ sealed }) => (sealed ?? 0) >= ROOT);
  sdk.config().put('accessNode.api', daemon.apiUrl);

  const doubled = 'access(all) fun main(x: Int): Int { return x * 2 }';
  const value = await ask(sdk.script(doubled), sdk.args([sdk.arg('21' as never, integer as never)]));
  expect(value).toBe('42');
  expect(text((JSON.parse(node.seen.at(-1)?.body ?? '') as Sent).script)).toBe(doubled);

  const authorization = (account: sdk.InteractionAccount): sdk.InteractionAccount => ({
    ...account,
    ...{ tempId: ADDRESS, addr: ADDRESS, keyId: 0 },
    signingFunction: () => ({ addr: ADDRESS, keyId: 0, signature: 'c0ffee' }),
  });
  const { transactionId } = (await sdk.send([
    sdk.transaction('transaction { prepare(signer: &Account) {} }'),
    sdk.proposer(authorization),
    sdk.payer([authorization]),
    sdk.authorizations([authorization]),
    sdk.limit(100),
  ])) as { readonly transactionId: string };
  const isSent = ({ method, url }: SeenRequest) => method === 'POST' && url === '/v1/transactions';
  const body = node.seen.find(isSent)?.body ?? '';
  const sent = JSON.parse(body) as Sent;
  expect(transactionId).toBe(idOf(body));
  // The block that it refers to is the index's, what the proposer is at the node's.
  const reference = await sdk.block({ id: sent.reference_block_id });
  expect(reference.height).toBeLessThanOrEqual(TOP);
  expect(reference.height).toBeGreaterThanOrEqual(ROOT);
  const signature = Buffer.from('c0ffee', 'hex').toString('base64');
  expect(sent).toMatchObject({
    proposal_key: { address: ADDRESS, sequence_number: '42' },
    envelope_signatures: [{ address: ADDRESS, key_index: '0', signature }],
  });
  expect(await ask(sdk.getTransactionStatus(transactionId))).toMatchObject({ statusString: 'SEALED' });
  expect(await ask(sdk.getAccount(ADDRESS))).toMatchObject({ balance: 7 });

  const urls = node.seen.map(({ method, url }) => `${method} ${url.split('?', 1)[0]}`);
  expect([...new Set(urls)].sort()).toEqual([
    ...[`GET /v1/accounts/${ADDRESS}`, `GET /v1/transaction_results/${transactionId}`],
    ...['POST /v1/scripts', 'POST /v1/transactions'],
  ]);
});
