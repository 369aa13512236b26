import { expect, it } from 'vitest';
import { scratchDirectory } from '../support/program.js';
import { RestNode } from '../support/restNode.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';

const ROOT = 1_000;
const TOP = 1_010;
const NOBODY = 'ab'.repeat(32);
const ACCOUNT = '/v1/accounts/f8d6e0586b0a20c7';

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

interface ErrorBody {
  readonly code: number;
  readonly message: string;
  readonly reason: string;
}

async function ask(url: string, init?: RequestInit): Promise<Answer> {
  const answer = await fetch(url, init);
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

const errorOf = ({ text }: Answer): ErrorBody => JSON.parse(text) as ErrorBody;
const posted = (body: string): RequestInit => ({
  method: 'POST',
  body,
  headers: { 'content-type': 'application/json' },
});

it('stands in for the REST address of a node, and goes on with what is indexed when nodes are gone', async () => {
  const rest = await RestNode.start();
  const devnet = await devnetForTest({ seed: 3, rootHeight: ROOT, startHead: TOP, paused: true });
  const flags = ['--start-height', 'root', '--api-forward-rest', `${rest.url}/some/base/`];
  const daemon = await startDaemonHere(startArguments(devnet, scratchDirectory(), ...flags));
  await daemon.reaches(TOP);
  const at = (path: string): string => daemon.apiUrl + path;

  // The node's answer, error or not, as it is.
  rest.reply = (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'x-from-node': 'yes', etag: '"1"' });
    response.end('{"address":"f8d6e0586b0a20c7"}');
  };
  const account = await ask(at(`${ACCOUNT}?block_height=sealed&expand=contracts,keys`));
  expect([account.status, account.text]).toEqual([200, '{"address":"f8d6e0586b0a20c7"}']);
  expect(account.headers.get('x-from-node')).toBe('yes');
  expect(account.headers.get('etag')).toBe('"1"');
  expect(account.headers.get('via')).toBe('1.1 flow-collection-indexer');
  expect(rest.seen.at(-1)?.url).toBe(`/some/base${ACCOUNT}?block_height=sealed&expand=contracts,keys`);

  rest.reply = (_request, response, { body }) => {
    response.writeHead(400, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ code: 400, message: `no Cadence: ${body.length} bytes` }));
  };
  const script = JSON.stringify({ script: 'x'.repeat(1_000_000), arguments: [] });
  const failed = await ask(at('/v1/scripts?block_height=sealed'), posted(script));
  expect(failed.status).toBe(400);
  expect(failed.text).toBe(`{"code":400,"message":"no Cadence: ${script.length} bytes"}`);
  expect(rest.seen.at(-1)).toMatchObject({ method: 'POST', body: script });

  rest.reply = (_request, response, { body }) =>
    response.writeHead(201).end(`{"id":${JSON.stringify(body)}}`);
  const sent = await ask(at('/v1/transactions'), posted('ßent'));
  expect([sent.status, sent.text]).toEqual([201, '{"id":"ßent"}']);

  // The index's own, without a question to the node.
  const asked = rest.seen.length;
  const expectServed = async (): Promise<void> => {
    for (const path of [`/v1/blocks?height=${TOP}&expand=payload`, '/v1/blocks?height=final', '/status']) {
      const own = await ask(at(path));
      expect(own.status, path).toBe(200);
      expect(own.headers.get('via'), path).toBeNull();
    }
  };
  await expectServed();
  expect(rest.seen).toHaveLength(asked);

  // What neither has is refused in the words of the index.
  rest.reply = (_request, response) => response.writeHead(404).end('words of the node');
  const missed = await ask(at(`/v1/transactions/${NOBODY}`));
  expect([missed.status, errorOf(missed)]).toMatchObject([404, { reason: 'unknown_id', latestIndexed: TOP }]);
  expect(rest.seen).toHaveLength(asked + 1);

  await rest.stop();
  const gone = await ask(at(ACCOUNT));
  expect([gone.status, errorOf(gone).reason]).toEqual([503, 'upstream_unreachable']);
  expect(errorOf(gone).message).toMatch(
    /^this request is forwarded, but the access node cannot be reached now;/,
  );
  const notSent = await ask(at('/v1/transactions'), posted('{}'));
  expect([notSent.status, errorOf(notSent).reason]).toEqual([503, 'upstream_unreachable']);
  expect(errorOf(notSent).message).toContain('whether it accepted a transaction is unknown');
  await devnet.close();
  await expectServed();

  const scraped = await daemon.scrape();
  const counted = scraped
    .series('forwarded_calls_total')
    .map(({ labels, value }) => `${labels['protocol']} ${labels['method']} ${labels['outcome']} ${value}`);
  expect(counted.sort()).toEqual([
    'rest GET accounts answered 1',
    'rest GET accounts unreachable 1',
    'rest GET transactions missed 1',
    'rest POST scripts failed 1',
    'rest POST transactions answered 1',
    'rest POST transactions unreachable 1',
  ]);
  expect(scraped.sum('forwarded_call_seconds_count')).toBe(4);
  expect(scraped.sum('forwarded_calls_in_flight')).toBe(0);
  expect(await daemon.program.stop()).toBe(0);
  expect(daemon.program.stderr).toBe('');
});

it('refuses what only a node answers, and says how to have it forwarded, without the setting', async () => {
  const devnet = await devnetForTest({ seed: 3, rootHeight: ROOT, startHead: TOP, paused: true });
  const daemon = await startDaemonHere(startArguments(devnet, scratchDirectory(), '--start-height', 'root'));
  await daemon.reaches(TOP);
  const account = await ask(daemon.apiUrl + ACCOUNT);
  expect([account.status, errorOf(account).reason]).toEqual([404, 'not_served']);
  expect(errorOf(account).message).toContain('ask an access node');
  for (const path of ['/v1/scripts', '/v1/transactions']) {
    const refused = await ask(daemon.apiUrl + path, posted('{}'));
    expect([refused.status, errorOf(refused).reason]).toEqual([405, 'method_not_allowed']);
    expect(refused.headers.get('allow')).toBe('GET, HEAD');
    expect(errorOf(refused).message).toContain('api.forwardRest');
  }
  expect((await daemon.scrape()).sum('forwarded_calls_total')).toBe(0);
});
