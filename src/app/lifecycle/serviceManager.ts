/** A service manager that expects messages, in the protocol of systemd's `sd_notify`. */
export interface ServiceManager {
  /** It ends the process after this time without a sign of life. Absent: it does not. */
  readonly watchdogMs?: number | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

const MICROSECONDS_PER_MS = 1_000;

/** The service manager named in the environment; `undefined` if none expects messages. */
export function serviceManagerOf(environment: Environment, pid: number): ServiceManager | undefined {
  if ((environment['NOTIFY_SOCKET'] ?? '') === '') return undefined;
  return { watchdogMs: watchdogOf(environment, pid) };
}

/** Ignores a watchdog for another process, such as a wrapper that started this one. */
function watchdogOf(environment: Environment, pid: number): number | undefined {
  const meantFor = environment['WATCHDOG_PID'] ?? '';
  if (meantFor !== '' && meantFor !== String(pid)) return undefined;
  const microseconds = Number(environment['WATCHDOG_USEC'] ?? '');
  return Number.isSafeInteger(microseconds) && microseconds > 0
    ? microseconds / MICROSECONDS_PER_MS
    : undefined;
}
