// Follows the index with a typed client: prints each height, and the payer of each of its transactions.
//
//     npx tsx follow.ts [BASE_URL] [FROM_HEIGHT] [COUNT]
//
// Inside the repository run docs/examples/follow.ts. Elsewhere: npm install openapi-fetch, and take the types from
// 'flow-collection-indexer/api-types', or from your own daemon by npx openapi-typescript BASE_URL/openapi.json.
import createClient from 'openapi-fetch';
import type { components, paths } from './api-types.js';

type Height = components['schemas']['IndexedHeight'];

const [baseUrl = 'http://127.0.0.1:7180', from = '', count = ''] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl });
const retryMs = 1_000;

let left = count === '' ? Infinity : Number(count);
let lastEventId = '';
while (left > 0) {
  try {
    await follow();
  } catch (error) {
    process.stderr.write(`${String(error)}; again in ${retryMs} ms\n`);
  }
  if (left > 0) await new Promise((resolve) => setTimeout(resolve, retryMs));
}

/** One stream, until it ends. The id of the last event makes the next one go on behind it. */
async function follow(): Promise<void> {
  const address = `${baseUrl}/events${from === '' ? '' : `?from=${from}`}`;
  const response = await fetch(address, {
    headers: lastEventId === '' ? {} : { 'Last-Event-ID': lastEventId },
  });
  if (!response.ok || response.body === null) throw new Error(`${response.status} ${await response.text()}`);
  let text = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const fields = new Map(
        text
          .slice(0, end)
          .split('\n')
          .map((line) => fieldOf(line)),
      );
      text = text.slice(end + 2);
      if (fields.get('event') === 'end') throw new Error(fields.get('data'));
      // Somebody rewound the index: forget what is above that height.
      if (fields.get('event') === 'rewind') print(`rewind: ${fields.get('data') ?? ''}`);
      if (fields.get('event') !== 'height') continue;
      await show(JSON.parse(fields.get('data') ?? '') as Height);
      lastEventId = fields.get('id') ?? lastEventId;
      left -= 1;
      if (left === 0) return;
    }
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function fieldOf(line: string): readonly [string, string] {
  const colon = line.indexOf(': ');
  return [line.slice(0, colon), line.slice(colon + 2)];
}

/** The whole height, or nothing of it: where an answer is cut off, the height comes again. */
async function show({ height, block_id, collections }: Height): Promise<void> {
  const lines = [`${height} ${block_id}`];
  for (const { collection_id: id } of collections) {
    const { data, error } = await client.GET('/v1/collections/{id}', {
      params: { path: { id }, query: { expand: 'transactions' } },
    });
    if (error !== undefined) throw new Error(error.message);
    lines.push(...(data.transactions ?? []).map(({ id, payer }) => `  ${id} ${payer}`));
  }
  print(lines.join('\n'));
}
