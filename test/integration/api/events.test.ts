import { once } from 'node:events';
import { beforeEach, expect, it } from 'vitest';
import { chainOf, EventReader, idOf, openSocket, sendRaw, ServedChain } from '../../support/index.js';
import { smallChain, transactionWith, VirtualClock } from '../../support/index.js';
import type { Clock } from '../../../src/runtime/index.js';

const FIRST = 100;
const chain = chainOf(FIRST, 40, (index) =>
  index % 2 === 0 ? [[transactionWith({ gasLimit: 1n }), transactionWith({ gasLimit: 2n })], []] : [],
);
const serve = (clock?: Clock) =>
  ServedChain.start(chain.slice(0, 20), { sealed: 115, head: 130 }, clock === undefined ? {} : { clock });
const idAt = (height: number): string => `${height}-${chain[height - FIRST]!.block.id}`;

let served: ServedChain;

beforeEach(async () => {
  served = await serve();
});

it('tells of every height what is indexed of it', async () => {
  const reader = await EventReader.open(`${served.url}/events?from=114`);
  expect(reader.status).toBe(200);
  expect(reader.headers.get('content-type')).toBe('text/event-stream; charset=UTF-8');
  expect(reader.headers.get('cache-control')).toBe('no-store');
  const [event, , unsealed] = await reader.first(3);
  const { block, collections } = chain[14]!;
  expect(event).toEqual({
    ...{ id: idAt(114), event: 'height' },
    data: {
      ...{ height: 114, block_id: block.id, parent_id: block.parentId },
      timestamp: '2026-01-01T00:00:00.12Z',
      collections: [
        { collection_id: collections[0]!.id, transaction_count: 2 },
        { collection_id: collections[1]!.id, transaction_count: 0 },
      ],
      ...{ sealed: true, proven: false },
    },
  });
  expect(unsealed).toMatchObject({ id: idAt(116), data: { height: 116, sealed: false } });
});

it('has nothing below what is proven, with finality=proven, and no other finality', async () => {
  // As after a start: without a height, it begins behind what may be proven any moment.
  served.change({ proven: { from: 0, to: -1 } });
  const early = await EventReader.open(`${served.url}/events?finality=proven`);
  served.change({ proven: { from: 104, to: 118 } });
  await served.commit(chain.slice(20, 21));
  served.change({ proven: { from: 104, to: 120 } });
  expect(await early.first(1)).toMatchObject([{ id: idAt(120) }]);
  served.change({ proven: { from: 104, to: 118 } });
  const below = { status: 404, body: { reason: 'below_first_indexed', latestIndexed: 118 } };
  expect(await served.get('/events?from=103&finality=proven')).toMatchObject(below);
  const message = 'invalid finality: expected reported or proven, got "sealed"';
  const refused = { status: 400, body: { reason: 'invalid_argument', message } };
  expect(await served.get('/events?finality=sealed')).toMatchObject(refused);
});

it.each([99, -1])('can tell to forget everything above %i', async (height) => {
  const served = await ServedChain.start([], { sealed: null });
  served.range = { firstIndexed: height + 1, latestIndexed: height, head: null, sealed: null };
  const reader = await EventReader.open(`${served.url}/events`, { 'last-event-id': idAt(117) });
  const id = String(height);
  expect(await reader.first(1)).toEqual([{ id, event: 'rewind', data: { height, block_id: null } }]);
  const again = await EventReader.open(`${served.url}/events`, { 'last-event-id': id });
  expect(again.status).toBe(200);
  // A page cannot give its first request a header; a later one has a newer id there.
  const page = `${served.url}/events?from=100&last_event_id=${idAt(117)}`;
  expect(await (await EventReader.open(page)).first(1)).toMatchObject([{ id, event: 'rewind' }]);
  expect((await EventReader.open(page, { 'last-event-id': 'x' })).status).toBe(400);
  // As polyfills add it.
  const added = await EventReader.open(
    `${served.url}/events?from=100&last_event_id=x&lastEventId=${idAt(117)}`,
  );
  expect(await added.first(1)).toMatchObject([{ id, event: 'rewind' }]);
});

it('ends where the caller ends its side, as one does who has left, and answers HEAD with its headers alone', async () => {
  const answer = await served.get('/events?from=114', { method: 'HEAD' });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=UTF-8');
  expect(answer.body).toBeUndefined();
  expect(served.feed.followers).toBe(0);
  const socket = (await openSocket(served.port)).resume();
  socket.end('GET /events HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(socket, 'close');
  expect(served.feed.followers).toBe(0);
});

it.each([
  ['x', 400, 'invalid_argument'],
  ['117-abc', 400, 'invalid_argument'],
  [`98-${idOf('old')}`, 404, 'below_first_indexed'],
])('is refused where %s was seen last', async (lastSeen, status, reason) => {
  const headers = { 'last-event-id': lastSeen };
  expect(await served.get('/events', { headers })).toMatchObject({ status, body: { code: status, reason } });
  expect(await served.get('/events', { headers, method: 'HEAD' })).toMatchObject({ status });
});

it('shows that it lives while nothing happens, for as long as anybody wants', async () => {
  const clock = new VirtualClock();
  const served = await serve(clock);
  const reader = await EventReader.open(`${served.url}/events`);
  for (let minute = 0; minute < 120; minute += 1) await clock.advance(60_000);
  while (reader.comments < 100) await clock.turn();
  await served.commit(chain.slice(20, 21));
  while (reader.events.length === 0) await clock.settle();
  expect(reader.events[0]).toMatchObject({ id: idAt(120) });
  expect(reader.isOver).toBe(false);
});

it('is not sent behind another request on the same connection, which ends with the refusal', async () => {
  const read = served.store.blockByHeight.bind(served.store);
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  served.store.blockByHeight = async (height) => {
    if (height === 100) await held;
    // The stream is about to begin, and finds the connection taken.
    else setImmediate(release);
    return read(height);
  };
  const first = 'GET /v1/blocks?height=100 HTTP/1.1\r\nHost: x\r\n\r\n';
  const second = `GET /events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: ${idAt(118)}\r\n\r\n`;
  const answers = await sendRaw(served.port, first + second);
  expect(answers).toContain('a stream cannot wait behind another request');
  expect(served.feed.followers).toBe(0);
});

it('cuts callers who take nothing', async () => {
  const clock = new VirtualClock();
  const [large] = smallChain(FIRST, [Array.from({ length: 3_000 }, () => [])]);
  const served = await ServedChain.start([large!], { sealed: null }, { clock });
  // More than any kernel takes.
  const stored = await served.store.blockByHeight(FIRST);
  served.store.blockByHeight = () => Promise.resolve(stored);
  served.range = { ...served.range, latestIndexed: 1_000_000 };
  const socket = (await openSocket(served.port)).pause();
  socket.write('GET /events?from=100 HTTP/1.1\r\nHost: x\r\n\r\n');
  const closed = once(socket, 'close');
  while (served.feed.followers === 0) await clock.turn();
  // The kernel takes some; when it takes no more, the next look but a few finds an event that lies untaken.
  while (served.feed.followers > 0) await clock.advance(1_000);
  socket.resume();
  await closed;
});
