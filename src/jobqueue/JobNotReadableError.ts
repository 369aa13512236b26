/**
 * The expected error of `Jobs.atIndex`: there is a job, but it cannot be read now (a busy disk, an unreachable node). The
 * pass ends there as if the job did not exist yet: everything below is handed out, progress moves, the `notReadable` hook
 * is called. The consumer has no timer, so code that throws this must also trigger a later `check`.
 */
export class JobNotReadableError extends Error {
  override readonly name = 'JobNotReadableError';
}
