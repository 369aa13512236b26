import { beforeEach, expect, it } from 'vitest';
import { chainOf, everyTransactionOf, ServedChain, transactionWith } from '../../support/index.js';
import { parseAddress } from '../../../src/flow/index.js';

const FIRST = 100;
const chain = chainOf(FIRST, 30, (index) => [[transactionWith({ gasLimit: BigInt(index) })]]);
const payer = parseAddress('f8d6e0586b0a20c7')!;
const authorizer = parseAddress('01cf0e2f2f715450')!;

let served: ServedChain;

beforeEach(async () => {
  served = await ServedChain.start(chain, { sealed: 105, head: 140 });
});

interface Page {
  readonly covered: { readonly from: number; readonly to: number };
  readonly complete: boolean;
  readonly transactions: readonly { readonly id: string; readonly roles: readonly string[] }[];
  readonly next_cursor: string | null;
}

const pageOf = async (path: string): Promise<Page> => {
  const { status, headers, body } = await served.get(`/accounts/${path}`);
  expect(status).toBe(200);
  expect(headers.get('cache-control')).toBe('no-store');
  return body as Page;
};

it('takes an address in every form, and says what the account is in each transaction', async () => {
  const newest = await pageOf(`${payer}/transactions`);
  expect(newest.transactions).toHaveLength(20);
  expect(newest.transactions[0]?.roles).toEqual(['payer', 'proposer', 'authorizer']);
  for (const form of [`0x${payer}`, payer.toUpperCase(), `0x${payer.toUpperCase()}`])
    expect(await pageOf(`${form}/transactions`)).toEqual(newest);
  expect((await pageOf(`${authorizer}/transactions?role=payer`)).transactions).toEqual([]);
  const [other] = (await pageOf(`${authorizer}/transactions?role=authorizer`)).transactions;
  expect(other?.roles).toEqual(['authorizer']);
});

it('says how far down it answers, and leads on to what is not covered yet', async () => {
  served.store.switchAccountsOn(115);
  const page = await pageOf(`${payer}/transactions?limit=50`);
  expect(page).toMatchObject({ covered: { from: 115, to: 129 }, complete: false });
  const expected = everyTransactionOf(payer, chain).map(({ id }) => id);
  expect(page.transactions.map(({ id }) => id)).toEqual(expected.slice(0, 15));
  // Later, from the same place.
  served.store.switchAccountsOn();
  const rest = await pageOf(`${payer}/transactions?limit=50&cursor=${page.next_cursor}`);
  expect(rest.transactions.map(({ id }) => id)).toEqual(expected.slice(15));
  expect(rest).toMatchObject({ complete: true, next_cursor: null });
});

it('lists with finality=proven what is in proven blocks alone, page by page', async () => {
  const all = everyTransactionOf(payer, chain);
  const within = all.filter(({ place }) => place.height >= 104 && place.height <= 118).map(({ id }) => id);
  const idsOf = ({ transactions }: Page) => transactions.map(({ id }) => id);
  const path = `${payer}/transactions?finality=proven`;
  served.range = { ...served.range, proven: { from: 104, to: 118 } };
  const whole = await pageOf(`${path}&limit=50`);
  expect(whole).toMatchObject({ covered: { from: 104, to: 118 }, complete: true, next_cursor: null });
  expect(idsOf(whole)).toEqual(within);
  const first = await pageOf(`${path}&limit=10`);
  const rest = await pageOf(`${path}&limit=10&cursor=${first.next_cursor}`);
  expect([...idsOf(first), ...idsOf(rest)]).toEqual(within);
  expect(rest.next_cursor).toBeNull();
  // A cursor of a page of everything may be above.
  const newest = await pageOf(`${payer}/transactions?limit=2`);
  expect(newest.transactions.map(({ id }) => id)).toEqual(all.slice(0, 2).map(({ id }) => id));
  expect(idsOf(await pageOf(`${path}&limit=50&cursor=${newest.next_cursor}`))).toEqual(within);

  served.range = { ...served.range, proven: { from: 0, to: -1 } };
  expect(idsOf(await pageOf(path))).toEqual([]);
});
