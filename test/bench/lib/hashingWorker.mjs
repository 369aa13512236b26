// A worker that verifies what it is sent and sends back what the daemon would go on with: see hashingWorkers.ts.
import { Buffer } from 'node:buffer';
import { parentPort, workerData } from 'node:worker_threads';

const { decodeExecutionDataResponse, VerificationMemory, verifyBlockCollections } = await import(
  workerData.flow
);
const memory = new VerificationMemory();

parentPort.on('message', ({ block, message }) => {
  const data = decodeExecutionDataResponse(Buffer.from(message));
  const collections = verifyBlockCollections(block, data, memory);
  // All of them are views of the same two buffers.
  const [first] = collections;
  parentPort.postMessage(collections, first === undefined ? [] : [first.encoded.buffer, first.ranges.buffer]);
});
