import { describe, expect, it } from 'vitest';
import { keepReaderThread, type ReaderSources } from '../../src/app/threads/keepReaderThread.js';
import { readerStarter, type StartReader } from '../../src/app/threads/startWorker.js';
import { createMetrics } from '../../src/observability/index.js';
import { AbortError, systemClock } from '../../src/runtime/index.js';
import { LevelIndexStore } from '../../src/storage/index.js';
import { answer, atEnd, GrpcProbe, networkOf, RawNode, RecordingLogger, refusal } from '../support/index.js';
import { refusalOf, scratchDirectory, shownOf, statusWith } from '../support/index.js';
import { readerOptions } from '../support/readerOptions.js';
import { readersHere } from '../support/readers.js';

const FIRST = 100;
const SCRIPT = '/flow.access.AccessAPI/ExecuteScriptAtLatestBlock';

async function served(
  startReader: StartReader,
  change: Partial<ReaderSources> = {},
  nodes?: () => ReturnType<ReaderSources['state']>['nodes'],
  api: Parameters<typeof readerOptions>[0] = {},
) {
  const dataDir = scratchDirectory();
  const logger = new RecordingLogger();
  const store = await LevelIndexStore.open(
    { path: `${dataDir}/index`, chainId: 'flow-localnet', accounts: true, isShared: true },
    { logger, clock: systemClock },
  );
  const meta = { schemaVersion: 1, chainId: 'flow-localnet', createdBy: 'test', sporks: [] };
  await store.initialise({ ...meta, firstHeight: FIRST });
  const readers = keepReaderThread(readerOptions({ ...api, forward: nodes !== undefined }, dataDir), {
    ...{ clock: systemClock, logger, start: startReader },
    metrics: createMetrics({ version: '', node: '' }),
  });
  atEnd(() => readers.close().then(() => store.close()));
  const range = () => ({
    ...{ firstIndexed: FIRST, latestIndexed: store.latestIndexedHeight() },
    ...{ head: 1_000, sealed: store.latestIndexedHeight() },
  });
  const sources: ReaderSources = {
    state: () => ({
      ...{ ...range(), shown: shownOf(store) },
      ...{ isReady: true, forwardingOff: undefined, nodes: nodes?.() ?? [] },
    }),
    status: () => statusWith(range()),
    momentAt: () => ({ range: range(), durableId: undefined, daemon: undefined }),
    damaged: () => undefined,
    admission: { admit: () => Promise.resolve('busy') },
    ...change,
  };
  const addresses = await readers.serve(sources);
  const probe = new GrpcProbe(`127.0.0.1:${addresses.grpc?.port ?? 0}`);
  atEnd(() => probe.close());
  return { port: addresses.api.port, probe };
}

describe.each([
  ['on this thread', readersHere],
  ['on a thread of their own, as built', readerStarter()],
])('readers %s', (_name, startReader) => {
  it('pass calls on at the rate that the indexer leaves, to nodes that it may ask, or say that these take no more', async () => {
    const node = await RawNode.start({ [SCRIPT]: (call, request) => answer(call, request) });
    const network = await networkOf([node]);
    const asked: string[] = [];
    const admit: ReaderSources['admission']['admit'] = (name, call, signal) =>
      asked.push(call.method) > 1
        ? Promise.resolve('busy')
        : network.forwardingAdmission.admit(name, call, signal);
    const nodes = () => network.live().map(({ endpoint }) => endpoint);
    const { probe } = await served(startReader, { admission: { admit } }, nodes);
    expect(await probe.raw(SCRIPT, Buffer.from([1, 2, 3]))).toEqual(Buffer.from([1, 2, 3]));
    expect(asked).toEqual(['ExecuteScriptAtLatestBlock']);
    expect((await refusalOf(probe.raw(SCRIPT, Buffer.alloc(0)))).code).toBe('RESOURCE_EXHAUSTED');
  });
});

it('a reader thread whose port is taken is refused with the flag that mends it', async () => {
  const { port } = await served(readersHere);
  const again = served(readersHere, {}, undefined, { port });
  await expect(again).rejects.toMatchObject(refusal('unavailable', '--api-port'));
});

it('a reader thread that a bug keeps from serving says which', async () => {
  await expect(served(readerStarter(), {}, undefined, { forwardRest: ':' })).rejects.toThrow('Invalid URL');
});

it('a reader thread that is closed before it served says so', async () => {
  const readers = keepReaderThread(readerOptions(), {
    ...{ clock: systemClock, logger: new RecordingLogger(), start: readersHere },
    metrics: createMetrics({ version: '', node: '' }),
  });
  await readers.close();
  await expect(readers.serve({} as ReaderSources)).rejects.toBeInstanceOf(AbortError);
});
