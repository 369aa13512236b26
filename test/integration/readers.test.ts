import { describe, expect, it } from 'vitest';
import { keepReaderThread } from '../../src/app/threads/keepReaderThread.js';
import type { ReaderSources } from '../../src/app/threads/keepReaderThread.js';
import { startWorker } from '../../src/app/threads/startWorker.js';
import type { StartReader } from '../../src/app/threads/startWorker.js';
import { createMetrics } from '../../src/observability/index.js';
import { AbortError, systemClock } from '../../src/runtime/index.js';
import { LevelIndexStore } from '../../src/storage/index.js';
import { atEnd } from '../support/cleanup.js';
import { GrpcProbe, refusalOf } from '../support/grpcProbe.js';
import { getJson } from '../support/httpProbe.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { answer, networkOf, RawNode } from '../support/rawNode.js';
import { readerOptions } from '../support/readerOptions.js';
import { readersHere } from '../support/readers.js';
import { RecordingLogger } from '../support/recordingLogger.js';
import { statusWith } from '../support/servedChain.js';
import { smallChain, transactionWith } from '../support/smallChain.js';

const FIRST = 100;
const chain = smallChain(
  FIRST,
  Array.from({ length: 40 }, (_, index) => [[transactionWith({ gasLimit: BigInt(index) })]]),
);
const SCRIPT = '/flow.access.AccessAPI/ExecuteScriptAtLatestBlock';

/** A store that is written to, and readers of it, until the end of the test. */
async function served(
  startReader: StartReader,
  change: Partial<ReaderSources> = {},
  nodes?: () => ReturnType<ReaderSources['state']>['nodes'],
) {
  const dataDir = scratchDirectory();
  const logger = new RecordingLogger();
  const store = await LevelIndexStore.open(
    { path: `${dataDir}/index`, chainId: 'flow-localnet', accounts: true, isShared: true },
    { logger, clock: systemClock },
  );
  await store.initialise({
    ...{ schemaVersion: 1, chainId: 'flow-localnet', firstHeight: FIRST, createdBy: 'test', sporks: [] },
  });
  const readers = keepReaderThread(readerOptions({ forward: nodes !== undefined }, dataDir), {
    ...{ clock: systemClock, logger, start: startReader },
    metrics: createMetrics({ version: '', node: '' }),
  });
  atEnd(async () => {
    await readers.close();
    await store.close();
  });
  const range = () => ({
    ...{ firstIndexed: FIRST, latestIndexed: store.latestIndexedHeight() },
    ...{ head: 1_000, sealed: store.latestIndexedHeight() },
  });
  const sources: ReaderSources = {
    state: () => ({
      shown: {
        meta: store.meta(),
        latestIndexedHeight: store.latestIndexedHeight(),
        coverage: store.coverage(),
        latestBlock: store.latestBlock(),
        rewinds: store.rewinds(),
        accounts: store.accounts.coverage(),
      },
      ...{ head: 1_000, sealed: store.latestIndexedHeight() },
      ...{ isReady: true, forwardingOff: undefined, nodes: nodes?.() ?? [] },
    }),
    status: () => statusWith(range()),
    momentAt: () => ({ range: range(), durableId: undefined, daemon: undefined }),
    naming: () => undefined,
    damaged: () => undefined,
    admission: { admit: () => Promise.resolve('busy') },
    ...change,
  };
  const addresses = await readers.serve(sources);
  const url = `http://127.0.0.1:${addresses.api.port}`;
  const probe = new GrpcProbe(`127.0.0.1:${addresses.grpc?.port ?? 0}`);
  atEnd(() => probe.close());
  const commit = async (count: number): Promise<void> => {
    const next = store.latestIndexedHeight() + 1 - FIRST;
    await store.commit({
      blocks: chain.slice(next, next + count),
      latestIndexedHeight: store.latestIndexedHeight() + count,
    });
    readers.notify();
  };
  return { commit, probe, store, url };
}

describe.each([
  ['on this thread', readersHere],
  ['on a thread of their own, as built', startWorker],
])('readers %s', (_name, startReader) => {
  it('see each height as soon as it is durable, and never one above it', async () => {
    const { commit, probe, store, url } = await served(startReader);
    expect(await getJson(`${url}/v1/blocks?height=final`)).toMatchObject({ status: 404 });
    for (let count = 1; count <= 10; count += 3) {
      await commit(3);
      const height = store.latestIndexedHeight();
      const found = await eventually(async () => {
        const { status, body } = await getJson(`${url}/v1/blocks?height=final`);
        const [block] = status === 200 ? (body as [{ header: { height: string; id: string } }]) : [];
        expect(Number(block?.header.height ?? 0)).toBeLessThanOrEqual(height);
        return block?.header.height === String(height) ? block : undefined;
      });
      expect(found.header.id).toBe(chain[height - FIRST]?.block.id);
      await expect(probe.call('GetBlockByHeight', { height: height + 1 })).rejects.toMatchObject({ code: 5 });
    }
    expect(await getJson(`${url}/status`)).toMatchObject({ status: 200, body: { latestIndexed: 111 } });
    expect(await getJson(`${url}/explain/500`)).toMatchObject({
      status: 200,
      body: { stage: 'not_indexed' },
    });
  });

  it('pass calls on at the rate that the indexer leaves, to nodes that it may ask', async () => {
    const node = await RawNode.start({ [SCRIPT]: (call, request) => answer(call, request) });
    const network = await networkOf([node]);
    const asked: string[] = [];
    const { probe } = await served(
      startReader,
      {
        admission: {
          admit: (name, call, signal) => {
            asked.push(call.method);
            return network.forwardingAdmission.admit(name, call, signal);
          },
        },
      },
      () => network.forwardingNodes(),
    );
    expect(await probe.raw(SCRIPT, Buffer.from([1, 2, 3]))).toEqual(Buffer.from([1, 2, 3]));
    expect(asked).toEqual(['ExecuteScriptAtLatestBlock']);
  });

  it('say that the nodes take no more', async () => {
    const node = await RawNode.start({});
    const network = await networkOf([node]);
    const { probe } = await served(startReader, {}, () => network.forwardingNodes());
    expect(await refusalOf(probe.raw(SCRIPT, Buffer.alloc(0)))).toMatchObject({
      code: 'RESOURCE_EXHAUSTED',
    });
  });
});

describe('a reader thread', () => {
  it('whose port is taken is refused with the flag that mends it', async () => {
    const first = await served(readersHere);
    const port = Number(new URL(first.url).port);
    await expect(
      served((options) =>
        readersHere({ ...options, config: { ...options.config, api: { ...options.config.api, port } } }),
      ),
    ).rejects.toMatchObject({
      exit: 'configuration',
      message: expect.stringContaining('--api-port') as string,
    });
  });

  it('that is closed before it served says so', async () => {
    const readers = keepReaderThread(readerOptions(), {
      ...{ clock: systemClock, logger: new RecordingLogger(), start: readersHere },
      metrics: createMetrics({ version: '', node: '' }),
    });
    await readers.close();
    await expect(readers.serve({} as ReaderSources)).rejects.toBeInstanceOf(AbortError);
  });
});
