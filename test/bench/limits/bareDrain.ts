/** The limit of whatever reads a stream: grpc-js hands the messages over as they came, and they are counted. */
import { bareClient } from '../lib/bareClient.js';
import { limitTask, LimitWatch } from '../lib/limits.js';

const { fullBlocks = false, node, heights, passes = 1 } = limitTask();
const client = bareClient(node);
const watch = new LimitWatch();

function drain(pass: number): void {
  let count = 0;
  const stream = fullBlocks ? client.blocks({ isFull: true }) : client.executionData();
  stream.on('data', () => {
    watch.start();
    count += 1;
    if (count !== heights) return;
    stream.pause();
    if (pass === passes) watch.finish(heights * passes);
    drain(pass + 1);
  });
}

drain(1);
