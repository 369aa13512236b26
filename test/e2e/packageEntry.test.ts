import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

it('offers the job queue as an entry point of its own, by the package’s name', async () => {
  const script = `
    import { JobConsumer, MemoryProgress } from 'flow-collection-indexer/jobqueue';
    const seen = [];
    const consumer = new JobConsumer(
      { maxProcessing: 2, maxSearchAhead: 0 },
      {
        jobs: { head: () => 5, atIndex: (index) => (index <= 5 ? { id: String(index) } : undefined) },
        worker: { run: (job, done) => { seen.push(job.id); done(); } },
        progress: new MemoryProgress(),
      },
    );
    await consumer.start();
    await consumer.stop();
    console.log(JSON.stringify({ seen, processed: consumer.processedIndex }));
  `;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: root });
  expect(JSON.parse(stdout)).toEqual({ seen: ['1', '2', '3', '4', '5'], processed: 5 });
});

it('lets nobody in by the window', async () => {
  const script = "await import('flow-collection-indexer/storage');";
  const refused = run(process.execPath, ['--input-type=module', '--eval', script], { cwd: root });
  await expect(refused).rejects.toThrow('ERR_PACKAGE_PATH_NOT_EXPORTED');
});
