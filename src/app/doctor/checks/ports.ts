import { createServer } from 'node:net';
import { listenError } from '../../../api/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import { messageOf, OperatorError } from '../../../runtime/index.js';
import { hostAndPort } from '../../lifecycle/daemonRecord.js';
import { portHolder } from '../facts/portHolder.js';
import type { StoreFacts } from '../facts/storeFacts.js';
import { ok, problem } from '../verdicts.js';
import type { Finding } from '../verdicts.js';

interface Listener {
  readonly name: string;
  readonly host: string;
  /** 0 = any free one. */
  readonly port: number;
  readonly hostFlag: string;
  readonly portFlag: string;
}

/** Whether the daemon can listen at its ports, or already does. */
export async function checkPorts(
  config: Pick<DaemonConfig, 'api' | 'metrics' | 'roles'>,
  facts: StoreFacts,
): Promise<Finding[]> {
  const listeners = listenersOf(config);
  const twice = listeners.find(
    ({ port }, index) => port !== 0 && listeners.findIndex((other) => other.port === port) < index,
  );
  if (twice !== undefined) {
    return [
      problem(
        'configuration',
        `Port ${twice.port} is configured twice, the second time for ${twice.name}; choose another one with ${twice.portFlag}.`,
      ),
    ];
  }
  const found: Finding[] = [];
  for (const listener of listeners) found.push(await checkPort(listener, facts));
  return found;
}

function listenersOf({ api, metrics, roles }: Pick<DaemonConfig, 'api' | 'metrics' | 'roles'>): Listener[] {
  const { grpcPort, host, port } = api;
  const hostFlag = '--api-host';
  const readers: Listener[] = [
    { name: 'the API', host, port, hostFlag, portFlag: '--api-port' },
    ...(grpcPort === 'off'
      ? []
      : [{ name: 'gRPC', host, port: grpcPort, hostFlag, portFlag: '--api-grpc-port' }]),
  ];
  return [
    ...(roles.includes('api') ? readers : []),
    { name: 'metrics', ...metrics, hostFlag: '--metrics-host', portFlag: '--metrics-port' },
  ];
}

async function checkPort(listener: Listener, facts: StoreFacts): Promise<Finding> {
  const { host, name, port } = listener;
  const where = hostAndPort(listener);
  const error = await tryToListen(listener);
  if (error === undefined)
    return ok(port === 0 ? `${name} takes any free port of ${host}.` : `${where} is free, for ${name}.`);
  const isInUse = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
  if (isInUse && isOurs(port, facts)) return ok(`${where} is in use by this daemon, for ${name}.`);
  const refusal = listenError(error, listener);
  const message =
    refusal instanceof OperatorError ? refusal.message : `Cannot listen at ${where}: ${messageOf(error)}.`;
  const holder = isInUse ? await portHolder(port) : undefined;
  return problem('configuration', holder === undefined ? message : `${message} It is ${holder}.`);
}

/** True when the daemon of this data directory listens there. */
function isOurs(port: number, facts: StoreFacts): boolean {
  const record = facts.kind === 'running' || facts.kind === 'database' ? facts.record : undefined;
  return [record?.api, record?.grpc, record?.metrics].some((address) => address?.port === port);
}

/** Returns the error, if it fails. */
function tryToListen({ host, port }: Listener): Promise<unknown> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', resolve);
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
