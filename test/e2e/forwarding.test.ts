import { Client, credentials, status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { loadProtocol } from '../../src/flow/index.js';
import { atEnd } from '../support/cleanup.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';

const ROOT = 1_000;
const TOP = 1_020;

interface Entry {
  readonly path: string;
  readonly responseStream: boolean;
  readonly requestSerialize: (request: object) => Buffer;
}
const protocol = loadProtocol();
const entryOf = (service: string, method: string): Entry =>
  (protocol[service] as unknown as Readonly<Record<string, Entry>>)[method]!;

const asItIs = (bytes: Buffer): Buffer => bytes;

/** What a call comes to: the bytes of its messages, and how it ended. */
interface Outcome {
  readonly messages: readonly string[];
  readonly code: number;
  readonly details: string;
}

/** Of a stream, the first messages. */
const MESSAGES = 5;

function ask(client: Client, { path, responseStream }: Entry, request: Buffer): Promise<Outcome> {
  return new Promise((resolve) => {
    const deadline = Date.now() + 60_000;
    if (!responseStream) {
      client.makeUnaryRequest(path, asItIs, asItIs, request, { deadline }, (error, answer) => {
        const messages = answer === undefined ? [] : [answer.toString('hex')];
        resolve({ messages, code: error?.code ?? 0, details: error?.details ?? '' });
      });
      return;
    }
    const messages: string[] = [];
    const call = client.makeServerStreamRequest(path, asItIs, asItIs, request, { deadline });
    call.on('error', () => undefined);
    call.on('data', (message: Buffer) => {
      messages.push(message.toString('hex'));
      if (messages.length === MESSAGES) call.cancel();
    });
    call.on('status', ({ code, details }: { code: number; details: string }) =>
      resolve({ messages: messages.slice(0, MESSAGES), code, details }),
    );
  });
}

/** How calls that did not fail are counted. */
const outcomes: ReadonlyMap<number, string> = new Map<number, string>([
  [status.OK, 'answered'],
  [status.CANCELLED, 'cancelled'],
]);

/** What the daemon's metrics are to say of the calls that were made. */
class Counts {
  readonly byOutcome = new Map<string, number>();
  /** Those that nodes answered, errors included. */
  answeredCalls = 0;

  add(method: string, { code }: Outcome, isStream: boolean): void {
    const outcome = outcomes.get(code) ?? 'failed';
    const series = `grpc ${method} ${outcome}`;
    this.byOutcome.set(series, (this.byOutcome.get(series) ?? 0) + 1);
    if (!isStream) this.answeredCalls += 1;
  }
}

it('answers what the index does not have as the node itself, byte for byte', async () => {
  const devnet = await devnetForTest({ seed: 3, rootHeight: ROOT, startHead: TOP, paused: true });
  const flags = ['--start-height', 'root', '--api-forward'];
  const daemon = await startDaemonHere(startArguments(devnet, scratchDirectory(), ...flags));
  await daemon.reaches(TOP);
  const clients = [daemon.grpcAddress, devnet.address].map((address) => {
    const client = new Client(address, credentials.createInsecure(), {
      'grpc.max_receive_message_length': -1,
    });
    atEnd(() => client.close());
    return client;
  });
  const counts = new Counts();
  const both = async (service: string, method: string, request: object): Promise<Outcome> => {
    const entry = entryOf(service, method);
    const bytes = entry.requestSerialize(request);
    const [ours, theirs] = await Promise.all(clients.map((client) => ask(client, entry, bytes)));
    expect(ours, `${method} ${JSON.stringify(request)}`).toEqual(theirs);
    counts.add(method, ours!, entry.responseStream);
    return ours!;
  };
  const ACCESS = 'flow.access.AccessAPI';
  const DATA = 'flow.executiondata.ExecutionDataAPI';
  const header = await both(ACCESS, 'GetLatestBlockHeader', { is_sealed: false });
  expect(header).toMatchObject({ code: 0, messages: [expect.any(String)] });
  await both(ACCESS, 'GetLatestBlockHeader', { is_sealed: true });
  // Headers of blocks without a proof.
  for (const height of [ROOT, TOP]) await both(ACCESS, 'GetBlockHeaderByHeight', { height });
  for (const height of [ROOT + 3, TOP]) {
    const full = await both(ACCESS, 'GetBlockByHeight', { height, full_block_response: true });
    expect(full.messages).toHaveLength(1);
  }
  await both(ACCESS, 'GetLatestBlock', { full_block_response: true });
  await both(DATA, 'GetExecutionDataByBlockID', { block_id: Buffer.alloc(32, 1) });
  // The devnet executes nothing: its refusal comes through as well.
  expect(await both(ACCESS, 'ExecuteScriptAtLatestBlock', { script: Buffer.from('x') })).toMatchObject({
    code: 12,
  });
  await both(ACCESS, 'SendTransaction', {});
  const streams: readonly (readonly [string, string, object])[] = [
    [
      ACCESS,
      'SubscribeBlockHeadersFromStartHeight',
      { start_block_height: ROOT, block_status: 'BLOCK_FINALIZED' },
    ],
    [DATA, 'SubscribeExecutionDataFromStartBlockHeight', { start_block_height: ROOT }],
    [DATA, 'SubscribeExecutionDataFromStartBlockHeight', { start_block_height: 1 }],
  ];
  for (const [service, method, request] of streams) await both(service, method, request);

  const scraped = await daemon.scrapeUntil((metrics) => metrics.sum('forwarded_calls_in_flight') === 0);
  const counted = scraped
    .series('forwarded_calls_total')
    .map(({ labels, value }) => [`grpc ${labels['method']} ${labels['outcome']}`, value] as const);
  expect(Object.fromEntries(counted)).toEqual(Object.fromEntries(counts.byOutcome));
  expect(scraped.sum('forwarded_call_seconds_count', { protocol: 'grpc' })).toBe(counts.answeredCalls);

  await devnet.close();
  const [ours] = clients;
  const entry = entryOf(ACCESS, 'GetBlockHeaderByHeight');
  const gone = await eventually(async () => {
    const outcome = await ask(ours!, entry, entry.requestSerialize({ height: TOP }));
    return outcome.code === 14 ? outcome : undefined;
  });
  expect(gone.details).toContain('no access node can be reached');
  expect((await daemon.scrape()).sum('forwarded_calls_total', { outcome: 'unreachable' })).toBeGreaterThan(0);
  const indexed = entryOf(ACCESS, 'GetBlockByHeight');
  const block = await ask(ours!, indexed, indexed.requestSerialize({ height: TOP }));
  expect(block).toMatchObject({ code: 0, messages: [expect.any(String)] });
  expect(await daemon.program.stop()).toBe(0);
  expect(daemon.program.stderr).toBe('');
});
