import { expect, it } from 'vitest';
import { devnetForTest, scratchDirectory, startArguments, startHere } from '../support/daemons.js';
import { startProgram, tcpServer, usePostgres } from '../support/daemons.js';

const CLOSED = '127.0.0.1:1';

interface Places {
  /** Of a database that is sound. */
  readonly url: string;
  /** Takes connections, and says nothing. */
  readonly silent: string;
}

interface Wait {
  readonly node?: (places: Places) => string;
  readonly flags?: (places: Places) => readonly string[];
  readonly sees: RegExp;
}

/** What a start may wait for, and what the log says when it does. */
const waits: Readonly<Record<string, Wait>> = {
  'a node that is away': { node: () => CLOSED, sees: /ECONNREFUSED/ },
  'a node whose handshake hangs': {
    node: ({ silent }) => `grpcs://${silent}`,
    sees: /no connection came about/,
  },
  'a snapshot of which nothing comes': {
    flags: ({ silent }) => ['--from-snapshot', `http://${silent}/store.tar`],
    sees: /"starting"/,
  },
  'a database that is away': { flags: () => ['--store', `postgres://${CLOSED}/a`], sees: /ECONNREFUSED/ },
  'a database that does not exist': {
    flags: ({ url }) => ['--store', new URL('/nobody-made-it', url).href],
    sees: /3D000/,
  },
  'a database that has said nothing for long': {
    flags: ({ silent }) => ['--store', `postgres://${silent}/a`],
    sees: /has not answered for/,
  },
  'a replica that says nothing': {
    flags: ({ silent, url }) => ['--store', url, '--api-store', `postgres://${silent}/a`],
    sees: /has not answered for/,
  },
  'a replica that has no store yet': {
    flags: ({ url }) => ['--store', url, '--api-store', new URL('/postgres', url).href],
    sees: /"store opened"/,
  },
};

/** Nothing of it waits for a limit: the log would say so, and the exit code. */
const postgres = usePostgres();

it.each(Object.entries(waits))('for %s', async (_name, { flags = () => [], node, sees }) => {
  const devnet = await devnetForTest({ startHead: 5, paused: true });
  const { url } = await postgres.home();
  const silent = `127.0.0.1:${await tcpServer((socket) => socket.resume())}`;
  const places = { silent, url };
  const address = node?.(places) ?? devnet.address;
  const start = startArguments({ address }, scratchDirectory(), ...flags(places));
  const program = startProgram(start);
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
