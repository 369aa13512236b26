/**
 * The expected error of `Jobs.atIndex`: there is a job, but it cannot be read just now (a disk that is busy, a node that
 * is away). The pass ends there as if the job were not there yet: what stands below it is handed out, progress moves,
 * the `notReadable` hook is told. The consumer keeps no timer, so whoever throws this also sees to a later `check`.
 */
export class JobNotReadableError extends Error {
  override readonly name = 'JobNotReadableError';
}
