import { chmodSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../support/commandLine.js';
import { eventually, runProgram, scratchDirectory } from '../support/program.js';
import { daemonOn, devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

const OPEN = 'the data directory is open to other users of this machine';
const BEYOND = 'listening beyond this machine: anyone who reaches the port can read';

describe('the data directory', () => {
  it('is made for its owner alone, with every directory above that was missing', async () => {
    const node = await devnetForTest({ startHead: 3, paused: true });
    const parent = join(scratchDirectory(), 'made');
    const dataDir = join(parent, 'here');
    const daemon = await startDaemonHere(startArguments(node, dataDir, '--start-height', 'root'));
    await daemon.reaches(3);
    expect([parent, dataDir, join(dataDir, 'index')].map(modeOf)).toEqual(['700', '700', '700']);
    expect(modeOf(join(dataDir, 'daemon.json'))).toBe('600');
    expect(daemon.program.logs().map(({ msg }) => msg)).not.toContain(OPEN);
  });

  it('that others may enter is warned about, and left as it is', async () => {
    const node = await devnetForTest({ startHead: 3, paused: true });
    const dataDir = join(scratchDirectory(), 'wide');
    mkdirSync(dataDir);
    chmodSync(dataDir, 0o755);
    const daemon = await startDaemonHere(startArguments(node, dataDir));
    expect(daemon.program.logs().filter(({ msg }) => msg === OPEN)).toEqual([
      expect.objectContaining({ level: 'warn', path: dataDir, mode: '755', advice: `chmod 700 ${dataDir}` }),
    ]);
    expect(modeOf(dataDir)).toBe('755');
  });
});

describe('the servers', () => {
  it('listen on this machine alone unless told otherwise, and then they warn', async () => {
    const node = await devnetForTest({ startHead: 3, paused: true });
    const local = await daemonOn(node);
    const [listening] = local.program.logs().filter(({ msg }) => msg === 'listening');
    const loopback = { host: '127.0.0.1' };
    expect(listening).toMatchObject({ api: loopback, grpc: loopback, metrics: loopback });
    expect(local.program.logs().map(({ msg }) => msg)).not.toContain(BEYOND);

    const wide = ['--api-host', '0.0.0.0', '--metrics-host', '0.0.0.0'];
    const beyond = await daemonOn(node, ...wide);
    const warnings = beyond.program.logs().filter(({ msg }) => msg === BEYOND);
    expect(warnings.map(({ level, server }) => [level, server])).toEqual([
      ['warn', 'metrics'],
      ['warn', 'api'],
      ['warn', 'grpc'],
    ]);
  });

  it('let nobody write to standard error what the gRPC library thinks of his headers', async () => {
    const node = await devnetForTest({ startHead: 3, paused: true });
    const daemon = await daemonOn(node, '--log-level', 'debug');
    const session = connect(`http://${daemon.grpcAddress}`);
    const call = session.request({
      ...{ ':method': 'POST', ':path': '/flow.access.AccessAPI/Ping', te: 'trailers' },
      ...{ 'content-type': 'application/grpc', 'x-note': 'caf\u00e9 of somebody' },
    });
    call.end(Buffer.alloc(5));
    await new Promise((resolve) => call.resume().once('close', resolve));
    session.destroy();
    const remark = await eventually(() =>
      Promise.resolve(daemon.program.logs().find(({ msg }) => msg === 'message of the gRPC library')),
    );
    expect(remark).toMatchObject({ level: 'debug', text: expect.stringContaining('of somebody') as string });
    expect(daemon.program.stderr).toBe('');
  });
});

describe('credentials in an endpoint', () => {
  const SECRET = 'sesame';
  const endpoints = [
    `grpc://me:${SECRET}@node:9000`,
    `grpc://me:/${SECRET}@node:9000`,
    `me:${SECRET}@node:9000`,
    `http://${SECRET}@node`,
  ];

  it.each(endpoints)('%s: refused and never shown, wherever it was written', async (endpoint) => {
    const file = join(scratchDirectory(), 'config.json');
    writeFileSync(file, JSON.stringify({ accessNodes: [endpoint] }));
    const dataDir = scratchDirectory();
    // One of them by the program itself, which has the last word on what is printed.
    const run = endpoint === endpoints[0] ? runProgram : runCommand;
    const refusals = [
      await run(['start', '--data-dir', dataDir, '--access-node', endpoint]),
      await run(['start', '--data-dir', dataDir], { FCI_EDI_NODES: endpoint }),
      await run(['start', '--data-dir', dataDir, '--config', file]),
    ];
    expect(refusals.map(({ code }) => code)).toEqual([64, 78, 78]);
    for (const { stdout, stderr } of refusals) {
      expect(stderr).toMatch(/"(?:grpc:\/\/|http:\/\/)?\*\*\*@node(?::9000)?" is not an access node/);
      expect(stdout + stderr).not.toContain(SECRET);
    }
    const printed = await run(['config', 'print', '--config', file]);
    expect(printed.stdout).toContain('***@node');
    expect(printed.stdout).not.toContain(SECRET);
  });

  it('are not shown either where no endpoint belongs', async () => {
    const [endpoint = ''] = endpoints;
    for (const args of [[endpoint], ['start', endpoint], ['start', '--network', endpoint]]) {
      const { code, stdout, stderr } = await runCommand(args);
      expect(code).toBe(64);
      expect(stdout + stderr).not.toContain(SECRET);
    }
  });
});
