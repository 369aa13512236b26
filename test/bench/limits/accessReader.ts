/** Held against a limit: a stream read and scanned by the access layer, and nothing behind it. */
import type * as Nodes from '../../../src/access/node/grpcAccessNode.js';
import type * as Health from '../../../src/access/selection/NodeHealthRecord.js';
import type * as Endpoints from '../../../src/access/transport/endpoint.js';
import type * as Runtime from '../../../src/runtime/index.js';
import type * as Observability from '../../../src/observability/index.js';
import { built, limitTask, LimitWatch } from '../lib/limits.js';

const { node, heights, passes = 1 } = limitTask();
const { grpcAccessNode } = (await built('access/node/grpcAccessNode.ts')) as typeof Nodes;
const { NodeHealthRecord } = (await built('access/selection/NodeHealthRecord.ts')) as typeof Health;
const { parseEndpoint } = (await built('access/transport/endpoint.ts')) as typeof Endpoints;
const runtime = (await built('runtime/index.ts')) as typeof Runtime;
const observability = (await built('observability/index.ts')) as typeof Observability;

const clock = runtime.systemClock;
const reader = grpcAccessNode(
  {
    endpoint: parseEndpoint(node),
    ratePerSecond: 0,
    maxMessageBytes: 128 * 1024 * 1024,
    timeoutMs: 10_000,
    userAgent: 'bench',
  },
  {
    clock,
    healthRecord: new NodeHealthRecord({ clock }),
    metrics: observability.createMetrics({ version: 'bench', node: process.version }),
  },
);
const watch = new LimitWatch();
// Again and again, so that it is not the first compilation of hot code that is measured.
for (let pass = 1; pass <= passes; pass += 1) {
  const messages = reader.subscribeExecutionData(1, { signal: new AbortController().signal });
  for await (const { height, chunks } of messages) {
    watch.start();
    if (chunks.length === 0) throw new Error('nothing was located');
    if (height === heights) break;
  }
}
watch.finish(heights * passes);
