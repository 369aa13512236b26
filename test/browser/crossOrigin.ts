import assert from 'node:assert/strict';
import { RestNode, type RunningDaemon } from '../support/daemons.js';
import { streamTopics } from '../support/streamedTopics.js';
import { BrowserPage } from './BrowserPage.js';
import { holds, type Scene, type Stage } from './Stage.js';

const ROOT = 1_000;
const TOP = 1_020;

async function pageOrigin(): Promise<string> {
  const { url } = await RestNode.start((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>a page</title>');
  });
  return url;
}

/** What a page gets of fetch: status, body and a header that only exposed ones can be; or that it was not let. */
const fetching = (url: string, init = '{}'): string => `
  try {
    const answer = await fetch(${JSON.stringify(url)}, ${init});
    return { status: answer.status, text: await answer.text(), etag: answer.headers.get('etag'), via: answer.headers.get('via') };
  } catch (error) {
    return { error: String(error) };
  }`;

const listening = (url: string): string => `
  return await new Promise((resolve) => {
    const heights = [];
    const source = new EventSource(${JSON.stringify(url)});
    source.addEventListener('height', ({ data }) => {
      heights.push(JSON.parse(data).height);
      if (heights.length < 5) return;
      source.close();
      resolve(heights);
    });
    source.addEventListener('error', () => { source.close(); resolve('error'); });
  });`;

const subscribing = (url: string, topic: string, args: string, count: number): string => `
  return await new Promise((resolve) => {
    const got = [];
    const socket = new WebSocket(${JSON.stringify(url)});
    socket.onopen = () => socket.send(JSON.stringify({ subscription_id: 'a', action: 'subscribe', topic: '${topic}', arguments: ${args} }));
    socket.onmessage = ({ data }) => {
      got.push(JSON.parse(data));
      if (got.length > ${count}) { socket.close(); resolve(got); }
    };
    socket.onclose = () => resolve('closed');
  });`;

const SCRIPT = `{ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"script":"eA=="}' }`;

type Fetched = Partial<Record<'text' | 'etag' | 'via' | 'error', string>> & { readonly status?: number };

async function daemonFor(stage: Stage, node: RestNode, ...flags: string[]): Promise<RunningDaemon> {
  const { daemon } = await stage.daemon(
    { seed: 3, rootHeight: ROOT, startHead: TOP, paused: true },
    ['--api-forward-rest', node.url, ...flags],
    ({ latestIndexed, sealed }) => latestIndexed === TOP && (sealed ?? 0) >= ROOT,
  );
  return daemon;
}

async function restNode(): Promise<RestNode> {
  const node = await RestNode.start();
  streamTopics(node);
  node.reply = (_request, response, { method }) => {
    // As access nodes do. Twice in one answer, a browser refuses it.
    const headers = { 'content-type': 'application/json', 'access-control-allow-origin': '*' };
    response.writeHead(200, headers).end(JSON.stringify({ from: 'node', method }));
  };
  return node;
}

async function mayDoEverything(page: BrowserPage, daemon: RunningDaemon, who: string): Promise<void> {
  const webSocketUrl = `${daemon.apiUrl.replace('http', 'ws')}/v1/ws`;
  const blocks = await page.run<Fetched>(fetching(`${daemon.apiUrl}/v1/blocks?height=${ROOT}`));
  assert.equal(blocks.status, 200, JSON.stringify(blocks));
  assert.match(blocks.text ?? '', new RegExp(`"height":"${ROOT}"`));
  assert.match(blocks.etag ?? '', /^"/);
  const missing = await page.run<Fetched>(fetching(`${daemon.apiUrl}/lookup/block/5`));
  assert.equal(missing.status, 404);
  assert.match(missing.text ?? '', /below_first_indexed/);
  holds(`${who} reads blocks and refusals with fetch, and their ETag`);

  const account = await page.run<Fetched>(fetching(`${daemon.apiUrl}/v1/accounts/f8d6e0586b0a20c7`));
  assert.equal(account.text, '{"from":"node","method":"GET"}', JSON.stringify(account));
  assert.equal(account.via, '1.1 flow-collection-indexer');
  const posted = await page.run<Fetched>(fetching(`${daemon.apiUrl}/v1/scripts?block_height=sealed`, SCRIPT));
  assert.equal(posted.text, '{"from":"node","method":"POST"}', JSON.stringify(posted));
  holds(`${who} has a GET and, after a preflight, a POST forwarded`);

  const all = Array.from({ length: TOP - ROOT + 1 }, (_, above) => ROOT + above);
  const heights = await page.run(listening(`${daemon.apiUrl}/events?from=${ROOT}`));
  assert.deepEqual(heights, all.slice(0, 5));
  holds(`${who} follows /events with EventSource`);

  const args = JSON.stringify({ block_status: 'finalized', start_block_height: String(ROOT) });
  const got = await page.run<{ payload?: { header: { height: string } } }[]>(
    subscribing(webSocketUrl, 'blocks', args, all.length),
  );
  const told = got.slice(1).map(({ payload }) => Number(payload?.header.height));
  assert.deepEqual(told, all);
  const statuses = await page.run<{ payload?: object }[]>(
    subscribing(webSocketUrl, 'transaction_statuses', JSON.stringify({ tx_id: 'ab'.repeat(32) }), 4),
  );
  assert.match(JSON.stringify(statuses.at(-1)), /"Sealed"/);
  holds(`${who} subscribes to blocks, and to what the node has, over WebSocket`);
}

async function mayDoNothing(page: BrowserPage, daemon: RunningDaemon, node: RestNode): Promise<void> {
  const seen = node.seen.length;
  for (const [url, init] of [
    [`/v1/blocks?height=${ROOT}`, '{}'],
    ['/v1/accounts/f8d6e0586b0a20c7', '{}'],
    ['/v1/scripts?block_height=sealed', SCRIPT],
    ['/v1/transactions', `{ method: 'POST', body: 'a simple request needs no preflight' }`],
  ] as const) {
    const { error } = await page.run<Fetched>(fetching(daemon.apiUrl + url, init));
    assert.match(error ?? '', /Failed to fetch/, url);
  }
  const posted = node.seen.slice(seen).filter(({ method }) => method === 'POST');
  assert.deepEqual(posted, []);
  assert.equal(await page.run(listening(`${daemon.apiUrl}/events?from=${ROOT}`)), 'error');
  const url = `${daemon.apiUrl.replace('http', 'ws')}/v1/ws`;
  assert.equal(await page.run(subscribing(url, 'blocks', '{}', 1)), 'closed');
  holds('a page of another origin than those that are named reads nothing, and has nothing posted');
}

export const crossOrigin: Scene = async (stage) => {
  const { browser } = stage;
  const node = await restNode();
  const [named, other] = [await pageOrigin(), await pageOrigin()];
  const open = await daemonFor(stage, node);
  await mayDoEverything(await BrowserPage.open(browser, other), open, 'a page of any origin');
  const restricted = await daemonFor(stage, node, '--api-cors-origin', named);
  await mayDoEverything(await BrowserPage.open(browser, named), restricted, 'a page of a named origin');
  await mayDoNothing(await BrowserPage.open(browser, other), restricted, node);
};
