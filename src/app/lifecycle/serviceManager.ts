/** How a service manager wants to be told of this process: the protocol of systemd's `sd_notify`. */
export interface ServiceManager {
  /** It ends the process after this long without a sign of life. Absent: it does not. */
  readonly watchdogMs?: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

const MICROSECONDS_PER_MS = 1_000;

/** What the environment says of the service manager; `undefined` when nobody wants to be told. */
export function serviceManagerOf(environment: Environment, pid: number): ServiceManager | undefined {
  if ((environment['NOTIFY_SOCKET'] ?? '') === '') return undefined;
  const watchdogMs = watchdogOf(environment, pid);
  return watchdogMs === undefined ? {} : { watchdogMs };
}

/** A watchdog that was meant for another process, a wrapper that started this one, is not ours. */
function watchdogOf(environment: Environment, pid: number): number | undefined {
  const meantFor = environment['WATCHDOG_PID'] ?? '';
  if (meantFor !== '' && meantFor !== String(pid)) return undefined;
  const microseconds = Number(environment['WATCHDOG_USEC'] ?? '');
  return Number.isSafeInteger(microseconds) && microseconds > 0
    ? microseconds / MICROSECONDS_PER_MS
    : undefined;
}
