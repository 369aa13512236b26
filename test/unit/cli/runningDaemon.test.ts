import { once } from 'node:events';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { globalAgent } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { atEnd, refusal, RestNode, runInProcess, scratchDirectory } from '../../support/index.js';
import type { RestReply } from '../../support/index.js';

/** Something that answers like a daemon of this instance. Resolves with its port. */
async function answerer(instance: string): Promise<number> {
  const { port } = await RestNode.start((request, response) => {
    const body = request.url === '/status' ? { instance } : { kind: 'block', from: instance };
    response.end(JSON.stringify(body));
  });
  return port;
}

/** A data directory with the record of a daemon, and no store. `more`: what else the record says. */
function dataDirectory(instance: string, port: number, more: object = {}): string {
  const directory = scratchDirectory();
  const address = { host: '127.0.0.1', port };
  const own = { pid: 1, instance, api: address, metrics: address, control: join(directory, 'control.sock') };
  writeFileSync(join(directory, 'daemon.json'), JSON.stringify({ ...own, ...more }));
  return directory;
}

const run = (...args: string[]) => runInProcess(args);

it('is found through the record in its data directory, not in a copy of that, and is not whoever listens at the address of one that crashed', async () => {
  const dataDir = dataDirectory('one', await answerer('one'));
  const found = { exit: 'done', out: '{"instance":"one"}\n' };
  expect(await run('status', '--json', '--data-dir', dataDir)).toMatchObject(found);
  const copy = scratchDirectory();
  cpSync(dataDir, copy, { recursive: true });
  const unrecorded = refusal('no_daemon', /no daemon is recorded/);
  expect(await run('status', '--json', '--data-dir', copy)).toMatchObject(unrecorded);
  // A proxy of the environment, which only the agent that all share may go through, is not for this machine.
  vi.spyOn(globalAgent, 'addRequest' as 'destroy').mockImplementation(() => expect.fail('asked a proxy'));
  expect(await run('status', '--json', '--data-dir', dataDir)).toMatchObject(found);
  // One of another version may tell less than is shown.
  const older = refusal(
    'no_daemon',
    /is of another build .* needs "(?:network|chainId|backfill)" of its status\. Restart the daemon/,
  );
  for (const command of ['status', 'export', 'backfill'])
    expect(await run(command, '--data-dir', dataDir)).toMatchObject(older);
  const block = await run('get', 'block', '7', '--data-dir', dataDir);
  expect(JSON.parse(block.out)).toEqual({ kind: 'block', from: 'one' });
  const crashed = dataDirectory('crashed', await answerer('another'));
  const status = await run('status', '--json', '--data-dir', crashed);
  expect(status).toMatchObject({ exit: 'no_daemon', out: '' });
  expect(status.message).toContain(`the one recorded in ${crashed} is gone`);
  // The store itself is read instead; here there is none.
  expect(await run('get', 'block', '7', '--data-dir', crashed)).toMatchObject({ exit: 'storage', out: '' });
});

it('takes commands through the socket beside its record, though from here neither its process nor its path is seen', async () => {
  const dataDir = dataDirectory('contained', 1, { pid: 2 ** 22, control: '/elsewhere/control.sock' });
  const answers = ['{"done":{}}\n'];
  const server = createServer((socket) => socket.once('data', () => socket.end(answers.pop() ?? '')));
  atEnd(() => void server.close());
  await once(server.listen(join(dataDir, 'control.sock')), 'listening');
  const { out } = await run('backfill', 'pause', '--data-dir', dataDir);
  expect(out).toBe('Every plan is paused.\n');
  const hung = refusal('no_daemon', /It may still do it, so look at "backfill status" before you try again/);
  expect(await run('backfill', 'plan', '--everything', '--data-dir', dataDir)).toMatchObject(hung);
});

it('is looked for where the environment says when there is no record, but the store is as good', async () => {
  const port = await answerer('any');
  const nowhere = dataDirectory('gone', port);
  rmSync(join(nowhere, 'daemon.json'));
  const exitOf = async (FCI_API_PORT: number, ...args: string[]) =>
    (await runInProcess(args, { environment: { FCI_API_PORT: `${FCI_API_PORT}`, FCI_DATA_DIR: nowhere } }))
      .exit;
  expect(await exitOf(port, 'status', '--json')).toBe('done');
  expect(await exitOf(1, 'status')).toBe('no_daemon');
  expect(await exitOf(1, 'get', 'block', '7')).toBe('storage');
  expect(await run('get', 'block', '7', '--api-port', '1')).toMatchObject({ exit: 'no_daemon' });
});

let misses = 0;
it.each<[string, RegExp, RestReply]>([
  ['the metrics', /HTTP 404; api\.port is that of the read API/, (_, to) => to.writeHead(404).end()],
  ['a gRPC port', /HPE_\w+: no HTTP; api\.port is not that/, (_, to) => to.socket?.end('\0\0\0')],
  ['a port with TLS', /ECONNRESET: if it speaks TLS, name --api-tls/, (_, to) => to.socket?.destroy()],
  [
    'one that missed a question',
    /it answers again: try once more/,
    (_, to) => ((misses += 1) > 1 ? to.end('{"instance":"one"}') : to.destroy()),
  ],
])('says why where none answers: %s', async (_, why, reply) => {
  const { port } = await RestNode.start(reply);
  expect(await run('status', '--api-port', String(port))).toMatchObject(refusal('no_daemon', why));
});
