import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { beginCall, devnetForTest, eventually, runProgram } from '../support/daemons.js';
import { scratchDirectory, sessionOn, startArguments, startDaemon } from '../support/daemons.js';
import { startDaemonHere } from '../support/daemons.js';

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

const BEYOND = 'listening beyond this machine: anyone who reaches the port can read';
const OPEN = 'the data directory is open to other users of this machine';

describe('a daemon', () => {
  it('keeps its directory for its owner, and listens on this machine alone; where it is told otherwise, it warns', async () => {
    const node = await devnetForTest({ startHead: 3, paused: true });
    const parent = join(scratchDirectory(), 'made');
    const dataDir = join(parent, 'here');
    const args = startArguments(node, dataDir, '--start-height', 'root');
    const daemon = await startDaemonHere(args);
    await daemon.reaches(3);
    // With every directory above that was missing.
    expect([parent, dataDir, join(dataDir, 'index')].map(modeOf)).toEqual(['700', '700', '700']);
    expect(modeOf(join(dataDir, 'daemon.json'))).toBe('600');
    const loopback = { host: '127.0.0.1' };
    const said = daemon.program.logs();
    expect(said.filter(({ msg }) => msg === 'listening')).toMatchObject([
      { api: loopback, grpc: loopback, metrics: loopback },
    ]);
    expect(said.filter(({ msg }) => msg === OPEN || msg === BEYOND)).toEqual([]);
    await daemon.program.stop();

    chmodSync(dataDir, 0o755);
    const wide = await startDaemonHere([...args, '--api-host', '0.0.0.0', '--metrics-host', '0.0.0.0']);
    const warnings = wide.program.logs().filter(({ msg }) => msg === OPEN || msg === BEYOND);
    const unguarded = {
      ...{ level: 'warn', host: '0.0.0.0', without: ['TLS', 'tokens for everything'] },
      advice: '"doctor" with these settings says what to change',
    };
    expect(warnings).toMatchObject([
      { level: 'warn', path: dataDir, mode: '755', advice: `chmod 700 ${dataDir}` },
      ...['metrics', 'api', 'grpc'].map((server) => ({ ...unguarded, server })),
    ]);
    // It is left as it is.
    expect(modeOf(dataDir)).toBe('755');
  });

  it('keeps from standard error what Node.js warns of, and what the gRPC library thinks of a header', async () => {
    const node = await devnetForTest({ startHead: 3, paused: true });
    // Warns once somebody listens to warnings.
    const warning = `process.on('newListener', (name) => name === 'warning' && process.emitWarning('old', 'DeprecationWarning'))`;
    const daemon = await startDaemon(startArguments(node, scratchDirectory(), '--log-level', 'debug'), {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(warning)}`,
    });
    const note = { 'x-note': 'caf\u00e9 of somebody' };
    const call = beginCall(sessionOn(`http://${daemon.grpcAddress}`), '/flow.access.AccessAPI/Ping', note);
    call.end(Buffer.alloc(5));
    await new Promise((resolve) => call.resume().once('close', resolve));
    const remark = await eventually(() =>
      daemon.program.logs().find(({ msg }) => msg === 'message of the gRPC library'),
    );
    expect(remark).toMatchObject({ level: 'debug', text: expect.stringContaining('of somebody') as string });
    await daemon.program.sees(/"level":"debug",.*"name":"DeprecationWarning",.*"msg":"warning of Node\.js"/);
    expect(daemon.program.stderr).toBe('');
  });
});

it('credentials in an endpoint are refused, and not shown by the program, which has the last word', async () => {
  const endpoint = 'grpc://me:/sesame@node:9000';
  const refusals = [
    await runProgram(['start', '--access-node', endpoint]),
    await runProgram(['start'], { FCI_EDI_NODES: endpoint }),
  ];
  expect(refusals.map(({ code }) => code)).toEqual([64, 78]);
  for (const { stdout, stderr } of refusals) {
    expect(stderr).toContain('"grpc://***@node:9000" is not an access node');
    expect(stdout + stderr).not.toContain('sesame');
  }
});
