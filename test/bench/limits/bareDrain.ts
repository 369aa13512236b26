/** The limit of whatever reads a stream: grpc-js hands the messages over as they came, and they are counted. */
import { bareClient } from '../lib/bareClient.js';
import { limitOptions, LimitWatch } from '../lib/limits.js';

const { node, heights, streams = ['executionData'], passes = 1 } = limitOptions();
const client = bareClient(node);
const watch = new LimitWatch();
let reading = streams.length;

function drain(name: 'blocks' | 'executionData', pass = 1): void {
  let count = 0;
  const stream = client[name]();
  stream.on('data', () => {
    watch.start();
    count += 1;
    if (count !== heights) return;
    stream.pause();
    if (pass < passes) {
      drain(name, pass + 1);
      return;
    }
    reading -= 1;
    if (reading === 0) watch.finish(heights * passes);
  });
}

for (const name of streams) drain(name);
