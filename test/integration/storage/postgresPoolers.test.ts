import { describe, expect, it, onTestFinished } from 'vitest';
import { loadQueue } from '../../../src/ranges/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { seededRandom } from '../../support/seededRandom.js';
import { loadPostgres } from '../../../src/storage/index.js';
import { asAdmin } from '../../support/postgresServer.js';
import { hasPgBouncer, startPgBouncer, startSharingPooler } from '../../support/poolers.js';
import type { Pooler } from '../../support/poolers.js';
import { fill } from '../../support/ranges.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { plainChain } from '../../support/storeBlocks.js';
import { begin, TEST_CHAIN } from '../../support/storeDirectory.js';
import { usePostgres } from '../../support/storeKinds.js';
import { refusal } from '../../support/refusal.js';

const chain = plainChain(10, 30, 2);
const REFUSAL = {
  exit: 'configuration',
  message: expect.stringMatching(
    /There is a pooler .* Set pool_mode = session .* or name the server itself/,
  ) as string,
};

describe('a database behind a pooler', { timeout: 120_000 }, () => {
  const postgres = usePostgres();
  const parts = () => ({ clock: systemClock, logger: new RecordingLogger(), random: seededRandom(1) });

  const behind = async (begin: (url: string) => Promise<Pooler>) => {
    const { url } = await postgres.home({ isEmpty: true });
    const pooler = await begin(url);
    onTestFinished(async () => {
      await postgres.now();
      await pooler.close();
    });
    return { direct: url, url: pooler.url };
  };

  const { opening, verified } = postgres;

  /** Every way to a database begins with the same question. */
  const isRefused = async (url: string): Promise<void> => {
    const { repairPostgres, surveyDatabase } = await loadPostgres();
    const { SharedQueue } = await loadQueue();
    await expect(opening(url)).rejects.toMatchObject(REFUSAL);
    await expect(SharedQueue.open({ url, roles: [] }, parts())).rejects.toMatchObject(REFUSAL);
    await expect(SharedQueue.open({ url, roles: ['live'], waitMs: 20_000 }, parts())).rejects.toMatchObject(
      REFUSAL,
    );
    await expect(surveyDatabase({ url, key: 'store' }, parts())).rejects.toMatchObject(REFUSAL);
    await expect(verified(url)).rejects.toMatchObject(REFUSAL);
    await expect(repairPostgres({ url, chainId: TEST_CHAIN, apply: false }, parts())).rejects.toMatchObject(
      REFUSAL,
    );
  };

  const works = async ({ direct, url }: { readonly direct: string; readonly url: string }): Promise<void> => {
    const store = await begin(postgres.open(url), 30, chain.slice(20, 29), 38);
    await fill(store, chain, { from: 10, to: 19 });
    const { SharedQueue } = await loadQueue();
    const queue = await postgres.later(SharedQueue.open({ url, roles: ['live'] }, parts()));
    const term = await queue.lead(AbortSignal.timeout(20_000));
    expect(term).toBeDefined();
    expect((await store.blockByHeight(15))?.block.id).toBe(chain[5]!.block.id);
    const { surveyDatabase } = await loadPostgres();
    expect(await verified(url)).toMatchObject({ damageCount: 0 });
    expect((await surveyDatabase({ url, key: 'store' }, parts())).store?.coverage).toHaveLength(2);
    await store.close();
    // The next clients get the sessions of the first ones.
    const again = await opening(url);
    expect(again.coverage()).toHaveLength(2);
    const { rows } = await asAdmin(direct, 'SELECT count(*)::integer AS count FROM flow_store.block');
    expect(rows).toEqual([{ count: 19 }]);
  };

  it.each([
    ...[1, 2, 3, 7].flatMap((sessions) =>
      (['last', 'first', 'any'] as const).map((choice) => ({ sessions, choice })),
    ),
  ])('that shares out $sessions sessions, $choice first, is refused by name', async (how) => {
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
});
