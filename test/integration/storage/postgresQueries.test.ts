import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../../src/runtime/index.js';
import { asAdmin } from '../../support/postgresServer.js';
import { plainChain } from '../../support/storeBlocks.js';
import { usePostgres } from '../../support/storeKinds.js';

const pageAt = (name: string): string => readFileSync(join(packageRoot, 'docs', name), 'utf8');
const queriesOf = (text: string): string[] =>
  [...text.matchAll(/```sql\n([^`]+)```/g)].map(([, sql = '']) => sql);
const page = pageAt('postgresql.md');
const queries = queriesOf(page);
const chain = plainChain(10, 8, 2);

describe('the queries of docs/postgresql.md', () => {
  const postgres = usePostgres();

  it('are ten, and answer from what is covered', async () => {
    const aroundGap = chain.filter(({ block }) => block.height !== 15);
    const { url } = await postgres.filled(10, aroundGap, 14);
    expect(queries).toHaveLength(10);
    for (const sql of queries) {
      const { rows } = await asAdmin(url, sql);
      expect(rows.length, sql).toBeGreaterThan(0);
    }
    const more = queriesOf(pageAt('data-guide.md'));
    expect(more).toHaveLength(2);
    for (const sql of more) await asAdmin(url, sql);
    const { rows } = await asAdmin(
      url,
      `SELECT (SELECT max(height) FROM flow.block)::integer AS block, (SELECT count(*) FROM flow.transaction)::integer AS
        transactions, (SELECT max(height) FROM flow.collection)::integer AS collection,
        (SELECT max(height) FROM flow.account_transaction)::integer AS account`,
    );
    expect(rows).toEqual([{ block: 14, transactions: 10, collection: 14, account: 14 }]);
  });

  it('name every column that the page says there is', async () => {
    const { url } = await postgres.home();
    await postgres.open(url);
    const { rows } = await asAdmin(
      url,
      `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'flow'`,
    );
    const views = new Map<string, string[]>();
    for (const { table_name: view, column_name: column } of rows as {
      table_name: string;
      column_name: string;
    }[]) {
      views.set(view, [...(views.get(view) ?? []), column]);
    }
    expect(views.size).toBe(7);
    for (const [view, columns] of views) {
      const line = page.split('\n').find((each) => each.startsWith(`| \`flow.${view}\``)) ?? '';
      expect(
        columns.filter((column) => !line.includes(`\`${column}\``)),
        view,
      ).toEqual([]);
    }
  });
});
