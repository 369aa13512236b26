import { expect, it } from 'vitest';
import { pageAt } from '../../docs/files.js';
import { commandsIn, shellLines } from '../../docs/shell.js';
import { chainOf, EventReader, HashedChain, ServedChain, transactionIds } from '../../support/index.js';
import { transactionWith } from '../../support/index.js';

const base = 'http://127.0.0.1:7180';

/**
 * The calls of the page: `curl FLAGS 'URL' # STATUS: { field, … }`. What is shown of a stream is its first event; `body` is `undefined`
 * where the page tells of none.
 */
const examples = shellLines(pageAt('docs/rest-api.md'))
  .filter(({ isInline, text }) => !isInline && text.startsWith('curl '))
  .map(({ text, comment }) => {
    const [, status = '', body] = /^(\d{3})(?:: (.*))?$/.exec(comment) ?? [];
    const [[, ...words] = []] = commandsIn(text);
    const headers: Record<string, string> = {};
    const example = { method: 'GET', headers, isCompressed: false, isStream: false, path: '' };
    for (const [at, word] of words.entries()) {
      if (word === '-I') example.method = 'HEAD';
      else if (word === '--compressed') example.isCompressed = true;
      else if (word === '-N') example.isStream = true;
      else if (words[at - 1] === '-H') {
        const [name = '', value = ''] = word.split(': ');
        headers[name] = value;
      } else if (word.startsWith(base)) example.path = word.slice(base.length);
      else if (!['-s', '-H'].includes(word)) throw new Error(`what is ${word} in: ${text}`);
    }
    return { ...example, line: `${text} # ${comment}`, status: Number(status), body };
  });

const script = Buffer.from('transaction { execute { log("hello") } } '.repeat(50));
const chain = chainOf(1000, 12, (index) => [
  Array.from({ length: 30 }, (_, at) => transactionWith({ script, gasLimit: BigInt(100 * index + at) })),
]);
const proven = new HashedChain({ rootHeight: 1000 }).entries(1000, 1011);
const [first] = chain;
const transaction = transactionIds(first!, 0)[0]!;
const names: readonly (readonly [RegExp, string])[] = [
  [/HEIGHT_9/g, '1008'],
  [/HEIGHT_2/g, '1001'],
  [/HEIGHT/g, '1000'],
  [/BLOCK_ID/g, first!.block.id],
  [/COLLECTION_ID/g, first!.collections[0]!.id],
  [/TRANSACTION_ID/g, transaction],
];
const filledIn = (text: string): string => names.reduce((so, [name, value]) => so.replace(name, value), text);

it('has calls that can be made', () => {
  expect(examples.length).toBeGreaterThan(20);
  for (const { path, status, line } of examples) expect(`${path} ${status}`, line).toMatch(/^\/\S* \d+$/);
});

it.each(examples.map((example) => [example.line, example] as const))(
  '%s',
  async (_, { path, method, headers, isCompressed, isStream, status, body }) => {
    const blocks = path.startsWith('/proof/') ? proven : chain;
    const served = await ServedChain.start(blocks, { sealed: 1010, head: 1020 });
    const url = filledIn(path);
    const sending = (fill: (value: string) => string): Record<string, string> =>
      Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, fill(value)]));
    if (isStream) {
      const reader = await EventReader.open(served.url + url, sending(filledIn));
      expect(reader.status).toBe(status);
      const [event] = await reader.first(1);
      const fields = /^\{ (.*) \}$/.exec(body ?? '')?.[1]?.split(', ') ?? [];
      expect(Object.keys(event?.data as object)).toEqual(fields);
      return;
    }
    const etag = (await served.get(url)).headers.get('etag') ?? '';
    const encoding = { 'accept-encoding': isCompressed ? 'gzip' : 'identity' };
    const tagged = sending((value) => value.replace('ETAG', etag));
    const answer = await served.get(url, { method, headers: { ...encoding, ...tagged } });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-encoding')).toBe(isCompressed ? 'gzip' : null);
    if (body === undefined) {
      expect(answer.body).toBeUndefined();
      return;
    }
    const items = [...body.matchAll(/\{ ([^}]*) \}/g)].map(([, fields = '']) => fields.split(', '));
    if (body.startsWith('[')) expect(Array.isArray(answer.body)).toBe(true);
    const given = [answer.body].flat() as Record<string, unknown>[];
    expect(given.length).toBeGreaterThanOrEqual(items.length);
    items.forEach((fields, index) => {
      for (const field of fields) expect(given[index]).toHaveProperty([field]);
    });
  },
);

it('shows every route', async () => {
  const served = await ServedChain.start(chain, { sealed: 1010, head: 1020 });
  const { paths } = (await served.get('/openapi.json')).body as { paths: Record<string, unknown> };
  const shown = examples.filter(({ status }) => status === 200).map(({ path }) => path.split('?')[0] ?? '');
  const unshown = Object.keys(paths).filter((route) => {
    const pattern = new RegExp(`^${route.replaceAll(/\{\w+\}/g, '[^/]+').replaceAll('.', '\\.')}$`);
    return !shown.some((path) => pattern.test(path));
  });
  expect(unshown).toEqual([]);
});
