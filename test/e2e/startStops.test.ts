import { expect, it } from 'vitest';
import { devnetForTest, scratchDirectory, startArguments, startHere } from '../support/daemons.js';
import { startProgram, tcpServer, usePostgres } from '../support/daemons.js';

const CLOSED = '127.0.0.1:1';
const SILENCE = /has not answered for/;

/** Nothing of it waits for a limit: the log would say so, and the exit code. */
const postgres = usePostgres();

/** What a start may wait for, by which node and flags, and what the log says then. `SILENT` takes connections, and says nothing. */
it.each([
  ['a node that is away', CLOSED, '', /ECONNREFUSED/],
  ['a node whose handshake hangs', 'grpcs://SILENT', '', /no connection came about/],
  ['a snapshot of which nothing comes', 'NODE', '--from-snapshot http://SILENT/store.tar', /"starting"/],
  ['a database that is away', 'NODE', `--store postgres://${CLOSED}/a`, /ECONNREFUSED/],
  ['a database that does not exist', 'NODE', '--store SERVER/nobody-made-it', /3D000/],
  ['a database that has said nothing for long', 'NODE', '--store postgres://SILENT/a', SILENCE],
  ['a replica that says nothing', 'NODE', '--store URL --api-store postgres://SILENT/a', SILENCE],
  ['a replica that has no store yet', 'NODE', '--store URL --api-store SERVER/postgres', /"store opened"/],
])('for %s', async (_name, node, flags, sees) => {
  const devnet = await devnetForTest({ startHead: 5, paused: true });
  const { url } = await postgres.home();
  const SILENT = `127.0.0.1:${await tcpServer((socket) => socket.resume())}`;
  const places = { SILENT, NODE: devnet.address, URL: url, SERVER: new URL('/', url).href.slice(0, -1) };
  const [address = '', ...words] = `${node} ${flags}`
    .trim()
    .replaceAll(/SILENT|NODE|URL|SERVER/g, (name) => places[name as keyof typeof places])
    .split(' ');
  const program = startProgram(startArguments({ address }, scratchDirectory(), ...words));
  await program.sees(sees);
  expect(await program.stop(), program.stdout + program.stderr).toBe(0);
  expect(program.stdout).toMatch(/"msg":"stopped"\}\n$/);
  expect(program.stdout + program.stderr).not.toMatch(/did not close in time|Ended although/);
});

it('for its own modules', async () => {
  const program = startHere(startArguments({ address: CLOSED }, scratchDirectory()));
  expect(await program.stop()).toBe(0);
  expect(program.stdout).toMatch(/"signal":"SIGTERM".*"msg":"stopped"\}\n$/s);
});
