import { describe, expect, it, vi } from 'vitest';
import { atEnd, begin, countIn, fill, plainChain, refusal, usePostgres } from '../../support/index.js';
import { hasPgBouncer, startPgBouncer, startSharingPooler } from '../../support/poolers.js';

const chain = plainChain(10, 30, 2);
const REFUSAL = refusal(
  'configuration',
  /There is a pooler .* Set pool_mode = session .* or name the server itself/,
);

vi.setConfig({ testTimeout: 120_000 });
const postgres = usePostgres();
const behind = async (begin: (url: string) => Promise<string>) => {
  const { url: direct } = await postgres.home({ isEmpty: true });
  const url = await begin(direct);
  // Before the pooler goes.
  atEnd(() => postgres.now());
  return { direct, url };
};

const { opening, queue, repaired, surveyed, verified } = postgres;

/** Every way to a database begins with the same question. */
const isRefused = async (url: string): Promise<void> => {
  for (const way of [
    () => opening(url),
    () => queue(url, { roles: [] }),
    () => queue(url, { waitMs: 20_000 }),
    () => surveyed(url),
    () => verified(url),
    () => repaired(url, false),
  ])
    await expect(way()).rejects.toMatchObject(REFUSAL);
};

const works = async ({ direct, url }: { readonly direct: string; readonly url: string }): Promise<void> => {
  const store = await begin(postgres.open(url), 30, chain.slice(20, 29), 38);
  await fill(store, chain, { from: 10, to: 19 });
  const term = await (await queue(url)).lead(AbortSignal.timeout(20_000));
  expect(term).toBeDefined();
  expect((await store.blockByHeight(15))?.block.id).toBe(chain[5]!.block.id);
  expect(await verified(url)).toMatchObject({ damageCount: 0 });
  expect((await surveyed(url)).store?.coverage).toHaveLength(2);
  await store.close();
  // The next clients get the sessions of the first ones.
  expect((await opening(url)).coverage()).toHaveLength(2);
  expect(await countIn(direct, 'flow_store.block')).toBe(19);
};

it.each(
  [1, 3].flatMap((sessions) => (['last', 'first', 'any'] as const).map((choice) => ({ sessions, choice }))),
)('that shares out $sessions sessions, $choice first, is refused by name', async (how) => {
  const { url } = await behind((target) => startSharingPooler(target, how));
  await isRefused(url);
});

describe.runIf(hasPgBouncer)('PgBouncer', () => {
  it('as it is shipped, works', async () => {
    await works(await behind((target) => startPgBouncer(target)));
  });

  it.each([
    { pool_mode: 'transaction' },
    { pool_mode: 'statement' },
    { pool_mode: 'transaction', default_pool_size: '1' },
    { pool_mode: 'transaction', server_round_robin: '1' },
    { pool_mode: 'transaction', server_reset_query_always: '1' },
    { pool_mode: 'transaction', ignore_startup_parameters: 'extra_float_digits,options,statement_timeout' },
  ])('with %j is refused by name', async (settings) => {
    const { url } = await behind((target) => startPgBouncer(target, settings));
    await isRefused(url);
  });

  it('that cannot reach the server is waited for, in its own words', async () => {
    const { url } = await behind((target) => {
      const nowhere = new URL(target);
      nowhere.port = '1';
      return startPgBouncer(nowhere.href, { server_login_retry: '1', query_wait_timeout: '2' });
    });
    await expect(opening(url, { waitMs: 1_000 })).rejects.toMatchObject({
      exit: 'storage',
      name: 'StorageError',
    });
  });

  it('that has no session left says so in time', async () => {
    const { url } = await behind((target) => startPgBouncer(target, { default_pool_size: '1' }));
    await expect(opening(url)).rejects.toMatchObject(
      refusal('storage', /has not answered for \d s on a new connection/),
    );
  });
});
