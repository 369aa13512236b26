import { describe, expect, it } from 'vitest';
import { asAdmin } from '../../support/postgresServer.js';
import { commitThrough, heal, range } from '../../support/ranges.js';
import { until } from '../../support/program.js';
import { plainChain } from '../../support/storeBlocks.js';
import { usePostgres } from '../../support/storeKinds.js';

const FIRST = 10;
const LAST = 49;
const chain = plainChain(FIRST, LAST - FIRST + 2, 2);
const whole = { from: FIRST, to: LAST };

describe('a damaged height in a database', () => {
  const postgres = usePostgres();

  const filled = () => postgres.filled(FIRST, chain.slice(0, -1));

  it.each([
    ['a body', `UPDATE flow_store.body SET value = set_byte(value, 9, 255) WHERE height = 20`],
    ['a block', `DELETE FROM flow_store.block WHERE height = 20`],
    ['a place', `UPDATE flow_store.transaction SET body_offset = body_offset + 1 WHERE height = 20`],
    ['an entry of an account', `DELETE FROM flow_store.account_transaction WHERE height = 20`],
  ])('is found, becomes a hole, and is filled again: %s', async (_, statement) => {
    const { store, url } = await filled();
    const other = await postgres.open(url, { isFollower: true });
    await asAdmin(url, statement);
    const { damages } = await other.check(whole);
    expect(new Set(damages.map(({ height }) => height))).toEqual(new Set([20]));

    // By a process that does not lead, while the leader goes on.
    expect(await other.heal([{ from: 20, to: 20 }], 6)).toEqual([{ from: 20, to: 20 }]);
    expect(await other.heal([{ from: 20, to: 20 }])).toEqual([]);
    await commitThrough(store, chain, LAST + 1);
    await until(() => store.healing().length > 0);
    expect(store.ranges.plans()).toMatchObject([{ id: 7, from: 20, to: 20, heals: true }]);
    expect(store.coverage()).toEqual([range(FIRST, 19), range(21, LAST + 1)]);
    expect(await store.blockByHeight(20)).toBeUndefined();
    await heal(store, chain);
    expect([store.healing(), store.coverage()]).toEqual([[], [{ from: FIRST, to: LAST + 1 }]]);
    expect(await postgres.verified(url)).toMatchObject({ damages: [], damageCount: 0 });
  });

  it('is not the watermark, and not what no range has', async () => {
    const { store } = await filled();
    expect(await store.heal([{ from: 1, to: FIRST - 1 }])).toEqual([]);
    expect(await store.heal([{ from: LAST, to: LAST }])).toEqual([]);
    expect(store.coverage()).toEqual([whole]);
  });

  it('heals also in a store of an earlier version, which can be read as it is', async () => {
    const { store, url } = await filled();
    await store.close();
    await asAdmin(url, 'ALTER TABLE flow_store.plan DROP COLUMN heals');
    const reading = await postgres.open(url, { isReadOnly: true, create: false });
    expect(reading.healing()).toEqual([]);
    const again = await postgres.open(url);
    await again.heal([{ from: 30, to: 31 }]);
    expect(again.healing()).toEqual([{ from: 30, to: 31 }]);
  });
});
