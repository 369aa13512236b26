import { describe, expect, it } from 'vitest';
import { blockRefusals, allReadinessCodes, createMetrics } from '../../../src/observability/index.js';
import { createReaderMetrics, mergedPage, type ScrapedValues } from '../../../src/observability/index.js';
import { invalidBlockReasons } from '../../../src/proof/blocks/BlockProver.js';

const build = { version: '1.2.3', node: 'v20.0.0' };

/** What a test says; every other gauge is 7. */
function values(change: Partial<ScrapedValues> = {}): ScrapedValues {
  const known = {
    backfill_ranges: () => new Map(),
    workers: () => new Map([['live', 2]]),
    stream_age_seconds: () => new Map([['blocks', 0.5]]),
    endpoint_state: () => [{ endpoint: 'node:9000', state: 'healthy' }],
    not_ready: () => new Set(['behind']),
    ...change,
  } as ScrapedValues;
  return new Proxy(known, { get: (from, name) => (Reflect.get(from, name) as unknown) ?? (() => 7) });
}

/** The value of one series of the text that Prometheus reads; the labels as they are written. */
async function scrape(metrics: ReturnType<typeof createMetrics>, series: string) {
  const text = await metrics.registry.metrics();
  const line = text.split('\n').find((one) => one.startsWith(`flow_collection_indexer_${series} `));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

/** As the daemon serves them. */
async function freshPage(): Promise<string> {
  return (await mergedPage(createMetrics(build).registry, [await createReaderMetrics().snapshot()])).text;
}

describe('the page of metrics', () => {
  // All of its rules: `npm run test:promtool`.
  it('keeps the rules that Prometheus checks', async () => {
    const page = await freshPage();
    const types = [...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type]) => ({ name, type }));
    expect(page.match(/^# HELP \S+ \S/gm)).toHaveLength(types.length);
    expect(new Set(types.map(({ name }) => name)).size).toBe(types.length);
    for (const { name, type } of types) {
      expect(name.endsWith('_total'), name).toBe(type === 'counter');
      expect(name).not.toMatch(
        /[A-Z]|_(?:count|sum|bucket|ms|milliseconds|minutes|hours|kb|mb|percent)(?:_|$)/,
      );
    }
  });

  it('has when the process was started', async () => {
    const [, seconds] = /^process_start_time_seconds (\d+)/m.exec(await freshPage()) ?? [];
    expect(Math.abs(Number(seconds) - (Date.now() / 1_000 - process.uptime()))).toBeLessThan(60);
  });

  it('has the series that are known before anything happens: an alert on the first time needs that', async () => {
    const page = await freshPage();
    const ofSources = ['requester', 'edi'].flatMap((source) => [
      ...['malformed', 'id_mismatch', 'too_large', 'unsolicited'].map(
        (reason) => `invalid_collections_total{source="${source}",reason="${reason}"}`,
      ),
      ...['collections_received_total', 'duplicate_collections_total', 'heights_completed_total']
        .concat('collection_receive_to_indexed_seconds_count')
        .map((name) => `${name}{source="${source}"}`),
    ]);
    const ofData = ['wrong_count', 'wrong_order', 'wrong_block'].map(
      (reason) => `invalid_collections_total{source="edi",reason="${reason}"}`,
    );
    const others = ['heights_completed_total{source="none"}', 'collections_requested_total'].concat(
      ['chain', 'spork', 'block'].map((reason) => `foreign_nodes_total{reason="${reason}"}`),
    );
    for (const series of [...ofSources, ...ofData, ...others, 'latest_indexed_height'])
      expect(page).toContain(`\nflow_collection_indexer_${series} 0\n`);
    expect(page).toContain('_build_info{version="1.2.3",node="v20.0.0"} 1\n');
    // No time is told of what has not happened yet.
    expect(page).not.toMatch(/^\w+_timestamp_seconds /m);
  });

  it('has a reason for every way in which a block does not fit its id', () => {
    expect(blockRefusals).toEqual(expect.arrayContaining([...invalidBlockReasons]));
  });
});

it('metrics: counts the processes of a database by state, and says nothing of them without one', async () => {
  const metrics = createMetrics(build);
  const counted = () =>
    Promise.all(['live', 'silent', 'stopped'].map((state) => scrape(metrics, `workers{state="${state}"}`)));
  metrics.bind(values({ workers: () => new Map(Object.entries({ live: 3, silent: 1 })) }));
  expect(await counted()).toEqual([3, 1, 0]);
  metrics.bind(values({ workers: () => undefined }));
  expect(await counted()).toEqual([undefined, undefined, undefined]);
});

it('metrics: reads gauges at scrape time: an old lag would be a lie when nobody confirms the head', async () => {
  const metrics = createMetrics(build);
  let lag: number | undefined = 30;
  metrics.bind(values({ lag_heights: () => lag }));
  expect(await scrape(metrics, 'lag_heights')).toBe(30);
  lag = undefined;
  expect(await scrape(metrics, 'lag_heights')).toBeUndefined();
});

it('metrics: never has a height or an id as a label', () => {
  for (const metric of createMetrics(build).registry.getMetricsAsArray()) {
    const { labelNames } = metric as unknown as { labelNames: readonly string[] };
    const varied = labelNames.filter((label) => /height|id$|block|collection|transaction/i.test(label));
    expect(varied).toEqual([]);
  }
});

it('metrics: says whether it is ready, why not, and forgets series of endpoints and streams that are gone', async () => {
  const metrics = createMetrics(build);
  expect(await scrape(metrics, 'not_ready{code="starting"}')).toBe(1);
  let codes = new Set<string>(['behind', 'upstream_refusing']);
  metrics.bind(values({ ready: () => Number(codes.size === 0), not_ready: () => codes }));
  const standing = () =>
    Promise.all(allReadinessCodes.map((code) => scrape(metrics, `not_ready{code="${code}"}`)));
  for (const isReady of [0, 1]) {
    expect(await scrape(metrics, 'ready')).toBe(isReady);
    expect(await standing()).toEqual(allReadinessCodes.map((code) => Number(codes.has(code))));
    codes = new Set();
  }
  let state = 'healthy';
  let streams = new Map([['blocks', 0.5]]);
  const name = 'node:9000';
  metrics.bind(values({ endpoint_state: () => [{ name, state }], stream_age_seconds: () => streams }));
  const isIn = (its: string) => scrape(metrics, `endpoint_state{endpoint="node:9000",state="${its}"}`);
  const ageSeconds = () => scrape(metrics, 'stream_age_seconds{stream="blocks"}');
  expect([await isIn('healthy'), await isIn('set_aside'), await ageSeconds()]).toEqual([1, 0, 0.5]);
  state = 'set_aside';
  streams = new Map();
  expect([await isIn('healthy'), await isIn('set_aside'), await ageSeconds()]).toEqual([0, 1, undefined]);
});
